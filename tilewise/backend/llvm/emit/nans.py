"""Kernels whose NaNs depend on how well they are translated. In: a kernel. Out: yes or no.

Where LLVM's code generator takes its time, it makes y - x of -x + y, and -x of x * -1.0 and x / -1.0. Numbers are the
same, but NaNs have another sign than those of quick code, which such kernels must not be run by.
"""

from __future__ import annotations

import numpy as np

from tilewise.kernel.loops import Instr, Kernel, const_value


def differ(kernel: Kernel) -> bool:
    """Whether quick code would give other NaNs than good code."""
    return any(map(_turns_signs, kernel.body))


def _turns_signs(instr: Instr) -> bool:
    if np.dtype(instr.dtype).kind not in "fc":
        return False
    return instr.fn in ("negative", "conjugate") or (instr.fn.startswith("const:") and const_value(instr.fn) == -1)
