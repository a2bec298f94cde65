"""The solver's layouts beside random ones and those of a hand analysis. In: programs. Out: a table of bytes, and JSON.

    python -m benchmarks.layouts [--only text] [--seeds 100] [--meshes 4,2x2] [--output …]

Applications of the papers and of the collection, one or two iterations each. Large operands are on the workers, cut
along their rows (on a grid, matrices along both axes); small ones come from the driver. Every plan is counted alike:
what crosses between workers, and what small results cost on their way to the driver. Random plans take any rule of each
operator. The hand analysis, for workers in a line, is the plan that its comment describes. Where one of these plans is
better than the solver's, the row is marked.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks.bytes import FLOAT, Mesh

RESULTS = Path(__file__).resolve().parent / "results" / "layouts.json"
SMALL_BYTES = 1 << 16  # results up to this size are expected to be read by the driver (cost/model.py)

N, D, K, SIDE, HIDDEN = 4_800, 24, 8, 480, 16
DATA_SEED = 5


def operands(mesh: Mesh) -> dict[str, Any]:
    """Arrays on the workers by capital names, small ones of the driver by the others."""
    rng = np.random.default_rng(DATA_SEED)

    def placed(x: Any) -> Any:
        grid = mesh.columns > 1 and x.ndim > 1
        return tw.asarray(x).relayout(0, 1) if grid else tw.asarray(x).relayout(0)

    there = {
        "X": placed(rng.normal(size=(N, D))),
        "Y": placed(rng.normal(size=N)),
        "L": placed((rng.integers(0, K, N)[:, None] == np.arange(K)).astype(float)),
        "U": placed(rng.random((N, K))),
        "A": placed(rng.random((SIDE, SIDE)) + SIDE * np.eye(SIDE)),
        "B": placed(rng.normal(size=SIDE)),
        "V": placed(rng.random(N * 4) + 1.0),
        "Z": placed(rng.random(N * 4) + 1.0),
        "P": placed(rng.normal(size=(SIDE, 3))),
    }
    tw.evaluate(*there.values())
    here = {
        "w": rng.normal(size=D),
        "c": rng.normal(size=(K, D)),
        "h": rng.random((K, D)),
        "w1": rng.normal(size=(D, HIDDEN)),
        "w2": rng.normal(size=(HIDDEN, K)),
        "q": rng.normal(size=(5, D)),
        "o": rng.normal(size=(SIDE, K)),
    }
    return there | {name: tw.asarray(x) for name, x in here.items()}


Program = Callable[[dict[str, Any]], Any]


def linear_regression(d: dict[str, Any]) -> Any:
    w = d["w"]
    for _ in range(2):
        w = w - 1e-6 * (d["X"].T @ (d["X"] @ w - d["Y"]))
    return w


def logistic_regression(d: dict[str, Any]) -> Any:
    w = d["w"]
    for _ in range(2):
        w = w - 1e-3 * (d["X"].T @ (1 / (1 + tw.exp(-(d["X"] @ w))) - d["Y"]))
    return w


def ridge(d: dict[str, Any]) -> Any:
    return 2.0 * (d["X"].T @ (d["X"] @ d["w"] - d["Y"])) + 0.1 * d["w"]


def kmeans(d: dict[str, Any]) -> Any:
    near = (d["c"] * d["c"]).sum(1) - 2.0 * (d["X"] @ d["c"].T)
    member = (near.argmin(1)[:, None] == np.arange(K)) * 1.0
    return (member.T @ d["X"]) / member.sum(0)[:, None]


def fuzzy_kmeans(d: dict[str, Any]) -> Any:
    far = ((d["X"] * d["X"]).sum(1)[:, None] - 2.0 * (d["X"] @ d["c"].T)) + (d["c"] * d["c"]).sum(1)
    u = (1.0 / far) / (1.0 / far).sum(1)[:, None]
    return ((u * u).T @ d["X"]) / (u * u).sum(0)[:, None]


def conjugate_gradient(d: dict[str, Any]) -> Any:
    x, r = tw.zeros(SIDE), d["B"]
    p, square = r, r @ r
    for _ in range(2):
        image = d["A"] @ p
        alpha = square / (p @ image)
        x, r = x + alpha * p, r - alpha * image
        fresh = r @ r
        p, square = r + (fresh / square) * p, fresh
    return x


def alternating_least_squares(d: dict[str, Any]) -> Any:
    users = (d["A"] @ d["o"]) @ tw.linalg.inv(d["o"].T @ d["o"])
    return (d["A"].T @ users) @ tw.linalg.inv(users.T @ users)


def ssvd(d: dict[str, Any]) -> Any:
    y = d["A"] @ d["o"]
    q = y @ tw.linalg.inv(tw.linalg.cholesky(y.T @ y).T)
    return q.T @ d["A"]


def pca(d: dict[str, Any]) -> Any:
    z = d["X"] - d["X"].mean(0)
    return tw.linalg.eigh(z.T @ z)[0]


def nmf(d: dict[str, Any]) -> Any:
    h = d["h"] * ((d["U"].T @ d["X"]) / ((d["U"].T @ d["U"]) @ d["h"]))
    return d["U"] * ((d["X"] @ h.T) / (d["U"] @ (h @ h.T)))


def black_scholes(d: dict[str, Any]) -> Any:
    d1 = (tw.log(d["V"] / d["Z"]) + 0.05) / 0.2
    return d["V"] / (1 + tw.exp(-1.7 * d1)) - d["Z"] / (1 + tw.exp(-1.7 * (d1 - 0.2)))


def find_change(d: dict[str, Any]) -> Any:
    return tw.abs(d["V"][1:] - d["V"][:-1]).mean()


def predict_price(d: dict[str, Any]) -> Any:
    mid, spread = (d["V"] + d["Z"]) / 2, d["V"] - d["Z"]
    ratio = (mid[1:] / spread[:-1]).mean()
    return tw.abs(mid[1:] - ratio * spread[:-1]).mean()


def jacobi(d: dict[str, Any]) -> Any:
    diagonal, x = d["A"].diagonal(), d["B"]
    for _ in range(2):
        x = (d["B"] - (d["A"] @ x - diagonal * x)) / diagonal
    return x


def nearest(d: dict[str, Any]) -> Any:
    return ((d["q"][:, None, :] - d["X"][None, :, :]) ** 2).sum(2).argmin(1)


def naive_bayes(d: dict[str, Any]) -> Any:
    per = d["L"].T @ tw.abs(d["X"])
    return tw.log((per + 1) / (per.sum(1)[:, None] + D)).T


def nbody(d: dict[str, Any]) -> Any:
    away = d["P"][None, :, :] - d["P"][:, None, :]
    near = 1 / tw.sqrt((away * away).sum(2) + 0.1)
    return (away * (near**3)[:, :, None]).sum(1)


def pagerank(d: dict[str, Any]) -> Any:
    rank = d["B"]
    for _ in range(2):
        rank = 0.85 * (d["A"] @ rank) + 0.15
        rank = rank / rank.sum()
    return rank


def mlp(d: dict[str, Any]) -> Any:
    inner = tw.maximum(d["X"] @ d["w1"], 0.0)
    e = tw.exp(inner @ d["w2"])
    off = e / e.sum(1)[:, None] - d["L"]
    back = (off @ d["w2"].T) * (inner > 0)
    return d["w1"] - 1e-3 * (d["X"].T @ back), d["w2"] - 1e-3 * (inner.T @ off)


def correlation(d: dict[str, Any]) -> Any:
    z = d["X"] - d["X"].mean(0)
    s = tw.sqrt((z * z).mean(0))
    return (z.T @ z) / N / s[:, None] / s


def heat(d: dict[str, Any]) -> Any:
    a = d["A"]
    for _ in range(2):
        a = a[1:-1, 1:-1] + 0.1 * (a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4.0 * a[1:-1, 1:-1])
    return a


def blur(d: dict[str, Any]) -> Any:
    a = d["A"]
    across = a[:, :-2] + 2.0 * a[:, 1:-1] + a[:, 2:]
    return across[:-2] + 2.0 * across[1:-1] + across[2:]


def group_statistics(d: dict[str, Any]) -> Any:
    sums, counts = d["L"].T @ d["X"], d["L"].sum(0)[:, None]
    squares = d["L"].T @ (d["X"] * d["X"])
    return sums / counts, squares / counts - (sums / counts) ** 2


def softmax(d: dict[str, Any]) -> Any:
    e = tw.exp(d["X"] - d["X"].max(1)[:, None])
    return e / e.sum(1)[:, None]


@dataclass(frozen=True)
class Row:
    """A program, and the plan of a hand analysis.

    `hand` numbers cross for each worker but one. `read` numbers are a small result that is left cut and then read.
    """

    run: Program
    hand: int
    read: int = 0


ROWS = (
    Row(linear_regression, 4 * D),  # weights to all, gradients back, twice
    Row(logistic_regression, 4 * D),
    Row(ridge, 2 * D),
    Row(kmeans, K * D + K * D + K),  # centres to all; sums and counts back
    Row(fuzzy_kmeans, K * D + K * D + K),
    Row(conjugate_gradient, 2 * SIDE + 2 * 5, SIDE),  # directions to all; five scalar products, whole everywhere
    Row(alternating_least_squares, 2 * SIDE * K + K * K),  # factors to all; sums for the other factor, and their Gram
    Row(ssvd, SIDE * K + 2 * K * K + SIDE * K),  # the random matrix to all; a Gram matrix there and back; the product
    Row(pca, 2 * D + D * D),  # means there and back, the Gram matrix
    Row(nmf, K * D + K * K + K * D),  # two products there, the new factor back
    Row(black_scholes, 0),
    Row(find_change, 1 + 1),  # a neighbour's element, and a sum
    Row(predict_price, 1 + 2 + 1),  # a neighbour's element; a sum there and back, and one more
    Row(jacobi, 2 * SIDE, SIDE),  # x to all, twice
    Row(nearest, 5 * D + 2 * 5),  # queries to all; the best of each worker, with its position
    Row(naive_bayes, K * D),
    Row(nbody, SIDE * 3),  # positions to all
    Row(pagerank, 2 * SIDE + 2 * 2, SIDE),  # ranks to all, and a sum there and back, twice
    Row(mlp, 2 * (D * HIDDEN + HIDDEN * K)),  # weights to all, gradients back
    Row(correlation, 2 * D + D * D + D),  # means there and back; products and squares
    Row(heat, 2 * 2 * SIDE),  # a row of each neighbour, twice
    Row(blur, 2 * SIDE),
    Row(group_statistics, 2 * K * D + K),
    Row(softmax, 0),
)


def counted(program: Program, data: dict[str, Any], **options: Any) -> tuple[int, bool | None]:
    """The bytes of a plan, and whether it is proved that none is better."""
    with tw.config(eager_bytes=0, flush=False, objective="bytes", **options):
        made = program(data)
        results = made if isinstance(made, tuple) else (made,)
        plan = tw.explain(*results)
        gathered = zip(results, plan.gathered, strict=True)
        large = sum(row.bytes for x, (_, row) in gathered if x.nbytes > SMALL_BYTES)
        return plan.network_bytes - large, plan.optimal


def measure(row: Row, mesh: Mesh, seeds: int) -> dict[str, Any]:
    """The solver's bytes beside the best of random plans, and those of the hand analysis."""
    with tw.session(engine="virtual", **mesh.options):
        data = operands(mesh)
        found, optimal = counted(row.run, data)
        others = sorted(counted(row.run, data, layout_seed=seed)[0] for seed in range(seeds))
    numbers = (row.hand + row.read / mesh.workers) * (mesh.workers - 1)
    hand = round(FLOAT * numbers) if mesh.columns == 1 else None
    return {"solver": found, "optimal": optimal, "best": others[0], "median": others[len(others) // 2], "hand": hand}


def better(found: dict[str, Any]) -> bool:
    """Whether another plan is better than the solver's."""
    least = found["best"] if found["hand"] is None else min(found["best"], found["hand"])
    return bool(least < found["solver"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--meshes", default="4,2x2")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    meshes = {}
    for name in args.meshes.split(","):
        rows, _, columns = name.partition("x")
        meshes[name] = Mesh(int(rows) * int(columns or 1), int(columns or 1))
    head = "".join(f"{name + ': solver':>14}{'hand':>10}{'best random':>13}{'median':>13}  " for name in meshes)
    print(f"{'program':26}{head}")
    rows_found = []
    for row in ROWS:
        name = row.run.__name__.replace("_", " ")
        if args.only not in name:
            continue
        line, found = f"{name:26}", {}
        for text, mesh in meshes.items():
            one = found[text] = measure(row, mesh, args.seeds)
            hand = "" if one["hand"] is None else f"{one['hand']:,}"
            mark = "* " if better(one) else "  "
            line += f"{one['solver']:>14,}{hand:>10}{one['best']:>13,}{one['median']:>13,}{mark}"
        print(line, flush=True)
        rows_found.append({"name": name, "meshes": found})
    beaten = [row["name"] for row in rows_found if any(better(one) for one in row["meshes"].values())]
    print(f"better than the solver's: {', '.join(beaten) or 'none'}")
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text(json.dumps({"seeds": args.seeds, "rows": rows_found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
