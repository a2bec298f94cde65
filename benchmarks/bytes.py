"""Bytes between workers beside what must move at least. In: programs, meshes. Out: a table and JSON.

    python -m benchmarks.bytes [--only text] [--meshes 2,4,7,2x2] [--output …]

The data are on the workers already: vectors and matrices cut evenly along their first axis, on a grid matrices along
both. Counted: what crosses until the result is on the workers, cut or not. The lower bounds are worked out by hand, as
functions of sizes: an element that a worker must have and has not costs its bytes once; a sum of k numbers costs k
numbers for every worker but one. A row above GOAL times its bound, or that announced less than it moved, is marked.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw

RESULTS = Path(__file__).resolve().parent / "results" / "bytes.json"
GOAL = 1.2
FLOAT = 8  # bytes of a number
SPARE = 128  # bytes per worker that nobody counts: a few numbers


@dataclass(frozen=True)
class Mesh:
    """The workers of a run."""

    workers: int
    columns: int = 1

    @property
    def options(self) -> dict[str, Any]:
        if self.columns > 1:
            return {"mesh": (self.workers // self.columns, self.columns)}
        return {"workers": self.workers}

    @property
    def rows(self) -> int:
        """Workers along the rows of a matrix."""
        return self.workers // self.columns

    def away(self, count: float) -> float:
        """Bytes of numbers that go to a worker at random: all but those that are there already."""
        return count * FLOAT * (1 - 1 / self.workers)

    def edges(self, count: float = 1) -> float:
        """Bytes of so many numbers at each border between two workers of a line."""
        return (self.workers - 1) * count * FLOAT

    def between_rows(self, count: float) -> float:
        """Bytes of rows of so many numbers at each border between two rows of workers."""
        return (self.rows - 1) * count * FLOAT

    def between_columns(self, count: float) -> float:
        return (self.columns - 1) * count * FLOAT

    def total(self, count: float) -> float:
        """Bytes to reduce contributions of all workers."""
        return (self.workers - 1) * count * FLOAT

    def down(self, count: float) -> float:
        """Bytes to reduce contributions over the rows of a matrix."""
        return (self.rows - 1) * count * FLOAT

    def across(self, count: float) -> float:
        return (self.columns - 1) * count * FLOAT


N = 42_000  # of vectors
ROWS, COLS = 420, 504  # of matrices
TALL, NARROW = 8_400, 10
ASKED = 2_100  # indices into an axis


@cache
def arrays() -> dict[str, Any]:
    """The operands by name."""
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=N),
        "y": rng.normal(size=N),
        "A": rng.normal(size=(ROWS, COLS)),
        "B": rng.normal(size=(ROWS, COLS)),
        "T": rng.normal(size=(TALL, NARROW)),
        "S": rng.normal(size=(ROWS, ROWS)),
        "b": rng.normal(size=TALL),
        "keys": rng.integers(0, 50, N),
        "i": rng.integers(0, ROWS, ASKED),
        "j": rng.integers(0, COLS, ASKED),
        "at": rng.integers(0, N, ASKED),
        "line": np.sort(rng.normal(size=N)),
        "v": rng.normal(size=ASKED),
    }


MATRICES = ("A", "B", "S")  # cut along both axes on a grid


class Given(dict[str, Any]):
    """The operands on the workers, each placed when a program first asks for it."""

    def __init__(self, mesh: Mesh, counters: Any) -> None:
        super().__init__()
        self._both, self._counters = mesh.columns > 1, counters
        self._placing = 0, 0

    def __missing__(self, name: str) -> Any:
        before = self._moved()
        x = tw.asarray(arrays()[name])
        x = x.relayout(0, 1) if self._both and name in MATRICES else x.relayout(0)
        tw.evaluate(x)
        self[name] = x
        now = self._moved()
        self._placing = self._placing[0] + now[0] - before[0], self._placing[1] + now[1] - before[1]
        return x

    def _moved(self) -> tuple[int, int]:
        now = self._counters
        return now.network_bytes, now.predicted_bytes + now.bounded_bytes

    @property
    def moved(self) -> tuple[int, int]:
        """Bytes that crossed, and those announced, but for operands on their way to the workers."""
        both = self._moved()
        return both[0] - self._placing[0], both[1] - self._placing[1]


Program = Callable[..., Any]
Bound = Callable[[Mesh], float]


@dataclass(frozen=True)
class Row:
    """A program, and the least that must move."""

    name: str
    run: Program
    bound: Bound


def nothing(m: Mesh) -> float:
    return 0.0


def selected(m: Mesh) -> float:
    """A few order statistics: a sample of each worker's elements, once to all."""
    return m.total(2 * N**0.5)


def _cut_evenly(m: Mesh, mask: Any = None) -> float:
    """Positions where a mask holds (x > 0): what is too many on one side of an even cut crosses it."""
    held = np.cumsum(np.random.default_rng(0).normal(size=N) > 0 if mask is None else mask)
    cuts = range(1, m.workers)
    return sum(abs(held[held.size * w // m.workers - 1] - held[-1] * w / m.workers) for w in cuts) * FLOAT


def _above_two(m: Mesh) -> float:
    """The same for A > 2; where both directions are cut, positions whose place in an even cut is another worker's."""
    mask = np.random.default_rng(0).normal(size=2 * N + ROWS * COLS)[2 * N :] > 2
    if m.columns == 1:
        return _cut_evenly(m, mask)
    row, column = np.nonzero(mask.reshape(ROWS, COLS))
    there = row // (ROWS // m.rows) * m.columns + column // (COLS // m.columns)
    belongs = np.searchsorted(len(row) * np.arange(1, m.workers) // m.workers, np.arange(len(row)), "right")
    return float(np.count_nonzero(there != belongs)) * FLOAT


def conjugate_gradients(d: dict[str, Any], steps: int = 4) -> Any:
    """The Laplacian of a line by slices written in place."""
    b = d["x"]
    u, r, p = tw.zeros(N), b.copy(), b.copy()
    rs = r @ r
    for _ in range(steps):
        q = tw.empty_like(p)
        q[1:-1] = 2.0 * p[1:-1] - p[:-2] - p[2:]
        q[0] = 2.0 * p[0] - p[1]
        q[-1] = 2.0 * p[-1] - p[-2]
        alpha = rs / (p @ q)
        u, r = u + alpha * p, r - alpha * q
        new = r @ r
        p, rs = r + (new / rs) * p, new
    return u


def roll_stencil(d: dict[str, Any]) -> Any:
    a = d["A"]
    for _ in range(2):
        a = 0.25 * (tw.roll(a, 1, 0) + tw.roll(a, -1, 0) + tw.roll(a, 1, 1) + tw.roll(a, -1, 1))
    return a


def _swapped(m: Mesh) -> float:
    """Bytes of a vector whose blocks go to the mirrored worker; the middle one of an odd number stays."""
    return (N - (N / m.workers if m.workers % 2 else 0)) * FLOAT


def _half_shift(m: Mesh) -> float:
    """Bytes of x[:n/2] + x[n/2:]: one operand of every sum, unless both are on one worker."""
    return N / 2 * FLOAT


def _turned(m: Mesh) -> float:
    """Bytes of an element of A + its transpose that is somewhere else: square blocks of the diagonal stay."""
    return ROWS * ROWS * FLOAT * (1 - 1 / (m.workers if m.columns == 1 else m.rows))


def _qr_heads(m: Mesh) -> float:
    """Every block's R goes to one worker."""
    return m.total(NARROW * NARROW)


def _middle(line: Any) -> Any:
    return np.sort(line)[COLS // 2]


def _add_below(d: dict[str, Any]) -> Any:
    made = d["A"] * 1.0
    made[1:][d["i"] // 2, d["j"]] += d["v"]
    return made


def _add_at(d: dict[str, Any]) -> Any:
    made = d["A"] * 1.0
    tw.add.at(made, (d["i"], d["j"]), d["v"])
    return made


def _put(d: dict[str, Any]) -> Any:
    made = d["x"] * 1.0
    tw.put(made, d["at"], d["v"])
    return made


def _filled(d: dict[str, Any]) -> Any:
    made = d["S"] * 1.0
    tw.fill_diagonal(made, 1.0)
    return made


# The programs of the issue, then other operators.
PROGRAMS: tuple[Row, ...] = (
    Row("A.reshape(cols, rows).sum(0)", lambda d: d["A"].reshape(COLS, ROWS).sum(0),
        lambda m: m.total(ROWS)),
    Row("x.reshape(-1, 2).sum(1)", lambda d: d["x"].reshape(-1, 2).sum(1), nothing),
    Row("A.ravel() + 1", lambda d: d["A"].ravel() + 1, nothing),
    Row("A[arange(n), A.argmax(1)]", lambda d: d["A"][np.arange(ROWS), d["A"].argmax(1)],
        lambda m: m.across(2 * ROWS)),
    Row("A[i, j]", lambda d: d["A"][d["i"], d["j"]], lambda m: m.away(2 * ASKED)),
    Row("concatenate([A, B]).mean(0)", lambda d: tw.concatenate([d["A"], d["B"]]).mean(0), lambda m: m.down(COLS)),
    Row("pad(x, 3)", lambda d: tw.pad(d["x"], 3) * 2.0, nothing),
    Row("repeat(x, 2)", lambda d: tw.repeat(d["x"], 2) * 2.0, nothing),
    Row("x[::-1] + x", lambda d: d["x"][::-1] + d["x"], _swapped),
    Row("svdvals(T)", lambda d: tw.linalg.svdvals(d["T"]), _qr_heads),
    Row("svd(T)", lambda d: tw.linalg.svd(d["T"], full_matrices=False), lambda m: 2 * _qr_heads(m)),
    Row("gradient(x)", lambda d: tw.gradient(d["x"]), lambda m: m.edges(2)),
    Row("median(x)", lambda d: tw.median(d["x"]), selected),
    Row("roll stencil", roll_stencil,
        lambda m: 2 * (2 * COLS * FLOAT * (m.rows if m.rows > 1 else 0)
                       + 2 * ROWS * FLOAT * (m.columns if m.columns > 1 else 0))),
    Row("conjugate gradients in place", conjugate_gradients, lambda m: 4 * (m.edges(2) + m.total(4))),
    # reshapes
    Row("A.reshape(-1, 8).sum(1)", lambda d: d["A"].reshape(-1, 8).sum(1),
        lambda m: m.across(ROWS if COLS // m.columns % 8 else 0)),
    Row("A.reshape(4, -1, cols).mean(0)", lambda d: d["A"].reshape(4, ROWS // 4, COLS).mean(0),
        lambda m: (m.rows - 1) / m.rows * ROWS / 4 * COLS * FLOAT * min(m.rows, 4)),
    Row("x.reshape(250, -1) * 2", lambda d: d["x"].reshape(250, -1) * 2.0,
        lambda m: sum(min(c % 168, 168 - c % 168) for c in (N * w // m.workers for w in range(1, m.workers))) * FLOAT),
    Row("A.T.ravel() * 2", lambda d: d["A"].T.ravel() * 2.0,
        lambda m: 0 if m.columns > 1 else ROWS * COLS * FLOAT * (1 - 1 / m.rows)),
    Row("x[:, None] * 2", lambda d: d["x"][:, None] * 2.0, nothing),
    Row("diagonal(S).sum()", lambda d: d["S"].diagonal().sum(), lambda m: m.total(1)),
    Row("trace(S)", lambda d: tw.trace(d["S"]), lambda m: m.total(1)),
    # slices
    Row("x[:n//2] + x[n//2:]", lambda d: d["x"][: N // 2] + d["x"][N // 2 :], _half_shift),
    Row("x[::2] + x[1::2]", lambda d: d["x"][::2] + d["x"][1::2], nothing),
    Row("x[::-1].cumsum()", lambda d: d["x"][::-1].cumsum(), lambda m: m.edges(1)),
    Row("A[::-1].sum(0)", lambda d: d["A"][::-1].sum(0), lambda m: m.down(COLS)),
    Row("A[:, ::-1] * A", lambda d: d["A"][:, ::-1] * d["A"],
        lambda m: 0 if m.columns == 1 else ROWS * COLS * FLOAT),
    Row("diff(x)", lambda d: tw.diff(d["x"]), lambda m: m.edges(1)),
    Row("diff(A, axis=0)", lambda d: tw.diff(d["A"], axis=0), lambda m: m.between_rows(COLS)),
    Row("gradient(A)[0]", lambda d: tw.gradient(d["A"], axis=0), lambda m: m.between_rows(2 * COLS)),
    Row("flip(A) + A", lambda d: tw.flip(d["A"]) + d["A"],
        lambda m: ROWS * COLS * FLOAT * (1 - (1 / m.workers if m.workers % 2 else 0))),
    Row("roll(x, 5) + x", lambda d: tw.roll(d["x"], 5) + d["x"], lambda m: 5 * m.workers * FLOAT),
    Row("S + S.T", lambda d: d["S"] + d["S"].T, _turned),
    # joins
    Row("concatenate([x, y]) * 2", lambda d: tw.concatenate([d["x"], d["y"]]) * 2.0, nothing),
    Row("concatenate([x, y]).sum()", lambda d: tw.concatenate([d["x"], d["y"]]).sum(), lambda m: m.total(1)),
    Row("stack([x, y])", lambda d: tw.stack([d["x"], d["y"]]) * 2.0, nothing),
    Row("stack([x, y], 1).sum(1)", lambda d: tw.stack([d["x"], d["y"]], 1).sum(1), nothing),
    Row("hstack([A, B])", lambda d: tw.hstack([d["A"], d["B"]]) * 2.0, nothing),
    Row("vstack([A, B])", lambda d: tw.vstack([d["A"], d["B"]]) * 2.0, nothing),
    Row("tile(x, 3)", lambda d: tw.tile(d["x"], 3) * 2.0, nothing),
    Row("pad(A, 1)", lambda d: tw.pad(d["A"], 1) * 2.0, nothing),
    Row("pad(A, 1, edge)", lambda d: tw.pad(d["A"], 1, mode="edge") * 2.0, nothing),
    Row("pad(x, 3, wrap)", lambda d: tw.pad(d["x"], 3, mode="wrap") * 2.0, lambda m: 6 * FLOAT),
    Row("repeat(A, 2, axis=0)", lambda d: tw.repeat(d["A"], 2, axis=0) * 2.0, nothing),
    Row("append(x, 1.0)", lambda d: tw.append(d["x"], 1.0) * 2.0, nothing),
    # order
    Row("sort(x)", lambda d: tw.sort(d["x"]), lambda m: m.away(N)),
    Row("sort(A, axis=0)", lambda d: tw.sort(d["A"], axis=0), lambda m: ROWS * COLS * FLOAT * (1 - 1 / m.rows)),
    Row("argsort(x, stable)", lambda d: tw.argsort(d["x"], kind="stable"), lambda m: m.away(2 * N)),
    Row("percentile(x, [5, 95])", lambda d: tw.percentile(d["x"], [5, 95]), lambda m: 2 * selected(m)),
    Row("quantile(x, 0.9)", lambda d: tw.quantile(d["x"], 0.9), selected),
    Row("sort(x)[-10:].mean()", lambda d: tw.sort(d["x"])[-10:].mean(), selected),
    Row("partition(x, 10)[:10] * 2", lambda d: tw.partition(d["x"], 10)[:10] * 2.0, selected),
    Row("unique(keys)", lambda d: tw.unique(d["keys"]), lambda m: m.total(50)),
    Row("unique(keys, inverse, counts)", lambda d: tw.unique(d["keys"], return_inverse=True, return_counts=True),
        lambda m: m.total(150)),
    Row("unique(x)", lambda d: tw.unique(d["x"]), lambda m: m.away(N)),
    Row("union1d(keys, i)", lambda d: tw.union1d(d["keys"], d["i"]), lambda m: m.total(ROWS)),
    Row("setdiff1d(at, i)", lambda d: tw.setdiff1d(d["at"], d["i"]), lambda m: m.away(2 * ASKED) + m.total(ROWS)),
    Row("isin(x, y)", lambda d: tw.isin(d["x"], d["y"]), lambda m: m.away(2 * N) + m.away(N) / FLOAT),
    Row("searchsorted(sorted, x)", lambda d: tw.searchsorted(d["line"], d["x"]), lambda m: m.away(2 * N)),
    Row("lexsort((x, keys))", lambda d: tw.lexsort((d["x"], d["keys"])), lambda m: m.away(3 * N)),
    Row("nanmedian(x)", lambda d: tw.nanmedian(d["x"]), selected),
    Row("nanquantile(x, 0.9)", lambda d: tw.nanquantile(d["x"], 0.9), selected),
    Row("quantile(x, 0.9, hazen)", lambda d: tw.quantile(d["x"], 0.9, method="hazen"), selected),
    Row("quantile(A, 0.5, axis=0)", lambda d: tw.quantile(d["A"], 0.5, axis=0),
        lambda m: ROWS * COLS * FLOAT * (1 - 1 / m.rows)),
    Row("nanmedian(A, axis=1)", lambda d: tw.nanmedian(d["A"], axis=1),
        lambda m: 0 if m.columns == 1 else ROWS * COLS * FLOAT * (1 - 1 / m.columns)),
    Row("sort(A, axis=None)", lambda d: tw.sort(d["A"], axis=None),
        lambda m: ROWS * COLS * FLOAT * (1 - 1 / m.workers)),
    # positions
    Row("flatnonzero(x > 0)", lambda d: tw.flatnonzero(d["x"] > 0), _cut_evenly),
    Row("argwhere(A > 2)", lambda d: tw.argwhere(d["A"] > 2), _above_two),
    Row("unravel_index(keys)", lambda d: tw.unravel_index(d["keys"], (10, 5)), lambda m: m.total(2)),
    Row("packbits(x > 0)", lambda d: tw.packbits(d["x"] > 0), nothing),
    Row("choose(keys % 2, [x, y])", lambda d: tw.choose(d["keys"] % 2, [d["x"], d["y"]]), lambda m: m.total(2)),
    Row("piecewise(x)", lambda d: tw.piecewise(d["x"], [d["x"] < 0], [abs, 1.0]), lambda m: 2 * _cut_evenly(m)),
    Row("apply_along_axis(A)", lambda d: tw.apply_along_axis(_middle, 1, d["A"]),
        lambda m: 0 if m.columns == 1 else ROWS * COLS * FLOAT * (1 - 1 / m.columns)),
    Row("histogram2d(x, y)", lambda d: tw.histogram2d(d["x"], d["y"])[0], lambda m: m.total(104)),
    # indices
    Row("x[at]", lambda d: d["x"][d["at"]], lambda m: m.away(2 * ASKED)),
    Row("A[i]", lambda d: d["A"][d["i"]],
        lambda m: ROWS * COLS
        * FLOAT * (1 - 1 / m.rows)),
    Row("take_along_axis(A, argsort)", lambda d: tw.take_along_axis(d["A"], tw.argsort(d["A"], axis=1), 1),
        lambda m: 0 if m.columns == 1 else 2 * ROWS * COLS * FLOAT * (1 - 1 / m.columns)),
    Row("A[i, j] = v", lambda d: _set(d, "A", (d["i"], d["j"])), lambda m: m.away(2 * ASKED)),
    Row("x[at] = v", lambda d: _set(d, "x", d["at"]), lambda m: m.away(2 * ASKED)),
    Row("A[1:][i, j] += v", _add_below, lambda m: m.away(4 * ASKED)),
    Row("add.at(A, (i, j), v)", _add_at, lambda m: m.away(2 * ASKED)),
    Row("put(x, at, v)", _put, lambda m: m.away(2 * ASKED)),
    Row("fill_diagonal(S)", _filled, nothing),
    Row("add.reduceat(x, every 20th)", lambda d: tw.add.reduceat(d["x"], np.arange(0, N, 20)),
        lambda m: m.total(N // 20)),
    Row("unique(pairs, axis=0)", lambda d: tw.unique(tw.stack([d["keys"], d["keys"] % 7], 1), axis=0),
        lambda m: m.total(2 * 50) + m.away(2 * 50)),  # all of them together, then evenly cut
    Row("interp(x, line, y)", lambda d: tw.interp(d["x"], d["line"], d["y"]), lambda m: m.away(2 * N)),
    Row("A[0]", lambda d: d["A"][0], nothing),
    Row("bincount(keys)", lambda d: tw.bincount(d["keys"], minlength=50), lambda m: m.total(50)),
    Row("x[x > 0].sum()", lambda d: d["x"][d["x"] > 0].sum(), lambda m: m.total(1)),
    Row("searchsorted(edges, x)", lambda d: tw.searchsorted(np.linspace(-3.0, 3.0, 20), d["x"]), lambda m: m.total(20)),
    Row("digitize(x, edges)", lambda d: tw.digitize(d["x"], np.linspace(-3.0, 3.0, 20)), lambda m: m.total(20)),
    Row("interp(x, xp, fp)", lambda d: tw.interp(d["x"], np.linspace(-3.0, 3.0, 20), np.arange(20.0)),
        lambda m: m.total(40)),
    Row("isin(keys, few)", lambda d: tw.isin(d["keys"], [3, 7, 11]), lambda m: m.total(3)),
    # algebra
    Row("T.T @ T", lambda d: d["T"].T @ d["T"], lambda m: m.total(NARROW * NARROW)),
    Row("T.T @ b", lambda d: d["T"].T @ d["b"], lambda m: m.total(NARROW)),
    Row("qr(T)", lambda d: tw.linalg.qr(d["T"]), lambda m: 2 * _qr_heads(m)),
    Row("pinv(T)", lambda d: tw.linalg.pinv(d["T"]), lambda m: 2 * _qr_heads(m)),
    Row("lstsq(T, b)", lambda d: tw.linalg.lstsq(d["T"], d["b"])[0], lambda m: m.total((NARROW + 1) ** 2)),
    Row("einsum('ii->i', S[:8, :8])", lambda d: tw.einsum("ii->i", d["S"][:8, :8]), nothing),
    Row("einsum('ij,ij->i', A, B)", lambda d: tw.einsum("ij,ij->i", d["A"], d["B"]), lambda m: m.across(ROWS)),
    Row("einsum('ii->i', S)", lambda d: tw.einsum("ii->i", d["S"]) * 2.0, nothing),
    Row("polyfit(x, y, 2)", lambda d: tw.polyfit(d["x"], d["y"], 2), lambda m: m.total(16 + 3)),
    Row("cross(T, T)", lambda d: tw.cross(d["T"][:, :3], d["T"][:, 3:6]), nothing),
    Row("kron(T, eye)", lambda d: tw.kron(d["T"], np.eye(2)), nothing),
    Row("trapezoid(x)", lambda d: tw.trapezoid(d["x"]), lambda m: m.edges(1) + m.total(1)),
    Row("corrcoef(T.T)", lambda d: tw.corrcoef(d["T"].T), lambda m: m.total(NARROW * NARROW + NARROW)),
    Row("convolve(x, w)", lambda d: tw.convolve(d["x"], np.ones(5), "same"), lambda m: m.edges(4)),
    Row("cumsum(x)", lambda d: d["x"].cumsum(), lambda m: m.edges(1)),
    Row("A.var(0)", lambda d: d["A"].var(0), lambda m: m.down(2 * COLS)),
    Row("A / A.sum(0)", lambda d: d["A"] / d["A"].sum(0), lambda m: 2 * m.down(COLS)),
)  # fmt: skip


def _set(d: dict[str, Any], name: str, key: Any) -> Any:
    made = d[name] * 1.0
    made[key] = d["v"]
    return made


def _arrays(found: Any) -> Iterator[Any]:
    if isinstance(found, tuple | list):
        for x in found:
            yield from _arrays(x)
    elif isinstance(found, tw.Array):
        yield found


def measure(row: Row, mesh: Mesh) -> dict[str, Any]:
    """Announced and counted bytes of one program, beside its bound."""
    with tw.session(engine="virtual", **mesh.options) as session, tw.config(eager_bytes=0, objective="bytes"):
        data = Given(mesh, session.cluster.counters)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tw.evaluate(*_arrays(row.run(data)))
        counted, announced = data.moved
    return {"announced": announced, "counted": counted, "bound": round(row.bound(mesh))}


def above(found: dict[str, Any], mesh: Mesh) -> bool:
    """Whether a better plan exists."""
    return bool(found["counted"] > GOAL * found["bound"] + SPARE * mesh.workers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--meshes", default="2,4,7,2x2")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    meshes = {}
    for name in args.meshes.split(","):
        rows, _, columns = name.partition("x")
        meshes[name] = Mesh(int(rows) * int(columns or 1), int(columns or 1))
    rows_found = []
    print(f"{'program':34}" + "".join(f"{name + ' workers':>16}{'bound':>10}{'ratio':>8} " for name in meshes))
    for row in PROGRAMS:
        if args.only not in row.name:
            continue
        line, found = f"{row.name:34}", {}
        for name, mesh in meshes.items():
            try:
                one = found[name] = measure(row, mesh)
            except Exception as error:
                found[name] = {"error": repr(error)}
                line += f"{'failed':>16}{type(error).__name__:>18} "
                continue
            mark = "!" if one["announced"] < one["counted"] else "*" if above(one, mesh) else " "
            ratio = one["counted"] / one["bound"] if one["bound"] else float("inf" if one["counted"] else 1)
            line += f"{one['counted']:>16,}{one['bound']:>10,}{ratio:>8.2f}{mark}"
        print(line, flush=True)
        rows_found.append({"name": row.name, "meshes": found})
    results = [(one, meshes[name]) for row in rows_found for name, one in row["meshes"].items()]
    over = sum("error" in one or above(one, mesh) for one, mesh in results)
    print(f"{over} of {len(results)} above {GOAL} times the bound and {SPARE} bytes per worker")
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text(json.dumps({"goal": GOAL, "rows": rows_found}, indent=1))


if __name__ == "__main__":
    main()
