"""Rolled arrays are read as windows of one copy with a rim: NumPy's values, and few copies."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.backend.host import parts
from tilewise.ops import periodic as rims
from tilewise.ops.join import Concat
from tilewise.ops.periodic import rolled
from tilewise.rewrite import periodic

X = np.random.default_rng(2).integers(-50, 50, (40, 60, 3)).astype(np.int32)
Program = Callable[[Any, Any], Any]


def life(np: Any, x: Any) -> Any:
    shifts = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    return sum(np.roll(np.roll(x, i, axis=0), j, axis=1) for i, j in shifts)


PROGRAMS: dict[str, Program] = {
    "both ways": lambda np, x: np.roll(x, 1, 0) - np.roll(x, -1, 0),
    "around": life,
    "farther": lambda np, x: np.roll(x, 3, 1) * 2 + np.roll(x, -5, 1),
    "twice along an axis": lambda np, x: np.roll(np.roll(x, 2, 0), 3, 0) + 1,
    "there and back": lambda np, x: np.roll(np.roll(x, 2, 1), -2, 1) + x,
    "the last axis": lambda np, x: np.roll(x, 1, 2) + 1,
    "half": lambda np, x: np.roll(x, 20, 0) + 1,
    "more than once around": lambda np, x: np.roll(x, 401, 0) + 1,
    "no shift": lambda np, x: np.roll(x, 0, 0) + np.roll(x, 40, 0),
    "a tuple": lambda np, x: np.roll(x, (1, -1), (0, 1)) + x,
    "flat": lambda np, x: np.roll(x, 7) + x,
    "of what is pending": lambda np, x: np.roll(x * 2, 1, 0) + x,
    "of a part": lambda np, x: np.roll(x[1:-1, ::2], 1, 0) + 1,
    "of a transposed array": lambda np, x: np.roll(x.T, 1, 0) + 1,
    "asked for itself": lambda np, x: np.roll(x, 1, 0),
    "floats": lambda np, x: np.exp(np.roll(x / 7, 1, 0)) - np.roll(x / 7, 2, 1),
}


@pytest.fixture(autouse=True)
def all_sizes(monkeypatch: pytest.MonkeyPatch, no_plans: None) -> None:
    monkeypatch.setattr(periodic, "LEAST_BYTES", 1)


@pytest.mark.parametrize("workers", [0, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, workers: int) -> None:
    expected = PROGRAMS[name](np, X)
    with tw.config(eager_bytes=0):
        if workers:
            with tw.session(engine="virtual", workers=workers):
                found = np.asarray(PROGRAMS[name](tw, tw.asarray(X)))
        else:
            found = np.asarray(PROGRAMS[name](tw, tw.asarray(X)))
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert found.dtype == expected.dtype and found.strides == expected.strides


def copies(program: Program) -> tuple[int, int]:
    """How many arrays get a rim, and how many joins are left."""
    with tw.config(eager_bytes=0, flush=False):
        plan = tw.explain(program(tw, tw.asarray(X)))
    return plan.steps_text().count(" rim"), plan.steps_text().count(" concatenate")


@pytest.mark.parametrize(
    ("name", "rims", "joins"),
    [
        ("both ways", 1, 0), ("around", 1, 0), ("farther", 2, 0), ("a tuple", 1, 0),
        ("half", 0, 1), ("asked for itself", 0, 1), ("there and back", 0, 2),
    ],
)  # fmt: skip
def test_copies(name: str, rims: int, joins: int) -> None:
    """One copy with a rim for all shifts of one distance; nothing is saved by it where shifts are long."""
    assert copies(PROGRAMS[name]) == (rims, joins)


def test_a_result_is_an_array_of_its_own() -> None:
    with tw.config(eager_bytes=0):
        x = tw.asarray(X)
        y, z = tw.roll(x, 1, 0), tw.roll(x, -1, 0)
        total = y + z
        y[0] = 7
        assert np.array_equal(np.asarray(z), np.roll(X, -1, 0))
        assert np.array_equal(np.asarray(total), np.roll(X, 1, 0) + np.roll(X, -1, 0))
        assert np.asarray(y)[0, 0, 0] == 7


def test_joins_that_are_no_rolls() -> None:
    with tw.config(eager_bytes=0):
        x = tw.asarray(X)
        for made in (tw.concatenate([x[:1], x[1:]]), tw.concatenate([x[-1:], x[:-2], x[:1]]), tw.concatenate([x, x])):
            node = made._cell.read()
            assert type(node.op) is not Concat or rolled(node) is None or rolled(node)[1] == {}  # type: ignore[index]
            assert np.asarray(made + 1).sum() == np.asarray(made).sum() + made.size


def test_a_step_is_one_plan() -> None:
    """A loop over steps is evaluated once per step, not once per shift."""
    from tilewise import compiler

    with tw.config(eager_bytes=0):
        x = tw.asarray(X)
        counts = []
        for _ in range(8):
            x = (life(tw, x) % 5).astype(np.int32)
            counts.append(compiler.planned_count)
        np.asarray(x)
    want = X
    for _ in range(8):
        want = (life(np, want) % 5).astype(np.int32)
    assert np.array_equal(np.asarray(x), want)
    assert len(set(counts[-4:])) == 1


def test_a_step_on_a_torus_reads_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop of steps is flushed before the next step rolls: nothing rolled is made in memory."""
    made: list[str] = []
    rimmed, joined = parts._rimmed, parts._joined
    monkeypatch.setattr(parts, "_rimmed", lambda *args: (made.append("rim"), rimmed(*args))[1])
    monkeypatch.setattr(parts, "_joined", lambda *args: (made.append("join"), joined(*args))[1])

    def step(np: Any, board: Any) -> Any:
        around = sum(np.roll(np.roll(board, i, axis=0), j, axis=1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        return ((around == 3) | ((board == 1) & (around == 2))).astype(np.uint8)

    plain = (np.random.default_rng(8).random((1100, 1000)) < 0.3).astype(np.uint8)
    with tw.config(eager_bytes=1 << 16):
        board = tw.asarray(plain)
        for _ in range(5):
            board, plain = step(tw, board), step(np, plain)
        assert np.array_equal(np.asarray(board), plain) and board.dtype == plain.dtype
    assert made == ["rim"] * 5


@pytest.mark.parametrize("shape", [(3, 5), (40, 1, 7), (1, 1), (2000, 3)])
@pytest.mark.parametrize("width", [0, 1])
def test_rims(shape: tuple[int, ...], width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.arange(np.prod(shape), dtype=np.int16).reshape(shape)
    widths = tuple(width if k != 1 else 0 for k in range(len(shape)))
    want = np.pad(x, [(w, w) for w in widths], mode="wrap")
    for chunk in (1, 64, 1 << 20):
        monkeypatch.setattr(rims, "CHUNK_BYTES", chunk)
        assert np.array_equal(rims.Rim(widths).numpy(x), want)
