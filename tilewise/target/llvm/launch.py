"""A compiled kernel and its calls. In: a `Kernel`, then arrays. Out: the outputs, filled by native code on all cores.

The first call with a geometry (shapes and strides) works out the loops and finds or compiles their code; later calls
look the result up and only pack addresses. A kernel with an operation that has no native code is interpreted.
"""

from __future__ import annotations

import struct
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from tilewise.errors import PerformanceWarning, message
from tilewise.kernel import interpret
from tilewise.kernel.loops import REDUCTIONS, Kernel, Output
from tilewise.kernel.native import supports, supports_arg, supports_bucket, supports_reduce
from tilewise.store import pool
from tilewise.target import threads
from tilewise.target.llvm import bucketing, combine, forms, geometry, panels
from tilewise.target.llvm.build import CompileError, Native, native
from tilewise.target.llvm.cpu import host_machine, level
from tilewise.target.llvm.frame import HEAVY, UNIT, Frame, Machine, Spec, beside, is_light, vector_lanes
from tilewise.target.llvm.geometry import Nest, Pack
from tilewise.target.llvm.reducers import Reducer
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
PANEL_VECTORS = 4  # of `columns`, for one output
GEOMETRIES = 256  # remembered per kernel

_PARAM_FORMAT = {
    "float64": "d", "float32": "f4x", "bool": "?7x", "int8": "b7x", "int16": "h6x", "int32": "i4x", "int64": "q",
    "uint8": "B7x", "uint16": "H6x", "uint32": "I4x", "uint64": "Q", "float16": "e6x", "complex64": "ff",
    "complex128": "dd",
}  # fmt: skip

_causes: set[str] = set()  # of failures that were told of


@dataclass(frozen=True)
class Combine:
    """How the partial results of an output become the output: code, its arrays by operand number, its geom."""

    output: int
    code: Native
    operands: tuple[int, ...]
    geom: bytes
    columns: int  # of every item, that are results
    shape: tuple[int, ...]  # kept dims in loop order, and the output's strides for them
    strides: tuple[int, ...]
    natural: bool  # in the order of the output


@dataclass(frozen=True)
class _Launch:
    """What a geometry needs: the code, one block of words per part, inputs to pack, partials and how to combine them.

    `objs` are the addresses of the operands (inputs, outputs, the values beside positions), then the params.
    """

    code: Native
    parts: tuple[bytes, ...]
    packs: tuple[Pack, ...] = ()
    scratch: tuple[tuple[int, str, tuple[int, int, int]], ...] = ()  # operands that are partials: dtype and shape
    combines: tuple[Combine, ...] = ()


class Compiled:
    """A kernel that can be called; code is made for each class of geometry when first met."""

    def __init__(self, kernel: Kernel, machine: Machine) -> None:
        self.kernel = kernel
        self.machine = machine
        self._native = is_native(kernel)
        self.beside = len(beside(kernel))
        self._launches: dict[Any, _Launch] = {}
        operands = len(kernel.inputs) + len(kernel.outputs) + len(beside(kernel))
        self._pack = _packer(operands, kernel.params)
        arrays = kernel.inputs + kernel.out_dtypes
        self._itemsizes = tuple(np.dtype(t).itemsize for t in arrays + beside(kernel))
        self._element_ns = max(
            BYTE_NS * sum(self._itemsizes[: len(arrays)]),
            sum(HEAVY_NS if i.fn in HEAVY else OP_NS for i in kernel.body),
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
        if launch.packs or launch.scratch or self.beside:
            self._run_whole(launch, operands, params)
            return
        objs = self._pack(*map(id, operands), *params)
        parts, code = launch.parts, launch.code
        if len(parts) == 1:
            code(objs, parts[0])
        else:
            threads.run(lambda i: code(objs, parts[i]), len(parts))

    def alone(self, shape: tuple[int, ...], operands: Sequence[Array]) -> _Launch | None:
        """What one thread does for a geometry; None if there is no native code."""
        if not self._native or 0 in shape:
            return None
        try:
            return self._prepare(shape, operands, alone=True)
        except CompileError as error:
            self._native = False
            _warn(str(error))
            return None

    def _run_empty(self, outs: Sequence[Array]) -> None:
        """No point is visited: a reduction is its identity, a store has nothing to fill."""
        for output, out in zip(self.kernel.outputs, outs, strict=True):
            if output.is_arg and out.size:
                raise ValueError(f"attempt to get {output.reduce} of an empty sequence")
            if output.reduce in REDUCTIONS and not output.scan:
                out[...] = identity(output.reduce, self.kernel.dtypes[output.value])

    def _interpret(
        self, shape: tuple[int, ...], inputs: Sequence[Array], params: Sequence[Any], outs: Sequence[Array]
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

        rows = max(1, TILE_ELEMENTS // max(1, prod(shape[1:])))
        threads.parallel_for(tile, [(i, min(i + rows, shape[0])) for i in range(0, shape[0], rows)])

    def _run_whole(self, launch: _Launch, operands: Sequence[Array], params: Sequence[Any]) -> None:
        """A launch with packed inputs or partial results."""
        arrays = [*operands, *([operands[0]] * self.beside)]  # without partials, nothing is stored beside positions
        for pack in launch.packs:
            arrays[pack.operand] = packed(operands[pack.operand], pack)
        for k, dtype, size in launch.scratch:
            arrays[k] = pool.empty(size, np.dtype(dtype))
        objs = self._pack(*map(id, arrays), *params)
        parts, code = launch.parts, launch.code
        if len(parts) == 1:
            code(objs, parts[0])
        else:
            threads.run(lambda i: code(objs, parts[i]), len(parts))
        n = len(self.kernel.inputs)
        for combine_ in launch.combines:
            words = [id(arrays[k]) for k in combine_.operands]
            combine_.code(struct.pack(f"<{len(words)}Q", *words), combine_.geom)
            result, out = arrays[n + combine_.output][:, 0, : combine_.columns], operands[n + combine_.output]
            if combine_.natural:
                out.reshape(result.shape)[...] = result
            else:
                view = np.lib.stride_tricks.as_strided(out, combine_.shape, combine_.strides)
                view[...] = result.reshape(combine_.shape)

    def code_for(self, shape: tuple[int, ...], operands: Sequence[Array]) -> Native:
        """The code that runs over a non-empty space of operands that lie so."""
        return self._prepare(shape, operands).code

    def _prepare(self, shape: tuple[int, ...], operands: Sequence[Array], alone: bool = False) -> _Launch:
        """Loops, code and parts for a geometry."""
        kernel = self.kernel
        n = len(kernel.inputs)
        strides = []
        kept = tuple(s for s, r in zip(shape, kernel.reduced, strict=True) if not r)
        for k, (array, dtype) in enumerate(zip(operands, kernel.inputs + kernel.out_dtypes, strict=True)):
            assert isinstance(array, np.ndarray), f"operand {k} is a {type(array).__name__}, not an ndarray"
            assert array.dtype == dtype, f"operand {k} is {array.dtype}, the kernel wants {dtype}"
            if k >= n and not kernel.outputs[k - n].stored:
                keyed = kernel.outputs[k - n].key is not None
                got = array.shape[1:] if keyed else array.shape
                assert got == kept, f"reduced output {k - n} has kept dims {got}, not {kept}"
                own = iter(array.strides[1:] if keyed else array.strides)
                strides.append(tuple(0 if r else next(own) for r in kernel.reduced))
            else:
                assert k < n or array.shape == shape, f"output {k - n} has shape {array.shape}, not {shape}"
                strides.append(geometry.aligned_strides(shape, array.shape, array.strides))
        strides += [strides[n + j] for j, o in enumerate(kernel.outputs) if o.is_arg]
        if self.beside:
            strides.append(_positions(shape, kernel.reduced))
        nest = self._nest(
            shape, strides, [len(operands[n + j]) for j, o in enumerate(kernel.outputs) if o.key is not None]
        )
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
        spec = Spec(
            nest.form, len(nest.dims), classes, self.machine, stream,
            twin=self._long and total_ns >= TWIN_AT_NS,
            partials=bool(nest.partials),
            ordered=not self.beside or _in_order(nest.dims),
            vectors=nest.tile[0],
            high=nest.tile[1],
            varies=tuple(s != 0 for s in nest.dims[-3].strides[:n]) if nest.form == "contract" else (),
            packed=tuple(p.operand for p in nest.packs),
            chunked=nest.chunked,
        )  # fmt: skip
        if nest.form == "columns":
            spec = replace(spec, vectors=_panel_vectors(kernel, spec, nest.dims[-1].size))
        code = native((kernel, spec), lambda name: forms.build(kernel, spec, name), self.machine.cpu)
        parts = _parts(nest, len(strides), 0.0 if alone else total_ns)
        return self._with_combines(_Launch(code, parts, nest.packs), nest, operands)

    def _nest(self, shape: tuple[int, ...], strides: Sequence[geometry.Strides], buckets: Sequence[int]) -> Nest:
        """The loops for a non-empty space."""
        kernel = self.kernel
        sizes = (*self._itemsizes, 1) if self.beside else self._itemsizes
        dims = geometry.simplified(shape, kernel.reduced, strides, len(kernel.inputs) + len(kernel.outputs))
        if not any(o.reduce for o in kernel.outputs):
            return geometry.map_nest(dims, sizes)
        if buckets:
            return bucketing.bucket_nest(kernel, dims, sizes, buckets)
        lanes = vector_lanes(kernel, self.machine)
        found = panels.contraction(kernel, dims, sizes, self.machine, lanes)
        return found or geometry.reduce_nest(kernel, dims, sizes, Frame.lanes_of(kernel))

    def _classes(self, nest: Nest) -> tuple[str, ...]:
        inner = nest.dims[-1].strides
        classes = [geometry.stride_class(s, w) for s, w in zip(inner, self._itemsizes, strict=False)]
        if nest.form in ("rows", "short"):
            for k in range(len(self.kernel.inputs), len(classes)):
                if k >= len(self.kernel.inputs) + len(self.kernel.outputs) or not self._output(k).stored:
                    classes[k] = UNIT
        return tuple(classes)

    def _output(self, operand: int) -> Output:
        return self.kernel.outputs[operand - len(self.kernel.inputs)]

    def _with_combines(self, launch: _Launch, nest: Nest, operands: Sequence[Array]) -> _Launch:
        n, dtypes = len(self.kernel.inputs), self.kernel.dtypes
        value = n + len(self.kernel.outputs)  # the next operand beside a position
        combines: list[Combine] = []
        scratch: list[tuple[int, str, tuple[int, int, int]]] = []
        for j, partials in nest.partials.items():
            output = self.kernel.outputs[j]
            assert output.reduce is not None
            reducer = Reducer(output.reduce, dtypes[output.value])
            arrays: tuple[int, ...] = (n + j,)
            if output.is_arg:
                arrays, value = (value, n + j), value + 1
            items, count, columns = partials.shape
            sizes = tuple(d.size for d in partials.kept)
            strides = tuple(d.strides[n + j] for d in partials.kept)
            if partials.buckets is not None:
                sizes, strides = (partials.buckets, *sizes), (operands[n + j].strides[0], *strides)
            steps = tuple(self._itemsizes[n + j] * prod(sizes[i + 1 :]) for i in range(len(sizes)))
            geom = struct.pack("<4q", items, count, columns, (count - 1).bit_length())
            code = _combiner(reducer, self.machine)
            natural = strides == steps and operands[n + j].flags.c_contiguous
            combines.append(Combine(j, code, arrays, geom, prod(sizes) // items, sizes, strides, natural))
            scratch += [(k, t, partials.shape) for k, t in zip(arrays, reducer.dtypes, strict=True)]
        return replace(launch, combines=tuple(combines), scratch=tuple(scratch))


def _positions(shape: tuple[int, ...], reduced: Sequence[bool]) -> tuple[int, ...]:
    """The row-major step along every reduced dim, 0 for kept ones."""
    steps, step = [0] * len(shape), 1
    for d in reversed(range(len(shape))):
        if reduced[d]:
            steps[d] = step
            step *= shape[d]
    return tuple(steps)


def _in_order(dims: Sequence[geometry.Dim]) -> bool:
    """Whether the two innermost loops meet positions in rising order."""
    down, across = dims[-2], dims[-1]
    return (
        not down.reduced or down.size == 1 or not across.reduced or down.strides[-1] >= across.strides[-1] * across.size
    )


def _panel_vectors(kernel: Kernel, spec: Spec, columns: int) -> int:
    """Vectors of a panel of columns: as many as there are columns for, and registers."""
    if not is_light(kernel, spec.classes):
        return 1
    registers = PANEL_VECTORS // len([o for o in kernel.outputs if o.reduce]) // (2 if beside(kernel) else 1)
    return max(1, min(registers, -(-columns // vector_lanes(kernel, spec.machine))))


def packed(source: Array, pack: Pack) -> Array:
    """A copy of an input in panels."""
    target = pool.empty(pack.shape, source.dtype)
    width = pack.shape[-1]
    full, rest = divmod(pack.lanes, width)
    whole = np.lib.stride_tricks.as_strided(source, pack.shape, pack.strides)
    target[..., :full, :, :] = whole[..., :full, :, :]
    if rest:
        target[..., full, :, :rest] = whole[..., full, :, :rest]
        target[..., full, :, rest:] = 0
    return target


def _packer(operands: int, params: tuple[str, ...]) -> Callable[..., bytes]:
    """The words of a call: addresses of the operands, then the params."""
    # "<": no padding beyond what the formats say
    pack = struct.Struct("<" + "Q" * operands + "".join(_PARAM_FORMAT.get(t, "8x") for t in params)).pack
    if not any(t.startswith("complex") for t in params):
        return pack

    def in_parts(*values: Any) -> bytes:
        flat = list(values[:operands])
        for value, dtype in zip(values[operands:], params, strict=True):
            flat += [value.real, value.imag] if dtype.startswith("complex") else [value]
        return pack(*flat)

    return in_parts


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


def _combiner(reducer: Reducer, machine: Machine) -> Native:
    lanes = max(1, machine.vector_bytes // max(np.dtype(t).itemsize for t in reducer.dtypes))
    return native(("combine", reducer, lanes), lambda name: combine.build(reducer, lanes, name), machine.cpu)


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
        and all(_is_native_output(o, dtypes[o.value]) for o in kernel.outputs)
        and len({(o.key is None, o.scan) for o in kernel.outputs if o.reduce is not None}) <= 1
        and all(supports("positive" if t != "bool" else "absolute", (t,), t) for t in kernel.inputs + kernel.params)
    )


def _is_native_output(output: Output, dtype: str) -> bool:
    if output.reduce is None:
        return True
    if output.scan:
        return False
    if output.key is not None:
        return supports_bucket(output.reduce, dtype)
    return supports_arg(output.reduce, dtype) if output.is_arg else supports_reduce(output.reduce, dtype)


@lru_cache(maxsize=4096)
def compile(kernel: Kernel, vector_bytes: int | None = None) -> Compiled:
    """The callable of a kernel; `vector_bytes` forces a lesser CPU's vectors and instructions (0: scalar code)."""
    return Compiled(kernel, host_machine() if vector_bytes is None else level(vector_bytes))


def run(
    kernel: Kernel, shape: tuple[int, ...], inputs: Sequence[Array], params: Sequence[Any], outs: Sequence[Array]
) -> None:
    """Compile (once) and call."""
    compile(kernel)(shape, inputs, params, outs)
