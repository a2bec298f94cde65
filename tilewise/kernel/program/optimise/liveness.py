"""Which names are needed later. In: a program. Out: by statement, the names that are read after it.

`live_after` is of numbers, after counted loops; private.py asks for arrays, after they are allocated.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import names_read

Names = frozenset[str]
NONE: Names = frozenset()


def live_after(program: ir.Program) -> dict[int, Names]:
    """By the identity of a loop's statement."""
    found: dict[int, Names] = {}

    def note(s: ir.Stmt, after: Names) -> None:
        if isinstance(s, ir.For):
            found[id(s)] = found.get(id(s), NONE) | after

    follow_back(program, lambda s: frozenset(names_read(s)), _sets, note)
    return found


def _sets(s: ir.Stmt) -> Names:
    return frozenset([s.name]) if isinstance(s, ir.Set | ir.For) else NONE


def follow_back(
    program: ir.Program,
    reads: Callable[[ir.Stmt], Names],
    sets: Callable[[ir.Stmt], Names],
    note: Callable[[ir.Stmt, Names], None],
) -> None:
    """Go through statements from the last to the first, and `note` what is live after each (of a loop's, repeatedly).

    `sets` says what a statement gives a new value: nobody after it needs the old one. A loop sets its counter inside.
    """
    ends: dict[str, Names] = {}  # what is live after a block of this label
    known: dict[int, Names] = {}  # by statement: loops are gone through again and again

    def reads_of(s: ir.Stmt) -> Names:
        found = known.get(id(s))
        if found is None:
            found = known[id(s)] = reads(s)
        return found

    def block(stmts: ir.Block, after: Names) -> Names:
        for s in reversed(stmts):
            after = statement(s, after)
        return after

    def statement(s: ir.Stmt, after: Names) -> Names:
        """What is live before it."""
        note(s, after)
        if isinstance(s, ir.If):
            return block(s.then, after) | block(s.other, after) | reads_of(s)
        if isinstance(s, ir.For):
            counter = sets(s)
            return around(s.body, after, counter) | around(s.proved, after, counter) | reads_of(s)
        if isinstance(s, ir.Loop):
            return around(s.body, NONE, NONE)
        if isinstance(s, ir.Named):
            ends[s.label] = after
            return block(s.body, after)
        if isinstance(s, ir.Leave):
            return ends[s.label]
        return reads_of(s) if isinstance(s, ir.Return | ir.Fail) else (after - sets(s)) | reads_of(s)

    def around(body: ir.Block, after: Names, counter: Names) -> Names:
        """Before a loop: what is live there is live after each iteration, too."""
        live = after
        while (more := live | (block(body, live) - counter)) != live:
            live = more
        return live

    block(program.body, NONE)
