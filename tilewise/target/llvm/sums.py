"""The order of sums. In: blocks of points that give states. Out: their states merged pairwise, in a fixed order.

No sum is longer than STEPS additions one after the other (CHUNK_ROWS down a column, in CHAINS turns where that is
quick), as in NumPy's pairwise sum; longer ones are trees. Trees depend on sizes and strides alone, never on threads.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.target.llvm.control import each, loop
from tilewise.target.llvm.memory import load, memory_type, store
from tilewise.target.llvm.text import Function, Val

STEPS = 16  # additions in sequence, as many as in NumPy's pairwise sum
BLOCKS = 8  # blocks of one chunk of `rows`
CHUNK_ROWS = 32  # rows of one block of `columns`
CHAINS = 4  # sums of every fourth row, in a block of a light body: an addition need not wait for the last


class Stack:
    """Memory for the sums of 1, 2, 4, … blocks that wait for their partner."""

    def __init__(self, fn: Function, dtypes: list[str], lanes: int, levels: int) -> None:
        self.fn, self.dtypes, self.lanes = fn, dtypes, lanes
        self.slots = [fn.hoist(f"alloca {memory_type(t)}, i64 {levels * lanes}, align 64") for t in dtypes]

    def _at(self, slot: int, level: str) -> str:
        first = self.fn.let(f"mul i64 {level}, {self.lanes}")
        return self.fn.let(f"getelementptr {memory_type(self.dtypes[slot])}, ptr {self.slots[slot]}, i64 {first}")

    def addresses(self, level: str) -> list[str]:
        """Where the state of a level is."""
        return [self._at(i, level) for i in range(len(self.dtypes))]

    def load(self, level: str) -> list[Val]:
        """The state at a level."""
        return [load(self.fn, self._at(i, level), t, self.lanes) for i, t in enumerate(self.dtypes)]

    def store(self, level: str, state: list[Val]) -> None:
        """Put a state at a level."""
        for i, (value, dtype) in enumerate(zip(state, self.dtypes, strict=True)):
            store(self.fn, self._at(i, level), value, dtype)


def pairwise(
    stack: Stack, count: str, block: Callable[[str], list[Val]], merge: Callable[[list[Val], list[Val]], list[Val]]
) -> list[Val]:
    """The states of blocks 0 … count - 1 (one at least) merged as in a binary counter: equal sizes meet."""
    fn = stack.fn
    fn.declares.add("declare i64 @llvm.cttz.i64(i64, i1)")

    def trailing_zeros(number: str) -> str:
        return fn.let(f"call i64 @llvm.cttz.i64(i64 {number}, i1 false)")

    def one(b: str) -> None:
        waiting = trailing_zeros(fn.let(f"xor i64 {b}, -1"))
        merged = loop(fn, "0", waiting, "1", lambda level, new: merge(stack.load(level), new), block(b))
        stack.store(waiting, merged)

    def rest(level: str, total: list[Val]) -> list[Val]:
        bit = fn.let(f"and i64 {fn.let(f'lshr i64 {count}, {level}')}, 1")
        there = fn.let(f"icmp ne i64 {bit}, 0")
        both = merge(stack.load(level), total)
        return [b.make(f"select i1 {there}, {b.text}, {t.text}") for b, t in zip(both, total, strict=True)]

    each(fn, "0", count, "1", one)
    lowest = trailing_zeros(count)
    fn.declares.add("declare i64 @llvm.ctlz.i64(i64, i1)")
    leading = fn.let(f"call i64 @llvm.ctlz.i64(i64 {count}, i1 false)")
    levels = fn.let(f"sub i64 64, {leading}")
    return loop(fn, fn.let(f"add i64 {lowest}, 1"), levels, "1", rest, stack.load(lowest))
