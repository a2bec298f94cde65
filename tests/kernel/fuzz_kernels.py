"""Random kernels against the interpreter, their operands flush against guard pages, in a child process.

    python -m tests.kernel.fuzz_kernels [--cases 2000] [--seed 0] [--thresholds]

A child says which case it runs before it runs it, so that a crash is reported with its kernel and the rest goes on.
Bodies without vector math must give NumPy's bits; with it, the same bits at every vector width. Sums are compared
within the error of pairwise summation, and bit for bit between widths that round their products alike.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.fuzz.thresholds import thresholds
from tests.kernel.guards import guarded, strides_for
from tests.kernel.support import ND, RUNNABLE, alike, awkward, same_bits
from tilewise.backend import llvm
from tilewise.backend.llvm.math.table import MATH
from tilewise.kernel import interpret
from tilewise.kernel import native_support as native
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.tuning import tuned, using


def _is_modulus(row: tuple[str, tuple[str, ...], str]) -> bool:
    return row[0] == "absolute" and row[1][0] in native.COMPLEX


SIZES = (1, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130, 300)
MOST_ELEMENTS = 20_000
# NumPy's own loops differ in which zero fmin and fmax return. Of a complex modulus only 2 ulp are promised.
ROWS = sorted(row for row in native._SUPPORTED if row[0] not in ("fmin", "fmax") and not _is_modulus(row))
REDUCTIONS = sorted(native._REDUCTIONS)


@dataclass(frozen=True)
class Case:
    """A kernel, the space, and how every operand lies in memory."""

    seed: int
    kernel: Kernel
    shape: tuple[int, ...]
    widths: tuple[int | None, ...]
    abreast: bool
    stream: bool
    params: tuple[Any, ...]
    layouts: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...]  # shape, strides, side


def make(seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(seed)
    shape = _shape(rng)
    kernel, math_free = _kernel(rng, len(shape))
    layouts = []
    for k, dtype in enumerate(kernel.inputs + kernel.out_dtypes):
        own = shape
        if k < len(kernel.inputs):
            keep = rng.randint(0, len(shape)) if rng.random() < 0.3 else len(shape)
            own = tuple(1 if rng.random() < 0.1 else n for n in shape[len(shape) - keep :])
        elif kernel.outputs[k - len(kernel.inputs)].reduce is not None:
            own = tuple(n for n, r in zip(shape, kernel.reduced, strict=True) if not r)
        plain = rng.random() < 0.5
        order = list(range(len(own)))
        steps = [1] * len(own)
        if not plain:
            rng.shuffle(order)
            steps = [rng.choice((1, 1, 2, -1, -3)) for _ in own]
        strides = strides_for(own, np.dtype(dtype).itemsize, order, steps)
        layouts.append((own, strides, rng.choice(("left", "right"))))
    params = tuple(rng.choice(awkward(t).tolist()) for t in kernel.params)
    # Where NumPy gives the bits one width is enough; vector math is compared between two.
    first = rng.choice(RUNNABLE)
    widths = (first,) if math_free else (first, rng.choice([w for w in alike(first) if w != first]))
    return Case(seed, kernel, shape, widths, rng.random() < 0.5, rng.random() < 0.5, params, tuple(layouts))


def _shape(rng: random.Random) -> tuple[int, ...]:
    shape: list[int] = []
    for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 4))):
        fitting = [n for n in SIZES if n * math.prod(shape) <= MOST_ELEMENTS]
        shape.append(rng.choice(fitting))
    if shape and rng.random() < 0.03:
        shape[rng.randrange(len(shape))] = 0
    rng.shuffle(shape)
    return tuple(shape)


def _kernel(rng: random.Random, rank: int) -> tuple[Kernel, bool]:
    """A random kernel, and whether NumPy gives its bits."""
    pool = rng.sample(native.DTYPES, rng.randint(1, 3))
    inputs = tuple(rng.choice(pool) for _ in range(rng.randint(0 if rng.random() < 0.05 else 1, 4)))
    params = tuple(rng.choice(pool) for _ in range(rng.choice((0, 0, 1, 2))))
    dtypes = [*inputs, *params]
    with_math = rng.random() < 0.3
    rows = [row for row in ROWS if with_math or row[0] not in MATH]
    body: list[Instr] = []
    if not dtypes:
        body.append(Instr("const:1", (), "float64"))
        dtypes.append("float64")
    for _ in range(rng.choice((0, 1, 2, 4, 8, 16))):
        if rng.random() < 0.1:
            instr = Instr(f"const:{rng.choice((0, 1, 2, 3, 7))}", (), rng.choice(dtypes))
        else:
            fits = [row for row in rows if set(row[1]) <= set(dtypes)]
            fn, ins, out = rng.choice([row for row in fits if row[0] == rng.choice(fits)[0]] or fits)
            instr = Instr(fn, tuple(rng.choice([i for i, t in enumerate(dtypes) if t == t_in]) for t_in in ins), out)
        body.append(instr)
        dtypes.append(instr.dtype)
    reduced = tuple(rng.random() < 0.5 for _ in range(rank)) if rng.random() < 0.5 else (False,) * rank
    outputs = []
    for _ in range(rng.randint(1, 3)):
        value = rng.randrange(len(dtypes)) if rng.random() < 0.3 else len(dtypes) - 1
        ops = [op for op, t in REDUCTIONS if t == dtypes[value]] if any(reduced) else []
        outputs.append(Output(value, rng.choice([*ops, None]) if ops else None))
    kernel = Kernel(inputs, params, tuple(body), tuple(outputs), reduced)
    return kernel, not any(i.fn in MATH for i in body)


def operands(case: Case) -> tuple[list[ND], list[ND]]:
    """New inputs with awkward values, and outputs full of ones."""
    kernel, rng = case.kernel, np.random.default_rng(case.seed)
    arrays = []
    for k, (dtype, (own, strides, side)) in enumerate(
        zip(kernel.inputs + kernel.out_dtypes, case.layouts, strict=True)
    ):
        array = guarded(own, dtype, strides, side)
        array[...] = rng.choice(awkward(dtype), own) if k < len(kernel.inputs) else 1
        arrays.append(array)
    return arrays[: len(kernel.inputs)], arrays[len(kernel.inputs) :]


def check(case: Case) -> None:
    """Run a case at its widths and compare."""
    kernel = case.kernel
    inputs, _ = operands(case)
    stream_at, abreast_at = 0 if case.stream else 1 << 62, 0 if case.abreast else 10**12
    figures = replace(tuned(), abreast_at_ns=abreast_at, stream_at_bytes=stream_at, stream_row=1)
    results = []
    for width in case.widths:
        _, outs = operands(case)
        with using(figures):
            llvm.compile(kernel, width)(case.shape, inputs, case.params, outs)
        results.append([np.array(out) for out in outs])
    for other in results[1:]:
        for j, (a, b) in enumerate(zip(results[0], other, strict=True)):
            assert same_bits(a, b), f"output {j} differs between widths {case.widths}"
    if len(case.widths) == 1:
        _compare(case, inputs, results[0])


def _compare(case: Case, inputs: Sequence[ND], got: Sequence[ND]) -> None:
    """Bits of the interpreter, but for sums and products of floats."""
    kernel = case.kernel
    plain = replace(kernel, outputs=tuple(Output(o.value) for o in kernel.outputs))
    whole = [np.empty(case.shape, t) for t in kernel.out_dtypes]
    interpret.run(plain, case.shape, inputs, case.params, whole)
    axes = tuple(d for d, r in enumerate(kernel.reduced) if r)
    with np.errstate(all="ignore"):
        for j, (output, values, result) in enumerate(zip(kernel.outputs, whole, got, strict=True)):
            if output.reduce is None:
                assert same_bits(values, result), f"output {j} is not NumPy's"
            elif output.reduce == "add" and values.dtype.kind == "c":
                for a, b in ((values.real, result.real), (values.imag, result.imag)):
                    assert _close("add", a, axes, b), f"output {j} is far from the exact sum"
            elif output.reduce == "multiply" and values.dtype.kind == "c":
                want = np.asarray(np.multiply.reduce(values.astype(np.clongdouble), axis=axes))
                fair = np.isfinite(want) & (abs(want) < np.finfo(values.real.dtype).max ** 0.5)
                far = abs(want - result) > 64 * case_size(case) * np.finfo(values.real.dtype).eps * abs(want)
                assert not (far & fair & (abs(want) > np.finfo(values.real.dtype).tiny ** 0.5)).any(), f"output {j}"
            elif output.reduce in ("add", "multiply") and values.dtype.kind == "f":
                assert _close(output.reduce, values, axes, result), f"output {j} is far from the exact {output.reduce}"
            else:
                if values.size == 0 and output.reduce in ("minimum", "maximum"):
                    continue  # NumPy has no value for these
                want = np.asarray(getattr(np, output.reduce).reduce(values, axis=axes, dtype=values.dtype))
                if values.dtype.kind == "f":
                    want, result = want + 0, result + 0  # either zero
                assert same_bits(want, result), f"output {j} is not NumPy's"


def case_size(case: Case) -> int:
    """Points of the space."""
    return max(1, math.prod(case.shape))


def _close(op: str, values: ND, axes: tuple[int, ...], got: ND) -> bool:
    """Whether sums or products of floats are as near as pairwise ones, wherever nothing over- or underflows."""
    wide = values.astype(np.longdouble)
    count = max(1, math.prod(values.shape[a] for a in axes))
    info = np.finfo(values.dtype)
    want = getattr(np, op).reduce(wide, axis=axes)
    if op == "add":
        size = np.abs(wide).sum(axes)
        safe = size < float(info.max) / 4
        bound = (24 + math.log2(count)) * float(info.eps) * size
    else:
        logs = np.abs(np.log2(np.abs(wide))).sum(axes)
        safe = logs < info.maxexp - 30  # no partial product leaves the range
        bound = 2 * count * float(info.eps) * np.abs(want)
    return bool((np.abs(got - want) <= bound)[safe & np.isfinite(want)].all())


def describe(case: Case) -> str:
    """A case for people."""
    kernel = case.kernel
    start = len(kernel.inputs) + len(kernel.params)
    lines = [f"case {case.seed}: space {case.shape}, reduced {kernel.reduced}, widths {case.widths}",
             f"  abreast {case.abreast}, stream {case.stream}, params {case.params}"]  # fmt: skip
    lines += [f"  {k}: {t} {lay}" for k, (t, lay) in enumerate(zip(kernel.inputs, case.layouts, strict=False))]
    lines += [f"  %{start + k} = {i.fn}{i.args}: {i.dtype}" for k, i in enumerate(kernel.body)]
    outs = zip(kernel.outputs, case.layouts[len(kernel.inputs) :], strict=True)
    return "\n".join(lines + [f"  out %{o.value} {o.reduce or ''} {lay}" for o, lay in outs])


def inside(first: int, count: int, small: bool = False) -> None:
    """In the child: run cases, each announced (small: under small thresholds)."""
    for seed in range(first, first + count):
        print(seed, flush=True)
        with thresholds(seed, code=seed % 4 == 3) if small else nullcontext():
            check(make(seed))
    print("through", flush=True)


def outside(first: int, count: int, small: bool = False) -> list[str]:
    """Run cases in children; a report for each that crashed or was wrong."""
    reports, end = [], first + count
    while first < end:
        command = [
            sys.executable,
            "-X",
            "faulthandler",
            "-m",
            __name__.replace("__main__", "tests.kernel.fuzz_kernels"),
        ]
        command += ["--inside", "--seed", str(first), "--cases", str(end - first), *["--thresholds"] * small]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        said = child.stdout.split()
        if said and said[-1] == "through":
            break
        if not said:
            raise RuntimeError(f"the child did not start: {child.stderr}")
        reports.append(f"{describe(make(int(said[-1])))}\nended with {child.returncode}\n{child.stderr[-3000:]}")
        first = int(said[-1]) + 1
    return reports


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--thresholds", action="store_true", help="thresholds of large data are small")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.seed, options.cases, options.thresholds)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWISE_CACHE_DIR"] = folder
        reports = outside(options.seed, options.cases, options.thresholds)
    for report in reports:
        print(report)
    print(f"{options.cases} kernels from seed {options.seed}: {len(reports)} failures")
    sys.exit(bool(reports))


if __name__ == "__main__":
    main()
