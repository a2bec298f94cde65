"""Loops that can be run again from their start. In: a loop of a program. Out: whether nobody sees what was done before.

Where an iteration of such a loop fails, others may have run that come after it: what they wrote is in memory that is
made in the program, which nobody sees after the error. Run again, in order, the loop fails where it should: what it has
written decides neither what fails nor which way it takes. An array that is made in an iteration is as it was then.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilewise.kernel.program import ir
from tilewise.kernel.program.walk import expressions, statements


def restarts(program: ir.Program, loop: ir.For) -> bool:
    """Whether a loop can be run again, whichever iterations have been run."""
    body = list(statements(loop.body))
    stored = _memory(program, (s.array for s in body if isinstance(s, ir.Store)))
    anew = _memory(program, (s.array for s in body if isinstance(s, ir.Alloc)))
    return {r.partition(ir.OWN)[0] for r in stored} <= _own(program) and not _decides(program, body, stored - anew)


def _memory(program: ir.Program, names: Iterable[ir.Expr | str]) -> set[str]:
    arrays = program.arrays
    return {root for n in names if isinstance(n, str) and n in arrays for root in arrays[n].roots}


def _own(program: ir.Program) -> set[str]:
    """Memory that is made in the program, and that no function of the caller's has seen."""
    every = list(statements(program.body))
    own = _memory(program, (s.array for s in every if isinstance(s, ir.Alloc)))
    for s in every:
        if isinstance(s, ir.HostCall | ir.Invoke):
            own -= _memory(program, (*s.inputs, *ir.results_of(s)))
    return own - _memory(program, (p.name for p in program.params))


def _decides(program: ir.Program, body: list[ir.Stmt], stored: set[str]) -> bool:
    """Whether what was written decides what a loop does: it is in tests, subscripts or operations that may fail."""
    names: set[str] = set()  # numbers that are made of it
    written = set(stored)  # and memory

    def made(e: ir.Expr) -> bool:
        """Whether what was written is in an expression."""
        return any(
            (isinstance(x, ir.Var) and x.name in names)
            or (isinstance(x, ir.Load) and not written.isdisjoint(program.arrays[x.array].roots))
            for x in expressions(ir.Set("", e))
        )

    before = -1
    while len(names) + len(written) != before:
        before = len(names) + len(written)
        names |= {s.name for s in body if isinstance(s, ir.Set) and made(s.value)}
        for s in body:
            if isinstance(s, ir.Store) and made(s.value):
                written |= program.arrays[s.array].roots
    for s in body:
        for e in expressions(s):
            if isinstance(e, ir.Op) and e.fault >= 0 and made(e):
                return True
            if isinstance(e, ir.Load) and any(map(made, e.index)):
                return True
            if isinstance(e, ir.Pick) and made(e.test):
                return True
        if isinstance(s, ir.Store):
            if any(map(made, s.index)):
                return True
        elif not isinstance(s, ir.Set) and any(made(e) for e in expressions(s) if not isinstance(e, ir.Span)):
            return True
    return False
