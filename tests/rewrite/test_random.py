"""Random programs of what rules look at: rules on and off, in any order, agree with NumPy."""

import itertools
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tests.rewrite import test_kmeans as ways
from tests.rewrite.support import recorded, same
from tilewise.array.handle import node_of
from tilewise.ir.node import numbered
from tilewise.rewrite import PASSES, rewrite

BEFORE = (
    lambda np, x: x,
    lambda np, x: x * 1 - 0,
    lambda np, x: np.negative(np.negative(x)),
    lambda np, x: x.T.copy().T,
    lambda np, x: x.reshape(-1).reshape(x.shape),
    lambda np, x: np.stack([x[:, j] + j for j in range(x.shape[1])], axis=1),
)
LABELS = (
    lambda np, x, k: np.abs(x).argmax(axis=1) % k,
    lambda np, x, k: (x[:, 0] > 0) * 1 + (x[:, 1] > 0) * 2,
    lambda np, x, k: np.arange(x.shape[0]) % k,
    lambda np, x, k: (np.arange(x.shape[0]) % k).astype(np.int32),
)
AFTER = (
    lambda np, sums, counts: sums / np.maximum(counts, 1)[:, None],
    lambda np, sums, counts: sums.sum(0) - counts.sum(),
    lambda np, sums, counts: np.array([sums[i].max() for i in range(sums.shape[0])]),
    lambda np, sums, counts: (sums @ sums.T) * 1 + counts,
)


def program(np: Any, x: Any, seed: int) -> Any:
    """One of some 200 programs."""
    pick = __import__("numpy").random.default_rng(seed)
    x = BEFORE[pick.integers(len(BEFORE))](np, x)
    labels = LABELS[pick.integers(len(LABELS))](np, x, ways.K)
    sums, counts = ways.WAYS[pick.integers(len(ways.WAYS))](np, x, labels)
    return AFTER[pick.integers(len(AFTER))](np, sums, counts)


def data(seed: int) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.integers(-9, 9, (int(rng.integers(2, 40)), 4)).astype("dfil"[seed % 4])
    if x.dtype.kind == "f" and seed % 3 == 0:
        x[rng.integers(len(x)), rng.integers(4)] = (np.inf, np.nan, -0.0)[seed % 9 // 3]
    return x


@pytest.mark.parametrize("part", range(8))
def test_rules_on_and_off(part: int, some: Some) -> None:
    for seed in some(range(part * 25, part * 25 + 25)):
        x = data(seed)
        with np.errstate(all="ignore"):
            want = program(np, x, seed)
        for settings in ({}, {"rewrite": False}, {"exact": True}):
            with recorded(**settings):
                same(program(tw, tw.array(x), seed), want)
        with recorded(), tw.session(engine="virtual", mesh=(2, 3, (2, 2))[seed % 3]):  # type: ignore[attr-defined]
            same(program(tw, tw.array(x), seed), want)


@pytest.mark.parametrize("seed", range(0, 40, 5))
def test_rules_in_any_order(seed: int) -> None:
    x = data(seed)
    with np.errstate(all="ignore"):
        want = program(np, x, seed)
    every = [rule for rules in PASSES for rule in rules]
    alone = itertools.permutations([[rule] for rule in every])
    orders = [PASSES[::-1], [every], [every[::-1]], *itertools.islice(alone, 0, 5000, 1250)]
    for passes in orders:
        with recorded(rewrite=False):
            y = program(tw, tw.array(x), seed)
            node = node_of(y)
            if node.value is None:
                y._cell.node = rewrite([node], False, passes=passes)[node]
                assert len(numbered([y._cell.node])) > 0
            same(y, want)
