"""Where lowering is. In: nothing. Out: functions and loops around a statement; what says that it is never reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType

from tilewise.python.build import Value
from tilewise.python.types import Env


class Dead(Exception):
    """The rest of a statement is never reached: what was emitted fails."""


@dataclass
class Scope:
    """A function being lowered: its names are those of the program after a prefix."""

    function: FunctionType | None
    prefix: str
    locals: frozenset[str]
    parent: Scope | None = None
    returns: Callable[[Value, int], None] | None = None
    depth: int = 0
    name: str = ""  # of a function that is called
    inside_of: tuple[str, str] | None = None  # whose place this has: a function of ours, for the user a part of theirs
    free: frozenset[str] = frozenset()  # its names without a value that a comprehension reads, which is a function then

    careless: bool = False  # whether the type of the number it returns does not matter (names.py)

    @property
    def place(self) -> tuple[str, str]:
        """The file and name of a function that is called; nothing of the first one."""
        if self.inside_of is not None:
            return self.inside_of
        scope: Scope | None = self
        while scope is not None and scope.function is None:
            scope = scope.parent
        known = scope is not None and scope.function is not None and self.name
        return (scope.function.__code__.co_filename, self.name) if known else ("", "")  # type: ignore[union-attr]


@dataclass
class LoopFrame:
    label: str
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)
