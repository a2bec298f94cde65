"""Results of workers into one: what was there before, cells set to zero, NaN, untouched cells, accumulators."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tilewise.parfor.merge import all_zero, changes, merged
from tilewise.parfor.reductions.combine import combine, start_of

SHAPE = (60, 55)


def before(kind: str, dtype: Any, order: str) -> Any:
    rng = np.random.default_rng(3)
    out = np.zeros(SHAPE, dtype=dtype, order=order)  # type: ignore[call-overload]
    if kind != "empty":
        out[...] = rng.integers(1, 9, SHAPE)
    if kind == "sparse":
        out[rng.random(SHAPE) < 0.9] = 0
    if kind == "nan":
        out[rng.random(SHAPE) < 0.3] = np.nan
    return out


def update(array: Any, rows: slice, how: str) -> None:
    """What a worker does to its third of the rows; the last seven columns are left alone."""
    part = array[rows, :-7]
    if how == "values":
        part[...] = np.arange(part.size).reshape(part.shape) + 1
    elif how == "zeros":
        part[...] = 0
    elif how == "some":
        part[::2, ::3] = 5
    elif how == "nan":
        part[1::2] = np.nan
    elif how == "minus zero":
        part[...] = -0.0
    elif how == "same":
        part[...] = part.copy()


KINDS = ("empty", "dense", "sparse", "nan")
UPDATES = ("values", "zeros", "some", "nan", "minus zero", "same")


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("kind", "how"), list(itertools.product(KINDS, UPDATES)))
def test_three_workers(kind: str, how: str, order: str) -> None:
    old = before(kind, np.float64, order)
    thirds = [slice(0, 20), slice(20, 40), slice(40, 60)]
    expected = old.copy(order="K")
    workers = []
    for rows in thirds:
        update(expected, rows, how)
        workers.append(old.copy(order="K"))
        update(workers[-1], rows, how)
    got = merged(old, workers)
    assert got.tobytes() == expected.tobytes()
    assert got.flags.f_contiguous == old.flags.f_contiguous


@pytest.mark.parametrize("dtype", ["i1", "u2", "i4", "f4", "f8", "c8", "c16", "bool", "S3", "M8[s]", "f2"])
def test_dtypes(dtype: str) -> None:
    old = np.zeros(30, dtype=dtype)
    old[::2] = np.ones(15).astype("i8").astype(dtype)
    workers = [old.copy() for _ in range(3)]
    for k, worker in enumerate(workers):
        worker[10 * k] = np.zeros((), dtype=dtype)
        worker[10 * k + 1] = np.ones((), dtype="i8").astype(dtype)
    expected = old.copy()
    for k, worker in enumerate(workers):
        expected[10 * k : 10 * k + 2] = worker[10 * k : 10 * k + 2]
    assert merged(old, workers).tobytes() == expected.tobytes()


def test_objects_are_compared_by_identity() -> None:
    one, two = [1], [1]
    old = np.array([one, None, 3], dtype=object)
    worker = old.copy()
    worker[0] = two
    assert merged(old, [old.copy(), worker])[0] is two


@pytest.mark.parametrize("shape", [(), (0,), (1,), (0, 5)])
def test_small_shapes(shape: tuple[int, ...]) -> None:
    old = np.ones(shape)
    worker = old * 2
    assert merged(old, [old.copy(), worker]).tobytes() == worker.tobytes()


def test_nothing_is_compared_with_zero() -> None:
    assert all_zero(np.zeros(4)) and not all_zero(np.array([0.0, -0.0]))
    assert changes(np.array([0.0, 3.0]), None).cells.tolist() == [1]


@pytest.mark.parametrize("op", ["+", "*", "max", "min", "|", "&", "^"])
@pytest.mark.parametrize("start", [0, 5, -3, True])
def test_start_values_count_once(op: str, start: int) -> None:
    from_plain: Any = start
    parts = [[1, 2, 3], [7], [], [4, 4]]
    for x in itertools.chain(*parts):
        from_plain = combine(op, from_plain, x)
    total: Any = start
    for part in parts:
        own = start_of(op, start)
        for x in part:
            own = combine(op, own, x)
        total = combine(op, total, own)
    assert total == from_plain


def test_neutral_elements_keep_signs_and_types() -> None:
    assert str(combine("+", -0.0, start_of("+", -0.0))) == "-0.0"
    assert start_of("+", np.float32(3)).dtype == np.float32
    assert start_of("*", np.arange(3)).tolist() == [1, 1, 1]
    assert start_of("max", np.arange(3)).tolist() == [0, 1, 2]
    assert np.isnan(combine("max", 3.0, float("nan")))
