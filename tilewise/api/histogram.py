"""Histograms over equal bins, recorded. In: NumPy's arguments. Out: counts (or sums of weights) and edges.

A value's bin is estimated by one multiplication, never too high and at most one too low, and corrected by comparing
with the next edge, which is computed as np.linspace computed it. That is the bin NumPy finds, wherever the error of
both estimates is small beside a bin: this is checked, and so is the formula of the edges. Everything else (edges that
are not evenly spaced, dtypes without such arithmetic, mistakes) is NumPy's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

MOST_ERROR = 1 / 8  # of an estimated position, in bins
EXACT = 1 << 53  # whole numbers below it are floats
INT64, BOOL = np.dtype(np.int64), np.dtype(bool)


@dataclass(frozen=True)
class Bins:
    """Equal bins: their number, the outer edges, all edges, and their distance in the dtype that linspace uses."""

    count: int
    first: Any
    last: Any
    edges: np.ndarray[Any, Any]
    step: Any
    compared: np.dtype[Any] | None  # the dtype in which values are compared with them; None: all are inside

    def numbers(self, a: Array, alone: bool = False) -> tuple[Node, Node | None]:
        """The bin of every element (a whole float), and which elements are in the range (None: all).

        Alone, numbers below 0 stand for elements below the range, too.
        """
        kind, wide = self.edges.dtype, self.step.dtype
        scale = self.count / (float(self.last) - float(self.first))
        shift = -float(self.first) * scale - self.error

        def to(name: str, x: Node, y: Any, dtype: np.dtype[Any] = kind, result: np.dtype[Any] | None = None) -> Node:
            other = y if isinstance(y, Node) else const(dtype.type(y))
            return apply(name, (x, other), (dtype, dtype, result or dtype))

        x = node_of(a)
        t = cast(x, kind)
        k = apply("floor", (to("add", to("multiply", t, scale), shift),), (kind, kind))
        above = to("add", k, 1)
        edge = cast(to("add", to("multiply", above, self.step, wide), self.first, wide), kind)
        k = apply("where", (to("greater_equal", t, edge, result=BOOL), above, k), (BOOL, kind, kind, kind))
        k = to("minimum", k, self.count - 1)
        if self.compared is None:
            return k, None
        inside = to("less_equal", x, self.last, self.compared, BOOL)
        if not alone or self.compared != kind:  # else what is below the first edge was found to be below bin 0
            inside = to("logical_and", to("greater_equal", x, self.first, self.compared, BOOL), inside, BOOL)
        return k, inside

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
        if not least < self.step < np.inf or not self.error <= MOST_ERROR:
            return False
        kind = self.step.dtype.type
        formula = np.arange(self.count, dtype=kind) * self.step + kind(self.first)
        return bool((formula.astype(self.edges.dtype) == self.edges[:-1]).all())


def _outer(a: Array, given: Any) -> tuple[Any, Any] | None:
    """The outer edges, as NumPy has them; None where they are not finite."""
    if given is None:
        low, high = a.min(), a.max()  # type: ignore[attr-defined]
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


def _totals(numbers: Node, inside: Node | None, weights: Any, count: int) -> Array:
    """Counts or sums of weights by bin."""
    keys, kind = numbers, numbers.dtype
    if inside is not None:
        keys = apply("where", (inside, keys, const(kind.type(-1))), (BOOL, kind, kind, kind))
    keys = cast(keys, INT64)
    if weights is None:
        return rec.record(bucket(const(np.intp(1)), keys, "add", count))
    w = rec.as_node(weights.reshape(-1) if type(weights) is Array else np.ravel(weights))  # type: ignore[attr-defined]
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
    n = _totals(*found.numbers(a, alone=True), weights, found.count)
    if not density:
        return n, edges
    return n / np.diff(found.edges).astype(float) / n.sum(), edges  # type: ignore[attr-defined]


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
        sample = list(sample.T)  # type: ignore[attr-defined]
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
        axes.append(found)
    flat, inside = _cells([c if c.dtype == common else c.astype(common) for c in columns], axes)
    totals = _totals(flat, inside, weights, int(np.prod(counts)))
    hist = totals.astype(float).reshape(counts)  # type: ignore[attr-defined]
    if density:
        total = hist.sum()
        for i, b in enumerate(axes):
            hist = hist / np.diff(b.edges).reshape([-1 if d == i else 1 for d in range(len(axes))])
        hist = hist / total
    return hist, [from_buffer(b.edges) for b in axes]


def _cells(columns: Sequence[Array], axes: Sequence[Bins]) -> tuple[Node, Node | None]:
    """The cell of a grid that each point is in (a whole float), and which points are in the grid (None: all)."""
    wide = np.dtype(float)
    cell: Node | None = None
    inside: Node | None = None
    for column, axis in zip(columns, axes, strict=True):
        k, keep = axis.numbers(column)
        k = cast(k, wide)
        if cell is not None:
            row = apply("multiply", (cell, const(wide.type(axis.count))), (wide, wide, wide))
            k = apply("add", (row, k), (wide, wide, wide))
        cell = k
        if keep is not None:
            inside = keep if inside is None else apply("logical_and", (inside, keep), (BOOL, BOOL, BOOL))
    assert cell is not None
    return cell, inside
