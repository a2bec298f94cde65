"""What every loop form shares: arguments, loads and stores, the body. In: a kernel and a `Spec`. Out: IR for one point.

A native function takes two blocks of 8-byte words: `objs` (addresses of the operand ndarrays, then the params) and
`geom` (byte offset per operand, sizes per dim, byte strides per operand and dim, then what the form adds). Operands are
the inputs, the outputs, an array beside every position ("argmin": its value) and every scan (what came before a chunk),
and last, with positions, the position itself: an operand without memory, whose "address" is the row-major number of a
point in the reduced dims.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from functools import cached_property
from itertools import accumulate

import numpy as np

from tilewise.backend.llvm.emit import outline
from tilewise.backend.llvm.emit.bodies import (
    MAX_LANES,
    beside,
    divisors,
    has_positions,
    is_constant,
    is_light,
    rare_arms,
    rooted,
    tree_lanes,
    uniform_values,
    vector_lanes,
    widest,
)
from tilewise.backend.llvm.emit.memory import PART, block, from_memory, load, memory_type, store, suffix, to_memory
from tilewise.backend.llvm.emit.spec import STRIDED, UNIT, ZERO, Spec
from tilewise.backend.llvm.emit.text import SUFFIX, Function, Val, anywhere, iota, lowest, pair, vtype
from tilewise.backend.llvm.math import scalar
from tilewise.backend.llvm.math.inverse import Inverse, Kept, divided, inverse
from tilewise.backend.llvm.math.scalar import IR_TYPE
from tilewise.backend.llvm.math.slow_path import rarely
from tilewise.kernel.loops import Instr, Kernel, const_value

PARAM_WORDS = {"complex128": 2}  # of a param; one for all others
STREAM_ALIGN = 64  # of a vector stored past the caches


def _data_offset() -> int:
    """Where an ndarray object keeps its data pointer, found by looking (reading it costs 1.5 us from Python)."""
    samples = [np.empty(n) for n in (1, 7, 50)]
    for offset in range(8, 96, 8):
        if all(ctypes.c_size_t.from_address(id(a) + offset).value == a.ctypes.data for a in samples):
            return offset
    raise AssertionError("ndarray objects do not hold their data pointer where expected")


DATA_OFFSET = _data_offset()


LoopEmitter = Callable[["Frame", list[Val], int, Val | None], None]  # adds the values of what runs for many iterations


class Frame:
    """One function under construction for a kernel and a spec."""

    def __init__(self, kernel: Kernel, spec: Spec, name: str, iterations: LoopEmitter) -> None:
        self.kernel, self.spec = kernel, spec
        self._iterations = iterations
        self.fn = Function(name, "ptr noalias %objs, ptr noalias %geom")
        self.fn.avx512 = spec.machine.masked
        self.fn.pooling = spec.machine.by_lane
        self.fn.rooted = rooted(kernel, spec.classes) if spec.machine.by_lane else 0
        self.dtypes = kernel.inputs + kernel.out_dtypes + beside(kernel)
        self.n_inputs = len(kernel.inputs)
        arrays, rank = len(self.dtypes), spec.rank
        self.bases = [self._base(k) for k in range(arrays)]
        if has_positions(kernel):
            self.bases.append(self.fn.hoist(f"inttoptr i64 {self.geom(arrays)} to ptr"))
        count = len(self.bases)
        self.sizes = [self.geom(count + d) for d in range(rank)]
        self.strides = [[self.geom(count + rank + k * rank + d) for d in range(rank)] for k in range(count)]
        self.extra_at = count + rank + count * rank
        words = [0, *accumulate(PARAM_WORDS.get(t, 1) for t in kernel.params)]
        self._params = [self._param(arrays + word, t) for word, t in zip(words, kernel.params, strict=False)]
        self._tables_at = arrays + words[-1]
        self._hoisted: dict[tuple[str, int], Val] = {}
        self._uniform = uniform_values(kernel, spec.classes)
        self._divisors = divisors(kernel, spec.classes, spec.machine) if spec.long else frozenset()
        self._inverses: dict[str, Inverse] = {}  # by the name of the divisor
        self.kept: dict[int, Kept] = {}  # of inputs
        self._arms = rare_arms(kernel)
        self._rare = frozenset(v for arm in self._arms.values() for v in arm)
        self._often = outline.often(i.fn for i in kernel.body)

    # Arguments

    def geom(self, slot: int) -> str:
        """Word `slot` of geom."""
        at = self.fn.hoist(f"getelementptr i64, ptr %geom, i64 {slot}")
        return self.fn.hoist(f"load i64, ptr {at}, align 8")

    def extra(self, index: int) -> str:
        """A word the loop form added to geom."""
        return self.geom(self.extra_at + index)

    def _base(self, k: int) -> str:
        fn = self.fn
        at = fn.hoist(f"getelementptr i64, ptr %objs, i64 {k}")
        obj = fn.hoist(f"load ptr, ptr {at}, align 8")
        field = fn.hoist(f"getelementptr i8, ptr {obj}, i64 {DATA_OFFSET}")
        data = fn.hoist(f"load ptr, ptr {field}, align 8")
        return fn.hoist(f"getelementptr i8, ptr {data}, i64 {self.geom(k)}")

    def _param(self, slot: int, dtype: str) -> Val:
        at = self.fn.hoist(f"getelementptr i64, ptr %objs, i64 {slot}")
        name = self.fn.hoist(f"load {block(dtype, 1)}, ptr {at}, align 1")
        with self.fn.in_entry():
            return from_memory(self.fn, name, dtype, 1)

    def table(self, j: int, index: str) -> Val:
        """A number of a table."""
        dtype = self.kernel.tables[j]
        at = self.fn.hoist(f"getelementptr i64, ptr %objs, i64 {self._tables_at + j}")
        start = self.fn.hoist(f"load ptr, ptr {at}, align 8")
        place = self.fn.let(f"getelementptr {memory_type(dtype)}, ptr {start}, i64 {index}")
        return load(self.fn, place, dtype, 1)

    def hoisted(self, key: str, scalar_value: Val, lanes: int) -> Val:
        """A scalar of the entry block in every lane, made once."""
        found = self._hoisted.get((key, lanes))
        if found is None:
            found = self._hoisted[key, lanes] = scalar_value.splat(lanes, hoist=True)
        return found

    # How wide

    @cached_property
    def lanes(self) -> int:
        """Lanes of one machine vector of the widest dtype."""
        if widest(self.kernel) < 4 and STRIDED in self.spec.classes and self.spec.form != "contract":
            return 1  # no machine gathers bytes; 64 guarded loads are slower than a plain loop
        lanes = self.spec.abreast * vector_lanes(self.kernel, self.spec.machine.vector_bytes)
        return min(lanes, self.tree_lanes if self.spec.form in ("rows", "short") else MAX_LANES)

    @property
    def masked(self) -> bool:
        """Whether the end of a row is a masked vector (else a scalar loop)."""
        return self.spec.machine.masked and self.lanes > 1

    @cached_property
    def tree_lanes(self) -> int:
        """Lanes of a row accumulator: a property of the kernel, so that machines of a kind sum in the same order."""
        return self.spec.tree or tree_lanes(self.kernel, self.spec.machine)

    @cached_property
    def scan_lanes(self) -> int:
        """Lanes that are scanned at once, on every machine."""
        return min(MAX_LANES, 64 // widest(self.kernel))

    @cached_property
    def light(self) -> bool:
        """Whether the body is small enough to be worth unrolling."""
        loops = self.kernel.loop_body is not None and self.spec.form == "map"
        return loops or is_light(self.kernel, self.spec.classes)

    # Memory

    def row_pointers(self, pointers: list[str], dim: int, index: str) -> list[str]:
        """Every operand's pointer, moved to `index` along a dim."""
        moved = []
        for k, p in enumerate(pointers):
            offset = self.fn.let(f"mul i64 {index}, {self.strides[k][dim]}")
            moved.append(self.fn.let(f"getelementptr i8, ptr {p}, i64 {offset}"))
        return moved

    def uniform(self, pointers: list[str]) -> dict[int, Val]:
        """The values that do not change along the innermost dim, by number; made once per row."""
        found: dict[int, Val] = {}
        for v in self._uniform:
            if v < self.n_inputs:
                found[v] = load(self.fn, pointers[v], self.dtypes[v], 1)
            else:
                found[v] = self.evaluate(v, lambda a: self._one(found, a), 1)
            if v in self._divisors:
                self._inverses[found[v].name] = inverse(found[v])
        return found

    def _inverse(self, v: int, known: list[Val], fixed: dict[int, Val], index: str, mask: Val | None) -> Inverse | None:
        """The inverse of what a value is a quotient by, if there is one."""
        by = self.instr(v).args[1]
        if by in self.kept:
            s, dtype, kept = known[by], self.dtypes[by], self.kept[by]
            r, rest = (
                load(self.fn, self.fn.let(f"getelementptr {s.ty}, ptr {p}, i64 {index}"), dtype, s.lanes, mask)
                for p in (kept.reciprocals, kept.rests)
            )
            return Inverse(s, r, rest, kept.closely)
        if by not in self._divisors or (by not in fixed and not self.is_constant(by)):
            return None
        with self.fn.in_entry():
            one = self._one(fixed, by)
            if one.name not in self._inverses:
                self._inverses[one.name] = inverse(one)
        return self._inverses[one.name]

    def _one(self, found: dict[int, Val], v: int) -> Val:
        """A value that is the same for all lanes, in one lane."""
        return found[v] if v in found else self.constant(v, 1)

    def constant(self, v: int, lanes: int) -> Val:
        """A param or a number of the kernel, in every lane."""
        param = v - self.n_inputs
        if param < len(self._params):
            return self.hoisted(f"param{param}", self._params[param], lanes)
        instr = self.kernel.body[param - len(self._params)]
        return Val(self.fn, "", IR_TYPE[instr.dtype], lanes).const(const_value(instr.fn))

    def position(self, pointers: list[str], column: str, lanes: int) -> Val:
        """The positions of lanes in the reduced dims."""
        fn, k = self.fn, len(self.dtypes)
        start = fn.let(f"ptrtoint ptr {pointers[k]} to i64")
        offset = fn.let(f"mul i64 {column}, {self.strides[k][-1]}")
        first = Val(fn, fn.let(f"add i64 {start}, {offset}"), "i64", 1).splat(lanes)
        return first if lanes == 1 else first + self.lane_offsets(k, lanes)

    def address(self, k: int, pointers: list[str], index: str) -> str:
        """Where operand k is at `index` of the innermost dim."""
        fn, kind = self.fn, self.spec.classes[k]
        if kind == ZERO:
            return pointers[k]
        if kind == UNIT:
            return fn.let(f"getelementptr {memory_type(self.dtypes[k])}, ptr {pointers[k]}, i64 {index}")
        offset = fn.let(f"mul i64 {index}, {self.strides[k][-1]}")
        return fn.let(f"getelementptr i8, ptr {pointers[k]}, i64 {offset}")

    def lane_addresses(self, k: int, at: str, lanes: int) -> str:
        """A vector of pointers to the strided elements that start at `at`."""
        return self.fn.let(f"getelementptr i8, ptr {at}, {self.lane_offsets(k, lanes).text}")

    def lane_offsets(self, k: int, lanes: int) -> Val:
        """0, 1, 2, … times operand k's innermost stride."""
        key = f"iota{k}"
        if (key, lanes) not in self._hoisted:
            stride = Val(self.fn, self.strides[k][-1], "i64", 1).splat(lanes, hoist=True)
            name = self.fn.hoist(f"mul {stride.text}, {iota(lanes)}")
            self._hoisted[key, lanes] = Val(self.fn, name, "i64", lanes)
        return self._hoisted[key, lanes]

    def read(self, k: int, at: str, lanes: int, mask: Val | None) -> Val:
        """Operand k's lanes at an address."""
        dtype = self.dtypes[k]
        if self.spec.classes[k] != STRIDED or lanes == 1:
            return load(self.fn, at, dtype, lanes, mask)
        where = self.lane_addresses(k, at, lanes)
        if dtype in PART:
            return pair(*(self._gather(w, PART[dtype], lanes, mask) for w in self._both(where, dtype, lanes)))
        return from_memory(self.fn, self._gather(where, dtype, lanes, mask).name, dtype, lanes)

    def _gather(self, where: str, dtype: str, lanes: int, mask: Val | None) -> Val:
        """The elements at a vector of pointers, as they are in memory."""
        element = memory_type(dtype)
        vec = vtype(element, lanes)
        name = f"llvm.masked.gather.v{lanes}{suffix(dtype)}.v{lanes}p0"
        self.fn.declares.add(f"declare {vec} @{name}(<{lanes} x ptr>, i32, <{lanes} x i1>, {vec})")
        on = mask.text if mask else f"<{lanes} x i1> splat (i1 true)"
        got = self.fn.let(f"call {vec} @{name}(<{lanes} x ptr> {where}, i32 1, {on}, {vec} zeroinitializer)")
        return Val(self.fn, got, element, lanes)

    def _scatter(self, where: str, value: Val, mask: Val | None) -> None:
        """Store lanes at a vector of pointers."""
        lanes, vec = value.lanes, vtype(value.ty, value.lanes)
        name = f"llvm.masked.scatter.v{lanes}{SUFFIX.get(value.ty, value.ty)}.v{lanes}p0"
        self.fn.declares.add(f"declare void @{name}({vec}, <{lanes} x ptr>, i32, <{lanes} x i1>)")
        on = mask.text if mask else f"<{lanes} x i1> splat (i1 true)"
        self.fn.do(f"call void @{name}({value.text}, <{lanes} x ptr> {where}, i32 1, {on})")

    def _both(self, where: str, dtype: str, lanes: int) -> tuple[str, str]:
        """Pointers to the real and to the imaginary parts."""
        step = np.dtype(dtype).itemsize // 2
        return where, self.fn.let(f"getelementptr i8, <{lanes} x ptr> {where}, i64 {step}")

    def write(self, k: int, at: str, value: Val, mask: Val | None, *, stream: bool = False) -> None:
        """Store operand k's lanes at an address (stream: past the caches, the address is aligned)."""
        dtype, lanes = self.dtypes[k], value.lanes
        if stream:
            self.fn.do(f"store {to_memory(value, dtype).text}, ptr {at}, align {STREAM_ALIGN}, !nontemporal !0")
            return
        if self.spec.classes[k] != STRIDED or lanes == 1:
            store(self.fn, at, value, dtype, mask)
            return
        where = self.lane_addresses(k, at, lanes)
        if dtype in PART:
            for pointers, part in zip(self._both(where, dtype, lanes), value.parts, strict=True):
                self._scatter(pointers, part, mask)
        else:
            self._scatter(where, to_memory(value, dtype), mask)

    # The body

    def values(
        self,
        pointers: list[str],
        index: str,
        fixed: dict[int, Val],
        lanes: int,
        mask: Val | None,
        given: Mapping[int, Val] | None = None,
    ) -> list[Val]:
        """Every value of the kernel at lanes index … index + lanes of a row (`fixed` and `given` are known)."""
        known: list[Val] = []
        part = self.kernel.loop_body
        first = -1 if part is None else self.n_inputs + len(self._params) + part.start
        for v in range(len(self.kernel.dtypes)):
            if v == first:
                self._iterations(self, known, lanes, mask)
            elif v < len(known):
                continue  # of the part that runs for many iterations
            elif given is not None and v in given:
                known.append(given[v])
            elif v in fixed:
                known.append(fixed[v].splat(lanes))
            elif v < self.n_inputs:
                known.append(self.read(v, self.address(v, pointers, index), lanes, mask))
            elif self.is_constant(v):
                known.append(self.constant(v, lanes))
            elif v in self._rare:
                known.append(Val(self.fn, "poison", IR_TYPE[self.kernel.dtypes[v]], lanes))
            elif v in self._arms:
                known.append(self._rarely(v, known, lanes))
            elif self.instr(v).fn == "divide" and (by := self._inverse(v, known, fixed, index, mask)) is not None:
                known.append(divided(known[self.instr(v).args[0]], by))
            else:
                known.append(self.evaluate(v, known.__getitem__, lanes))
        return known

    def _rarely(self, v: int, known: list[Val], lanes: int) -> Val:
        """A "rarely": what only its rare points need is jumped over, if there are none."""
        condition, value, usual = self.instr(v).args

        def otherwise() -> Val:
            made: dict[int, Val] = {}
            for a in self._arms[v]:
                made[a] = self.evaluate(a, lambda b: made[b] if b in made else known[b], lanes)
            return known[condition].select(made[value], known[usual])

        return rarely(self._anywhere(condition, known), known[usual], otherwise)

    def _anywhere(self, v: int, known: list[Val]) -> Val:
        """Whether a condition holds in any lane. ARM has no test of a mask: where it can, the least number tells."""
        first = self.n_inputs + len(self._params)
        if not self.spec.machine.by_lane or v < first or self.instr(v).fn != "less_equal":
            return anywhere(known[v])
        number, limit = self.instr(v).args
        if not self.kernel.dtypes[number].startswith("uint") or not self.is_constant(limit):
            return anywhere(known[v])
        return lowest(known[number]).cmp("ule", self.constant(limit, 1))

    def is_uniform(self, v: int) -> bool:
        """Whether a value does not change along the innermost dim."""
        return v in self._uniform or self.is_constant(v)

    def is_constant(self, v: int) -> bool:
        """Whether a value is a param or a number."""
        return v >= self.n_inputs and is_constant(self.kernel, v)

    def evaluate(self, v: int, known: Callable[[int], Val], lanes: int) -> Val:
        """The value of an instruction."""
        instr = self.instr(v)
        types = tuple(self.kernel.dtypes[a] for a in instr.args)
        operands = [known(a) for a in instr.args]
        result = scalar.apply(instr.fn, types, instr.dtype, operands, often=instr.fn in self._often)
        assert result.lanes == lanes
        return result

    def factors(self, v: int) -> tuple[int, int] | None:
        """The factors, if a value is a product."""
        if v < self.n_inputs or self.is_constant(v):
            return None
        instr = self.instr(v)
        if instr.fn == "multiply":
            return instr.args[0], instr.args[1]
        return (instr.args[0], instr.args[0]) if instr.fn == "square" else None

    def instr(self, v: int) -> Instr:
        """The instruction that makes a value."""
        return self.kernel.body[v - self.n_inputs - len(self._params)]
