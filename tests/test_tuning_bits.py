"""Figures of a `Tuning` decide how something is computed, never a bit of what comes out."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Retune
from tests.engine.test_tiled import PROGRAMS
from tests.fuzz.thresholds import applied, tuning
from tilewise.store import pool
from tilewise.tuning import Tuning, tuned, using

ROOT = Path(__file__).parent.parent
MORE: dict[str, Any] = {
    "blur": lambda np, X: (X[:-2] + 2 * X[1:-1] + X[2:]) * 0.25 + X[1:-1] ** 2,
    "sums of a blur": lambda np, X: ((X[:-2] + 2 * X[1:-1] + X[2:]) * 0.25).sum(0),
    "scan": lambda np, X: np.cumsum(X.ravel() * 1.5),
    "scan of columns": lambda np, X: np.cumsum(X * 1.5, axis=0),
    "by keys": lambda np, X: np.bincount((abs(X[:, 0]) * 10).astype("i8"), weights=X[:, 1], minlength=60),
    "short rows": lambda np, X: (X[:, :7] * X[:, 1:8]).sum(1),
    "divide": lambda np, X: X / X[0] + X / 3.7,
    "product": lambda np, X: X[:200] @ X.T[:, :300],
    "select": lambda np, X: X[X > 0.3],
    "pairs": lambda np, X: ((X[:60, None, :] - X[None, :80, :]) ** 2).sum(-1),
    "other order": lambda np, X: (X.T + 1)[:, ::-1] * 2,
    "long": lambda np, X: sum(np.sin(X * k) for k in range(1, 12)),
}
TILED = "softmax,layer norm,standardise,sums along both axes,there and back,distances,gram and sums".split(",")
SEEDS = 3


def results(data: np.ndarray[Any, Any]) -> dict[str, list[bytes]]:
    """The bytes of all programs; each runs three times, the last perhaps by a replay."""
    found = {}
    with tw.config(eager_bytes=0, fallback="silent"):
        for name, program in {**{name: PROGRAMS[name] for name in TILED}, **MORE}.items():
            function = tw.jit(lambda x, program=program: program(tw, x))
            for _ in range(3):
                made = function(tw.asarray(data))
            found[name] = [np.asarray(a).tobytes() for a in (made if isinstance(made, tuple) else (made,))]
    return found


@pytest.fixture(scope="module")
def usual() -> tuple[np.ndarray[Any, Any], dict[str, list[bytes]]]:
    data = np.random.default_rng(3).normal(size=(5000, 90))  # enough for sums over tiles
    return data, results(data)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_no_bit_depends_on_a_figure(seed: int, usual: tuple[Any, dict[str, list[bytes]]]) -> None:
    data, want = usual
    with applied({}, tuning(seed, share=(0.3, 0.95)[seed % 2])):
        found = results(data)
    assert [name for name in want if found[name] != want[name]] == []


def test_every_figure_has_a_unit_and_a_source() -> None:
    for each in fields(Tuning):
        assert each.metadata["unit"], each.name
        assert (ROOT / each.metadata["measured_by"]).exists(), each.name


def test_a_tuning_is_frozen_and_in_force_for_a_block_only() -> None:
    before = tuned()
    with pytest.raises(FrozenInstanceError):
        before.part_ns = 1  # type: ignore[misc]
    other = replace(before, part_ns=1)
    with pytest.raises(ZeroDivisionError), using(other):
        assert tuned() is other
        raise ZeroDivisionError
    assert tuned() is before


def test_who_keeps_a_figure_is_told(retune: Retune) -> None:
    before = pool._pooled_at_bytes
    retune(pooled_at_bytes=1)
    assert pool._pooled_at_bytes == 1 != before
