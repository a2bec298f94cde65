"""Elements that only change places: NumPy's values on every mesh, the bytes announced, and few of them."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import tilewise as tw
from tests.engine.test_collectives import Program, everywhere

pytestmark = pytest.mark.sampled  # `everywhere`

DATA = {
    "matrix": numpy.arange(13.0 * 12).reshape(13, 12) / 7 - 3,
    "vector": numpy.where(numpy.arange(41) % 5 == 3, numpy.nan, numpy.arange(41.0) - 20),
    "cube": numpy.arange(5 * 4 * 6).reshape(5, 4, 6),
    "one": numpy.array([-0.0]),
    "empty": numpy.empty((0, 3), "f4"),
}

RESHAPES: dict[str, tuple[str, Program]] = {
    "split and merge": ("matrix", lambda np, x: (x.reshape(12, 13) + 1).reshape(-1, 4) * 2),
    "no common row": ("matrix", lambda np, x: x.reshape(4, 39).sum(0)),
    "a copy of a transpose": ("matrix", lambda np, x: x.T.reshape(13, 12) * 2),
    "column-major": ("matrix", lambda np, x: x.reshape(12, 13, order="F") + x.T.reshape(12, 13)),
    "ravel": ("matrix", lambda np, x: x.ravel() + x.T.ravel()),
    "part of a line": ("matrix", lambda np, x: x.reshape(-1)[5:101] * 2),
    "every third of a line": ("matrix", lambda np, x: x.reshape(-1)[4::3] * 2),
    "part of a reshape": ("matrix", lambda np, x: x.reshape(12, 13)[2:9, 1::3] * 2),
    "last row not whole": ("vector", lambda np, x: x[:40].reshape(5, 8)[1:, ::-1] * 2),
    "shifted rows": ("vector", lambda np, x: x[1:41].reshape(8, 5).sum(1)),
    "diagonal": ("matrix", lambda np, x: x.diagonal() * 2 + x[1:].diagonal()[:12]),
    "antidiagonal": ("matrix", lambda np, x: x[::-1].diagonal(1) * 2),
    "inner axes": ("cube", lambda np, x: x.reshape(5, 24)[::2] + 1),
    "leading axes": ("cube", lambda np, x: x.reshape(20, 6).sum(0)),
    "middle axis": ("cube", lambda np, x: x.transpose(1, 0, 2).reshape(4, 10, 3).sum(1)),
    "turned axes": ("cube", lambda np, x: np.moveaxis(x, 2, 0).reshape(-1) * 2),
    "one element": ("one", lambda np, x: x.reshape(1, 1, 1) * 2),
    "no element": ("empty", lambda np, x: x.reshape(3, 0) * 2),
    "written through": ("matrix", lambda np, x: _written(np, x)),
}  # fmt: skip


PIECES: dict[str, tuple[str, Program]] = {
    "flip": ("vector", lambda np, x: x[::-1] + x),
    "flip by threes": ("vector", lambda np, x: x[37:2:-3] * 2),
    "flip of all axes": ("cube", lambda np, x: np.flip(x) - x),
    "flip of a transpose": ("matrix", lambda np, x: (x.T[::-1] * 2).sum(0)),
    "flip twice": ("vector", lambda np, x: (x[::-1] * 2)[::-1] + x),
    "flip, then a part": ("matrix", lambda np, x: (x[::-1] * 2)[1:, :3] + 1),
    "flip one element": ("one", lambda np, x: x[::-1] * 2),
    "flip none": ("empty", lambda np, x: x[::-1] * 2),
    "greatest of a flip": ("matrix", lambda np, x: (x[::-1].max(0), x[::-1].argmax(0))),
    "sums from the end": ("vector", lambda np, x: np.cumsum(np.nan_to_num(x)[::-1])[::-1] + 1),
    "products of flipped rows": ("matrix", lambda np, x: np.cumprod(x[::-1] / 9, axis=0)),
    "sums along a flip": ("matrix", lambda np, x: np.cumsum(x[::-1], axis=1)),
    "join": ("matrix", lambda np, x: np.concatenate([x, x[:5], x[::-1]]) * 2),
    "join, then sum": ("matrix", lambda np, x: np.concatenate([x, x * 2, x[:1]]).sum(0)),
    "join of joins": ("vector", lambda np, x: np.concatenate([np.concatenate([x, x[:7]]) * 2, x]) + 1),
    "join with a number": ("vector", lambda np, x: np.append(x, 1.0) * 2),
    "join with none": ("matrix", lambda np, x: np.concatenate([x, x[:0], x]) * 2),
    "join, then a column": ("matrix", lambda np, x: np.concatenate([x, x * 2])[:, 3] + 1),
    "join, then rows": ("matrix", lambda np, x: (np.concatenate([x, x * 2]) + 1)[5:20]),
    "join, then scan": ("matrix", lambda np, x: np.cumsum(np.concatenate([x, x * 2]), axis=0)),
    "join, then sort": ("vector", lambda np, x: np.sort(np.concatenate([x, x * 2]))),
    "join, then product": ("matrix", lambda np, x: np.concatenate([x, x]).T @ np.concatenate([x, x * 2])),
    "join, then index": ("matrix", lambda np, x: np.concatenate([x, x * 2])[np.arange(25)[::-2]]),
    "join, then reshape": ("matrix", lambda np, x: np.concatenate([x, x * 2]).reshape(-1) + 1),
    "join other types": ("cube", lambda np, x: np.concatenate([x, x * 0.5], axis=1).sum(1)),
    "stack": ("vector", lambda np, x: np.stack([x, x * 2]).reshape(-1) + 1),
    "tile": ("vector", lambda np, x: np.tile(x, 3) * 2),
    "tile a matrix": ("matrix", lambda np, x: np.tile(x, (2, 3)).sum(1)),
    "repeat": ("matrix", lambda np, x: np.repeat(x, 3, axis=0) + np.repeat(x, 3, axis=0)[::-1]),
    "columns as rows": ("cube", lambda np, x: x.reshape(20, 6).reshape(2, 10, 6).sum(1)),
    "written into a join": ("matrix", lambda np, x: _filled(np, np.concatenate([x, x * 2]) + 1)),
}  # fmt: skip


BORDERS: dict[str, tuple[str, Program]] = {
    **{mode: ("matrix", lambda np, x, mode=mode: np.pad(x, ((1, 2), (0, 3)), mode=mode) * 2)
       for mode in ("constant", "edge", "reflect", "symmetric", "wrap")},
    "pad a vector": ("vector", lambda np, x: np.pad(x, 3) + 1),
    "pad one element": ("one", lambda np, x: np.pad(x, (2, 0), constant_values=5.0) * 2),
    "pad before it": ("vector", lambda np, x: np.pad(x, (50, 0)) * 2),
    "gradient": ("vector", lambda np, x: np.gradient(x)),
    "gradient of rows": ("matrix", lambda np, x: np.gradient(x, axis=0)),
    "gradient of both": ("matrix", lambda np, x: np.gradient(x)[1] + np.gradient(x)[0]),
    "roll": ("matrix", lambda np, x: np.roll(x, 1, 0) + np.roll(x, -2, 1) + np.roll(x, 3)),
    "first and last row": ("matrix", lambda np, x: _ends(np, x)),
    "a row of a new array": ("matrix", lambda np, x: _row(np, x)),
    "a row that is a sum": ("cube", lambda np, x: x[3].sum(0) + x[1, :, 2:].sum() + x[4:, 1:2].sum((0, 1))),
    "new and written": ("vector", lambda np, x: _new(np, x)),
}  # fmt: skip


def _ends(np: Any, x: Any) -> Any:
    y = x * 1
    y[0] = x[1] - x[-1]
    y[-1:] = x[:1] * 2
    y[5, 2:4] = x[6, 3:5]
    return y


def _row(np: Any, x: Any) -> Any:
    y = np.zeros((30, 12))
    y[3:16] = x
    y[20] = x[2] + x[3]
    y[21:22] = x[12:]
    return y + y[::-1]


def _new(np: Any, x: Any) -> Any:
    y = np.empty(60)
    y[:] = 1
    y[2:43] = x
    y[50:40:-1] = x[3:13]
    return y * 2


@pytest.mark.parametrize("name", BORDERS)
def test_borders(name: str) -> None:
    data, program = BORDERS[name]
    everywhere(program, DATA[data])


INDICES: dict[str, tuple[str, Program]] = {
    "pairs": ("matrix", lambda np, x: x[np.arange(40) * 5 % 13, np.arange(40) * 7 % 12]),
    "from the end": ("matrix", lambda np, x: x[-1 - np.arange(13), np.arange(13) % 12 - 12] * 2),
    "one of each row": ("matrix", lambda np, x: x[np.arange(13), x.argmax(1)]),
    "rows by columns": ("matrix", lambda np, x: x[np.arange(13)[::-2][:, None], np.arange(5) * 2]),
    "along an axis": ("matrix", lambda np, x: np.take_along_axis(x, np.argsort(-x, axis=1), 1)),
    "along the first axis": ("matrix", lambda np, x: np.take_along_axis(x, np.argsort(-x, axis=0, kind="stable"), 0)),
    "triples": ("cube", lambda np, x: x[np.arange(9) % 5, np.arange(9) % 4, np.arange(9) % 6]),
    "pairs before an axis": ("cube", lambda np, x: x[np.arange(9) % 5, np.arange(9) % 4] + 1),
    "pairs after an axis": ("cube", lambda np, x: x[:, np.arange(9) % 4, np.arange(9) % 6].sum(1)),
    "with a number": ("cube", lambda np, x: x[np.arange(9) % 5, 2] + x[..., np.arange(9) % 4, -1][:, :6].sum()),
    "apart": ("cube", lambda np, x: x[np.arange(3), :, np.arange(3)] * 2),
    "one pair": ("matrix", lambda np, x: x[np.arange(7, 8), np.arange(3, 4)] * 2),
    "no pair": ("matrix", lambda np, x: x[np.arange(0), np.arange(0)] * 2),
    "two axes of indices": ("vector", lambda np, x: x[(np.arange(60) * 7 % 41).reshape(5, 12)] * 2),
    "written pairs": ("matrix", lambda np, x: _put(np, x, (np.arange(9) * 5 % 13, np.arange(9)), np.arange(9.0))),
    "written twice": ("matrix", lambda np, x: _put(np, x, (np.arange(40) % 3, np.arange(40) % 2), np.arange(40.0))),
    "written numbers": ("matrix", lambda np, x: _put(np, x, (np.arange(9), np.arange(9)), 5)),
    "written by columns": ("matrix", lambda np, x: _put(np, x, (np.arange(4)[:, None], np.arange(5)), np.arange(5.0))),
    "written lines": ("cube", lambda np, x: _put(np, x, (np.arange(9) % 5, np.arange(9) % 4), np.arange(6))),
    "written columns": ("matrix", lambda np, x: _put(np, x, (slice(None), np.arange(9)), np.arange(13.0)[:, None])),
    "written at two axes": ("vector", lambda np, x: _put(np, x, (np.arange(20).reshape(4, 5) * 2,), np.arange(5.0))),
    "added pairs": ("matrix", lambda np, x: _add(np, x, (np.arange(40) % 3, np.arange(40) % 2), np.arange(40.0))),
    "one written": ("matrix", lambda np, x: _put(np, x, (np.arange(1), np.arange(1)), np.arange(1.0))),
}  # fmt: skip


def _put(np: Any, x: Any, key: Any, value: Any) -> Any:
    y = x * 1
    y[key] = value
    return y + 1


def _add(np: Any, x: Any, key: Any, value: Any) -> Any:
    y = x * 1
    np.add.at(y, key, value)
    return y


@pytest.mark.parametrize("name", INDICES)
def test_several_index_arrays(name: str) -> None:
    data, program = INDICES[name]
    everywhere(program, DATA[data])


TALL: dict[str, Program] = {
    "svd": lambda np, x: np.concatenate([part.reshape(-1) for part in np.linalg.svd(x, full_matrices=False)]),
    "svd put together": lambda np, x: _together(np, x),
    "svdvals": lambda np, x: np.linalg.svdvals(x),
    "singular values": lambda np, x: np.linalg.svd(x, compute_uv=False) * 2,
    "pinv": lambda np, x: np.linalg.pinv(x) @ x[:, :1],
    "condition": lambda np, x: np.linalg.cond(x + 0.5) * np.ones(2),
    "rank": lambda np, x: np.linalg.matrix_rank(x) + np.zeros(2),
    "rank by a bound": lambda np, x: np.linalg.matrix_rank(x[:, [0, 0, 1]], rtol=1e-3) + np.zeros(2),
    "lstsq": lambda np, x: np.concatenate([np.linalg.lstsq(x[:, 1:], x[:, 0])[k].reshape(-1) for k in (0, 1, 3)]),
    "lstsq of several": lambda np, x: np.linalg.lstsq(x[:, 2:], x[:, :2], rcond=1e-8)[0] * 2,
    "lstsq without full rank": lambda np, x: np.linalg.lstsq(x[:, [0, 0]] * 1.0, x[:, 1])[0],
    "residuals without full rank": lambda np, x: np.linalg.lstsq(x[:, [0, 0]] * 1.0, x[:, 1])[1],
}


RANKS: dict[str, Program] = {
    "median": lambda np, x: np.median(x),
    "median of a part": lambda np, x: np.median(x[1:]) * 2,
    "quantiles": lambda np, x: np.quantile(x, [0.0, 0.1, 0.5, 0.77, 1.0]),
    "quantile": lambda np, x: np.quantile(x, 0.3) + 1,
    "percentile": lambda np, x: np.percentile(x, 90),
    "least of a sort": lambda np, x: np.sort(x)[:3] * 2,
    "every second of the greatest": lambda np, x: np.sort(x)[-1:-5:-2] * 2,
    "one of a sort": lambda np, x: np.sort(x)[7] + np.sort(x)[-1],
    "a large part of a sort": lambda np, x: np.sort(x)[3:] * 2,
    "partition": lambda np, x: np.sort(np.partition(x, 4)[:4]),
    "a sort, and of it": lambda np, x: _both(np, x),
}


def _both(np: Any, x: Any) -> Any:
    y = np.sort(x)
    return y + y[3]


RANKED = {
    "floats": numpy.random.default_rng(1).normal(size=83),
    "equal": numpy.zeros(60),
    "ties": numpy.arange(77) // 9 % 3,
    "nan": numpy.where(numpy.arange(67) % 13 == 5, numpy.nan, numpy.arange(67.0) * 7 % 10),
    "inf": numpy.where(numpy.arange(50) % 2 == 1, numpy.inf, -numpy.inf),
    "small": numpy.arange(9, dtype="u1")[::-1] * 20,
    "single": numpy.arange(70, dtype="f4") * 31 % 50,
}


@pytest.mark.parametrize("data", RANKED)
@pytest.mark.parametrize("name", RANKS)
def test_order_statistics(name: str, data: str) -> None:
    with numpy.errstate(all="ignore"):
        everywhere(RANKS[name], RANKED[data], (2, 4, (2, 2)))


EDGES = numpy.linspace(-15.0, 15.0, 7)
LOOKUPS: dict[str, tuple[str, Program]] = {
    "searchsorted": ("matrix", lambda np, x: np.searchsorted(EDGES, x, side="right") + 1),
    "searchsorted in a long table": ("vector", lambda np, x: np.searchsorted(np.sort(x), EDGES)),
    "of a transpose": ("matrix", lambda np, x: np.searchsorted(EDGES, x.T) + 1),
    "digitize": ("vector", lambda np, x: np.digitize(x, EDGES[::-1], right=True)),
    "interp": ("vector", lambda np, x: np.interp(x, EDGES, EDGES**2, left=-1.0)),
    "isin": ("cube", lambda np, x: np.isin(x, [3, 60, 119, 500])),
    "isin, inverted": ("vector", lambda np, x: np.isin(x, x[::5], invert=True)),
    **{mode: ("vector", lambda np, x, mode=mode: np.convolve(np.nan_to_num(x), [1.0, -2.0, 0.5, 3.0], mode))
       for mode in ("full", "same", "valid")},
    "repeated letters": ("cube", lambda np, x: np.einsum("iij->j", x[:4]) + np.einsum("ii->i", x[0, :, :4]).sum()),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKUPS)
def test_lookups(name: str) -> None:
    data, program = LOOKUPS[name]
    everywhere(program, DATA[data])


def _together(np: Any, x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return (u * s) @ vh


@pytest.mark.parametrize("kind", ["f8", "c16"])
@pytest.mark.parametrize("name", TALL)
def test_tall_matrices(name: str, kind: str) -> None:
    rng = numpy.random.default_rng(3)
    data = rng.normal(size=(97, 4)) + (1j * rng.normal(size=(97, 4)) if kind == "c16" else 0)
    everywhere(TALL[name], data.astype(kind))


def _filled(np: Any, x: Any) -> Any:
    x[3:20] = 7
    return x * 2


@pytest.mark.parametrize("name", PIECES)
def test_pieces(name: str) -> None:
    data, program = PIECES[name]

    def first(np: Any, x: Any) -> Any:
        found = program(np, x)
        return np.concatenate([v.reshape(-1) for v in found]) if isinstance(found, tuple) else found

    everywhere(first, DATA[data])


def _written(np: Any, x: Any) -> Any:
    y = x * 1
    y.reshape(-1)[3:50:2] = 7
    return y + 1


@pytest.mark.parametrize("name", RESHAPES)
def test_reshapes(name: str) -> None:
    data, program = RESHAPES[name]
    everywhere(program, DATA[data])


def moved(program: Program, *shapes: tuple[int, ...], workers: int = 4) -> int:
    """Bytes that cross for a program of arrays that are cut along their first axis; announced ones are the same."""
    with (
        tw.config(eager_bytes=0, objective="bytes"),
        tw.session(engine="virtual", workers=workers) as session,
    ):
        arrays = [tw.asarray(numpy.random.default_rng(k).normal(size=s)).relayout(0) for k, s in enumerate(shapes)]
        tw.evaluate(*arrays)
        assert session.cluster is not None
        counters = session.cluster.counters
        before = counters.network_bytes
        want = program(numpy, *map(numpy.asarray, arrays))
        after = counters.network_bytes
        found = program(tw, *arrays)
        tw.evaluate(*found if isinstance(found, tuple) else (found,))
        count = counters.network_bytes - after
        assert before <= after and counters.network_bytes - counters.predicted_bytes <= counters.bounded_bytes
        numpy.testing.assert_allclose(numpy.asarray(found), want)
    return count


def test_cuts_between_rows_stay() -> None:
    assert moved(lambda np, x: x.reshape(60, 40) * 2, (40, 60)) == 0
    assert moved(lambda np, x: x.ravel() + 1, (40, 60)) == 0
    assert moved(lambda np, x: x.reshape(-1, 2).sum(1), (4000,)) == 0
    assert moved(lambda np, x: np.repeat(x, 2) * 2, (4000,)) == 0


def test_a_row_that_is_cut_moves_in_part() -> None:
    # Cuts at 10000, 20000, 30000 of 40000; the nearest ends of rows of 1600 are 9600, 19200 (or 20800), 30400.
    assert moved(lambda np, x: x.reshape(25, 1600) * 2, (40000,)) == (400 + 800 + 400) * 8
    assert moved(lambda np, x: x.reshape(-1, 7) * 2, (2, 4900), workers=2) == 0


def test_a_diagonal_stays_with_its_rows() -> None:
    assert moved(lambda np, x: x.diagonal() * 2.0, (40, 40)) == 0


def test_a_flip_swaps_blocks() -> None:
    assert moved(lambda np, x: x[::-1] + x, (4000,)) == 4000 * 8
    assert moved(lambda np, x: x[::-1] + x, (3500,), workers=7) == 3000 * 8
    assert moved(lambda np, x: x[::-1] * 2, (40, 500)) == 0
    assert moved(lambda np, x: np.cumsum(x[::-1])[::-1] * 2, (40_000,)) == 6 * 8


def test_a_join_leaves_operands_where_they_are() -> None:
    assert moved(lambda np, x, y: np.concatenate([x, y]) * 2, (4000,), (6000,)) == 0
    assert moved(lambda np, x, y: np.concatenate([x, y]).sum(0), (400, 30), (500, 30)) == 3 * 30 * 8
    assert moved(lambda np, x: np.tile(x, 3) * 2, (4000,)) == 0


def test_borders_stay_with_their_neighbours() -> None:
    for mode in ("constant", "edge", "reflect"):
        assert moved(lambda np, x, mode=mode: np.pad(x, 1, mode=mode) * 2, (400, 30)) == 0
    assert moved(lambda np, x: np.gradient(x, axis=0), (400, 30)) == 3 * 2 * 30 * 8
    assert moved(lambda np, x: np.roll(x, 1, 0) + np.roll(x, -1, 0), (400, 300)) == 2 * 4 * 300 * 8


def test_factors_of_tall_matrices_move_small_ones_only() -> None:
    assert moved(lambda np, x: np.linalg.svdvals(x), (4000, 5)) == 3 * 5 * 5 * 8
    assert moved(lambda np, x: np.linalg.svd(x, full_matrices=False)[0], (4000, 5)) == 2 * 3 * 5 * 5 * 8
    assert moved(lambda np, x: np.linalg.pinv(x), (4000, 5)) == 2 * 3 * 5 * 5 * 8
    assert moved(lambda np, x: np.linalg.lstsq(x[:, 1:], x[:, 0])[0], (4000, 5)) == 3 * 5 * 5 * 8
    assert moved(lambda np, x: np.linalg.cond(x), (4000, 5)) == 3 * 5 * 5 * 8
    assert moved(lambda np, x: np.linalg.matrix_rank(x), (4000, 5)) == 3 * 5 * 5 * 8


def test_a_few_of_many_are_not_sorted() -> None:
    assert moved(lambda np, x: np.median(x), (40_000,)) < 10_000
    assert moved(lambda np, x: np.sort(x)[-10:] * 2, (40_000,)) < 6_000
