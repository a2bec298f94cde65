"""Which numbers are needed after a loop. In: a program. Out: for each counted loop, names that are read later."""

from __future__ import annotations

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import names_read

Names = frozenset[str]


def live_after(program: ir.Program) -> dict[int, Names]:
    """By the identity of a loop's statement."""
    found: dict[int, Names] = {}
    ends: dict[str, Names] = {}  # what is live after a block of this label

    def block(stmts: ir.Block, after: Names) -> Names:
        for s in reversed(stmts):
            after = statement(s, after)
        return after

    def statement(s: ir.Stmt, after: Names) -> Names:
        """What is live before it."""
        read = frozenset(names_read(s))
        if isinstance(s, ir.Set):
            return (after - {s.name}) | read
        if isinstance(s, ir.If):
            return block(s.then, after) | block(s.other, after) | read
        if isinstance(s, ir.For):
            found[id(s)] = found.get(id(s), frozenset()) | after
            return around(s.body, after, s.name) | read
        if isinstance(s, ir.Loop):
            return around(s.body, frozenset())
        if isinstance(s, ir.Named):
            ends[s.label] = after
            return block(s.body, after)
        if isinstance(s, ir.Leave):
            return ends[s.label]
        if isinstance(s, ir.Return | ir.Fail):
            return read
        return after | read

    def around(body: ir.Block, after: Names, counter: str = "") -> Names:
        """Before a loop: what is live there is live after each iteration, too."""
        live = after
        while True:
            more = live | (block(body, live) - {counter})
            if more == live:
                return live
            live = more

    block(program.body, frozenset())
    return found
