"""Where the user is. In: the frames of a call. Out: a place in the user's code, and trails of nodes recorded there."""

from __future__ import annotations

import sys
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

from tilewise.array.pending import PENDING
from tilewise.array.schedule import loop_flush
from tilewise.array.schedule.loop_flush import Place, behind, bits, pending
from tilewise.ir.node import Node
from tilewise.ops.const import Const

PACKAGE = str(Path(__file__).resolve().parents[2])
NUMPY = str(Path(np.__file__).parent)

_spots: dict[Place, Spot] = {}  # all places met
MAX_SPOTS = 4096


class Spot:
    """A place in the user's code: its key, file and line; `inner` if it is NumPy's code running over our functions."""

    __slots__ = ("code", "inner", "line", "place")  # read twice as fast as a named tuple's

    def __init__(self, place: Place, line: tuple[str, int], inner: bool, code: CodeType) -> None:
        self.place = place
        self.line = line
        self.inner = inner
        self.code = code  # keeps its id its own


def spot(depth: int) -> Spot:
    """The innermost place outside of this package, at least `depth` frames up from the caller."""
    frame = sys._getframe(depth + 1)
    while True:
        code = frame.f_code
        place = (id(code), frame.f_lasti)
        found = _spots.get(place)
        if found is not None:
            return found
        if frame.f_back is None or not code.co_filename.startswith(PACKAGE):
            break
        frame = frame.f_back
    if len(_spots) >= MAX_SPOTS:
        _spots.clear()
        loop_flush.forget_places()
    inner = code.co_filename.startswith(NUMPY)
    found = _spots[place] = Spot(place, (code.co_filename, frame.f_lineno), inner, code)
    return found


def outside(frame: FrameType) -> tuple[str, int]:
    """The user's file and line behind code of NumPy's that runs over our functions (api/compose.py)."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith((PACKAGE, NUMPY)):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


def note_site(node: Node) -> None:
    """Remember the user's line, and the call sites this node depends on."""
    if node.site is None:
        mark(node, spot(2))


def mark(node: Node, at: Spot) -> None:
    """The same for a spot that is known."""
    node.site = outside(sys._getframe(1)) if at.inner else at.line
    if type(node.op) is Const:
        return  # depends on nothing, and may outlive the meaning of its bit
    trail = 0
    if PENDING:
        for i in node.inputs:
            if i.trail:
                trail |= i.trail
            elif i.inputs and i.value is None:
                trail |= behind(i)
    elif bits:
        loop_flush.nothing_pending()
    weight = node.op.weight
    if weight:
        pending.recorded += weight
    else:
        trail |= loop_flush.kind(node, trail)
    bit = bits.get(at.place)
    node.trail = trail | (loop_flush.bit_of(at.place) if bit is None else bit)
