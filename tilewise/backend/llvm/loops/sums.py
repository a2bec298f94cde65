"""The order of sums. In: blocks of points that give states. Out: their states merged pairwise, in a fixed order.

No sum is longer than STEPS additions one after the other (CHUNK_ROWS down a column, in CHAINS turns where that is
quick), as in NumPy's pairwise sum; longer ones are trees. Trees depend on sizes and strides alone, never on threads.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.backend.llvm.emit.control import each, loop
from tilewise.backend.llvm.emit.memory import load, memory_type, store
from tilewise.backend.llvm.emit.text import Function, Val

STEPS = 16  # additions in sequence, as many as in NumPy's pairwise sum
BLOCKS, MOST_BLOCKS = 8, 256  # blocks of one chunk of `rows`, at least and at most
CHUNK_ROWS = 32  # rows of one block of `columns`
LEVELS = 8  # of the tree in a chunk of `columns`: up to 128 blocks
CHAINS = 4  # sums of every fourth row, in a block of a light body: an addition need not wait for the last


State = list[Val]
Merge = Callable[[State, State], State]


class Stack:
    """Memory for states: the sums of 1, 2, 4, … blocks that wait for their partner, or of chains."""

    def __init__(self, fn: Function, dtypes: list[str], lanes: int, levels: int) -> None:
        self.fn, self.dtypes, self.lanes = fn, dtypes, lanes
        self.slots = [fn.hoist(f"alloca {memory_type(t)}, i64 {levels * lanes}, align 64") for t in dtypes]

    def _at(self, slot: int, level: str) -> str:
        first = self.fn.let(f"mul i64 {level}, {self.lanes}")
        return self.fn.let(f"getelementptr {memory_type(self.dtypes[slot])}, ptr {self.slots[slot]}, i64 {first}")

    def load(self, level: str) -> State:
        """The state at a level."""
        return [load(self.fn, self._at(i, level), t, self.lanes) for i, t in enumerate(self.dtypes)]

    def store(self, level: str, state: State) -> None:
        """Put a state at a level."""
        for i, (value, dtype) in enumerate(zip(state, self.dtypes, strict=True)):
            store(self.fn, self._at(i, level), value, dtype)

    def part(self, first: str, lanes: int) -> Stack:
        """Some of its lanes."""
        return _Part(self, first, lanes)


class _Part(Stack):
    """Some lanes of a stack."""

    def __init__(self, whole: Stack, first: str, lanes: int) -> None:
        self.fn, self.dtypes, self.lanes = whole.fn, whole.dtypes, lanes
        self._whole, self._first = whole, first

    def _at(self, slot: int, level: str) -> str:
        start = self._whole._at(slot, level)
        return self.fn.let(f"getelementptr {memory_type(self.dtypes[slot])}, ptr {start}, i64 {self._first}")


def _trailing_zeros(fn: Function, number: str) -> str:
    fn.declares.add("declare i64 @llvm.cttz.i64(i64, i1)")
    return fn.let(f"call i64 @llvm.cttz.i64(i64 {number}, i1 false)")


def push(stack: Stack, b: str, state: State, merge: Merge) -> None:
    """Add the state of block b to a stack, as in a binary counter: equal sizes meet."""
    fn = stack.fn
    waiting = _trailing_zeros(fn, fn.let(f"xor i64 {b}, -1"))
    stack.store(waiting, loop(fn, "0", waiting, "1", lambda level, new: merge(stack.load(level), new), state))


def total(stack: Stack, count: str, merge: Merge) -> State:
    """The state of all of so many blocks (one at least)."""
    fn = stack.fn

    def rest(level: str, total: State) -> State:
        bit = fn.let(f"and i64 {fn.let(f'lshr i64 {count}, {level}')}, 1")
        there = fn.let(f"icmp ne i64 {bit}, 0")
        both = merge(stack.load(level), total)
        return [b.make(f"select i1 {there}, {b.text}, {t.text}") for b, t in zip(both, total, strict=True)]

    lowest = _trailing_zeros(fn, count)
    fn.declares.add("declare i64 @llvm.ctlz.i64(i64, i1)")
    leading = fn.let(f"call i64 @llvm.ctlz.i64(i64 {count}, i1 false)")
    levels = fn.let(f"sub i64 64, {leading}")
    return loop(fn, fn.let(f"add i64 {lowest}, 1"), levels, "1", rest, stack.load(lowest))


def pairwise(stack: Stack, count: str, block: Callable[[str], State], merge: Merge) -> State:
    """The states of blocks 0 … count - 1 (one at least) merged pairwise."""
    each(stack.fn, "0", count, "1", lambda b: push(stack, b, block(b), merge))
    return total(stack, count, merge)
