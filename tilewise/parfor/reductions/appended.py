"""Lists that a loop only appends to. In: a list. Out: what each task appended, joined in the order of tasks.

Tasks are consecutive iterations in the order of the loop, so the list ends as the plain loop leaves it. A task of a
process appends to its own copy of the list, which is cut to its old length before the next one; a task on a thread has
a list of its own, by the one name of the list.
"""

from __future__ import annotations

from typing import Any

APPEND = "append"  # stands where other accumulations have their operator


class Appended:
    """One list that a worker's tasks append to."""

    def __init__(self, grown: list[Any]) -> None:
        self.grown, self.length = grown, len(grown)

    def begin(self) -> None:
        """Start a task."""
        del self.grown[self.length :]

    def found(self) -> list[Any]:
        """What a task has appended.

        >>> one = Appended([1, 2])
        >>> one.begin()
        >>> one.grown.append(3)
        >>> one.found()
        [3]
        """
        return self.grown[self.length :]
