"""A compiled kernel and its calls. In: a `Kernel`, then arrays. Out: the outputs, filled by native code on all cores.

The first call with a geometry (shapes and strides) works out the loops and finds or compiles their code; later calls
look the result up and only pack addresses. A kernel with an operation that has no native code is interpreted.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tilewise.errors import PerformanceWarning, message
from tilewise.kernel import interpret
from tilewise.kernel.loops import Kernel
from tilewise.kernel.native import supports, supports_reduce
from tilewise.store import pool
from tilewise.target import threads
from tilewise.target.llvm import combine, forms, geometry
from tilewise.target.llvm.build import CompileError, Native, native
from tilewise.target.llvm.cpu import host_machine, level
from tilewise.target.llvm.frame import HEAVY, UNIT, Frame, Machine, Spec
from tilewise.target.llvm.geometry import Nest
from tilewise.target.llvm.scalar import identity

Array = np.ndarray[Any, Any]

SPLIT_AT_NS = 100_000  # work below this is done by one thread (benchmarks/kernels.py)
PART_NS = 100_000  # the least work of a part
PARTS_PER_THREAD = 16  # dynamic hand-out: a slow core takes fewer
BYTE_NS, OP_NS, HEAVY_NS = 0.08, 0.1, 2.0  # rough cost per element; only decides how many parts
STREAM_AT_BYTES = 16 << 20  # outputs this large do not stay in the caches (benchmarks/kernels.py)
TWIN_AT_NS = 20_000_000  # work worth the time of compiling a long body for two vectors at once
STREAM_ROW = 4096  # rows long enough for the aligned part to pay
TILE_ELEMENTS = 32_768  # of a tile that NumPy runs: some temporaries of float64 in the L2 cache
GEOMETRIES = 256  # remembered per kernel

_PARAM_FORMAT = {
    "float64": "d", "float32": "f4x", "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q",
    "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q",
}  # fmt: skip

_causes: set[str] = set()  # of failures that were told of


@dataclass(frozen=True)
class _Launch:
    """What a geometry needs: the code, one block of words per part, scratch for partials and how to combine them."""

    code: Native
    parts: tuple[bytes, ...]
    partials: tuple[int, int, int] | None
    combines: tuple[tuple[int, Native, bytes], ...] = ()  # output, code, geom
    natural: tuple[bool, ...] = ()  # per output: in C order, and the kept dims are walked in that order
    kept_shape: tuple[int, ...] = ()
    kept_strides: tuple[tuple[int, ...], ...] = ()  # per output


class Compiled:
    """A kernel that can be called; code is made for each class of geometry when first met."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel = kernel
        self.machine = machine
        self._native = is_native(kernel)
        self._launches: dict[Any, _Launch] = {}
        operands = len(kernel.inputs) + len(kernel.outputs)
        # "<": no padding beyond what the formats say
        self._pack = struct.Struct(
            "<" + "Q" * operands + "".join(_PARAM_FORMAT.get(t, "8x") for t in kernel.params)
        ).pack
        self._itemsizes = tuple(np.dtype(t).itemsize for t in kernel.inputs + kernel.out_dtypes)
        self._element_ns = max(
            BYTE_NS * sum(self._itemsizes), sum(HEAVY_NS if i.fn in HEAVY else OP_NS for i in kernel.body)
        )
        # Aligned wide stores need outputs of one width, and code that is limited by memory.
        heavy = sum(i.fn in HEAVY for i in kernel.body)
        self._long = heavy >= 2 and machine.masked
        self._streamable = not heavy and machine.masked and len(set(self._itemsizes[len(kernel.inputs) :])) == 1

    def __call__(
        self, shape: tuple[int, ...], inputs: Sequence[Array], params: Sequence[Any], outs: Sequence[Array]
    ) -> None:
        """Run over the space `shape`; stores fill outs of that shape, reductions outs of the kept dims' shape."""
        operands = (*inputs, *outs)
        # The class and dtype too: code that reads another object's memory does not raise, it crashes.
        key = (shape, threads.get_threads(), *[(a.__class__, a.dtype, a.shape, a.strides) for a in operands])
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
            if len(self._launches) >= GEOMETRIES:
                self._launches.clear()
            self._launches[key] = launch
        if launch.partials is not None:
            self._run_partials(launch, inputs, params, outs)
            return
        objs = self._pack(*map(id, operands), *params)
        parts, code = launch.parts, launch.code
        if len(parts) == 1:
            code(objs, parts[0])
        else:
            threads.run(lambda i: code(objs, parts[i]), len(parts))

    def _run_empty(self, outs: Sequence[Array]) -> None:
        """No point is visited: a reduction is its identity, a store has nothing to fill."""
        for output, out in zip(self.kernel.outputs, outs, strict=True):
            if output.reduce is not None:
                out[...] = identity(output.reduce, self.kernel.dtypes[output.value])

    def _interpret(
        self, shape: tuple[int, ...], inputs: Sequence[Array], params: Sequence[Any], outs: Sequence[Array]
    ) -> None:
        """By NumPy, tile by tile along the first dim, so that temporaries stay in the caches."""
        kernel = self.kernel
        if not shape or kernel.reduced[0]:
            interpret.run(kernel, shape, inputs, params, outs)
            return

        def tile(low: int, high: int) -> None:
            whole = [a.ndim == len(shape) and a.shape[0] == shape[0] for a in inputs]
            cut = [a[low:high] if w else a for a, w in zip(inputs, whole, strict=True)]
            interpret.run(kernel, (high - low, *shape[1:]), cut, params, [o[low:high] for o in outs])

        rows = max(1, TILE_ELEMENTS // max(1, prod(shape[1:])))
        threads.parallel_for(tile, [(i, min(i + rows, shape[0])) for i in range(0, shape[0], rows)])

    def _run_partials(
        self, launch: _Launch, inputs: Sequence[Array], params: Sequence[Any], outs: Sequence[Array]
    ) -> None:
        assert launch.partials is not None
        targets = list(outs)
        for j, _, _ in launch.combines:
            targets[j] = pool.empty(launch.partials, outs[j].dtype)
        objs = self._pack(*map(id, inputs), *map(id, targets), *params)
        parts, code = launch.parts, launch.code
        if len(parts) == 1:
            code(objs, parts[0])
        else:
            threads.run(lambda i: code(objs, parts[i]), len(parts))
        for j, add_up, geom in launch.combines:
            add_up(id(targets[j]).to_bytes(8, "little"), geom)
            result, out = targets[j][:, 0, :], outs[j]
            if launch.natural[j]:
                out.reshape(result.shape)[...] = result
            else:
                strides = launch.kept_strides[j]
                view = np.lib.stride_tricks.as_strided(out, launch.kept_shape, strides)
                view[...] = result.reshape(launch.kept_shape)

    def code_for(self, shape: tuple[int, ...], operands: Sequence[Array]) -> Native:
        """The code that runs over a non-empty space of operands that lie so."""
        return self._prepare(shape, operands).code

    def _prepare(self, shape: tuple[int, ...], operands: Sequence[Array]) -> _Launch:
        """Loops, code and parts for a geometry."""
        kernel = self.kernel
        n = len(kernel.inputs)
        strides = []
        kept = tuple(s for s, r in zip(shape, kernel.reduced, strict=True) if not r)
        for k, (array, dtype) in enumerate(zip(operands, kernel.inputs + kernel.out_dtypes, strict=True)):
            assert isinstance(array, np.ndarray), f"operand {k} is a {type(array).__name__}, not an ndarray"
            assert array.dtype == dtype, f"operand {k} is {array.dtype}, the kernel wants {dtype}"
            if k >= n and kernel.outputs[k - n].reduce is not None:
                assert array.shape == kept, f"reduced output {k - n} has shape {array.shape}, not {kept}"
                own = iter(array.strides)
                strides.append(tuple(0 if r else next(own) for r in kernel.reduced))
            else:
                assert k < n or array.shape == shape, f"output {k - n} has shape {array.shape}, not {shape}"
                strides.append(geometry.aligned_strides(shape, array.shape, array.strides))
        lanes = Frame.lanes_of(kernel)
        nest = geometry.nest_of(kernel, shape, strides, self._itemsizes, lanes)
        classes = self._classes(nest)
        out_bytes = sum(a.nbytes for a in operands[n:])
        stream = (
            nest.form == "map"
            and out_bytes >= STREAM_AT_BYTES
            and self._streamable
            and all(c == UNIT for c in classes[n:])
            and nest.dims[-1].size >= STREAM_ROW
        )
        total_ns = self._element_ns * prod(shape)
        twin = self._long and total_ns >= TWIN_AT_NS
        spec = Spec(nest.form, len(nest.dims), classes, self.machine, stream, twin)
        code = native((kernel, spec), lambda name: forms.build(kernel, spec, name), self.machine.cpu)
        parts = _parts(nest, len(operands), total_ns)
        if nest.partials is None:
            return _Launch(code, parts, None)
        return self._with_combines(code, parts, nest, operands[n:])

    def _classes(self, nest: Nest) -> tuple[str, ...]:
        classes = [geometry.stride_class(s, w) for s, w in zip(nest.dims[-1].strides, self._itemsizes, strict=True)]
        if nest.form == "rows":
            for j, output in enumerate(self.kernel.outputs):
                if output.reduce is not None:
                    classes[len(self.kernel.inputs) + j] = UNIT
        return tuple(classes)

    def _with_combines(self, code: Native, parts: tuple[bytes, ...], nest: Nest, outs: Sequence[Array]) -> _Launch:
        assert nest.partials is not None
        items, count, columns = nest.partials
        n = len(self.kernel.inputs)
        combines = []
        for j, (output, dtype) in enumerate(zip(self.kernel.outputs, self.kernel.out_dtypes, strict=True)):
            if output.reduce is not None:
                size = self._itemsizes[n + j]
                row = columns * size
                levels = (count - 1).bit_length()
                geom = struct.pack("<6q", items, count * row, count, row, columns, levels)
                combines.append((j, _combiner(output.reduce, dtype, self.machine), geom))
        sizes = tuple(d.size for d in nest.kept)
        kept_strides = tuple(tuple(d.strides[n + j] for d in nest.kept) for j in range(len(self.kernel.outputs)))
        steps = [prod(sizes[i + 1 :]) for i in range(len(sizes))]
        natural = tuple(
            out.flags.c_contiguous and own == tuple(out.itemsize * step for step in steps)
            for out, own in zip(outs, kept_strides, strict=True)
        )
        return _Launch(code, parts, nest.partials, tuple(combines), natural, sizes, kept_strides)


def _parts(nest: Nest, operands: int, total_ns: float) -> tuple[bytes, ...]:
    """The words of every part: the whole nest, or its best dim or range of chunks cut into pieces."""
    count = 1
    if threads.get_threads() > 1 and total_ns > SPLIT_AT_NS:
        count = min(threads.get_threads() * PARTS_PER_THREAD, max(2, int(total_ns / PART_NS)))
    # The outermost cut that gives every thread enough pieces, else the one with the most.
    wanted = 4 * count
    cut = next((c for c in nest.cuts if c.extent // c.grain >= wanted), None)
    cut = cut or max(nest.cuts, key=lambda c: c.extent // c.grain)
    units = -(-cut.extent // cut.grain)
    count = units if nest.panels else max(1, min(count, units))
    edges = [min(cut.extent, units * i // count * cut.grain) for i in range(count + 1)]
    return tuple(_words(nest, operands, cut, low, high) for low, high in pairwise(edges))


def _words(nest: Nest, operands: int, cut: geometry.Cut, low: int, high: int) -> bytes:
    sizes, extras = [d.size for d in nest.dims], list(nest.extras)
    offsets = [0] * operands
    if cut.dim is not None:
        sizes[cut.dim] = high - low
        offsets = [low * s for s in nest.dims[cut.dim].strides]
    elif cut.extra is not None:
        extras[cut.extra], extras[cut.extra + 1] = low, high
    words = [*offsets, *sizes, *(d.strides[k] for k in range(operands) for d in nest.dims), *extras]
    return struct.pack(f"<{len(words)}q", *words)


def _combiner(op: str, dtype: str, machine: Machine) -> Native:
    lanes = max(1, machine.vector_bytes // np.dtype(dtype).itemsize)
    return native(("combine", op, dtype, lanes), lambda name: combine.build(op, dtype, lanes, name), machine.cpu)


def _warn(cause: str) -> None:
    """Say once what kept the compiler from working (LLVM's further lines quote the code: those differ)."""
    kind = cause.partition("\n")[0]
    if kind not in _causes:
        _causes.add(kind)
        what = f"a kernel runs on NumPy, because it could not be compiled: {cause}"
        warnings.warn(message(what), PerformanceWarning, stacklevel=3)


def is_native(kernel: Kernel) -> bool:
    """Whether every operation of a kernel has native code."""
    dtypes = kernel.dtypes
    return (
        all(supports(i.fn, tuple(dtypes[a] for a in i.args), i.dtype) for i in kernel.body)
        and all(o.reduce is None or supports_reduce(o.reduce, dtypes[o.value]) for o in kernel.outputs)
        and all(supports("positive" if t != "bool" else "absolute", (t,), t) for t in kernel.inputs + kernel.params)
    )


@lru_cache(maxsize=4096)
def compile(kernel: Kernel, vector_bytes: int | None = None) -> Compiled:
    """The callable of a kernel; `vector_bytes` forces a lesser CPU's vectors and instructions (0: scalar code)."""
    return Compiled(kernel, host_machine() if vector_bytes is None else level(vector_bytes))


def run(
    kernel: Kernel, shape: tuple[int, ...], inputs: Sequence[Array], params: Sequence[Any], outs: Sequence[Array]
) -> None:
    """Compile (once) and call."""
    compile(kernel)(shape, inputs, params, outs)
