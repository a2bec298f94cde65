"""The plan tree of a loop. In: nodes. Out: worst-case memory and expected time of each, as text as well.

Inner nodes are loops, branches, functions and blocks, leaves are operators. Times add up, times the iterations of
loops; of branches the mean counts. Memory is the most that is alive at once in one iteration, beside the arrays that
are there before the loop: those are shared by all workers and counted once (`Tree.shared`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Node:
    """A part of the program. `seconds` and `locked` are those of one execution."""

    kind: str  # "parfor", "for", "while", "if", "call", "block", "operator"
    text: str
    line: int
    count: float = 1.0  # executions per execution of what is around it
    memory: int = 0  # bytes alive in it at once, at most
    own: float = 0.0  # seconds of itself, without children
    own_locked: float = 0.0  # of these, with the interpreter's lock held
    own_saved: float = 0.0  # of these, what machine code would not take
    children: list[Node] = field(default_factory=list)
    note: str = ""

    @property
    def seconds(self) -> float:
        """Expected time of one execution."""
        return self.own + sum(c.count * c.seconds for c in self.children)

    @property
    def locked(self) -> float:
        """Of this, time with the interpreter's lock held."""
        return self.own_locked + sum(c.count * c.locked for c in self.children)

    @property
    def saved(self) -> float:
        """Of this, time that machine code would not take."""
        return self.own_saved + sum(c.count * c.saved for c in self.children)

    @property
    def releases(self) -> float:
        """Calls that let go of the interpreter's lock, and have to get it back."""
        own = float(self.kind == "operator" and self.own_locked < self.own)
        return own + sum(c.count * c.releases for c in self.children)

    def walk(self) -> Iterator[Node]:
        """This node and all below."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass
class Tree:
    """A loop with what it costs: `root` is the loop, its children are one iteration."""

    root: Node
    count: int  # iterations
    shared: dict[str, int] = field(default_factory=dict)  # bytes of arrays that are there before, by name
    unknown: list[str] = field(default_factory=list)  # what could not be estimated
    rounds: bool = False  # machine code may round in another way than NumPy
    decided: dict[Hashable, Any] = field(default_factory=dict, compare=False, repr=False)  # plans that were made of it

    @property
    def memory(self) -> int:
        """Bytes of one iteration beside what is shared."""
        return self.root.memory

    @property
    def iteration_seconds(self) -> float:
        """Expected time of one iteration."""
        return self.root.seconds

    @property
    def locked_share(self) -> float:
        """The part of the time in which the interpreter's lock is held."""
        return self.root.locked / self.root.seconds if self.root.seconds else 1.0


def amount(count: float) -> str:
    """Bytes for people.

    >>> amount(1234), amount(5e6), amount(3.2e9)
    ('1.2 kB', '5.0 MB', '3.2 GB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def duration(seconds: float) -> str:
    """Seconds for people.

    >>> duration(0.0021), duration(3.0), duration(2e-7)
    ('2.1 ms', '3.0 s', '0.2 us')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds / 1e-6:.1f} us"


def shown(node: Node, depth: int = 0) -> Iterator[str]:
    """Lines of a tree; operators that take less than a hundredth of what is around them are left out."""
    times = "" if node.count == 1 else f" x {node.count:,.4g}"
    note = f"  {node.note}" if node.note else ""
    yield (
        f"{'  ' * depth}{node.kind} {node.text}{times}  line {node.line}: {duration(node.seconds)}, "
        f"{amount(node.memory)}{note}"
    )
    least = node.seconds / 100
    for child in node.children:
        if child.kind != "operator" or child.count * child.seconds >= least:
            yield from shown(child, depth + 1)
