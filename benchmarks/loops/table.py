"""The table as text. In: rows. Out: lines, and figures over all rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from benchmarks.loops.rivals import FASTMATH, NUMBA

Row = dict[str, Any]
LEAST_RATIO = 0.7  # of Numba's speed
GOAL = 1.2  # of it, in the geometric mean
C_GOAL = 0.85  # of C's speed, on Parakeet's list
DISK_SECONDS = 0.1
FIRST_SHARE = 1 / 3  # of Numba's first call


def best(row: Row, systems: Iterable[str]) -> float | None:
    """The least seconds of these systems."""
    return min((row["seconds"][s] for s in systems if s in row["seconds"]), default=None)


def judge(row: Row) -> None:
    """Add the ratios: another's seconds over ours, so that more is better."""
    ours = row["seconds"].get("tw.jit")
    rivals = {"python": ("python",), "numba": NUMBA, "fastmath": FASTMATH, "c": ("c",), "rounded": ("c rounded",),
              "tw arrays": ("tw arrays",)}  # fmt: skip
    found = {name: best(row, systems) for name, systems in rivals.items()}
    row["ratios"] = {name: s / ours for name, s in found.items() if s is not None and ours is not None}
    form, c = row["seconds"].get("tw operators"), row["seconds"].get("c")
    if form is not None and c is not None:
        row["operators_of_c"] = c / form


def geometric(values: Sequence[float]) -> float:
    """The geometric mean; NaN of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def heading() -> str:
    names = ("python", "numba", "parallel", "fastmath", "c", "tw arrays", "operators", "tw.jit")
    times = "".join(f"{name:>10}" for name in names)
    ratios = "".join(f"{name:>9}" for name in ("/python", "/numba", "/fast", "/c", "/rounded"))
    return f"{'program, ms':<28}{times}{ratios}{'first':>8}{'disk':>7}{'numba':>8}  strict"


def line(row: Row) -> str:
    """One row; a ratio is the other's time over ours."""
    own = (("tw arrays",), ("tw operators",), ("tw.jit",))
    shown = (best(row, s) for s in (("python",), NUMBA[:2], NUMBA[2:], FASTMATH, ("c",), *own))
    times = "".join(f"{'-':>10}" if s is None else f"{s * 1e3:>10.3f}" for s in shown)
    ratios = "".join(
        f"{row['ratios'][name]:>9.2f}" if name in row["ratios"] else f"{'-':>9}"
        for name in ("python", "numba", "fastmath", "c", "rounded")
    )
    first = row["first"]
    calls = "".join(
        f"{'-':>{wide}}" if s is None else f"{s:>{wide}.3f}"
        for s, wide in ((first.get("tw.jit"), 8), (first.get("disk"), 7), (first.get("numba"), 8))
    )
    strict = "yes" if row.get("refused") == "" else f"no: {row.get('refused')}"
    told = "".join(f"\n    {system}: {text}" for system, text in row["problems"].items())
    return f"{row['program']:<28}{times}{ratios}{calls}  {strict}{told}"


def totals(rows: Sequence[Row]) -> dict[str, Any]:
    """The figures that are asked of the table."""
    ratios = {
        name: [row["ratios"][name] for row in rows if name in row["ratios"]]
        for name in ("python", "numba", "fastmath", "c", "rounded")
    }
    first = [r["first"] for r in rows]
    shares = [f["tw.jit"] / f["numba"] for f in first if "tw.jit" in f and "numba" in f]
    lists = [r for r in rows if r.get("parakeet") and "c" in r["ratios"]]
    return {
        "programs": len(rows),
        "right": sum("tw.jit" in r["seconds"] and "tw.jit" not in r["problems"] for r in rows),
        "right_arrays": sum("tw arrays" in r["seconds"] and "tw arrays" not in r["problems"] for r in rows),
        "strict": sum(r.get("refused") == "" for r in rows),
        "means": {name: geometric(found) for name, found in ratios.items()},
        "compared": {name: len(found) for name, found in ratios.items()},
        "below": [r["program"] for r in rows if r["ratios"].get("numba", 1.0) < LEAST_RATIO],
        "below_c": [r["program"] for r in lists if r["ratios"]["c"] < C_GOAL],
        "below_rounded": [r["program"] for r in lists if r["ratios"].get("rounded", math.inf) < C_GOAL],
        "parakeet": len(lists),
        "operators_of_c": {r["program"]: r["operators_of_c"] for r in rows if "operators_of_c" in r},
        "first_share": geometric(shares),
        "slow_first": [r["program"] for r in rows if _share(r) > FIRST_SHARE],
        "slow_disk": [r["program"] for r in rows if r["first"].get("disk", 0.0) > DISK_SECONDS],
    }


def _share(row: Row) -> float:
    first = row["first"]
    return float(first["tw.jit"] / first["numba"]) if "tw.jit" in first and "numba" in first else 0.0


def summary(rows: Sequence[Row]) -> str:
    """The same as text."""
    t = totals(rows)
    means = ", ".join(f"{name} {t['means'][name]:.2f} ({t['compared'][name]})" for name in t["means"])
    return "\n".join(
        (
            f"\n{t['right']} of {t['programs']} right, {t['right_arrays']} of them on our arrays, too",
            f"{t['strict']} compiled under strict=True",
            f"geometric mean of the others' times over ours: {means}; goal {GOAL} over Numba without fastmath",
            f"below {LEAST_RATIO} of Numba: {len(t['below'])} {' '.join(t['below'])}",
            f"of Parakeet's list below {C_GOAL} of C: {len(t['below_c'])} of {t['parakeet']} {' '.join(t['below_c'])}; "
            f"of C that rounds as NumPy does: {len(t['below_rounded'])} {' '.join(t['below_rounded'])}",
            f"operators, C's time over theirs: {geometric([*t['operators_of_c'].values()]):.2f} "
            f"({len(t['operators_of_c'])})",
            f"first calls: {t['first_share']:.2f} of Numba's; above a third: {len(t['slow_first'])}; "
            f"from disk above {DISK_SECONDS} s: {len(t['slow_disk'])}",
        )
    )
