"""A geometry to a launch. In: a kernel, arrays of some shapes and strides. Out: a `Launch`: code, parts, scratch.

Works out the loops, finds or compiles their code, and cuts them into parts. Runs nothing (see compiled.py).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tilewise import rounding
from tilewise.backend.llvm.call.launch import Combine, Launch, Totals, Tree
from tilewise.backend.llvm.compile.build import Native, native
from tilewise.backend.llvm.emit import nans
from tilewise.backend.llvm.emit.bodies import (
    LIGHT_BODY,
    beside,
    divisors,
    goes_once,
    has_positions,
    is_light,
    one_by_one,
    row_divisors,
    tree_lanes,
    vector_lanes,
)
from tilewise.backend.llvm.emit.bool_bytes import BYTE
from tilewise.backend.llvm.emit.frame import STREAM_ALIGN
from tilewise.backend.llvm.emit.spec import UNIT, Spec, VectorUnit
from tilewise.backend.llvm.loops import combine, cutting, geometry, maps, prefetch
from tilewise.backend.llvm.loops.geometry import Cut, Dim, Nest
from tilewise.backend.llvm.loops.reducers import Reducer
from tilewise.backend.llvm.loops.sums import STEPS
from tilewise.backend.llvm.math.table import COSTLY, MATH
from tilewise.backend.llvm.products import panels
from tilewise.kernel.loops import Kernel, Output
from tilewise.later import later
from tilewise.tuning import tuned

if TYPE_CHECKING:
    from tilewise.backend.llvm.loops import forms, strips
    from tilewise.backend.llvm.patterns import argmin_f32, argmin_pattern, bucket_chunks
else:
    argmin_f32 = later("tilewise.backend.llvm.patterns.argmin_f32")
    argmin_pattern = later("tilewise.backend.llvm.patterns.argmin_pattern")
    bucket_chunks = later("tilewise.backend.llvm.patterns.bucket_chunks")
    strips = later("tilewise.backend.llvm.loops.strips")
    forms = later("tilewise.backend.llvm.loops.forms")  # for kernels that are not on disk

ND = np.ndarray[Any, Any]

# Rough costs of one thread; they only decide how many parts there are.
BYTE_NS, OP_NS, SLOW_NS, HEAVY_NS = 0.08, 0.1, 0.8, 2.0
SLOW = frozenset(("divide", "sqrt", "reciprocal"))  # whose units a core has one of
NEAR_BYTE_NS = 0.03  # of what lies in a core's L2 cache
SOME_TURNS = 16  # that a part of the body is taken to run for
SLOWER = 5  # times that ARM takes for functions
PANEL_VECTORS = 4  # of `columns`, for one output


class Preparer:
    """What all launches of a kernel have in common."""

    def __init__(self, kernel: Kernel, machine: VectorUnit) -> None:
        self.kernel = kernel
        self.machine = machine
        self._near_bytes = tuned().near_bytes
        arrays = kernel.inputs + kernel.out_dtypes
        self._itemsizes = tuple(np.dtype(t).itemsize for t in arrays + beside(kernel))
        iterations = 1 if kernel.loop_body is None else SOME_TURNS
        costs = (HEAVY_NS if i.fn in COSTLY else SLOW_NS if i.fn in SLOW else OP_NS for i in kernel.body)
        self._point_ns = iterations * sum(costs)
        # Aligned wide stores need outputs of one width, and code that is limited by memory.
        heavy = sum(i.fn in COSTLY for i in kernel.body)
        self._heavy = heavy if machine.registers == 32 else 0
        # A vector of a scan has the lanes of the widest dtype; stored past the caches, it must fill a cache line.
        lanes = vector_lanes(kernel, STREAM_ALIGN)
        self._full_lines = all(w * lanes == STREAM_ALIGN for w in self._itemsizes[len(kernel.inputs) :])
        self._streamable = not heavy and machine.masked and len(set(self._itemsizes[len(kernel.inputs) :])) == 1

    def prepare(
        self,
        shape: tuple[int, ...],
        operands: Sequence[ND],
        *,
        alone: bool = False,
        far: int = 0,
        fetched: Sequence[int] | None = None,
        times: int = 1,
    ) -> Launch:
        """Loops, code and parts for a geometry (alone: for one thread, in no more parts than the loops need; times: it
        is one of so many alike).

        `far` are the bytes that outputs are a part of, where these are more than the outputs'; `fetched` are the inputs
        that come from memory (None: those of many bytes).
        """
        strides = self._strides(shape, operands)
        n = len(self.kernel.inputs)
        scans = tuple(Output(o.value, o.reduce) for o in self.kernel.outputs if o.scan)
        if self.scans_in_chunks(shape):
            assert not alone, "a scan in chunks adds up in another order than one thread would"
            return self._long_scan(
                shape, strides, operands, Preparer(replace(self.kernel, outputs=scans), self.machine)
            )
        buckets = [len(operands[n + j]) for j, o in enumerate(self.kernel.outputs) if o.key is not None]
        nest = self._nest(shape, strides, buckets)
        total_ns = self.work_ns(shape, operands)
        out_bytes = max(far, sum(a.nbytes for a in operands[n:]))
        far_inputs = self._far(nest) if fetched is None else fetched
        ahead = self._fetched(nest, far_inputs)
        code = self._code(nest, times * total_ns, out_bytes, fetched=ahead, near=not far_inputs)
        streams = self._streams(nest, out_bytes)
        parts = cutting.parts_of(nest, len(strides), 0.0 if alone else total_ns)
        launch = Launch(
            code,
            parts,
            nest.packs,
            tree=self._tree(nest),
            streams=streams,
            brief=total_ns < tuned().brief_ns,
            short=total_ns < tuned().short_ns,
        )
        return self._with_combines(launch, nest, operands)

    def scans_in_chunks(self, shape: tuple[int, ...]) -> bool:
        """Whether this is a scan of one row so long that all threads share it."""
        scans = any(o.scan for o in self.kernel.outputs)
        return scans and prod(shape) >= rounding.SCAN_IN_CHUNKS and prod(self.kernel.kept(shape)) == 1

    def work_ns(self, shape: tuple[int, ...], operands: Sequence[ND]) -> float:
        """About how long one thread takes."""
        moved = _moved_bytes(operands)
        byte_ns = BYTE_NS if moved > self._near_bytes else NEAR_BYTE_NS
        return float(max(moved * byte_ns, prod(shape) * self._point_ns))

    def _tree(self, nest: Nest) -> Tree | None:
        """The form, the reduced dims in order, and how they are cut into chunks."""
        if nest.form == "map":
            return None
        n = len(self.kernel.inputs)
        reduced = tuple((d.size, d.strides[:n]) for d in nest.dims if d.reduced)
        # Of a contraction, the words are about kept dims only; of `columns` in one chunk, how long that may be.
        free = nest.form == "contract" or (nest.form == "columns" and nest.extras[2] == 1)
        return nest.form, reduced, () if free else nest.extras

    def _long_scan(
        self,
        shape: tuple[int, ...],
        strides: list[geometry.Strides],
        operands: Sequence[ND],
        reductions: Preparer,
    ) -> Launch:
        """A scan of one row by all threads: every part reduces its chunks, waits for its turn, and scans them."""
        n = len(self.kernel.inputs)
        whole = [*strides[:n], *([(0,) * len(shape)] * len(reductions.kernel.outputs))]
        first = reductions._nest(shape, whole, (), short_chunks=True)
        chunk, count = first.extras[1], first.partials[0].shape[1]
        second = geometry.scan_nest(self.kernel, self._dims(shape, strides), self._itemsizes, chunk)
        per_point = sum(w for s, w in zip(second.dims[-1].strides[:n], self._itemsizes, strict=False) if s)
        edges = (*range(0, count, max(1, tuned().scan_part_bytes // (chunk * max(1, per_point)))), count)
        total_ns = self.work_ns(shape, operands)
        totals = Totals(
            reductions.kernel,
            reductions._code(first, total_ns, neutral=True),
            cutting.pieces(first, len(whole), Cut(count, 1, extra=8), edges),
            edges,
        )
        code = self._code(second, total_ns, sum(a.nbytes for a in operands[n:]), partials=True)
        parts = cutting.pieces(second, len(strides), Cut(count, 1, extra=1), edges)
        return Launch(code, parts, totals=totals)

    def _strides(self, shape: tuple[int, ...], operands: Sequence[ND]) -> list[geometry.Strides]:
        """The strides of every operand over the space; its kind is checked (native code would crash)."""
        kernel = self.kernel
        n = len(kernel.inputs)
        strides = []
        kept = tuple(s for s, r in zip(shape, kernel.reduced, strict=True) if not r)
        whole = shape if kernel.inner is None else shape[:-1]
        for k, (array, dtype) in enumerate(zip(operands, kernel.inputs + kernel.out_dtypes, strict=True)):
            assert isinstance(array, np.ndarray), f"operand {k} is a {type(array).__name__}, not an ndarray"
            same = array.dtype == dtype or (array.dtype.kind == "b" and dtype == BYTE)
            assert same, f"operand {k} is {array.dtype}, the kernel wants {dtype}"
            if k >= n and not kernel.outputs[k - n].stored:
                keyed = kernel.outputs[k - n].key is not None
                got = array.shape[1:] if keyed else array.shape
                assert got == kept, f"reduced output {k - n} has kept dims {got}, not {kept}"
                own = iter(array.strides[1:] if keyed else array.strides)
                strides.append(tuple(0 if r else next(own) for r in kernel.reduced))
            elif k >= n:
                assert array.shape == whole, f"output {k - n} has shape {array.shape}, not {whole}"
                strides.append((*array.strides, *(0,) * (len(shape) - len(whole))))
            else:
                strides.append(geometry.aligned_strides(shape, array.shape, array.strides))
        strides += [strides[n + j] for j, o in enumerate(kernel.outputs) if o.is_arg or o.scan]
        if has_positions(kernel):
            strides.append((*_positions(whole, kernel.reduced[: len(whole)]), *(0,) * (len(shape) - len(whole))))
        return strides

    def _code(
        self,
        nest: Nest,
        total_ns: float,
        out_bytes: int = 0,
        *,
        partials: bool = False,
        neutral: bool = False,
        fetched: tuple[int, ...] = (),
        near: bool = False,
    ) -> Native:
        """The code of a nest."""
        kernel, n = self.kernel, len(self.kernel.inputs)
        classes = self._classes(nest)
        lanes = vector_lanes(kernel, self.machine.vector_bytes)
        spec = Spec(
            nest.form,
            len(nest.dims),
            classes,
            self.machine,
            stream=self._streams(nest, out_bytes),
            abreast=self._abreast(nest, total_ns),
            partials=partials or bool(nest.partials),
            ordered=not has_positions(kernel) or nest.form == "nested" or _in_order(nest.dims),
            vectors=nest.tile[0],
            high=nest.tile[1],
            varies=tuple(s != 0 for s in nest.dims[-3].strides[:n]) if nest.form in ("contract", "nested") else (),
            shallow=nest.form == "contract" and nest.dims[-2].size <= STEPS,
            even=nest.form == "nested" and nest.dims[-1].size % lanes == 0,
            rest=panels.last_vectors(nest, lanes) if nest.form == "nested" else 0,
            packed=tuple(p.operand for p in nest.packs),
            along=panels.along(kernel, nest, self._itemsizes) if self.machine.by_lane and lanes > 1 else (),
            chunked=nest.chunked,
            long=nest.dims[-1].size >= tuned().reciprocal_row and bool(divisors(kernel, classes, self.machine)),
            tree=geometry.few_lanes(kernel, nest, tree_lanes(kernel, self.machine)) if self.machine.by_lane else 0,
            fused=self._fuses(nest),
            neutral=neutral,
            kept=self._kept(nest, classes),
            fetched=fetched,
        )
        if nest.form == "columns":
            rows, columns = nest.dims[-2].size, nest.dims[-1].size
            if not self.machine.masked and is_light(kernel, classes):
                spec = replace(spec, strip=strips.rows_at_a_time(kernel, rows, columns, near, self.machine))
            if not spec.strip:
                spec = replace(spec, vectors=_panel_vectors(kernel, spec, columns))
        if nest.form == "nested":
            spec = replace(spec, guess=self._guess(nest, spec, total_ns))
        busy = nest.form in ("contract", "nested") and total_ns >= tuned().nearly_good_at_ns
        better = busy or nans.differ(kernel)
        return native((kernel, spec), lambda name: forms.build(kernel, spec, name), self.machine.cpu, better=better)

    def _fuses(self, nest: Nest) -> bool:
        """Whether products are added without being rounded: not in the sums of few, which may cancel as NumPy's do."""
        sums = any(o.reduce == "add" for o in self.kernel.outputs)
        return sums and self.machine.fuses and prod(d.size for d in nest.dims if d.reduced) >= rounding.FUSED_AT

    def _abreast(self, nest: Nest, total_ns: float) -> int:
        """Vectors at once. ARM sees fewer instructions ahead, and its work takes longer than is estimated."""
        slow = self.machine.by_lane
        if one_by_one(self.kernel, self.machine):
            return 1
        row = nest.dims[-1].size // vector_lanes(self.kernel, self.machine.vector_bytes)
        if slow and not self._heavy:
            long = (
                nest.form in ("map", "rows", "short")
                and self.kernel.loop_body is None
                and len(self.kernel.body) > LIGHT_BODY
            )
            enough = long and total_ns >= tuned().abreast_long_at_ns
            return next((k for k, vectors in tuned().abreast_long_rows if enough and row >= vectors), 1)
        if self._heavy < (1 if slow else 2) or total_ns < tuned().abreast_at_ns / (SLOWER if slow else 1):
            return 1
        single = self._heavy == 1 and not any(i.fn in COSTLY and i.fn not in MATH for i in self.kernel.body)
        most = 4 if slow and single and nest.form in ("map", "rows", "short") else 2
        enough = row // tuned().abreast_turns >= most  # what is left of a row is done one by one
        return most if self.machine.masked or enough else 1

    def _guess(self, nest: Nest, spec: Spec, total_ns: float) -> tuple[int, int] | None:
        """The tile of scores in float32, where they tell most positions."""
        _, steps, across = nest.dims
        found = argmin_pattern.score(self.kernel, spec.varies, spec.classes)
        if found is None or steps.strides[found.row] != self._itemsizes[found.row] or found.lane not in spec.packed:
            return None
        pays = argmin_f32.pays(steps.size, across.size, self.machine, total_ns)
        return argmin_f32.tile(across.size, self.machine) if pays else None

    def _kept(self, nest: Nest, classes: tuple[str, ...]) -> tuple[int, ...]:
        """The inputs whose inverses are worth keeping: short rows, and many that are divided alike."""
        if nest.form != "map" or nest.dims[-1].size > maps.MOST_KEPT:
            return ()
        found = row_divisors(self.kernel, classes, self.machine)
        alike = tuple(k for k in found if not any(d.strides[k] for d in nest.dims[:-1]))
        return alike if prod(d.size for d in nest.dims[:-1]) >= tuned().inverse_least_rows else ()

    def _far(self, nest: Nest) -> list[int]:
        """The inputs that the caches do not hold."""
        sizes = enumerate(self._itemsizes[: len(self.kernel.inputs)])
        return [k for k, w in sizes if prefetch.bytes_of(nest, k, w) >= tuned().fetch_at_bytes]

    def _fetched(self, nest: Nest, inputs: Sequence[int]) -> tuple[int, ...]:
        """Those of some inputs that are prefetched: light bodies wait for memory."""
        if not is_light(self.kernel, self._classes(nest)):
            return ()
        found = prefetch.streams(nest, self._itemsizes, inputs)
        read = sum(prefetch.bytes_of(nest, k, self._itemsizes[k]) for k in found)
        many = len(found) >= tuned().fetch_helped_streams and read >= tuned().fetch_helped_bytes
        return found if many or not goes_once(self.kernel, self.machine) or not self.machine.follows else ()

    def _streams(self, nest: Nest, out_bytes: int) -> bool:
        """Whether outputs of so many bytes are stored past the caches."""
        if nest.form == "nested":
            return out_bytes >= tuned().stream_at_bytes and self._streamable and self._full_tiles(nest)
        return (
            (nest.form == "map" or (nest.form == "scan" and self._full_lines))
            and out_bytes >= tuned().stream_at_bytes
            and self._streamable
            and all(c == UNIT for c in self._classes(nest)[len(self.kernel.inputs) :])
            and nest.dims[-1].size >= tuned().stream_row
        )

    def _full_tiles(self, nest: Nest) -> bool:
        """Whether the one output of a nested kernel is stored, without gaps, and rows of a tile fill cache lines."""
        n, (rows, _, across) = len(self.kernel.inputs), nest.dims
        row_bytes = across.size * self._itemsizes[n]
        plain = len(self.kernel.outputs) == 1 and self.kernel.outputs[0].stored and self._full_lines
        return plain and rows.strides[n] == row_bytes and nest.tile[1] * row_bytes % STREAM_ALIGN == 0

    def _dims(self, shape: tuple[int, ...], strides: Sequence[geometry.Strides]) -> list[geometry.Dim]:
        arrays = len(self.kernel.inputs) + len(self.kernel.outputs)
        return geometry.simplified(shape, self.kernel.reduced, strides, arrays)

    def _nest(
        self,
        shape: tuple[int, ...],
        strides: Sequence[geometry.Strides],
        buckets: Sequence[int],
        *,
        short_chunks: bool = False,
    ) -> Nest:
        """The loops for a non-empty space (`short_chunks`: of a sum of a row, however long it is)."""
        kernel = self.kernel
        sizes = (*self._itemsizes, 1) if has_positions(kernel) else self._itemsizes
        if kernel.inner is not None:
            rows, across, steps = (
                Dim(n, r, tuple(s[d] for s in strides))
                for d, (n, r) in enumerate(zip(shape, kernel.reduced, strict=True))
            )
            lanes = vector_lanes(kernel, self.machine.vector_bytes)
            tile = panels.nested_tile(kernel, steps.size, across.size, self.machine, lanes)
            assert tile is not None, "whoever nests kernels sees that the lanes fit"
            return panels.nested(kernel, (rows, across, steps), sizes, tile, lanes)
        dims = self._dims(shape, strides)
        if not any(o.reduce for o in kernel.outputs):
            return geometry.map_nest(dims, sizes)
        if any(o.scan for o in kernel.outputs):
            return geometry.scan_nest(kernel, dims, sizes, None)
        if buckets:
            return bucket_chunks.bucket_nest(kernel, dims, sizes, buckets)
        lanes = vector_lanes(kernel, self.machine.vector_bytes)
        found = panels.contraction(kernel, dims, sizes, self.machine, lanes)
        if found is not None:
            return found
        dims, packs = panels.turned(kernel, dims, sizes) if dims else (dims, ())
        lanes = tree_lanes(kernel, self.machine)
        return replace(geometry.reduce_nest(kernel, dims, sizes, lanes, short_chunks=short_chunks), packs=packs)

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

    def _with_combines(self, launch: Launch, nest: Nest, operands: Sequence[ND]) -> Launch:
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
            whole = struct.pack("<4q", items, count, columns, (count - 1).bit_length())
            code, results = _combiner(reducer, self.machine), prod(sizes) // items
            natural = strides == steps and operands[n + j].flags.c_contiguous
            cuts = range(0, results, tuned().combine_columns) if natural and items == 1 else ()
            ends = [(low, min(low + tuned().combine_columns, results)) for low in cuts]
            parts = tuple((*end, whole + struct.pack("<2q", *end)) for end in ends) if len(ends) > 1 else ()
            geom = whole + struct.pack("<2q", 0, columns)
            combines.append(Combine(j, code, arrays, geom, results, sizes, strides, natural, parts))
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


def _moved_bytes(operands: Sequence[ND]) -> int:
    """Bytes that operands show, what several windows show once."""
    spans = sorted((*byte_bounds(a), _shown_bytes(a)) for a in operands)
    total, start, stop, shown = 0, 0, 0, 0
    for low, high, own in spans:
        if low >= stop:
            total += min(shown, stop - start)
            start, shown = low, 0
        stop, shown = max(stop, high), shown + own
    return total + min(shown, stop - start)


def _shown_bytes(array: ND) -> int:
    """Bytes of the elements of an array, those that are broadcast once."""
    return int(array.itemsize * prod([n for n, s in zip(array.shape, array.strides, strict=True) if s]))


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
    return max(1, min(registers, -(-columns // vector_lanes(kernel, spec.machine.vector_bytes))))


def _combiner(reducer: Reducer, machine: VectorUnit) -> Native:
    lanes = max(1, machine.vector_bytes // max(np.dtype(t).itemsize for t in reducer.dtypes))
    return native(("combine", reducer, lanes), lambda name: combine.build(reducer, lanes, name), machine.cpu)
