"""Who runs a loop program. In: a program. Out: functions of its arguments, by system; what they leave, and differences.

A system's function gets its own copies of the arguments, since programs write to them. What counts is everything that
can be seen afterwards: the arguments that are written, then the results.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks.kernels.native import library
from benchmarks.kernels.systems import evaluated, tilewise_inputs
from benchmarks.loops.operators import FORMS
from benchmarks.loops.registry import Inputs, LoopProgram

Run = Callable[..., Any]  # of the arguments; gives the results
Made = tuple[Run, Inputs]

C_FOLDER = Path(__file__).parent / "c"
# No fast-math: the order of operations is the program's, as in the other systems. But GCC makes one operation with one
# rounding of a product and a sum, which NumPy's and Python's results do not have: ROUNDED is C with their results.
C_FLAGS = tuple("-O3 -march=native -fno-math-errno -fno-trapping-math -fopenmp -shared -fPIC".split())
ROUNDED = (*C_FLAGS, "-ffp-contract=off")


def copied(inputs: Inputs) -> Inputs:
    """The same arguments in memory of their own."""
    return copy.deepcopy(inputs)


def python(program: LoopProgram, inputs: Inputs) -> Made:
    return program.function, copied(inputs)


def ours(program: LoopProgram, inputs: Inputs) -> Made:
    compiled = tw.jit(program.function)
    return lambda *args: evaluated_any(compiled(*args)), copied(inputs)


def on_our_arrays(program: LoopProgram, inputs: Inputs) -> Made:
    """The same source with `import tilewise as np`, on Tilewise's arrays."""
    f = program.function
    renamed = FunctionType(f.__code__, {**f.__globals__, "np": tw}, f.__name__, f.__defaults__, f.__closure__)
    compiled = tw.jit(renamed)

    def run(*args: Any) -> Any:
        result = evaluated_any(compiled(*args))
        if program.written:
            tw.evaluate(*(args[i] for i in program.written))
        return result

    return run, tilewise_inputs(copied(inputs))


def with_operators(program: LoopProgram, inputs: Inputs) -> Made | None:
    """The same work by operators with functions of users, on Tilewise's arrays."""
    function = FORMS.get(program.name)
    if function is None:
        return None

    def run(*args: Any) -> Any:
        result = evaluated_any(function(*args))
        if program.written:
            tw.evaluate(*(args[i] for i in program.written))
        return result

    return run, tilewise_inputs(copied(inputs))


def evaluated_any(result: Any) -> Any:
    """A result that is known: jitted functions may hand out pending arrays."""
    if result is None or type(result) is np.ndarray:
        return result
    parts = result if isinstance(result, tuple) else (result,)
    return evaluated(result) if any(isinstance(p, tw.ndarray) for p in parts) else result


def _numba(form: str, **options: Any) -> Callable[[LoopProgram, Inputs], Made | None]:
    def make(program: LoopProgram, inputs: Inputs) -> Made | None:
        import numba

        function = program.function if form == "source" else getattr(program, form)
        if function is None:
            return None
        return numba.njit(**options)(function), copied(inputs)

    return make


def native(program: LoopProgram, inputs: Inputs, flags: tuple[str, ...] = C_FLAGS) -> Made | None:
    lib = library(C_FOLDER, flags) if program.c is not None else None
    if lib is None or program.c is None:
        return None
    args = copied(inputs)
    call = program.c(lib, *args)

    def run(*_: Any) -> Any:
        """The results without the arguments that were written, as the other systems give them."""
        made = call()
        made = made if isinstance(made, tuple) else (made,)
        rest = made[len(program.written) :]
        return rest[0] if len(rest) == 1 else rest

    return run, args


MAKERS: dict[str, Callable[[LoopProgram, Inputs], Made | None]] = {
    "tw.jit": ours,
    "tw arrays": on_our_arrays,
    "tw operators": with_operators,
    "numba": _numba("source"),
    "numba own": _numba("own"),
    "numba parallel": _numba("parallel", parallel=True),
    "fastmath": _numba("source", fastmath=True),
    "fastmath own": _numba("own", fastmath=True),
    "fastmath parallel": _numba("parallel", parallel=True, fastmath=True),
    "c": native,
    "c rounded": partial(native, flags=ROUNDED),
}
OURS = ("tw.jit", "tw arrays", "tw operators")
NUMBA = ("numba", "numba own", "numba parallel")
FASTMATH = ("fastmath", "fastmath own", "fastmath parallel")
LOOSE = 1e-6  # relative error under fastmath


def left(program: LoopProgram, args: Inputs, result: Any) -> list[Any]:
    """Copies of all that can be seen after a call."""
    parts = () if result is None else result if isinstance(result, tuple) else (result,)
    return [np.array(x) for x in (*(args[i] for i in program.written), *parts)]


def wrong(got: list[Any], want: list[Any], rtol: float, strict: bool) -> str:
    """What differs, or nothing: whole numbers must be equal, floats near. `strict` looks at dtypes and shapes, too."""
    if len(got) != len(want):
        return f"{len(got)} results, not {len(want)}"
    for k, (x, y) in enumerate(zip(got, want, strict=True)):
        if x.size != y.size or (strict and (x.shape, x.dtype) != (y.shape, y.dtype)):
            return f"output {k} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        x = x.reshape(y.shape)
        if y.dtype.kind in "fc":
            scale = float(np.max(np.abs(y), initial=0.0, where=np.isfinite(y)))
            near = np.isclose(x, y, rtol=rtol, atol=rtol * scale, equal_nan=True)
        else:
            near = np.asarray(x == y)
        if not near.all():
            at = tuple(map(int, np.argwhere(~near)[0]))
            return f"output {k}{list(at)} is {x[at]}, not {y[at]} ({int((~near).sum())} of {near.size} differ)"
    return ""
