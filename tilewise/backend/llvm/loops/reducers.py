"""Accumulators. In: a kernel's reduced outputs. Out: IR that starts, feeds and merges their states.

A reduction by an operation has one accumulator; a position has two, the best value so far and where it is. States are
flat lists of `Val`, so that loops can carry them. Merging is the same whatever the order, but for rounding.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.text import Function, Val, fma
from tilewise.backend.llvm.loops.sums import State
from tilewise.backend.llvm.math.scalar import IR_TYPE, RULES, compare, is_float
from tilewise.ir.reductions import by_name
from tilewise.kernel.loops import ARGS
from tilewise.records import dataclass


def first_value(op: str, dtype: str, keep_sign: bool = False) -> complex | float | int:
    """What an accumulator starts from: the identity. With `keep_sign`, not even the sign of a zero is changed by it."""
    if keep_sign and op == "add" and is_float(dtype):
        return -0.0
    number: complex | float | int = by_name(ARGS.get(op, op)).identity(dtype).item()
    return int(number) if isinstance(number, bool) else number


@dataclass(frozen=True)
class Reducer:
    """One reduction of values of one dtype."""

    op: str
    dtype: str
    neutral: bool = False  # start sums of floats from -0.0

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtypes of the state."""
        return (self.dtype, "int64") if self.op in ARGS else (self.dtype,)

    def start(self, fn: Function, lanes: int) -> State:
        """The state before the first value. A position of 0 is right even if no value is better than the start."""
        number = first_value(self.op, self.dtype, self.neutral)
        value = Val(fn, "", IR_TYPE[self.dtype], lanes).const(number)
        return [value, value.const(0, "i64")] if self.op in ARGS else [value]

    def step(self, state: State, value: Val, position: Val | None, *, ordered: bool) -> State:
        """The state after one more value (ordered: at a later position than all before)."""
        if self.op not in ARGS:
            return [RULES[self.op](self.dtype, state[0], value)]
        assert position is not None
        if not ordered:
            return self.merge(state, [value, position])
        better = self._better(value, state[0])
        return [better.select(value, state[0]), better.select(position, state[1])]

    def merge(self, a: State, b: State) -> State:
        """The state of two sets of values."""
        if self.op not in ARGS:
            return [RULES[self.op](self.dtype, a[0], b[0])]
        same = a[0].cmp("oeq" if is_float(self.dtype) else "eq", b[0])
        if is_float(self.dtype):
            same = same | (a[0].cmp("uno", a[0]) & b[0].cmp("uno", b[0]))
        wins = self._better(b[0], a[0]) | (same & b[1].cmp("slt", a[1]))
        return [wins.select(b[0], a[0]), wins.select(b[1], a[1])]

    def _better(self, new: Val, old: Val) -> Val:
        """Whether a value replaces one at an earlier position: a NaN does, unless there is one already."""
        less = self.op == "argmin"
        if not is_float(self.dtype):
            return compare("less" if less else "greater", self.dtype, new, old)
        return new.cmp("ult" if less else "ugt", old) & old.cmp("ord", old)


@dataclass(frozen=True)
class Part:
    """One accumulator: its output, its dtype, the operand it is stored to (none: only needed while accumulating)."""

    output: int
    dtype: str
    operand: int | None


class Accumulators:
    """All reduced outputs of a kernel together."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        kernel = frame.kernel
        self.reducers = {
            j: Reducer(o.reduce, kernel.dtypes[o.value], frame.spec.neutral)
            for j, o in enumerate(kernel.outputs)
            if o.reduce is not None and not o.scan and o.key is None
        }
        self.parts: list[Part] = []
        args = 0
        for j, reducer in self.reducers.items():
            out = frame.n_inputs + j
            if reducer.op in ARGS:
                value = frame.n_inputs + len(kernel.outputs) + args
                self.parts.append(Part(j, reducer.dtype, value if frame.spec.partials else None))
                args += 1
            self.parts.append(Part(j, frame.dtypes[out], out))
        self._positions = args > 0
        self._factors = self._found_factors()

    def _found_factors(self) -> dict[int, tuple[int, int]]:
        """The factors of what is summed, where products need not be rounded before the sum.

        A sum has no bits to agree with, and without that rounding its error is smaller.
        """
        frame, found = self.frame, {}
        if frame.spec.fused and frame.kernel.loop_body is None:
            for j, reducer in self.reducers.items():
                factors = frame.factors(frame.kernel.outputs[j].value)
                if reducer.op == "add" and reducer.dtype in ("float32", "float64") and factors is not None:
                    found[j] = factors
        return found

    def start(self, lanes: int) -> State:
        """Every state before the first value."""
        return [v for r in self.reducers.values() for v in r.start(self.frame.fn, lanes)]

    def add(self, state: State, values: list[Val], at: list[str], column: str, mask: Val | None) -> State:
        """Every state after the lanes at a column (`values` are all values of the kernel there)."""
        lanes = state[0].lanes
        position = self.frame.position(at, column, lanes) if self._positions else None
        result: State = []
        for j, reducer in self.reducers.items():
            if j in self._factors:
                before, (a, b) = state[len(result)], self._factors[j]
                after = fma(values[a], values[b], before)
                result.append(after if mask is None else mask.select(after, before))
                continue
            value = values[self.frame.kernel.outputs[j].value]
            if mask is not None:
                value = mask.select(value, reducer.start(self.frame.fn, lanes)[0])
            mine = state[len(result) : len(result) + len(reducer.dtypes)]
            result += reducer.step(mine, value, position, ordered=self.frame.spec.ordered)
        return result

    def merge(self, a: State, b: State) -> State:
        """The states of two sets of points."""
        result: State = []
        for reducer in self.reducers.values():
            own = slice(len(result), len(result) + len(reducer.dtypes))
            result += reducer.merge(a[own], b[own])
        return result

    def places(self, pointers: list[str], dim: int, index: str) -> list[str]:
        """Where each accumulator's result for `index` along a dim goes ("": nowhere)."""
        fn, found = self.frame.fn, []
        for part in self.parts:
            if part.operand is None:
                found.append("")
                continue
            offset = fn.let(f"mul i64 {index}, {self.frame.strides[part.operand][dim]}")
            found.append(fn.let(f"getelementptr i8, ptr {pointers[part.operand]}, i64 {offset}"))
        return found
