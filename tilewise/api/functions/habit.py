"""What becomes of a traced function's results. In: its calls. Out: whether to compute the next ones at once.

Calls on large arrays are recorded, so that what follows can share passes with them; recording costs some microseconds
an operator. Where results are always asked for just as they are, nothing follows that could share, and a call may as
well run its plan.
"""

from __future__ import annotations

import weakref
from typing import Any

from tilewise.array.cell import Cell
from tilewise.array.session import current_session

OFTEN = 2  # calls in a row whose results were asked for alone


def roomy() -> bool:
    """Whether no session sets a limit to memory (which recorded work is measured by)."""
    session = current_session()
    return session is None or session.memory is None


class Habit:
    """Counts the calls in a row whose results were asked for alone."""

    __slots__ = ("_alone", "_made", "_runs")

    def __init__(self) -> None:
        self._alone = 0
        self._runs = 0  # evaluations of graphs like the function's, at the last call
        self._made: Any = None  # weak reference to a result that was computed at once

    @property
    def goes_on(self) -> bool:
        """Whether the last call was computed at once, and nothing says that the next should not be."""
        cell = None if self._made is None else self._made()
        return self._made is not None and (cell is None or cell.leaf is None)

    def at_once(self, runs: int) -> bool:
        """Whether to compute the results of a call now; `runs` is how often graphs like the function's were evaluated.

        Another function's may be among them: then it is computed at once a little early.
        """
        if self.goes_on:
            return True
        alone = self._made is None and runs > self._runs  # else recorded work has read a result
        self._alone = self._alone + 1 if alone else 0
        self._runs, self._made = runs, None
        return self._alone >= OFTEN

    def made(self, cell: Cell) -> None:
        """A result was computed at once."""
        self._made = weakref.ref(cell)
