"""What positions are looked for by. In: a kernel with sums of products inside. Out: a `Score`, where only order counts.

A score is a sum of products (or of squared differences) of a row with a lane, times a number, plus terms of the row and
terms of the lane. The terms of the row change no position; those of the lane are few, and known before all rows.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.bodies import is_constant
from tilewise.backend.llvm.emit.spec import ZERO
from tilewise.kernel.loops import Kernel, const_value
from tilewise.records import dataclass

LEAST, MOST = 2.0**-64, 2.0**64  # factors whose products neither overflow nor vanish before the sum does
FACTORS = 4  # one after the other, at most

Term = tuple[int, float]  # a value and its factor


@dataclass(frozen=True)
class Score:
    """How it is made, of values of the kernel."""

    row: int  # inputs
    lane: int
    squared: bool  # whether their difference is squared; else they are multiplied
    factor: float
    rows: tuple[Term, ...]
    lanes: tuple[Term, ...]
    least: bool  # whether the least is looked for


def score(kernel: Kernel, varies: tuple[bool, ...], classes: tuple[str, ...]) -> Score | None:
    """The score of a kernel whose inputs vary along the rows, or do not, and have these classes along the lanes."""
    inner = kernel.inner
    if inner is None or len(kernel.outputs) != 1 or not kernel.outputs[0].is_arg:
        return None
    if kernel.loop_body is not None or any(t != "float64" for t in kernel.dtypes):
        return None
    reading = _Reading(kernel, varies, classes)
    factors = reading.factors(inner)
    if factors is None or not reading.read(kernel.outputs[0].value, 1.0, 0):
        return None
    (row, lane), squared = factors
    least = kernel.outputs[0].reduce == "argmin"
    return Score(row, lane, squared, reading.factor, tuple(reading.rows), tuple(reading.lanes), least)


class _Reading:
    def __init__(self, kernel: Kernel, varies: tuple[bool, ...], classes: tuple[str, ...]) -> None:
        self.kernel, self.inner = kernel, kernel.inner
        self.first = len(kernel.inputs) + len(kernel.params)
        self.factor, self.rows, self.lanes = 0.0, list[Term](), list[Term]()
        inputs = range(len(kernel.inputs))
        self.along = [varies[k] for k in inputs] + [False] * len(kernel.params)  # what changes along the rows
        self.across = [classes[k] != ZERO for k in inputs] + [False] * len(kernel.params)  # along the lanes
        for instr in kernel.body:
            self.along.append(any(self.along[a] for a in instr.args))
            self.across.append(any(self.across[a] for a in instr.args))

    def factors(self, inner: int) -> tuple[tuple[int, int], bool] | None:
        """The two inputs of which products are summed, that of the rows first, and whether they are squares."""
        (v,) = self._args(inner)
        if v < self.first or self._fn(inner) != "inner:add":
            return None
        pair, squared = self._args(v), False
        if (self._fn(v) == "square" or (self._fn(v) == "multiply" and pair[0] == pair[1])) and pair[0] >= self.first:
            squared, v = True, pair[0]
            pair = self._args(v)
        if self._fn(v) != ("subtract" if squared else "multiply") or max(pair) >= len(self.kernel.inputs):
            return None
        row, lane = pair if self.along[pair[0]] else pair[::-1]
        apart = self.along[row] and not self.across[row] and self.across[lane] and not self.along[lane]
        return ((row, lane), squared) if apart else None

    def read(self, v: int, factor: float, depth: int) -> bool:
        """Take in a value times a factor; False if it is no such sum."""
        if v == self.inner:
            once, self.factor = self.factor == 0, factor
            return once
        if not (self.along[v] and self.across[v]):
            (self.lanes if self.across[v] else self.rows).append((v, factor))
            return True
        if v < self.first:
            return False
        fn, args = self._fn(v), self._args(v)
        if fn in ("add", "subtract"):
            other = factor if fn == "add" else -factor
            return self.read(args[0], factor, depth) and self.read(args[1], other, depth)
        if fn == "negative":
            return self.read(args[0], -factor, depth)
        numbers = [a for a in args if a >= self.first and is_constant(self.kernel, a)]
        if fn != "multiply" or len(numbers) != 1 or depth == FACTORS:
            return False
        number = float(const_value(self._fn(numbers[0])).real)
        other_arg = args[1] if args[0] == numbers[0] else args[0]
        return LEAST <= abs(number) <= MOST and self.read(other_arg, factor * number, depth + 1)

    def _fn(self, v: int) -> str:
        return self.kernel.body[v - self.first].fn

    def _args(self, v: int) -> tuple[int, ...]:
        return self.kernel.body[v - self.first].args
