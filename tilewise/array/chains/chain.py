"""Operators that wait for the next one. In: operands of Python's operators. Out: pending arrays, or results.

NumPy goes through memory once for each operator of `c[1:] = 0.5 * (a[1:] + a[:-1])`. Here the operators on arrays of
middling size wait until the last one of an expression (consumer.py), or the slice that it is written to, and run as one
loop (launch.py). A chain gives NumPy's bits and warnings, so it may begin whenever it likes (docs/scheduling.md).

To all others it is a deferred call (schedule/deferred.py) with the mark of what is recorded although it is small: it is
computed as soon as anyone but an operator looks at it.

Nobody may see by NumPy's warnings that it waited: numbers that can lead to some do not wait for functions that are
called in the middle of an expression, and `c[key] = a + b` waits only where `c` was an array before (a dict would keep
what waits, and warn later).
"""

from __future__ import annotations

import sys
import warnings
import weakref
from itertools import pairwise
from math import prod
from types import FrameType
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array.arithmetic import strict_errors, underflow_told
from tilewise.array.cell import LOCK, ND, Cell, Outside
from tilewise.array.chains import consumer, launch
from tilewise.array.handle import Array, from_buffer, from_node, meta
from tilewise.array.number import CLASSES
from tilewise.array.schedule.deferred import Call, Deferred
from tilewise.array.schedule.loop_flush import PROMOTED
from tilewise.array.stack import is_operand
from tilewise.backend import NATIVE, chosen
from tilewise.config import current, name_passes
from tilewise.ir.node import Node

SWITCH = "chains"  # as a name of `without`
name_passes(SWITCH)
LONG = 256  # operators on arrays of middling size before any waits: most programs never load a compiler
LETTERS: dict[np.ufunc, str] = {ufunc: letter for letter, ufunc in (launch.UFUNCS | launch.ONE).items()}
MOST_LETTERS = 200  # of an expression
MOST_READERS = 8  # of a cell that are remembered before dead ones are taken out
_FLOAT64 = CLASSES[np.float64]
_EXACT = {"d": 1 << 53, "f": 1 << 24, "l": (1 << 63) - 1}  # integers up to which all are numbers of a dtype
_MOST_FLOAT32 = 3e38


class Reader:
    """Stands for a chain among those that were handed the memory of a cell: while it lives, nobody writes there."""

    __slots__ = ("__weakref__", "ref")

    def __init__(self) -> None:
        self.ref = weakref.ref(self)


class Chain(Deferred):
    """An expression of arrays and numbers (backend/chains.py)."""

    __slots__ = ("arrays", "cells", "dtype", "numbers", "places", "reader", "shape", "text")

    def __init__(
        self,
        text: str,
        arrays: list[ND],
        cells: list[Cell],
        numbers: list[Any],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        places: list[consumer.Place],
    ) -> None:
        self._cells = []
        self.text, self.arrays, self.cells, self.numbers = text, arrays, cells, numbers
        self.shape, self.dtype = shape, dtype
        self.reader, self.places = Reader(), places  # of its operators, as in the text

    def pending(self) -> Array:
        """An array that waits. It is none of those that others look for: whoever meets it computes it."""
        node = Node()
        node.op, node.inputs, node.value, node.trail, node.site = Call(self, 0), (), None, PROMOTED, None
        node.shape, node.dtype, node.order = self.shape, self.dtype, None
        x = from_node(node)
        self._cells.append(weakref.ref(x._cell))
        return x

    def reshape(self, cell: Cell, shape: tuple[int, ...]) -> None:
        """Have a larger shape, as the last operator says."""
        assert cell.node is not None
        self.shape = cell.node.shape = shape
        cell.meta_nd = None

    def value(self) -> ND:
        """The result in memory of its own."""
        if len(self.text) == len(self.arrays) + len(self.numbers) + 1:
            self.places[-1].next = consumer.NOTHING  # one operator: NumPy does that as well, and sooner
        return launch.computed(self.text, self.dtype, self.shape, self.arrays, self.numbers, self.places)

    def expand(self) -> None:
        """Compute it: there is nothing to record."""
        if self.places[-1].stored:
            self.places[-1].next = consumer.NOBODY  # it was not written to an array
        with LOCK:
            for cell in self.living().values():
                cell.take(self.value())

    def computed(self, outputs: Any) -> list[Cell]:
        """Leave it to `expand`."""
        return []


class Chains:
    """Whether operators wait, in the programs of this process."""

    __slots__ = ("seen", "unproved")

    def __init__(self) -> None:
        self.seen = 0  # operators on arrays of middling size
        self.unproved: consumer.Place | None = None  # whose result is being stored, perhaps in an array

    def prove(self, frame: FrameType) -> None:
        """A value is written to an array there: what comes next may wait for that."""
        place, self.unproved = self.unproved, None
        if place is not None and place.leads_to(frame.f_code, frame.f_lasti):
            place.proved = True


chains = Chains()


def chain_of(x: Any) -> Chain | None:
    """The chain that an array stands for."""
    if type(x) is Array:
        node = x._cell.node
        if node is not None and type(node.op) is Call and type(node.op.deferred) is Chain:
            return node.op.deferred
    return None


def joined(ufunc: np.ufunc, *operands: Any) -> Array | None:
    """An operator on operands of which one is a chain or a known array of middling size. Call from the operator itself.

    None if it is none for a chain: then operands that are chains have been computed.
    """
    if chains.seen < LONG:
        chains.seen += 1
        if chains.seen == LONG and _allowed():
            consumer.at_once.begin()
        return None
    found = _joined(ufunc, operands)
    if found is None:
        settle(*operands)
    return found


def settle(*operands: Any) -> bool:
    """Compute those that are chains. Whether there were some."""
    some = False
    for x in operands:
        chain = chain_of(x)
        if chain is not None:
            chain.expand()
            some = True
    return some


def settle_stored(value: Any) -> None:
    """Compute what is written to an array in another way than `put`: its place may go on to wait."""
    chain = chain_of(value)
    if chain is not None:
        place, after = chain.places[-1], chain.places[-1].next
        chain.expand()
        if place.next == consumer.NOBODY:
            place.next = after


def _joined(ufunc: np.ufunc, operands: tuple[Any, ...]) -> Array | None:
    letter = LETTERS.get(ufunc)
    frame = sys._getframe(3)
    place = consumer.place_of(frame)
    if letter is None or place.next == consumer.NOTHING:
        consumer.at_once.enter(frame)
        return None
    text = ""
    arrays: list[ND] = []
    cells: list[Cell] = []
    numbers: list[Any] = []
    places: list[consumer.Place] = []
    new: list[Cell] = []  # those whose reader is another
    first: Array | None = None  # a chain among the operands: it goes on as the result, as nobody else has it
    longer: Chain | None = None
    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] = ()
    for above, x in zip(range(len(operands) - 1, -1, -1), operands, strict=True):
        if type(x) is not Array:
            text += "n"
            numbers.append(x)
            continue
        cell = x._cell
        if cell.node is None:
            nd = x._nd
            if x._gen != cell.gen or x._fixed or nd is None or not _ordered(nd):
                return None
            text += "a"
            arrays.append(nd)
            cells.append(cell)
            new.append(cell)
            own, kind = nd.shape, nd.dtype
        else:
            chain = chain_of(x)
            if chain is None or not chain.places[-1].leads_to(place.code, place.at):
                return None
            if not is_operand(frame, x, above):
                return None
            text += chain.text
            arrays += chain.arrays
            cells += chain.cells
            numbers += chain.numbers
            places += chain.places
            own, kind = chain.shape, chain.dtype
            if longer is None:
                first, longer = x, chain
            else:
                new += chain.cells
        if dtype is None:
            dtype, shape = kind, own
        elif dtype is not kind:
            return None
        elif own != shape:
            try:
                shape = np.broadcast_shapes(shape, own)
            except ValueError:
                return None
            if prod(shape) * dtype.itemsize >= current().eager_bytes:
                return None
    if dtype is None or not _possible(letter, dtype, numbers):
        return None
    text += letter
    places.append(place)
    later = place.next != consumer.NOBODY and not (place.calls and dtype.kind == "f")
    if later and place.stored and not place.proved:
        chains.unproved = place
        later = False
    if longer is None or first is None:
        if not later and not place.stored:
            consumer.at_once.enter(frame)
        if not later or not _allowed():
            return None
        made = Chain(text, arrays, cells, numbers, shape, dtype, places)
        for cell in cells:
            _remember(cell, made.reader)
        return made.pending()
    if len(text) > MOST_LETTERS:
        return None
    if not later:
        return from_buffer(launch.computed(text, dtype, shape, arrays, numbers, places))
    for cell in new:
        _remember(cell, longer.reader)
    longer.text, longer.arrays, longer.cells, longer.numbers, longer.places = text, arrays, cells, numbers, places
    if longer.shape != shape:
        longer.reshape(first._cell, shape)
    return first


def _ordered(nd: ND) -> bool:
    """Whether an array's axes lie from the slowest to the fastest: so NumPy lays out results of such arrays."""
    strides = nd.strides
    found = _orders.get(strides)
    if found is None:
        if len(_orders) >= MOST_ORDERS:
            _orders.clear()
        found = all(a >= b for a, b in pairwise(strides)) and bool(strides) and strides[-1] > 0
        _orders[strides] = found
    return found


_orders: dict[tuple[int, ...], bool] = {}
MOST_ORDERS = 4096


def _allowed() -> bool:
    settings = current()
    if settings.engine is not None or settings.compare or SWITCH in settings.without or chosen(settings) != NATIVE:
        return False
    return forcing.tracing.get() is None and not strict_errors() and not underflow_told()


def _possible(letter: str, dtype: np.dtype[Any], numbers: list[Any]) -> bool:
    """Whether the result has the arrays' dtype, and NumPy takes the numbers for such. They are Python's own then."""
    kind = dtype.char
    most = _EXACT.get(kind)
    if most is None or not dtype.isnative or (kind == "l" and letter == "/"):
        return False
    for k, x in enumerate(numbers):
        t = type(x)
        if t is float:
            if kind == "l" or (kind == "f" and not abs(x) < _MOST_FLOAT32):
                return False
        elif t is int:
            if abs(x) > most:
                return False
        elif kind == "d" and (t is _FLOAT64 or t is np.float64):
            numbers[k] = float(x)
        else:
            return False
    return True


def _remember(cell: Cell, reader: Reader) -> None:
    """A chain reads a cell: who writes to it before the chain has run gets other memory."""
    with LOCK:
        exports = cell.exports
        if exports is None:
            exports = cell.exports = Outside()
        elif exports and exports[-1] is reader.ref:
            return
        elif len(exports) >= MOST_READERS:
            exports[:] = [e for e in exports if e() is not None]
        exports.append(reader.ref)


def _warnings_raise() -> bool:
    """Whether warnings become exceptions: then what is written to must stay as it was."""
    global _filters
    here = tuple(warnings.filters)
    found = _filters
    if here != found[0]:
        found = _filters = here, any(f[0] == "error" and issubclass(RuntimeWarning, f[2]) for f in here)
    return found[1]


_filters: tuple[tuple[Any, ...], bool] = ((), False)  # the last ones, and the answer


def put(x: Array, value: Array, frame: FrameType) -> bool:
    """x[...] = value, a chain that nobody else has: whether that is done. `frame`: whose statement it is."""
    chain = chain_of(value)
    cell = x._cell
    out = None if cell.node is not None else meta(x)
    if chain is None or out is None or not chain.places[-1].leads_to(frame.f_code, frame.f_lasti):
        return False
    if out.dtype is not chain.dtype or out.shape != chain.shape or not out.flags.writeable:
        return False
    with LOCK:
        chain.reader = Reader()  # the one before is gone: nobody else reads the chain before it is written
        if not cell.free_to_write():
            cell.own()
            out = meta(x)
        if _warnings_raise() or any(
            c is cell and np.may_share_memory(out, a) for c, a in zip(chain.cells, chain.arrays, strict=True)
        ):
            out[...] = chain.value()
        elif not launch.written(chain.text, out, chain.arrays, chain.numbers):
            out[...] = launch.by_numpy(chain.text, chain.arrays, chain.numbers, chain.places)
    return True
