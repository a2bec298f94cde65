"""What is alive and what it costs, while a body is followed. In: operators, names. Out: nodes with memory and time.

Memory is tracked by allocations, so that views keep alive what they are of, and a value with two names counts once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from tilewise.parfor.plan.operators import Value, Work
from tilewise.parfor.plan.profile import LOCKED_CALLS, Row, seconds
from tilewise.parfor.plan.tree import Node

EXACT = ("python", "map", "copy")  # kinds of operators that give the same bits wherever they run
BUFFER_BYTES = 200_000  # that NumPy takes to go through operands that do not lie as it likes


class Ledger:
    """Where the estimate is, and what is alive there."""

    def __init__(self, profile: Mapping[str, Row]) -> None:
        self.profile = profile
        self.names: dict[str, Value] = {}
        self.sizes: dict[int, int] = {}  # of allocations
        self.temporary: set[int] = set()  # allocations of the statement at hand
        self.around: list[set[int]] = []  # what callers hold
        self.kept: set[int] = set()  # what containers hold to the end of the iteration
        self.stack: list[Node] = []
        self.repeats: list[float] = []  # iterations of loops around, inside of an iteration of the parfor
        self.line = 0
        self.rounds = False  # something that machine code may round in another way than NumPy

    def alive(self) -> int:
        """Bytes that are alive here."""
        held = set(self.temporary) | self.kept
        for value in self.names.values():
            held |= value.memory
        return sum(self.sizes[a] for a in held.union(*self.around))

    def note(self, more: int = 0) -> None:
        """What is alive counts for all nodes around."""
        now = self.alive() + more
        for node in self.stack:
            node.memory = max(node.memory, now)

    def made(self, value: Value) -> Value:
        """A value with memory of its own."""
        if not value.bytes:
            return value
        number = len(self.sizes)
        self.sizes[number] = value.bytes
        self.temporary.add(number)
        return replace(value, memory=frozenset((number,)))

    def work(self, work: Work) -> Value:
        """An operator: a leaf, or a step of the interpreter."""
        out = self.made(work.value)
        space = work.workspace + (BUFFER_BYTES if work.kind not in ("python", "call") else 0)
        self.note(space)
        taken = seconds(work.kind, work.amount, self.profile)
        if work.kind == "python":
            self.steps(work.amount)
            return out
        locked = taken if taken < LOCKED_CALLS else max(self.profile[work.kind].call, work.locked * taken)
        self.rounds = self.rounds or not (work.saved or work.kind in EXACT)
        leaf = Node("operator", work.text, self.line, 1.0, self.alive() + space, taken, locked, work.saved * taken)
        self.stack[-1].children.append(leaf)
        return out

    def steps(self, count: float = 1.0) -> None:
        """Steps of the interpreter."""
        taken = seconds("python", count, self.profile)
        self.stack[-1].own += taken
        self.stack[-1].own_locked += taken

    @contextmanager
    def inside(self, node: Node, repeats: float = 1.0) -> Iterator[None]:
        """Statements of a node."""
        self.stack[-1].children.append(node)
        self.stack.append(node)
        self.repeats.append(repeats)
        yield
        self.repeats.pop()
        self.stack.pop()

    def keep(self, value: Value, base: Value | None = None) -> None:
        """A container holds a value: one for each iteration of the loops around."""
        for number in value.memory:
            times = 1.0
            for count in self.repeats:
                times *= count
            self.sizes[number] = int(self.sizes[number] * max(1.0, times))
            self.kept.add(number)
        self.steps()
