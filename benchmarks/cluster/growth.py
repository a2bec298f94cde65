"""How bytes grow with workers where each has the same work: counted for few, predicted for many. Out: a table.

Data are on the workers, cut by rows, so many rows for each. Counted and predicted bytes of 2 to 8 workers are equal, or
the row says so; sorts depend on the data, so that their prediction is a bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import tilewise as tw

ROWS, SORTED_ROWS = 32, 1024  # for each worker; sorts send samples, which are few beside many rows
COUNTED, PREDICTED = (2, 4, 8), (16, 64, 256, 1024)
RANK = 4


def kmeans_step(x: Any) -> Any:
    C = tw.asarray(numpy.arange(24.0).reshape(3, 8))
    near = ((x * x).sum(1)[:, None] - 2 * (x @ C.T) + (C * C).sum(1)).argmin(1)
    hot = (near[:, None] == tw.arange(3)).astype(float)
    return (hot.T @ x) / hot.sum(0)[:, None]


def gradient(x: Any) -> Any:
    w = tw.asarray(numpy.ones(8))
    return x.T @ (1 / (1 + tw.exp(-(x @ w))))


def als_step(x: Any) -> Any:
    V = tw.asarray(numpy.ones((8, RANK)) + numpy.eye(8, RANK))
    U = tw.linalg.solve(V.T @ V, V.T @ x.T).T
    return U.T @ U, U.T @ x


def covariance(x: Any) -> Any:
    centred = x - x.mean(0)
    return centred.T @ centred


def sweep(x: Any) -> Any:
    return 0.25 * (x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:])


STEPS: dict[str, Callable[[Any], Any]] = {
    "k-means": kmeans_step,
    "logistic regression": gradient,
    "ALS": als_step,
    "PCA": covariance,
    "product with a small one": lambda x: x @ tw.asarray(numpy.ones((8, 8))),
    "2-D stencil": sweep,
    "sort": lambda x: tw.sort(x.ravel()),
}


def of(step: Callable[[Any], Any], workers: int, counted: bool) -> tuple[int, int | None]:
    """Bytes of one step: predicted, and counted if it is to run."""
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=workers) as session:
        rows = SORTED_ROWS if step is STEPS["sort"] else ROWS
        data = numpy.random.default_rng(0).normal(size=(rows * workers, 8))
        x = tw.evaluate(tw.asarray(data).relayout(0))
        made = step(x)
        results = made if isinstance(made, tuple) else (made,)
        plan = tw.explain(*results)
        predicted = plan.network_bytes - sum(row.bytes for _, row in plan.gathered)  # they stay on the workers
        if not counted:
            return predicted, None
        assert session.cluster is not None
        before = session.cluster.counters.network_bytes
        tw.evaluate(*results)
        return predicted, session.cluster.counters.network_bytes - before


def report() -> list[dict[str, Any]]:
    """Print the table; its rows."""
    print(f"\nbytes per worker, {ROWS} rows of 8 numbers each (sort: {SORTED_ROWS}): counted with few, then predicted")
    print(f"{'step':26}", *(f"{w:>9}" for w in (*COUNTED, *PREDICTED)))
    rows = []
    for name, step in STEPS.items():
        found = {w: of(step, w, True) for w in COUNTED}
        far = {w: of(step, w, False)[0] for w in PREDICTED}
        exact = all(p == c for p, c in found.values())
        within = all(c is not None and c <= p for p, c in found.values())
        text = "" if exact else "  predicted: a bound" if within else "  counted more than predicted!"
        shown = [c or 0 for _, c in found.values()] + list(far.values())
        print(f"{name:26}", *(f"{n / w:9.0f}" for n, w in zip(shown, (*COUNTED, *PREDICTED), strict=True)), text)
        rows.append({"name": name, "counted": {w: c for w, (_, c) in found.items()}, "predicted": far, "exact": exact})
    return rows


if __name__ == "__main__":
    report()
