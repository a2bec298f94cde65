"""Where the user is. In: the frames of a call. Out: a place in the user's code, and trails of nodes recorded there."""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

from tilewise.array.pending import PENDING
from tilewise.array.schedule import loop_flush
from tilewise.array.schedule.loop_flush import Place, behind, bits, pending
from tilewise.ir.node import Node
from tilewise.ops.const import Const

# As code names its files: behind links, no other names. With a separator: other packages' names may begin with these.
PACKAGE = str(Path(__file__).parents[2]) + os.sep
NUMPY = str(Path(np.__file__).parent) + os.sep

_spots: dict[Place, Spot] = {}  # all places met
MAX_SPOTS = 4096
MAX_FILES = 4096


class _Files(dict[str, bool]):
    """Whether a file is in one of some folders, by its name."""

    def __init__(self, *folders: str) -> None:
        self._folders = folders

    def __missing__(self, name: str) -> bool:
        if len(self) >= MAX_FILES:  # cells of notebooks, code that is made as a program runs
            self.clear()
        found = self[name] = name.startswith(self._folders)
        return found


_ours, _inner = _Files(PACKAGE), _Files(PACKAGE, NUMPY)


class Spot:
    """A place in the user's code: its key, file and line; `inner` if it is NumPy's code running over our functions.

    `own` is the key without the place that called NumPy's code.
    """

    __slots__ = ("code", "inner", "line", "own", "place")  # read twice as fast as a named tuple's

    def __init__(self, place: Place, line: tuple[str, int], inner: bool, code: CodeType, own: Place) -> None:
        self.place = place
        self.line = line
        self.inner = inner
        self.code = code  # keeps its id its own
        self.own = own


# Where the function was called that is being recorded. Its operators, which are all recorded there, make no loop.
composing: ContextVar[Spot | None] = ContextVar("tilewise composing", default=None)


def spot(depth: int) -> Spot:
    """The innermost place outside of this package, at least `depth` frames up from the caller."""
    ours, frame = _ours, sys._getframe(depth + 1)
    try:
        while ours[frame.f_code.co_filename]:
            frame = frame.f_back  # type: ignore[assignment]
    except AttributeError:  # there is none
        frame = _outermost(sys._getframe())
    code = frame.f_code
    place = (id(code), frame.f_lasti)
    found = _spots.get(place)
    if found is not None:
        return _called(found) if found.inner else found
    if len(_spots) >= MAX_SPOTS:
        _spots.clear()
        loop_flush.forget_places()
    inner = _inner[code.co_filename] and not _ours[code.co_filename]
    found = _spots[place] = Spot(place, (code.co_filename, frame.f_lineno), inner, code, place)
    return _called(found) if inner else found


def _called(inner: Spot) -> Spot:
    """A place in NumPy's code, as called from where it is: two calls of a function on one line are no loop."""
    caller = composing.get()
    if caller is None or caller.own == inner.place:
        return caller or inner
    place = (*inner.place, *caller.place)
    found = _spots.get(place)
    if found is None:
        found = _spots[place] = Spot(place, inner.line, True, inner.code, inner.place)
    return found


def one_call(place: Place) -> bool:
    """Whether what is recorded at a place is a part of a function that was called there."""
    caller = composing.get()
    return caller is not None and caller.place == place


def outside(frame: FrameType) -> tuple[str, int]:
    """The user's file and line behind code of NumPy's that runs over our functions (api/compose.py)."""
    inner = _inner
    try:
        while inner[frame.f_code.co_filename]:
            frame = frame.f_back  # type: ignore[assignment]
    except AttributeError:  # there is none
        frame = _outermost(sys._getframe())
    return frame.f_code.co_filename, frame.f_lineno


def _outermost(frame: FrameType) -> FrameType:
    """What began the thread, where all of its frames are ours."""
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def note_site(node: Node) -> None:
    """Remember the user's line, and the call sites this node depends on."""
    if node.site is None:
        mark(node, spot(2))


def mark(node: Node, at: Spot) -> None:
    """The same for a spot that is known."""
    node.site = outside(sys._getframe(1)) if at.inner else at.line
    op, trail = node.op, 0
    if type(op) is Const:
        return  # depends on nothing, and may outlive the meaning of its bit
    if PENDING:
        for i in node.inputs:
            if i.trail:
                trail |= i.trail
            elif i.inputs and i.value is None:
                trail |= behind(i)
    elif bits:
        loop_flush.nothing_pending()
    weight = op.weight
    if weight:
        pending.recorded += weight
    else:
        trail |= loop_flush.kind(node, trail)
    bit = bits.get(at.place)
    node.trail = trail | (loop_flush.new_bit(at.place) if bit is None else bit)
