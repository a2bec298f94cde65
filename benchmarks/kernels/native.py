"""The C limits. In: names of functions and their arguments. Out: calls without arguments.

All of c/ becomes one shared object in a temporary folder when first asked for, with OpenMP and, on x86, vector
math (libmvec).
"""

from __future__ import annotations

import ctypes
import functools
import math
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.kernel.family import X86

SOURCES = Path(__file__).parent / "c"
LINE = 64  # bytes
COMPILER = "gcc"
FLAGS: tuple[str, ...] = tuple("-O3 -march=native -ffast-math -fopenmp -shared -fPIC".split())
LIBRARIES = ["-lm"]
if X86:
    FLAGS += ("-mprefer-vector-width=512",)
    LIBRARIES.insert(0, "-lmvec")


class Library:
    """The compiled functions, all `void`: whole numbers are int64_t, others double, arrays pointers."""

    def __init__(self, folder: Path, flags: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kernels-")
        target = Path(self._folder.name) / "limits.so"
        sources = sorted(map(str, folder.glob("*.c")))
        subprocess.run([COMPILER, *flags, "-o", str(target), *sources, *LIBRARIES], check=True)
        self._lib = ctypes.CDLL(str(target))

    def empty(self, shape: Any) -> Any:
        """A buffer that begins with a cache line, as streaming stores like it."""
        size = 8 * math.prod(shape) if isinstance(shape, tuple) else 8 * shape
        raw = np.empty(size + LINE, dtype=np.uint8)
        start = -raw.ctypes.data % LINE
        return raw[start : start + size].view(np.float64).reshape(shape)

    def __call__(self, name: str, *args: Any, out: Any) -> Callable[[], Any]:
        """The function applied to args and then to its outputs, which are the result of the call."""
        outs = out if isinstance(out, tuple) else (out,)
        given = [_passed(a) for a in (*args, *outs)]
        function = getattr(self._lib, name)
        function.restype = None
        function.argtypes = [type(a) for a in given]

        def call() -> Any:
            function(*given)
            return out

        call.keeps = args  # type: ignore[attr-defined]  # the arrays live as long as their pointers
        return call


def _passed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_int64(value) if isinstance(value, (int, np.integer)) else ctypes.c_double(value)


@functools.cache
def library(folder: Path = SOURCES, flags: tuple[str, ...] = FLAGS) -> Library | None:
    """The library of a folder's C files, or None where there is no gcc."""
    return Library(folder, flags) if shutil.which(COMPILER) else None
