"""Rows taken and arrays joined by parts: NumPy's elements, errors and types."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.backend.host import parts as by_parts
from tilewise.backend.host import steps

rng = np.random.default_rng(5)
BASES = {
    "floats": rng.normal(size=(300, 7)),
    "bytes": rng.integers(0, 9, (300, 2, 5), dtype=np.int8),
    "complex": rng.normal(size=(300, 3)) + 1j,
    "nan": np.array([[np.nan, -0.0], [np.inf, 1.0]] * 150),
    "columns": np.asfortranarray(rng.normal(size=(300, 7))),
    "strided": rng.normal(size=(600, 7))[::2],
    "one row": np.ones((1, 4)),
}


@pytest.fixture(autouse=True)
def all_sizes(retune: Any) -> None:
    retune(map_parallel_bytes=1)


@pytest.mark.parametrize("name", BASES)
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8])
def test_rows(name: str, dtype: Any) -> None:
    base = BASES[name]
    top = min(len(base), 100)
    index = rng.integers(0 if dtype is np.uint8 else -top, top, 1000).astype(dtype)
    with tw.config(eager_bytes=0):
        for expected, found in (
            (base[index], tw.asarray(base)[tw.asarray(index)]),
            (np.take(base, index, 0), tw.take(tw.asarray(base), tw.asarray(index), 0)),
        ):
            got = np.asarray(found)
            assert got.tobytes() == expected.tobytes() and got.dtype == expected.dtype


@pytest.mark.parametrize("index", [[0, 300], [-301], [5, -400, 2]])
def test_indices_that_are_not_there(index: list[int]) -> None:
    with tw.config(eager_bytes=0), pytest.raises(IndexError) as found:
        np.asarray(tw.asarray(BASES["floats"])[tw.asarray(index)])
    with pytest.raises(IndexError) as expected:
        BASES["floats"][index]
    assert str(found.value).startswith(str(expected.value))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("threads_bytes", [1, 32 << 20])
def test_joined(axis: int, threads_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_parts, "THREADS_BYTES", threads_bytes)
    parts = [BASES["floats"], BASES["columns"][:, ::-1], BASES["strided"]]
    with tw.config(eager_bytes=0):
        got = np.asarray(tw.concatenate([tw.asarray(p) for p in parts], axis))
    assert got.tobytes() == np.concatenate(parts, axis).tobytes()
    with tw.config(eager_bytes=0):
        mixed = np.asarray(tw.concatenate([tw.asarray(parts[0]), tw.asarray(parts[1].astype(np.float32))], axis))
    assert mixed.tobytes() == np.concatenate([parts[0], parts[1].astype(np.float32)], axis).tobytes()


def test_these_are_done_by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    done = []
    real = steps.by_parts

    def seen(*args: Any) -> Any:
        done.append(real(*args) is not None)
        return real(*args)

    monkeypatch.setattr(steps, "by_parts", seen)
    x = tw.asarray(BASES["floats"])
    with tw.config(eager_bytes=0):
        np.asarray(x[tw.asarray(np.arange(299, -1, -1) * 1)])
        np.asarray(tw.concatenate([x, x * 2]))
    assert done and all(done)
