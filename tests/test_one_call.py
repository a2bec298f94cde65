"""What a function records is one call of the program: only the program's own loops are flushed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.array import force

DATA = np.random.default_rng(0).normal(size=4200)


@pytest.fixture
def flushes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The flushes so far."""
    found: list[int] = []
    real = force.flush

    def flush(but: Any = ()) -> None:
        found.append(1)
        real(but)

    monkeypatch.setattr(force, "flush", flush)
    return found


STRAIGHT: dict[str, Callable[[Any, Any], Any]] = {
    "a formula": lambda np, x: np.packbits(x > 0),
    "a formula with sums": lambda np, x: np.setdiff1d(x, x[:5]),
    "one function twice on a line": lambda np, x: np.gradient(np.gradient(x)),
    "one function three times": lambda np, x: np.diff(np.diff(np.diff(np.cumsum(x)))),
    "functions in functions": lambda np, x: np.median(np.pad(np.pad(x, 2, mode="wrap"), 3, mode="reflect")),
    "a method": lambda np, x: x.reshape(70, 60).var(0).std(),
}


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("name", STRAIGHT)
def test_nothing_is_flushed_within_a_call(name: str, workers: int, flushes: list[int]) -> None:
    f = STRAIGHT[name]
    with tw.config(eager_bytes=0, flush=True), tw.session(engine="virtual", workers=workers):
        found = f(tw, tw.asarray(DATA).relayout(0))
        assert not flushes
        np.testing.assert_allclose(np.asarray(found), f(np, DATA), rtol=1e-9, atol=1e-11)


def test_a_loop_of_calls_is_flushed(flushes: list[int]) -> None:
    with tw.config(eager_bytes=0, flush=True):
        x = tw.asarray(DATA)
        for _ in range(6):
            x = tw.cumsum(tw.gradient(x)) * 0.5
        assert len(flushes) >= 4
        want = DATA
        for _ in range(6):
            want = np.cumsum(np.gradient(want)) * 0.5
        np.testing.assert_allclose(np.asarray(x), want, rtol=1e-9)


def test_a_loop_of_writes_is_flushed(flushes: list[int]) -> None:
    with tw.config(eager_bytes=0, flush=True):
        x, want = tw.asarray(DATA), DATA.copy()
        for _ in range(5):
            tw.putmask(x, x > 1, tw.cumsum(x))
            np.putmask(want, want > 1, np.cumsum(want))
        assert flushes
        np.testing.assert_allclose(np.asarray(x), want, rtol=1e-9)


def test_a_long_loop_within_numpys_code() -> None:
    """np.polyval multiplies and adds once per coefficient: the kernel stays short."""
    p, x = np.linspace(0.1, 1.0, 300), DATA[:100] / 4
    with tw.config(eager_bytes=0, flush=True):
        np.testing.assert_allclose(np.asarray(tw.polyval(p, tw.asarray(x))), np.polyval(p, x), rtol=1e-9)
