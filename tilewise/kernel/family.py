"""The family of CPUs that this machine is of. In: what Python says of it. Out: `X86`, `ARM`; neither is possible."""

import platform

_MACHINE = platform.machine().lower()
X86 = _MACHINE in ("x86_64", "amd64")
ARM = _MACHINE in ("aarch64", "arm64")
