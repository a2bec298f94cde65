"""Small loops over whole numbers, compiled. In: a Python function of a narrow kind. Out: the same function, native.

The functions are ordinary Python over int64 arrays and integers (assignments, arithmetic, comparisons, `if`, `while`,
`for ... in range`), and tests run them as such. Message passing updates one small table after another, which NumPy
does a hundred times slower. LLVM is loaded when one is first called: most plans need none.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

from numpy.typing import NDArray


class Native:
    """A function, compiled when it is first called. Arrays are int64 and contiguous; the result is an integer."""

    def __init__(self, python: Callable[..., int]) -> None:
        self.python = python
        self.arrays = [kind == "Ints" for kind in inspect.get_annotations(python).values()][:-1]

    @cached_property
    def _code(self) -> Callable[..., int]:
        from tilewise.solver.search.llvm import compiled

        code, self._engine = compiled(self.python, self.arrays)
        return code

    def __call__(self, *arguments: NDArray[Any] | int) -> int:
        return self._code(*[a if isinstance(a, int) else a.ctypes.data for a in arguments])
