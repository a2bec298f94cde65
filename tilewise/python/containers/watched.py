"""Dicts that change while a loop goes over them. In: their places. Out: checks where the loop asks for its next item.

A loop that is left after the change never asks, as in Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewise.kernel.program.ir import INT, RERUN, Fail, If, Set, Stmt, Var
from tilewise.python.build import ONE, add, compare

if TYPE_CHECKING:
    from tilewise.python.statements import Statements


def moved(lo: Statements, place: str) -> None:
    """An entry comes or goes: loops that go over the dict now must know."""
    if place in lo.b.iterated:
        lo.b.moved.add(place)
        lo.b.emit(Set(_moves(place), add(Var(_moves(place), INT), ONE)))


class Watched:
    """A dict that a loop goes over, from its start on."""

    def __init__(self, lo: Statements, place: str, *, alone: bool) -> None:
        """`alone`: nothing else is asked for items, as zip does."""
        self.place, self.alone = place, alone
        lo.b.names[_moves(place)] = INT
        self.moves, self.live = (lo.b.keep(Var(n, INT)) for n in (_moves(place), f"{place}#live"))

    def checks(self, lo: Statements, line: int) -> list[Stmt]:
        """What the loop does before each item and at its end."""
        if self.place not in lo.b.moved:
            return []
        sizes = lo.b.fault("RuntimeError", "dictionary changed size during iteration", line)
        other = lo.b.fault(RERUN, "a dict whose keys change while a loop goes over it", line)
        size = compare("not_equal", Var(f"{self.place}#live", INT), self.live)
        ends: list[Stmt] = [If(size, (Fail(sizes),))] if self.alone else []
        return [If(compare("not_equal", Var(_moves(self.place), INT), self.moves), (*ends, Fail(other)))]


def _moves(place: str) -> str:
    return f"{place}#moves"
