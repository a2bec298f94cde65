"""A compiled kernel and its calls. In: a `Kernel`, then arrays. Out: the outputs, filled by native code on all cores.

The first call with a geometry (shapes and strides) works out the loops and finds or compiles their code; later calls
look the result up and only pack addresses. A kernel with an operation that has no native code is interpreted.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.backend import threads
from tilewise.backend.llvm.call.launch import Combine, Launch
from tilewise.backend.llvm.call.packing import address_words, objs_packer, packed
from tilewise.backend.llvm.call.parallel_for import place_of
from tilewise.backend.llvm.call.prepare import Preparer
from tilewise.backend.llvm.compile.build import CompileError, Native
from tilewise.backend.llvm.compile.cpu import host_machine, level
from tilewise.backend.llvm.emit.bodies import beside, vector_lanes
from tilewise.backend.llvm.emit.bool_bytes import in_bytes
from tilewise.backend.llvm.emit.spec import VectorUnit
from tilewise.backend.llvm.patterns import long_scan
from tilewise.backend.llvm.products import panels
from tilewise.errors import PerformanceWarning, message
from tilewise.ir.reductions import by_name
from tilewise.kernel.loops import REDUCTIONS, Kernel, Output
from tilewise.kernel.native_support import supports, supports_arg, supports_bucket, supports_reduce, supports_scan
from tilewise.later import later
from tilewise.store import pool
from tilewise.tuning import follow, tuned

if TYPE_CHECKING:
    from tilewise.kernel import interpret
else:
    interpret = later("tilewise.kernel.interpret")  # for what has no native code

ND = np.ndarray[Any, Any]


# The class and dtype too: code that reads another object's memory does not raise, it crashes.
_lies = attrgetter("__class__", "dtype", "shape", "strides")
_causes: set[str] = set()  # of failures that were told of


class Compiled:
    """A kernel that can be called; code is made for each class of geometry when first met."""

    def __init__(self, kernel: Kernel, machine: VectorUnit) -> None:
        self.kernel = kernel
        self.machine = machine
        kernel = in_bytes(kernel)
        self._native = is_native(kernel)
        self.beside = len(beside(kernel))
        self._launches: dict[Any, Launch] = {}
        self._geometries = tuned().kernel_geometries
        self._pack = objs_packer(kernel)
        self._preparer = Preparer(kernel, machine)
        self._prepare = self._preparer.prepare

    def __call__(self, shape: tuple[int, ...], inputs: Sequence[ND], params: Sequence[Any], outs: Sequence[ND]) -> None:
        """Run over the space `shape`; stores fill outs of that shape, reductions outs of the kept dims' shape."""
        operands = (*inputs, *outs)
        key = (shape, threads.get_threads(), *map(_lies, operands))
        launch = self._launches.get(key)
        if launch is None:
            if 0 in shape:
                self._run_empty(outs)
                return
            if not self._native:
                self._interpret(shape, inputs, params, outs)
                return
            try:
                launch = self._prepare(shape, operands)
            except CompileError as error:
                self._native = False
                _warn(str(error))
                self._interpret(shape, inputs, params, outs)
                return
            if len(self._launches) >= self._geometries:
                self._launches.clear()
            self._launches[key] = launch
        if launch.single is not None and not self.beside:
            launch.code(self._pack(*map(id, operands), *params), launch.single)
        else:
            self._run_whole(launch, operands, params)

    def alone(
        self,
        shape: tuple[int, ...],
        operands: Sequence[ND],
        far: int = 0,
        fetched: Sequence[int] = (),
        times: int = 1,
    ) -> Launch | None:
        """What one thread does for a geometry; None if there is no native code, or a scan needs its chunks.

        `far`: the bytes of what the outputs are a part of, if nobody reads them soon. `fetched`: inputs that nobody has
        read of late. `times`: how often it is done.
        """
        if not self._native or 0 in shape or self._preparer.scans_in_chunks(shape):
            return None
        try:
            return self._prepare(shape, operands, alone=True, far=far, fetched=fetched, times=times)
        except CompileError as error:
            self._native = False
            _warn(str(error))
            return None

    def ask(self, shape: tuple[int, ...], operands: Sequence[ND]) -> None:
        """Find, in a block of `build.asking`, the code of a call."""
        if self._native and 0 not in shape:
            self._prepare(shape, operands)

    def work_ns(self, shape: tuple[int, ...], operands: Sequence[ND]) -> float:
        """About how long one thread takes for a geometry."""
        return self._preparer.work_ns(shape, operands)

    def code_for(self, shape: tuple[int, ...], operands: Sequence[ND]) -> Native:
        """The code that runs over a non-empty space of operands that lie so."""
        return self._prepare(shape, operands).code

    def _run_empty(self, outs: Sequence[ND]) -> None:
        """No point is visited: a reduction is its identity, a store has nothing to fill."""
        for output, out in zip(self.kernel.outputs, outs, strict=True):
            if output.is_arg and out.size:
                raise ValueError(f"attempt to get {output.reduce} of an empty sequence")
            if output.reduce in REDUCTIONS and not output.scan:
                out[...] = by_name(output.reduce).identity(self.kernel.dtypes[output.value])

    def _interpret(
        self, shape: tuple[int, ...], inputs: Sequence[ND], params: Sequence[Any], outs: Sequence[ND]
    ) -> None:
        """By NumPy, tile by tile along the first dim, so that temporaries stay in the caches."""
        kernel = self.kernel
        if not shape or kernel.reduced[0] or any(o.key is not None for o in kernel.outputs):
            interpret.run(kernel, shape, inputs, params, outs)
            return

        def tile(low: int, high: int) -> None:
            whole = [a.ndim == len(shape) and a.shape[0] == shape[0] for a in inputs]
            cut = [a[low:high] if w else a for a, w in zip(inputs, whole, strict=True)]
            interpret.run(kernel, (high - low, *shape[1:]), cut, params, [o[low:high] for o in outs])

        rows = max(1, tuned().interpret_tile // max(1, prod(shape[1:])))
        threads.parallel_for(tile, [(i, min(i + rows, shape[0])) for i in range(0, shape[0], rows)])

    def _run_whole(self, launch: Launch, operands: Sequence[ND], params: Sequence[Any]) -> None:
        """A launch of several parts, with packed inputs, partial results or arrays beside the outputs."""
        if launch.totals is not None:
            long_scan.run(launch, launch.totals, self._pack, operands, params)
            return
        arrays = [*operands, *([operands[0]] * self.beside)]  # what is beside outputs is used with partials only
        for pack in launch.packs:
            arrays[pack.operand] = packed(operands[pack.operand], pack)
        for k, dtype, size in launch.scratch:
            arrays[k] = pool.empty(size, np.dtype(dtype))
        objs = self._pack(*map(id, arrays), *params)
        parts, code = launch.parts, launch.code
        if len(parts) == 1:
            code(objs, parts[0])
        elif launch.handed is not None:
            place = [place_of(objs)]
            launch.handed.run(lambda: place, launch.short)
        else:
            threads.run(lambda i: code(objs, parts[i]), len(parts))
        n = len(self.kernel.inputs)
        for tree in launch.combines:
            _combine(
                tree,
                address_words(arrays[k] for k in tree.operands),
                arrays[n + tree.output],
                operands[n + tree.output],
            )


def _combine(tree: Combine, words: bytes, partials: ND, out: ND) -> None:
    """Merge partial results into an output, on all threads where it is long."""
    result = partials[:, 0, : tree.columns]
    if tree.parts:
        source, target = result[0], out.reshape(-1)

        def part(i: int) -> None:
            low, high, geom = tree.parts[i]
            tree.code(words, geom)
            target[low:high] = source[low:high]

        threads.run(part, len(tree.parts))
        return
    tree.code(words, tree.geom)
    if tree.natural:
        out.reshape(result.shape)[...] = result
    else:
        np.lib.stride_tricks.as_strided(out, tree.shape, tree.strides)[...] = result.reshape(tree.shape)


def _warn(cause: str) -> None:
    """Say once what kept the compiler from working."""
    kind = cause.partition("\n")[0]  # lines of code follow
    if kind not in _causes:
        _causes.add(kind)
        what = f"a kernel runs on NumPy, because it could not be compiled: {cause}"
        warnings.warn(message(what), PerformanceWarning, stacklevel=3)


def is_native(kernel: Kernel) -> bool:
    """Whether every operation of a kernel has native code."""
    dtypes = kernel.dtypes
    return (
        all(supports(i.fn, tuple(dtypes[a] for a in i.args), i.dtype) for i in kernel.body)
        and all(_is_native_output(o, dtypes[o.value]) for o in kernel.outputs)
        and len({(o.key is None, o.scan) for o in kernel.outputs if o.reduce is not None}) <= 1
        and all(supports("positive" if t != "bool" else "absolute", (t,), t) for t in kernel.inputs + kernel.params)
    )


def _is_native_output(output: Output, dtype: str) -> bool:
    if output.reduce is None:
        return True
    if output.scan:
        return supports_scan(output.reduce, dtype)
    if output.key is not None:
        return supports_bucket(output.reduce, dtype)
    return supports_arg(output.reduce, dtype) if output.is_arg else supports_reduce(output.reduce, dtype)


def nests(kernel: Kernel, shape: tuple[int, ...]) -> bool:
    """Whether there is code for a kernel with a reduction inside on a space of rows, lanes and steps."""
    machine = host_machine()
    _, across, steps = shape
    tile = panels.nested_tile(kernel, steps, across, machine, vector_lanes(kernel, machine.vector_bytes))
    return tile is not None and is_native(kernel)


@lru_cache(maxsize=4096)
def compile(kernel: Kernel, vector_bytes: int | None = None) -> Compiled:
    """The callable of a kernel; `vector_bytes` forces a lesser CPU's vectors and instructions (0: scalar code)."""
    return Compiled(kernel, host_machine() if vector_bytes is None else level(vector_bytes))


def run(
    kernel: Kernel, shape: tuple[int, ...], inputs: Sequence[ND], params: Sequence[Any], outs: Sequence[ND]
) -> None:
    """Compile (once) and call."""
    compile(kernel)(shape, inputs, params, outs)


follow(lambda _: compile.cache_clear())
