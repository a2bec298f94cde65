"""Every loop form on operands that touch guard pages. Run as a program: it says each case before it runs it.

    python -m tests.kernel.guarded_forms [--overrun] [--some]

`--some`: every fifth case, by quick code.
`--overrun` lets a kernel run one element too far, which must end the program: the guards are real.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from tests.kernel.guards import guarded, strides_for
from tests.kernel.support import RUNNABLE, same_bits
from tilewise.backend import llvm
from tilewise.backend.llvm.compile import compiler
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.tuning import tuned, using

SHAPES = [(1, 1), (3, 17), (5, 64), (40, 3), (33, 130), (2, 4099)]
# axes in memory, steps
LAYOUTS = [
    ((0, 1), (1, 1)),
    ((1, 0), (1, 1)),
    ((0, 1), (1, 2)),
    ((0, 1), (1, -1)),
    ((0, 1), (-1, -2)),
    ((1, 0), (3, 1)),
]
REDUCED = [(False, False), (False, True), (True, False), (True, True)]
DTYPES = ["float64", "float32", "int16", "bool"]
HEAVY = ["float64", "float32"]  # also by a body that takes long, of which there is one piece of code

Case = tuple[str, tuple[int, int], tuple[bool, bool], int, int, str, bool, int | None, bool]


def kernel_of(dtype: str, reduced: tuple[bool, bool], heavy: bool) -> Kernel:
    """Stores one value, and reduces it where a dim is reduced."""
    body = (Instr("maximum", (0, 1), dtype), Instr("minimum", (2, 0), dtype))
    if heavy:
        body = (Instr("const:101.5", (), dtype), Instr("subtract", (2, 1), dtype), Instr("remainder", (0, 3), dtype))
    last = 1 + len(body)
    reduce = (Output(last, "maximum"),) if any(reduced) else ()
    return Kernel((dtype, dtype), (), body, (Output(last), *reduce), reduced)


def cases() -> Iterator[Case]:
    """Rows of the table, each with two layouts drawn by lot."""
    lot = random.Random(0)
    for width, dtype, shape, reduced in itertools.product(RUNNABLE, DTYPES, SHAPES, REDUCED):
        first, second, stream = lot.randrange(len(LAYOUTS)), lot.randrange(len(LAYOUTS)), lot.random() < 0.3
        for side, heavy in itertools.product(("left", "right"), (False, True) if dtype in HEAVY else (False,)):
            yield dtype, shape, reduced, first, second, side, stream, width, heavy


def run(case: Case, longer: int = 0) -> None:
    """One case against the interpreter."""
    dtype, shape, reduced, first, second, side, stream, width, heavy = case
    kernel = kernel_of(dtype, reduced, heavy)
    kept = tuple(n for n, r in zip(shape, reduced, strict=True) if not r)
    size = np.dtype(dtype).itemsize
    rng = np.random.default_rng(0)
    operands = []
    for own, (order, steps) in [(shape, LAYOUTS[first]), (shape, LAYOUTS[second]), (shape, LAYOUTS[first])]:
        operands.append(guarded(own, dtype, strides_for(own, size, order, steps), side))
    if any(reduced):
        operands.append(guarded(kept, dtype, strides_for(kept, size, range(len(kept)), (1,) * len(kept)), side))
    for array in operands[:2]:
        array[...] = rng.integers(0, 2 if dtype == "bool" else 100, shape)
    want = [np.empty(a.shape, dtype) for a in operands[2:]]
    interpret.run(kernel, shape, operands[:2], (), want)
    if longer:
        operands = [np.lib.stride_tricks.as_strided(a, (shape[0], shape[1] + longer), a.strides) for a in operands]
        shape = (shape[0], shape[1] + longer)
    with using(replace(tuned(), stream_at_bytes=0 if stream else 1 << 62, stream_row=1)):
        llvm.compile(kernel, width)(shape, operands[:2], (), operands[2:])
    for got, expected in zip(operands[2:], want, strict=True):
        assert same_bits(np.array(got), expected), case


def main() -> None:
    if "--overrun" in sys.argv:
        run(("float64", (3, 17), (False, False), 0, 0, "right", False, None, False), longer=1)
    some = "--some" in sys.argv
    if some:
        compiler.object_code = partial(compiler.object_code, level=compiler.QUICK)
    for case in itertools.islice(cases(), 0, None, 5 if some else 1):
        print(case, flush=True)
        run(case)
    print("through", flush=True)


if __name__ == "__main__":
    main()
