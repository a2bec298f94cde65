"""Native code by LLVM: `compile` a kernel, call it on arrays. In: `Kernel`. Out: `Compiled`. The backend: backend.py.

LLVM itself is loaded by `compile/compiler.py`, when something is to be compiled that is not on disk.
"""

# ruff: noqa: E402
from __future__ import annotations

from tilewise.backend.llvm.compile import helper

helper.start_early()  # while what follows is loaded

from tilewise.backend.llvm.call.compiled import Compiled, compile
from tilewise.backend.llvm.call.listing import listing
from tilewise.backend.llvm.compile.build import compiled_count
from tilewise.backend.llvm.patterns.select import select

__all__ = ["Compiled", "compile", "compiled_count", "listing", "select"]
