"""Other libraries take Arrays as they take ndarrays: the calls of calls.py with both, results and warnings compared."""

from __future__ import annotations

import importlib.util
import io
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.neighbours import other_calls, pandas_calls, python_calls, science_calls  # noqa: F401  (they enter calls)
from tests.neighbours.calls import CALLS

ARRAYS = (
    np.array([3.0, 1.0, 2.0, 5.0]),
    np.arange(12.0).reshape(4, 3),
    np.array([0, 1, 0, 1]),
    (np.arange(48).reshape(4, 4, 3) % 255).astype("u1"),
)

# These ask for NumPy's own class, in C or by isinstance: `np.asarray(x)` is the way in.
NOT_TAKEN = {
    "pd_groupby": (TypeError, "not callable"),
    "pd_frame_times": (ValueError, "Unable to coerce"),
    "sk_grid": (TypeError, "needs to be a list"),
    "sk_random_search": (TypeError, "needs to be a list"),
    "h5_read_direct": (TypeError, "incorrect type"),  # writes to its argument
    "ndi_output": (ValueError, "read-only"),
    "numba_f": (Exception, "Unknown attribute 'sum'"),  # elements can be read, attributes are NumPy's
    "joblib_hash": (None, "equal arrays have equal hashes, but not those of ndarrays"),
}


def plain(result: Any) -> Any:
    """A result as lists, numbers and text, with dtypes."""
    if isinstance(result, tuple | list):
        return [plain(r) for r in result]
    if isinstance(result, dict):
        return [(plain(k), plain(r)) for k, r in result.items()]
    if hasattr(result, "toarray"):
        return "sparse", plain(result.toarray())
    if hasattr(result, "to_dict"):
        return type(result).__name__, result.to_dict(), str(result.dtypes)
    if hasattr(result, "dtype") and hasattr(result, "shape") and hasattr(result, "__array__"):
        array = np.asarray(result)
        return array.tolist(), str(array.dtype), array.shape
    return (type(result).__name__, result) if isinstance(result, int | float | str | bytes) else repr(result)


def outcome(call: Any, module: Any, tmp: Path) -> tuple[Any, list[str]]:
    """What a call gives, and what it warns of."""
    arrays = [module.asarray(a.copy()) for a in ARRAYS]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = plain(call(module, *arrays, tmp))
    return result, sorted({f"{w.category.__name__}: {w.message}" for w in seen})


@pytest.mark.parametrize("name", [name for name, (library, _) in CALLS.items() if library == "jax"])
def test_a_call_of_jax_gives_the_same_for_both(name: str) -> None:
    if importlib.util.find_spec("jax") is None:
        pytest.skip("there is no JAX")
    # In a process of its own: JAX warns of forks as long as it is loaded.
    program = f"from tests.neighbours import test_neighbours as t; t.same({name!r}, t.Path('.'))"
    subprocess.run([sys.executable, "-W", "ignore", "-c", program], check=True, cwd=Path(__file__).parents[2])


def same(name: str, folder: Path) -> None:
    """Compare a call with both."""
    call = CALLS[name][1]
    assert repr(outcome(call, tw, folder)) == repr(outcome(call, np, folder))


@pytest.mark.parametrize("name", [name for name, (lib, _) in CALLS.items() if name not in NOT_TAKEN and lib != "jax"])
def test_a_call_gives_the_same_for_both(name: str, tmp_path: Path) -> None:
    library, _ = CALLS[name]
    if library:
        pytest.importorskip(library)
    same(name, tmp_path)


@pytest.mark.parametrize("name", [name for name, (error, _) in NOT_TAKEN.items() if error])
def test_what_is_not_taken_is_refused(name: str, tmp_path: Path) -> None:
    library, call = CALLS[name]
    pytest.importorskip(library)
    error, text = NOT_TAKEN[name]
    outcome(call, np, tmp_path)
    with pytest.raises(error, match=text):
        outcome(call, tw, tmp_path)


def test_hashes_do_not_depend_on_what_is_known() -> None:
    joblib = pytest.importorskip("joblib")
    with tw.config(eager_bytes=0):
        pending = tw.asarray(ARRAYS[1]) * 2
        found = joblib.hash(pending)
    known = tw.asarray(ARRAYS[1] * 2)
    assert found == joblib.hash(known) == joblib.hash(pending)
    assert found != joblib.hash(known + 1)


def test_tokens_do_not_depend_on_what_is_known() -> None:
    tokenize = pytest.importorskip("dask.base").tokenize
    with tw.config(eager_bytes=0):
        pending = tw.asarray(ARRAYS[1]) * 2
        assert tokenize(pending) == tokenize(tw.asarray(ARRAYS[1] * 2)) != tokenize(pending + 1)


@pytest.mark.parametrize("kind", ["M8[D]", object, "U3", "f8", "c16", "?", "f2"])
def test_memory_outlives_who_asked(kind: Any) -> None:
    values = np.array([1, 2, 3]).astype("M8[D]" if kind == "M8[D]" else kind)
    for _ in range(50):
        found = np.asarray(tw.array(values.copy()))
        assert np.array_equal(found, values) and found.dtype == values.dtype


def test_buffers_are_snapshots() -> None:
    x = tw.arange(4.0)
    view, described = memoryview(x), x.__array_interface__
    assert view.readonly and described["data"][1]
    x[0] = 9.0
    assert view.tolist() == [0.0, 1.0, 2.0, 3.0] and x[0] == 9.0
    with pytest.raises((TypeError, BufferError)):
        io.BytesIO(b"12345678").readinto(x)


HANDED_OUT = {
    "asarray": np.asarray,
    "memoryview": memoryview,
    "bytes": bytes,
    "frombuffer": np.frombuffer,
    "the slot of 3.12": lambda x: type(x).__buffer__(x, 0),
    "an array of it": lambda x: np.asarray(type(x).__buffer__(x, 0)),
    "a view of a view": lambda x: memoryview(memoryview(x))[1:3],
    "a view of an array": lambda x: np.asarray(x)[1:3],
    "what an array holds": lambda x: np.asarray(np.asarray(x).base),
}


@pytest.mark.parametrize("length", [1, 4, 40_000])
@pytest.mark.parametrize("way", HANDED_OUT)
def test_what_was_handed_out_stays_as_it_was(way: str, length: int) -> None:
    x = tw.arange(float(length)) + 1.0
    held = HANDED_OUT[way](x)  # nothing but the last of what was made on the way is kept
    before = bytes(held)
    assert memoryview(held).readonly
    x += 1.0
    x[:] = 7.0
    assert bytes(held) == before and np.array_equal(x, np.full(length, 7.0))
    del x
    for i in range(3):  # in memory that was given back, if it was
        (tw.arange(float(length)) * 3.0 + i).compute()
    assert bytes(held) == before


def test_memory_that_is_let_go_of_is_written_in_place() -> None:
    x = tw.arange(4.0) + 1.0
    for way in HANDED_OUT.values():
        where = np.asarray(x).ctypes.data
        way(x)
        x += 1.0
        assert np.asarray(x).ctypes.data == where


def test_what_ends_an_evaluation_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(tile: Any) -> Any:
        if len(tile) == 5:
            raise KeyboardInterrupt
        return tile

    with tw.config(eager_bytes=0):
        x = tw.map_tiles(stop, tw.arange(5.0), dtype=float)
        with pytest.raises(KeyboardInterrupt):
            np.asarray(x)
        with pytest.raises(KeyboardInterrupt):
            x.compute()


def test_scipys_array_api_takes_arrays_and_numbers_together() -> None:
    """Under its switch SciPy refuses NumPy's scalars beside arrays of a library: our numbers are Arrays then."""
    program = """
import numpy as np
import tilewise as tw
from scipy import signal, stats

rng = np.random.default_rng(0)
x, y = rng.random(20), rng.random(20)
ours, want = stats.pearsonr(tw.asarray(x), tw.asarray(y)), stats.pearsonr(x, y)
assert np.allclose([float(ours.statistic), float(ours.pvalue)], [want.statistic, want.pvalue], rtol=1e-12)
b, a = signal.butter(3, 0.2)
found = signal.filtfilt(tw.asarray(b), tw.asarray(a), tw.asarray(x))
assert isinstance(found, tw.Array) and np.allclose(found, signal.filtfilt(b, a, x))
assert np.isclose(float(stats.variation(tw.asarray(x))), stats.variation(x))
total = tw.asarray(x).sum()
assert type(total) is tw.Array and type(total / 2) is tw.Array
total[...] = 3.0
assert float(total) == 3.0
"""
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[2], env=environment)
