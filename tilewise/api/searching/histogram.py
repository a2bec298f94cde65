"""Histograms over equal bins, recorded. In: NumPy's arguments. Out: counts (or sums of weights) and edges.

A value's position, in bins, is estimated by one multiplication. If it is well between two edges, that is its bin; if
not, the value is compared with the nearest edge, which is computed as np.linspace computed it. That is the bin NumPy
finds, wherever the error of both estimates is small beside a bin: this is checked, and so is the formula of the edges.
Floats are hardly ever close to an edge, so their positions are fixed-point numbers, whose fractions tell (`rarely`).
Everything else (edges that are not evenly spaced, dtypes without such arithmetic, mistakes) is NumPy's.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.api.dispatch import implements
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.handle import Array, from_buffer, node_of
from tilewise.ir.node import Node
from tilewise.ops.bucket import bucket
from tilewise.ops.const import const
from tilewise.ops.elementwise import apply, cast
from tilewise.records import dataclass

MOST_ERROR = 1 / 8  # of an estimated position, in bins
EXACT = 1 << 53  # whole numbers below it are floats
INT64, BOOL, WIDE, WORD = np.dtype(np.int64), np.dtype(bool), np.dtype(float), np.dtype(np.uint32)
# A float64 from FIXED to twice that has a whole number (from FIRST on) in its upper word and a fraction in the other.
FIXED, FIRST, FRACTION = 1 << 20, 0x41300000, 1 << 32


def _to(name: str, x: Node, y: Any = None, result: np.dtype[Any] | None = None) -> Node:
    """A function of x, or of x and y in x's dtype."""
    args = (x,) if y is None else (x, y if isinstance(y, Node) else const(x.dtype.type(y)))
    return apply(name, args, (*(x.dtype for _ in args), result or x.dtype))


def _where(condition: Node, x: Node, y: Node) -> Node:
    return apply("where", (condition, x, y), (BOOL, x.dtype, x.dtype, x.dtype))


def _number(count: int) -> np.dtype[Any]:
    """The dtype of numbers up to `count`."""
    return WORD if count < FRACTION else INT64


@dataclass(frozen=True)
class Bins:
    """Equal bins: their number, the outer edges, all edges, and their distance in the dtype that linspace uses."""

    count: int
    first: Any
    last: Any
    edges: np.ndarray[Any, Any]
    step: Any
    compared: np.dtype[Any] | None  # the dtype in which values are compared with them; None: all are inside

    def places(self, a: Array) -> Node:
        """The bin of every element: a whole number, `count` or more for what is in none."""
        x, kind = node_of(a), self.edges.dtype
        t = cast(x, kind)
        scale = self.count / (float(self.last) - float(self.first))
        shift = -float(self.first) * scale
        if not self.mostly_sure(a):
            near = _to("rint", _to("add", _to("multiply", t, scale), shift))
            return cast(self._exact(x, t, near), _number(self.count))
        slack = math.ceil(self.error * FRACTION) + 2  # for which positions are too high, so that fractions tell
        position = _to("add", _to("multiply", cast(t, WIDE), scale), FIXED + shift + slack / FRACTION)
        whole, fraction = (apply(name, (position,), (WIDE, WORD)) for name in ("high_word", "low_word"))
        close = _to("less_equal", fraction, 2 * slack, BOOL)
        near = cast(_to("floor", _to("subtract", position, FIXED)), kind)
        exact = cast(self._exact(x, t, near), WORD)
        return apply("rarely", (close, exact, _to("subtract", whole, FIRST)), (BOOL, WORD, WORD, WORD))

    def mostly_sure(self, a: Array) -> bool:
        """Whether fixed-point positions tell most elements' bins. Whole numbers often are edges."""
        same = self.compared is None or self.compared == self.edges.dtype
        return a.dtype.kind == "f" and same and self.count < FIXED and self.edges.dtype.itemsize <= WIDE.itemsize

    def _exact(self, x: Node, t: Node, near: Node) -> Node:
        """The bins of elements (t: in the dtype of edges) by the nearest edge; `count` for those in none."""
        kind = self.edges.dtype
        edge = cast(_to("add", _to("multiply", cast(near, self.step.dtype), self.step), self.first), kind)
        k = _where(_to("greater_equal", t, edge, BOOL), near, _to("subtract", near, 1))
        k = _to("minimum", k, self.count - 1)
        if self.compared is None:
            return k
        x = cast(x, self.compared)
        inside = _to("logical_and", _to("greater_equal", x, self.first, BOOL), _to("less_equal", x, self.last, BOOL))
        return _where(inside, k, const(kind.type(self.count)))

    @property
    def error(self) -> float:
        """More than the rounding of estimates and edges, in bins."""
        most = max(abs(float(self.first)), abs(float(self.last)))
        return 8 * self.eps * (most / abs(float(self.step)) + self.count)

    @property
    def eps(self) -> float:
        """The relative error of edges."""
        return max(float(np.finfo(d).eps) for d in (self.edges.dtype, self.step.dtype))

    @property
    def sure(self) -> bool:
        """Whether estimates are good enough, and edges are what the formula gives."""
        least = float(np.finfo(self.edges.dtype).tiny) / self.eps  # smaller steps have fewer digits
        if not least < self.step < np.inf or not self.error <= MOST_ERROR or not np.isfinite(self.edges).all():
            return False
        kind = self.step.dtype.type
        formula = np.arange(self.count, dtype=kind) * self.step + kind(self.first)
        return bool((formula.astype(self.edges.dtype) == self.edges[:-1]).all())


def _outer(a: Array, given: Any) -> tuple[Any, Any] | None:
    """The outer edges, as NumPy has them; None where they are not finite."""
    if given is None:
        low, high = a.min(), a.max()
        forcing.evaluate([x._cell for x in (a, low, high)])
        first, last = rec.unwrap((low, high))
    else:
        first, last = rec.unwrap(tuple(given))
    if first > last or not (np.isfinite(first) and np.isfinite(last)):
        return None
    return (first - 0.5, last + 0.5) if first == last else (first, last)


def _values_kind(a: Array, first: Any, last: Any) -> np.dtype[Any]:
    """The dtype of the edges in np.histogram."""
    kind = np.result_type(first, last, np.empty(0, a.dtype))
    return np.dtype(np.result_type(kind, float)) if kind.kind in "iu" else kind


def _edges_kind(a: Array, first: Any, last: Any) -> np.dtype[Any]:
    """The dtype of the edges in np.histogramdd."""
    return np.dtype(np.linspace(first, last, 2).dtype)


def _bins(a: Array, bins: Any, given: Any, kind_of: Callable[[Array, Any, Any], np.dtype[Any]]) -> Bins | None:
    """Bins for values; None where NumPy must do it, and where values are compared in a wider dtype than edges have."""
    outer = _outer(a, given)
    if outer is None:
        return None
    first, last = outer
    if isinstance(bins, str):
        bins = len(np.histogram_bin_edges(rec.unwrap(a), bins, rec.unwrap(given))) - 1
    count = operator.index(bins)
    kind = kind_of(a, first, last)
    if kind.kind != "f" or count < 1 or (a.dtype.kind == "f" and a.dtype.itemsize > kind.itemsize):
        return None
    compared = None if given is None else np.result_type(first, last, np.empty(0, a.dtype))
    if (
        compared is not None
        and compared.kind == "f"
        and np.result_type(first, last).kind in "iu"
        and a.dtype.kind in "iu"
    ):
        return None  # signed with unsigned: NumPy compares exactly
    with np.errstate(all="ignore"):
        edges, step = np.linspace(first, last, count + 1, dtype=kind, retstep=True)
        made = Bins(count, first, last, edges, np.asarray(step)[()], compared)
        return made if made.sure and (edges[:-1] < edges[1:]).all() else None


def _spaced(a: Array, bins: Any) -> tuple[Bins, Array] | None:
    """Bins given by edges that are those of equal bins, with the edges as they are given; None if they are others."""
    given = np.array(rec.unwrap(bins))
    kind = np.result_type(a.dtype, given.dtype, np.float32)
    if given.ndim != 1 or len(given) < 2 or given.dtype.kind not in "iuf" or not np.isfinite(given[[0, -1]]).all():
        return None
    if given.dtype.kind != "f" and np.abs(given).max() >= EXACT:
        return None
    found = _bins(a, len(given) - 1, (given[0], given[-1]), lambda *_: kind)
    return None if found is None or not (found.edges == given).all() else (found, from_buffer(given))


def _recordable(a: Any, weights: Any, kinds: str) -> bool:
    """Whether there are values to count, and weights that fit them."""
    if type(a) is not Array or a.dtype.kind not in "iuf" or a.dtype.itemsize > 8 or a.size == 0:
        return False
    if weights is None:
        return True
    dtype = weights.dtype if type(weights) is Array else np.asarray(weights).dtype
    return np.shape(weights) == a.shape and rec.numeric(dtype) and dtype.kind in kinds and dtype.char not in "gG"


def _totals(places: Node, weights: Any, count: int) -> Array:
    """Counts or sums of weights by bin."""
    keys = cast(places, INT64)
    if weights is None:
        return rec.record(bucket(const(np.intp(1)), keys, "add", count))
    w = rec.as_node(weights.reshape(-1) if type(weights) is Array else np.ravel(weights))
    wide = {"f": np.dtype(float), "c": np.dtype(complex), "u": np.dtype(np.uint64)}.get(w.dtype.kind, INT64)
    return rec.record(cast(bucket(cast(w, wide), keys, "add", count), w.dtype))


@implements(np.histogram)
def histogram(a: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Counts over equal bins; bins may be named (NumPy then estimates their number)."""
    if not _recordable(a, weights, "iufc") or (isinstance(bins, str) and weights is not None):
        return NotImplemented
    a = a.reshape(-1)
    if np.ndim(bins):
        spaced = _spaced(a, bins)
    else:
        equal = _bins(a, bins, range, _values_kind)
        spaced = None if equal is None else (equal, from_buffer(equal.edges))
    if spaced is None:
        return NotImplemented
    found, edges = spaced
    n = _totals(found.places(a), weights, found.count)
    if not density:
        return n, edges
    return n / np.diff(found.edges).astype(float) / n.sum(), edges


@implements(np.histogram2d)
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Counts of pairs over a grid of equal bins."""
    found = _grid([x, y], bins, range, density, weights)
    return found if found is NotImplemented else (found[0], *found[1])


@implements(np.histogramdd)
def histogramdd(sample: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> Any:
    """Counts of points over a grid of equal bins."""
    if type(sample) is Array:
        if sample.ndim != 2:
            return NotImplemented
        sample = [sample[:, k] for k in builtins.range(sample.shape[1])]
    return _grid(list(sample), bins, range, density, weights)


def _grid(columns: Sequence[Any], bins: Any, given: Any, density: Any, weights: Any) -> Any:
    """The histogram of points with these coordinates, and the edges of every axis."""
    counts = [bins] * len(columns) if np.ndim(bins) == 0 else list(bins)
    ranges = [None] * len(columns) if given is None else list(given)
    whole = all(isinstance(n, int | np.integer) and n > 0 for n in counts)
    if not columns or not whole or len({len(columns), len(counts), len(ranges)}) > 1:
        return NotImplemented
    if not all(_recordable(a, weights, "iuf") and a.ndim == 1 and a.shape == columns[0].shape for a in columns):
        return NotImplemented
    common = np.result_type(*[a.dtype for a in columns])
    axes: list[Bins] = []
    for column, n, outer in zip(columns, counts, ranges, strict=True):
        found = _bins(column if column.dtype == common else column.astype(common), n, outer, _edges_kind)
        if found is None:
            return NotImplemented
        # np.histogramdd compares in the dtype of edges, np.histogram in that of values.
        axes.append(found if found.compared is None else replace(found, compared=found.edges.dtype))
    flat = _cells([c if c.dtype == common else c.astype(common) for c in columns], axes)
    totals = _totals(flat, weights, math.prod(counts))
    hist = totals.astype(float).reshape(counts)
    if density:
        total = hist.sum()
        for i, b in enumerate(axes):
            hist = hist / np.diff(b.edges).reshape([-1 if d == i else 1 for d in range(len(axes))])
        hist = hist / total
    return hist, [from_buffer(b.edges) for b in axes]


def _cells(columns: Sequence[Array], axes: Sequence[Bins]) -> Node:
    """The cell of a grid that each point is in: a whole number, that of all cells for points in none."""
    total = math.prod(axis.count for axis in axes)
    cell: Node | None = None
    inside: Node | None = None
    for column, axis in zip(columns, axes, strict=True):
        k = cast(axis.places(column), _number(total))
        if axis.compared is not None:
            keep = _to("less", k, axis.count, BOOL)
            inside = keep if inside is None else _to("logical_and", inside, keep)
        cell = k if cell is None else _to("add", _to("multiply", cell, axis.count), k)
    assert cell is not None
    return cell if inside is None else _where(inside, cell, const(cell.dtype.type(total)))
