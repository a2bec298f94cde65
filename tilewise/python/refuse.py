"""What cannot be compiled. In: a construct, its line, a cure. Out: an exception that says so."""

from __future__ import annotations

from typing import Any


class Mixes(Exception):
    """A list, known by its place, has items of several types: the program is made anew, with this known."""

    def __init__(self, place: str, *types: Any) -> None:
        super().__init__()
        self.place, self.types = place, types


class Pools(Exception):
    """Lists of some places are used beside each other, or are of items of these types: the same."""

    def __init__(self, places: tuple[str, ...], items: tuple[Any, ...] = ()) -> None:
        super().__init__()
        self.places, self.items = places, items


class Refused(Exception):
    """A construct of a function that has no native form; `line` is a line of its file."""

    def __init__(self, construct: str, line: int = 0, cure: str = "") -> None:
        super().__init__(construct)
        self.construct, self.line, self.cure = construct, line, cure
        self.file = ""

    def again(self) -> Refused:
        """The same, with nothing of where it was raised: a traceback holds the arguments of calls."""
        found = Refused(self.construct, self.line, self.cure)
        found.file = self.file
        return found
