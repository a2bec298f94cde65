"""Sessions, budgets, switches for honesty."""

import copy
import pickle
import threading
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.array.session import current_session
from tilewise.errors import MemoryBudgetError, SessionClosedError
from tilewise.observe import progress


def test_sessions_nest_and_end() -> None:
    assert current_session() is None
    with tw.session(engine="virtual", workers=2) as outer:
        assert current_session() is outer
        with tw.session(engine="virtual", workers=3) as inner:
            assert current_session() is inner
        assert current_session() is outer
    assert current_session() is None


def test_a_session_belongs_to_its_thread() -> None:
    seen = []
    with tw.session(engine="virtual", workers=2):
        thread = threading.Thread(target=lambda: seen.append(current_session()))
        thread.start()
        thread.join()
    assert seen == [None]


def test_what_outlives_a_session_says_so() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=2):
        x = tw.evaluate(tw.arange(10.0) * 2)
        known = x.compute()
    assert known.tolist() == (np.arange(10.0) * 2).tolist()
    with pytest.raises(SessionClosedError, match="compute"):
        x.compute()


def test_arrays_move_between_sessions() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=2):
        x = tw.evaluate(tw.arange(10.0) * 2)
        with tw.session(engine="virtual", workers=3):
            assert (x + 1).compute().tolist() == (np.arange(10.0) * 2 + 1).tolist()


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "spark"},
        {"engine": "virtual", "workers": 0},
        {"engine": "virtual", "workers": -2},
        {"engine": "virtual", "workers": 2.5},
        {"engine": "local", "workers": 4},
        {"engine": "virtual", "mesh": (2, 2, 2)},
        {"engine": "virtual", "mesh": (0,)},
        {"engine": "virtual", "workers": 2, "mesh": (3,)},
        {"engine": "virtual", "memory": "much"},
        {"engine": "virtual", "checkpoint": "/no/where"},
        {"engine": "virtual", "every": 3},
    ],
)
def test_bad_options_are_refused_before_anything_starts(options: dict[str, object]) -> None:
    with pytest.raises(tw.TilewiseError):
        tw.session(**options)
    assert current_session() is None


def test_a_budget_is_kept_before_anything_runs() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=2, memory="1MiB"):
        big = tw.ones((1000, 1000)) + tw.eye(1000)
        with tw.config(fallback="silent"), pytest.raises(MemoryBudgetError, match="no plan needs less than 16,000,000"):
            tw.linalg.inv(big).compute()
        assert big.compute().sum() == 1_001_000.0  # blocks take turns
        assert float(tw.ones(100).sum()) == 100.0


def test_compare_names_the_node_that_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewise.ir import scalar

    with tw.config(eager_bytes=0), tw.testing.compare():
        assert float((tw.arange(4.0) * 3).sum()) == 18.0
    wrong = scalar.Scalar("square", 1, 1, lambda a: a * a + 1)
    x = tw.arange(5.0)
    with tw.config(eager_bytes=0, native=False):
        y = x**2
        monkeypatch.setattr(y._cell.node.op, "fn", wrong)
        with tw.testing.compare(), tw.config(native=True), pytest.raises(tw.TilewiseError, match="differs from NumPy"):
            y.compute()


def ordered(np: Any) -> Any:
    """Writes into memory of another order than C's, and sums that cancel."""
    x = np.asfortranarray(np.arange(12.0).reshape(3, 4) / 7)
    y = np.zeros_like(x)
    y[:, 0] = 5
    z = (x - x.mean()).astype("c8")
    return np.pad(x, 1), np.pad(x, 1, mode="edge"), y, (x - x.mean()).sum(), z.sum(), np.full_like(x, 2)


@pytest.mark.parametrize("setting", [{"engine": "numpy"}, {"compare": True}])
def test_what_was_recorded_is_evaluated_by_numpy(setting: Any) -> None:
    with tw.config(eager_bytes=0):
        pending = ordered(tw)
    with tw.config(**setting):
        for a, b in zip(ordered(np), pending, strict=True):
            np.testing.assert_allclose(np.asarray(b), a, atol=1e-5)
            assert b.flags.f_contiguous == np.asarray(a).flags.f_contiguous
    with tw.config(eager_bytes=0):
        x, y = tw.arange(4.0) + 1, tw.arange(4.0) * 2
    with tw.config(**setting):
        assert x.min().tolist() == 1.0 and np.add(x, y, dtype="f4").tolist() == [1, 4, 7, 10]
        assert y.sum(axis=0, keepdims=True).tolist() == [12.0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("workers", [2, 3, 7])
def test_no_layout_changes_a_result(seed: int, workers: int) -> None:
    def program(np):
        x = np.arange(84.0).reshape(12, 7)
        y = (x - x.mean(axis=0)) @ x.T
        y[2:9, ::3] *= 2
        z = np.concatenate([y, y[:, ::-1][:3]], axis=0)
        return z, z.max(axis=1) + x.sum(), np.cumsum(z, axis=1), np.sort(z, axis=0)

    want = program(np)
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=workers), tw.testing.random_layouts(seed):
        got = tw.compute(*program(tw))
    for a, b in zip(want, got, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12)


@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", ["inner", "dot", "tensordot"])
def test_a_product_cut_into_numbers_has_numpys_zero(name: str, rows: int, length: int) -> None:
    def program(np):
        a, b = np.ones((rows, length)), np.full((length, 1), -0.0)
        return {
            "inner": lambda: np.inner(a, b.T),
            "dot": lambda: np.dot(a, b),
            "tensordot": lambda: np.tensordot(a, b, 1),
        }[name]()

    want = program(np)
    for seed in range(4):
        many = tw.session(engine="virtual", workers=2)
        with tw.config(eager_bytes=0, blocks=3), many, tw.testing.random_layouts(seed):
            got = program(tw).compute()
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_a_product_of_truth_values_is_one_on_every_mesh() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3):
        yes = tw.full((64,), True)
        assert (yes @ yes).dtype == bool and bool(yes @ yes)


@pytest.mark.parametrize("placed", [False, True])
@pytest.mark.parametrize("view", [".T", "[::-1]", "[1]", "[..., 0]", "[:, 1].T", ".transpose(1, 2, 0)[::-1]"])
@pytest.mark.parametrize("twin", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))], ids=["deep", "pickled"])
def test_a_twin_of_a_view_lies_as_numpys(twin: Any, view: str, placed: bool) -> None:
    def program(np):
        x = np.arange(24.0).reshape(4, 3, 2).T + 1
        return twin(eval(f"y{view}", {"y": tw.evaluate(x) if placed and np is tw else x}))

    want = program(np)
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3):
        got = program(tw)
        assert got.strides == got.compute().strides == want.strides
        np.testing.assert_array_equal(got, want)


def test_progress_speaks_after_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.events.activity, "began", 100.0)
    assert progress.line(100.4) is None
    assert "step" in (progress.line(102.0) or "")
    monkeypatch.setattr(progress.events.activity, "began", 0.0)
    assert progress.line(102.0) is None


def test_more_workers_than_anyone_has():
    with tw.config(eager_bytes=0), pytest.raises(tw.errors.ConfigError, match="at most 65,536 blocks"):
        tw.explain(tw.ones(3) * 2, workers=2**40)
