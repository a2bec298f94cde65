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
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from tilewise.kernel.loops import Instr, Kernel, const_value
from tilewise.target.llvm import outline, scalar
from tilewise.target.llvm.inverse import Inverse, divided, inverse
from tilewise.target.llvm.memory import PART, block, from_memory, load, memory_type, store, suffix, to_memory
from tilewise.target.llvm.scalar import IR_TYPE
from tilewise.target.llvm.text import SUFFIX, Function, Val, iota, pair, vtype

UNIT, ZERO, STRIDED = "unit", "zero", "strided"  # classes of an operand's innermost stride
# Functions that cost more than a few instructions: such bodies are not unrolled.
HEAVY = frozenset([*scalar.MATH, "floor_divide", "remainder", "fmod", "gcd", "lcm"])
LIGHT_BODY = 24  # instructions; larger bodies keep the units busy without unrolling
MAX_LANES = 64
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


@dataclass(frozen=True)
class Machine:
    """The vectors to emit: their bytes (0: scalar code), whether loads and stores can be masked, registers for them."""

    vector_bytes: int
    masked: bool
    registers: int
    follows: bool  # whether it fetches what is read in order soon enough by itself
    by_lane: bool  # whether products can take one lane of a vector for all
    cpu: str = ""  # LLVM's name of the CPU whose instructions may be used; "": this one

    @property
    def fuses(self) -> bool:
        """Whether it multiplies and adds in one instruction (a CPU with SSE alone does not)."""
        return self.by_lane or self.vector_bytes >= 32


@dataclass(frozen=True)
class Spec:
    """What code is specialised on: the loop form, the number of dims, the class of each operand's innermost stride."""

    form: str  # a name in forms.FORMS
    rank: int
    classes: tuple[str, ...]
    machine: Machine
    stream: bool = False  # "map", "scan" and "nested": outputs too large for the caches are stored around them
    twin: bool = False  # two vectors at once: hides the latency of long bodies, and doubles the time to compile them
    partials: bool = False  # reduced outputs are partial results, to be combined
    ordered: bool = True  # every accumulator meets its points in the order of their positions
    vectors: int = 1  # "columns", "contract" and "nested": vectors of a panel
    high: int = 1  # "contract" and "nested": points of the unrolled dim
    strip: int = 0  # "columns": rows at a time where sums lie in memory (strips.py); 0 where they are in registers
    varies: tuple[bool, ...] = ()  # "contract" and "nested": which operands change along the unrolled dim
    packed: tuple[int, ...] = ()  # "contract" and "nested": inputs that lie as panels
    along: tuple[int, ...] = ()  # "contract" and "nested": inputs of which several steps are read at once
    shallow: bool = False  # "contract": all steps are one block
    even: bool = False  # "nested": the lanes fill the vectors
    rest: int = 0  # "nested": vectors of the last panel; 0 where there is one panel
    chunked: int = 0  # "buckets": the dim whose points chunks share
    long: bool = False  # rows have many elements: what is made once per row may cost something
    fetched: tuple[int, ...] = ()  # "rows" and "short": inputs that are fetched ahead, if at all (fetching.py)
    tree: int = 0  # "rows" and "short": lanes of an accumulator, if fewer than usual
    neutral: bool = False  # reductions start from what changes no value (NumPy's sums start from 0.0: -0.0 is lost)


Turns = Callable[["Frame", list[Val], int, Val | None], None]  # adds the values of what runs for many turns


class Frame:
    """One function under construction for a kernel and a spec."""

    def __init__(self, kernel: Kernel, spec: Spec, name: str, turns: Turns) -> None:
        self.kernel, self.spec = kernel, spec
        self._turns = turns
        self.fn = Function(name, "ptr noalias %objs, ptr noalias %geom")
        self.fn.avx512 = spec.machine.masked
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
        self._divisors = divisors(kernel, self._uniform) if spec.long and spec.machine.masked else frozenset()
        self._inverses: dict[str, Inverse] = {}  # by the name of the divisor
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
        lanes = vector_lanes(self.kernel, self.spec.machine.vector_bytes)
        return min(MAX_LANES, 2 * lanes if self.spec.twin else lanes)

    @property
    def masked(self) -> bool:
        """Whether the end of a row is a masked vector (else a scalar loop)."""
        return self.spec.machine.masked and self.lanes > 1

    @cached_property
    def tree_lanes(self) -> int:
        """Lanes of a row accumulator: a property of the kernel, so that machines of a kind sum in the same order."""
        return self.spec.tree or self.lanes_of(self.kernel)

    @cached_property
    def scan_lanes(self) -> int:
        """Lanes that are scanned at once, on every machine."""
        return min(MAX_LANES, 64 // widest(self.kernel))

    @staticmethod
    def lanes_of(kernel: Kernel) -> int:
        """The tree lanes of a kernel."""
        return min(MAX_LANES, 4 * (64 // widest(kernel)))

    @cached_property
    def light(self) -> bool:
        """Whether the body is small enough to be worth unrolling."""
        turning = self.kernel.turning is not None and self.spec.form == "map"
        return turning or is_light(self.kernel, self.spec.classes)

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
        part = self.kernel.turning
        first = -1 if part is None else self.n_inputs + len(self._params) + part.start
        for v in range(len(self.kernel.dtypes)):
            if v == first:
                self._turns(self, known, lanes, mask)
            elif v < len(known):
                continue  # of the part that runs for many turns
            elif given is not None and v in given:
                known.append(given[v])
            elif v in fixed:
                known.append(fixed[v].splat(lanes))
            elif v < self.n_inputs:
                known.append(self.read(v, self.address(v, pointers, index), lanes, mask))
            elif self.is_constant(v):
                known.append(self.constant(v, lanes))
            elif self.instr(v).fn == "divide" and (by := self.instr(v).args[1]) in self._divisors and by in fixed:
                known.append(divided(known[self.instr(v).args[0]], self._inverses[fixed[by].name]))
            else:
                known.append(self.evaluate(v, known.__getitem__, lanes))
        return known

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

    def instr(self, v: int) -> Instr:
        """The instruction that makes a value."""
        return self.kernel.body[v - self.n_inputs - len(self._params)]


def is_light(kernel: Kernel, classes: tuple[str, ...]) -> bool:
    """Whether a body is small, without gathers and without functions that cost more than a few instructions."""
    body = kernel.body
    return len(body) <= LIGHT_BODY and STRIDED not in classes and not any(i.fn in HEAVY for i in body)


def vector_lanes(kernel: Kernel, vector_bytes: int) -> int:
    """Lanes of the widest dtype in one vector."""
    return min(MAX_LANES, max(1, vector_bytes // widest(kernel)))


def beside(kernel: Kernel) -> tuple[str, ...]:
    """The dtypes of the arrays beside positions and scans, in the order of the outputs."""
    dtypes = kernel.dtypes
    return tuple(dtypes[o.value] for o in kernel.outputs if o.is_arg or o.scan)


def has_positions(kernel: Kernel) -> bool:
    """Whether a kernel looks for positions."""
    return any(o.is_arg for o in kernel.outputs)


def is_constant(kernel: Kernel, v: int) -> bool:
    """Whether a value that is no input is a param or a number."""
    at = v - len(kernel.inputs) - len(kernel.params)
    return at < 0 or kernel.body[at].fn.startswith("const:")


def uniform_values(kernel: Kernel, classes: tuple[str, ...]) -> tuple[int, ...]:
    """The values that do not change along the innermost dim (constants aside), in order."""
    n, found = len(kernel.inputs), []
    part = kernel.turning or range(0)
    for v in range(len(kernel.dtypes)):
        if v < n:
            same = classes[v] == ZERO
        elif v - n - len(kernel.params) in part or is_constant(kernel, v):
            continue
        else:
            args = kernel.body[v - n - len(kernel.params)].args
            same = all(a in found or (a >= n and is_constant(kernel, a)) for a in args)
        if same:
            found.append(v)
    return tuple(found)


def divisors(kernel: Kernel, uniform: tuple[int, ...]) -> frozenset[int]:
    """The values that do not change along the innermost dim, by which others that do are divided."""
    first = len(kernel.inputs) + len(kernel.params)
    found = [
        i.args[1]
        for v, i in enumerate(kernel.body, first)
        if i.fn == "divide" and i.dtype in ("float64", "float32") and v not in uniform and i.args[1] in uniform
    ]
    return frozenset(found)


def widest(kernel: Kernel) -> int:
    return max((np.dtype(PART.get(t, t)).itemsize for t in kernel.dtypes), default=1)
