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


@dataclass
class LoopFrame:
    label: str
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)
