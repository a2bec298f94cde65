"""The table as text. In: rows of runner.py. Out: lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.kernels.limits import shortfall

Row = dict[str, Any]
SMALL, SMALL_SLOWDOWN = 1_000, 1.5  # elements up to which a program may take so many times NumPy's time


def heading(systems: Sequence[str]) -> str:
    names = "".join(f"{name:>10}" for name in systems)
    return f"{'program, ms':<20}{'size':>10}{names}{'of limit':>15}{'of best peer':>22}{'goals':>12}"


def line(row: Row, systems: Sequence[str]) -> str:
    times = "".join(f"{row['ms'][s]:>10.3f}" if s in row["ms"] else f"{'-':>10}" for s in systems)
    star = "" if row["limit_by"] == "c" else "*"
    limit = "-" if row["of_limit"] is None else f"{row['of_limit']:.2f}{star} ({row['goal_of_limit']:g})"
    peer = "-" if row["of_peer"] is None else f"{row['of_peer']:.2f} {row['best_peer']} ({row['goal_of_peer']:g})"
    met = {True: "met", False: "MISSED", None: ""}[row["met"]] + (" jit" if row["by"] == "tw.jit" else "")
    calls = f"  numpy: {', '.join(row['numpy_calls'])}" if row.get("numpy_calls") else ""
    wrong = "".join(f"\n    {system}: {text}" for system, text in row["problems"].items())
    return f"{row['program']:<20}{row['size']:>10.2g}{times}{limit:>15}{peer:>22}{met:>12}{calls}{wrong}"


def scale_heading() -> str:
    return f"\n{'Tilewise / NumPy at':<20}" + "".join(f"{size:>36}" for size in ("1e3", "1e5", "1e7 (or as said)"))


def scale_line(name: str, rows: Sequence[Row]) -> str:
    cells = []
    for row in rows:
        if "slowdown" not in row:
            cells.append("; ".join(f"{s}: {t}" for s, t in row["problems"].items()))
            continue
        over = "" if row["met"] else " !"
        ms = row["ms"]
        jit = f", jit {ms['tw.jit'] / ms['numpy']:.2f}" if "tw.jit" in ms else ""
        cells.append(f"{ms['tilewise']:.3f}/{ms['numpy']:.3f} = {ms['tilewise'] / ms['numpy']:.2f}{jit}{over}")
    return f"{name:<20}" + "".join(f"{cell:>36}" for cell in cells)


def summary(rows: Sequence[Row], scaled: Sequence[Row]) -> str:
    judged = [row for row in rows if row["met"] is not None]
    nodes, calls = (sum(row.get(key, 0) for row in rows) for key in ("nodes", "numpy_nodes"))
    text = f"\n{sum(row['met'] for row in judged)} of {len(judged)} programs meet both goals; "
    text += f"{calls} of {nodes} plan nodes ({calls / max(nodes, 1):.0%}) ran as NumPy calls"
    if scaled:
        compared = [row for row in scaled if "slowdown" in row]
        text += f"\n{sum(row['met'] for row in compared)} of {len(compared)} sizes are no slower than NumPy allows"
    missed = sorted((row for row in judged if not row["met"]), key=shortfall)
    for row in missed:
        text += f"\n  {row['program']:<20} {shortfall(row):.2f} of its goal"
    return text
