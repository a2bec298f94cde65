"""What needs little of a file reads little of it; what needs all is done in turns, or refused before it is read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.store.toys import Grown, elements
from tilewise.array.handle import from_source
from tilewise.errors import MemoryBudgetError
from tilewise.layout import box_size

SHAPE, CHUNKS, MEMORY = (600, 80), (20, 80), 60_000  # 384,000 bytes, chunks of 12,800
NAMES = count(70_000)
X: Any = elements(SHAPE, "f8")


@pytest.fixture(autouse=True, params=[None, 0], ids=["at once", "recorded"])
def either_way(same_settings_after_each_test: None, request: Any) -> Any:
    tw.config(fallback="silent", native=False)
    if request.param is not None:
        tw.config(eager_bytes=request.param)
    return request.param


def opened(shape: tuple[int, ...] = SHAPE, order: Any = None) -> tuple[Any, Grown]:
    source = Grown(shape, (CHUNKS if order is None else CHUNKS[::-1])[: len(shape)], order=order, name=next(NAMES))
    return from_source(source), source


def evaluated(result: Any) -> Any:
    if isinstance(result, tuple | list):
        return tuple(evaluated(r) for r in result)
    return np.asarray(result)


# What reads rows 40 to 49, and of how many chunks that may take.
FEW: dict[str, Callable[[Any, Any], Any]] = {
    "median": lambda np, x: np.median(x[40:50]),
    "percentile": lambda np, x: np.percentile(x[40:50], 30),
    "histogram": lambda np, x: np.histogram(x[40:50], 5),
    "unique": lambda np, x: np.unique(x[40:50], return_counts=True),
    "singular values": lambda np, x: np.linalg.svd(x[40:50])[1],
    "determinant": lambda np, x: np.linalg.det(x[40:44, :4]),
    "eigenvalues": lambda np, x: np.sort(abs(np.linalg.eigvals(x[40:43, :3]))),
    "least squares": lambda np, x: np.linalg.lstsq(x[40:50, :2], x[40:50, 3])[0],
    "apply_along_axis": lambda np, x: np.apply_along_axis(sorted, 0, x[40:50]),
    "several in a list": lambda np, x: np.linalg.multi_dot([x[40:50], x[40:50].T, x[40:50]]),
    "rows": lambda np, x: [row.sum() for row in x[40:44]],
    "numbers": lambda np, x: list(x[41]),
    "unpacked": lambda np, x: (lambda a, b: a + b)(*x[42, :2]),
    "flat": lambda np, x: [v for v, _ in zip(x[40:42].flat, range(100), strict=False)],
    "an element of flat": lambda np, x: x[40:42].flat[81],
    "flattened": lambda np, x: x[40:50].flatten(),
    "raveled backwards": lambda np, x: x[49:39:-1].ravel()[::2],
    "reshaped": lambda np, x: x[40:50].reshape(4, -1).sum(0),
    "seen as integers": lambda np, x: x[40:50].view("i8")[:, ::3] // 7,
    "two views": lambda np, x: x[40:45].reshape(-1)[::7] + x[45:50].reshape(-1)[::7],
    "columns first": lambda np, x: x[40:50].astype("f4", order="F"),
    "copied": lambda np, x: x[40:42].copy(),
    "permuted": lambda np, x: np.random.default_rng(0).permutation(x[40:50]),
    "chosen": lambda np, x: np.random.default_rng(0).choice(x[40], 5),
    "text": lambda np, x: str(x[40:50]),
}


@pytest.mark.parametrize("name", list(FEW))
def test_what_needs_few_rows_reads_few(name: str, either_way: Any) -> None:
    x, source = opened()
    with tw.session(memory=None if either_way is None else MEMORY):
        got = evaluated(FEW[name](tw, x))
    for a, b in zip(got if type(got) is tuple else (got,), expected(FEW[name]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9) if a.dtype.kind != "U" else np.testing.assert_equal(a, b)
    assert {low // 20 for (low, _), _ in source.boxes} <= {2}  # the chunk of rows 40 to 59


def expected(program: Callable[[Any, Any], Any]) -> Any:
    want = evaluated(program(np, X))
    return want if type(want) is tuple else (want,)


def test_files_by_columns_and_vectors_are_read_in_parts_too() -> None:
    x, source = opened((80, 600), order=(1, 0))
    want = elements((80, 600), "f8")
    np.testing.assert_array_equal(np.asarray(x[:, 45:50].T.reshape(-1) * 2), want[:, 45:50].T.reshape(-1) * 2)
    assert {low // 20 for _, (low, _) in source.boxes} == {2}
    x, source = opened((4000,))
    np.testing.assert_array_equal(
        np.asarray(x[33:39].reshape(2, 3) + 1), elements((4000,), "f8")[33:39].reshape(2, 3) + 1
    )
    assert {low // 20 for ((low, _),) in source.boxes} == {1}


def test_views_stay_views_of_what_was_read_in_parts() -> None:
    x, _ = opened()
    part = x[40:50]
    before = float(np.median(part))
    part[:] = 0
    assert before == np.median(X[40:50]) and float(tw.median(x[40:50])) == 0 == float(x[49].sum())
    x, _ = opened()
    assert tw.shares_memory(x[:3], x) and not tw.shares_memory(x[:3], x[3:5])
    tw.fill_diagonal(x[:3], -1)
    tw.random.default_rng(0).shuffle(x[4:9])
    assert float(x[1, 1]) == -1 and float(x[4:9, 0].sum()) == X[4:9, 0].sum()
    row, want = x[50], X[50].copy()
    for i, value in enumerate(row):  # numbers that are written on the way are the new ones
        assert value == (want[i] if i < 5 else -1.0)
        if i == 4:
            row[:] = -1.0


SHAPES = [(4000, 15), (15, 4000), (2000,), (30, 20, 10), (1001, 1), (3, 1001), (0, 2000)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_text_is_numpys_and_reads_what_it_shows(shape: tuple[int, ...], either_way: Any) -> None:
    want = elements(shape, "f8")
    with tw.session(memory=20_000 if either_way is None else None):
        for show in (str, lambda x: repr(x).replace("Array", "array", 1)):
            for view in (lambda x: x, lambda x: x[::-1], lambda x: x.T, lambda x: x * 2.5):
                source = Grown(shape, tuple(min(n, 10) or 1 for n in shape), name=next(NAMES))
                x = from_source(source)
                assert show(view(x)) == show(view(want))
                few = sum(box_size(b) for b in source.boxes)
                assert few <= 300 * 8 or few == want.size or len(shape) > 2
        with np.printoptions(threshold=100, edgeitems=1, precision=2):
            assert str(x) == str(want)


def test_an_array_larger_than_any_memory_is_printed() -> None:
    x = from_source(Grown((10**6, 10**6), (100, 100), name=next(NAMES)))
    text = repr(x)
    assert text.count("...") == 7 and "shape=(1000000, 1000000)" in text
    assert str(X[:2, :2])[2:5] in text


def test_rows_of_what_exceeds_memory_come_one_by_one() -> None:
    x, source = opened()
    with tw.session(memory=MEMORY):
        total = 0.0
        for i, row in enumerate(x):
            total += float(row.sum())
            if i == 9:
                break
    assert total == X[:10].sum() and {low // 20 for (low, _), _ in source.boxes} == {0}
    x, source = opened()
    with tw.session(memory=MEMORY):
        assert [v for v, _ in zip(x.flat, range(100), strict=False)] == X.ravel()[:100].tolist()
        assert x.flat[-1] == X[-1, -1] and x.flat[np.int64(5)] == X[0, 5]
        x[0, 3] = -1.0
        assert x.flat[3] == -1.0
    long, source = opened((30_000,))
    with tw.session(memory=MEMORY):
        assert sum(1 for v in long if v >= 0) == 30_000


# What NumPy could do at once on arrays that are here: in turns where they exceed memory.
ALL: dict[str, Callable[[Any, Any, Any], Any]] = {
    "unique": lambda np, x, v: np.unique(v),
    "unique, all of it": lambda np, x, v: np.unique(v, return_index=True, return_inverse=True, return_counts=True),
    "unique rows": lambda np, x, v: np.unique(x[:, :30] % 3, axis=0),
    "intersect1d": lambda np, x, v: np.intersect1d(v, x[::3]),
    "setdiff1d": lambda np, x, v: np.setdiff1d(x, v[:7]),
    "nonzero": lambda np, x, v: np.nonzero(x > 90),
    "flatnonzero": lambda np, x, v: np.flatnonzero(v > 90),
    "argwhere": lambda np, x, v: np.argwhere(x > 95),
    "lexsort": lambda np, x, v: np.lexsort((v, v % 7)),
    "argpartition": lambda np, x, v: v[np.argpartition(v, [10, 100])][[10, 100]],
    "convolve": lambda np, x, v: np.convolve(v, [1.0, 2.0, 1.0]),
    "triangular factor": lambda np, x, v: abs(np.linalg.qr(v.reshape(-1, 10) % 37)[1]),
    "singular values": lambda np, x, v: np.linalg.svd(v.reshape(-1, 10) % 37, compute_uv=False),
    "condition": lambda np, x, v: np.linalg.cond(v.reshape(-1, 10) % 37),
    "apply_along_axis": lambda np, x, v: np.apply_along_axis(lambda row: row.max() - row[0], 1, x),
}


@pytest.mark.parametrize("name", list(ALL))
def test_what_numpy_does_at_once_is_done_in_turns(name: str) -> None:
    x, _ = opened()
    v = from_source(Grown((20_000,), (500,), name=next(NAMES)))
    with tw.session(memory=2 * MEMORY) as session:
        found = ALL[name](tw, x, v)
        tw.evaluate(*(found if isinstance(found, tuple | list) else [found]))
        assert 0 < session.disk.peak_bytes <= 2 * MEMORY
        got = evaluated(found)
    want = evaluated(ALL[name](np, X, elements((20_000,), "f8")))
    for a, b in zip(got if type(got) is tuple else (got,), want if type(want) is tuple else (want,), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("function", [lambda x: tw.linalg.inv(x[:80]), lambda x: tw.unique(x, axis=1)])
def test_what_needs_all_at_once_is_refused_before_it_is_read(function: Any) -> None:
    x, source = opened()
    with tw.session(memory=30_000), pytest.raises(MemoryBudgetError, match="allows 30,000"):
        tw.evaluate(function(x))
    assert not source.boxes


def test_text_by_numpys_functions_and_at_the_edges() -> None:
    want = elements((4000, 15), "f8")
    with tw.session(memory=MEMORY):
        x = from_source(Grown((4000, 15), (10, 15), name=next(NAMES)))
        assert tw.array2string(x, threshold=50, edgeitems=2) == np.array2string(want, threshold=50, edgeitems=2)
        assert np.array_str(x, precision=1) == np.array_str(want, precision=1)
        assert np.array_repr(x) == np.array_repr(want)
        with np.printoptions(threshold=3, edgeitems=0):
            assert str(x) == str(want)


def test_records_keep_their_fields(tmp_path: Any) -> None:
    want = np.array([(i, i * 0.5) for i in range(3000)], dtype=[("a", "i4"), ("b", "f8")])
    np.save(tmp_path / "records.npy", want)
    x = tw.open(str(tmp_path / "records.npy"))
    assert str(x) == str(want) and x.dtype == want.dtype
    np.testing.assert_array_equal(np.asarray(x["b"][5:9]), want["b"][5:9])
    np.testing.assert_array_equal(np.asarray(tw.argsort(x[:20])), np.argsort(want[:20]))


def test_arguments_exceed_memory_together_and_dtypes_are_named(tmp_path: Any) -> None:
    keys = [from_source(Grown((20_000,), (500,), name=next(NAMES))) for _ in range(2)]
    keys[1] = keys[1] % 7
    want = elements((20_000,), "f8")
    with tw.session(memory=250_000):
        np.testing.assert_array_equal(np.asarray(tw.lexsort(keys)), np.lexsort([want, want % 7]))
    with tw.session(memory=120_000):
        np.testing.assert_array_equal(np.asarray(tw.argsort(keys[0])), np.argsort(want, kind="stable"))
    np.save(tmp_path / "big.npy", np.arange(50_000.0).astype(">f8"))
    with tw.session(memory=100_000):
        x = tw.open(str(tmp_path / "big.npy"))
        with pytest.raises(MemoryBudgetError, match="sum of >f8 needs its"):
            x.sum()
