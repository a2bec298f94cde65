"""Re-rolling: siblings that are equal but for a number or a slice."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.rewrite.support import everywhere, names, recorded

Program = Callable[[Any, Any, Any], Any]
ROWS, COLUMNS, K = 60, 5, 6
X = np.random.default_rng(2).standard_normal((ROWS, COLUMNS))
KEYS = np.random.default_rng(3).integers(-1, K + 1, ROWS)


def by_column(np: Any, x: Any, keys: Any) -> Any:
    return np.stack([np.bincount(keys, weights=x[:, j], minlength=K) for j in range(COLUMNS)])


# Column-to-Row and Row-to-Column, Kasen's products, Conditional Reduce: with how many operators each ends at most.
FIRES: dict[str, tuple[Program, int]] = {
    "means of columns": (lambda np, x, k: np.array([x[:, j].mean() for j in range(COLUMNS)]), 3),
    "means of rows": (lambda np, x, k: np.array([x[i].mean() for i in range(ROWS)]), 3),
    "standard columns": (
        lambda np, x, k: np.stack([(x[:, j] - x[:, j].mean()) / x[:, j].std() for j in range(COLUMNS)], axis=1),
        12,
    ),
    "columns as rows": (lambda np, x, k: np.stack([np.abs(x[:, j]) for j in range(COLUMNS)]), 2),
    "with numbers": (lambda np, x, k: np.array([x[i].max() * i for i in range(9)]), 2),
    "every second": (lambda np, x, k: np.array([x[i].sum() for i in range(0, ROWS, 2)]), 1),
    "backwards": (lambda np, x, k: np.column_stack([x[:, j] * 2.5 for j in range(COLUMNS - 1, -1, -1)]), 2),
    "with one in common": (lambda np, x, k: np.column_stack([x[:, j] * x[:, 0] for j in range(COLUMNS)]), 1),
    "positions": (lambda np, x, k: np.array([x[i].argmax() for i in range(7)]), 1),
    "running sums": (lambda np, x, k: np.stack([x[:, j].cumsum() for j in range(COLUMNS)], axis=1), 1),
    "products with a matrix": (lambda np, x, k: np.stack([x.T @ x[:, j] for j in range(COLUMNS)], axis=1), 1),
    "products in rows": (lambda np, x, k: np.stack([x @ x[i] for i in range(8)]), 2),
    "sums by column and key": (lambda np, x, k: by_column(np, x, k % K), 2),
    "sums by mask": (lambda np, x, k: np.stack([x[k == j].sum(0) for j in range(K)]), 1),
    "means by mask": (lambda np, x, k: np.array([x[k == j].mean(axis=0) for j in range(K)]), 5),
    "squares by mask": (lambda np, x, k: np.array([((x[k == j] - 0.5) ** 2).sum() for j in range(K)]), 5),
    "masks from one": (lambda np, x, k: np.stack([x[j == k].sum(0) for j in range(1, K)], axis=1), 4),
    "a mask in common": (lambda np, x, k: np.stack([x[k == j].sum(0) + x[k == 1].max(0) for j in range(5)]), 6),
    "counts": (lambda np, x, k: np.array([(k == j).sum() for j in range(K)]), 2),
    "counts of negative keys": (lambda np, x, k: np.array([(k == j).sum() for j in range(-1, K)]), 4),
}
STAYS: dict[str, Program] = {
    "few": lambda np, x, k: np.array([x[:, j].mean() for j in range(3)]),
    "uneven": lambda np, x, k: np.column_stack([x[:, j] * 2.5 for j in (0, 1, 3, 2)]),
    "other functions": lambda np, x, k: np.stack([np.abs(x[0]), np.abs(x[1]), np.sqrt(x[2] ** 2), np.abs(x[3])]),
    "other operands": lambda np, x, k: np.stack([x[i] * x[(3 * i) % 7] for i in range(5)]),
    "keys with a gap": lambda np, x, k: np.stack([x[k == j].sum(0) for j in (0, 1, 2, 4)]),
    "greater keys": lambda np, x, k: np.stack([x[k > j].sum(0) for j in range(5)]),
    "what varies inside": lambda np, x, k: np.stack([(x[k == j] - x[j]).sum(0) for j in range(5)]),
    "keys that are no integers": lambda np, x, k: np.stack([x[k * 0.5 == j].sum(0) for j in range(5)]),
    "overlapping windows": lambda np, x, k: np.stack([x[i : i + 9] * 2.5 for i in range(5)]),
    "blocks": lambda np, x, k: np.concatenate([x[i * 6 : i * 6 + 6] * 2.5 for i in range(5)]),
}


@pytest.mark.parametrize("name", FIRES)
def test_fires(name: str) -> None:
    program, most = FIRES[name]
    with recorded(flush=False):
        found = names(program(tw, tw.array(X), tw.array(KEYS)))
    assert len(found) <= most and "concatenate" not in found, found


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    with recorded():
        y = STAYS[name](tw, tw.array(X), tw.array(KEYS))
        found = names(y)
        with tw.config(rewrite=False):
            whole = names(y)
    assert [x for x in found if x == "concatenate"] == ["concatenate"]
    assert found == whole


WILD = X.copy()
WILD[3, 1], WILD[4, 1], WILD[7, 2], WILD[9, 0] = np.inf, -np.inf, np.nan, -0.0


@pytest.mark.parametrize("name", [*FIRES, *STAYS])
def test_values(name: str) -> None:
    program = STAYS[name] if name in STAYS else FIRES[name][0]
    everywhere(program, X, KEYS)
    everywhere(program, WILD, KEYS.astype(np.int8), meshes=(None, 3))
    everywhere(program, (X * 9).astype(np.int32), KEYS.astype(np.int16), meshes=(None,))


@pytest.mark.parametrize("name", FIRES)
def test_exact(name: str) -> None:
    with recorded(exact=True):
        assert "concatenate" in names(FIRES[name][0](tw, tw.array(X), tw.array(KEYS)))


def test_many_siblings_of_many_operators() -> None:
    def program(np: Any, x: Any) -> Any:
        out = []
        for i in range(ROWS):
            y = x[i]
            for _ in range(40):
                y = np.abs(y) * 0.75 + 0.25
            out.append(y.sum())
        return np.array(out)

    everywhere(program, X, meshes=(None,))


def test_memory_does_not_grow_with_the_number_of_siblings() -> None:
    """Each of them reads all of a large array: together they would be as many times as large."""
    with recorded():
        x = tw.ones((1000, 1000))
        y = tw.array([(x * (1.5 + j)).sum() for j in range(6)])
        assert "concatenate" in names(y)
        y = tw.array([(x[:, j] * (1.5 + j)).sum() for j in range(6)])
        assert "concatenate" not in names(y)
