"""Minima that the later value decides, `m = min(x, m)`. In: a loop's body. Out: the same, which notes what came by.

A NaN counts there: it takes the place of what was before it, and gives way to what comes after. So what a task has
found stands for all before it if there was a NaN, and says nothing if the statement was not reached. Two names per
minimum note that, `_tw_nan_m` and `_tw_ran_m`; they are accumulated like others, by `max` from 0.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from tilewise.parfor.walk.accumulate import accumulation
from tilewise.parfor.walk.names import is_parfor

LATE = {"late min": "min", "late max": "max"}
NAN, RAN, VALUE = "_tw_nan_", "_tw_ran_", "_tw_new_"


def notes_of(reductions: Mapping[str, str]) -> dict[str, str]:
    """The names that note what came by, and how they are accumulated."""
    return {note + name: "max" for name, op in reductions.items() if op in LATE for note in (NAN, RAN)}


def combine_late(op: str, value: Any, part: Any, nan: bool, ran: bool) -> Any:
    """The value so far with what a task has found.

    >>> combine_late("late min", 3.0, 5.0, nan=False, ran=True), combine_late("late min", 3.0, 5.0, nan=True, ran=True)
    (3.0, 5.0)
    """
    if nan or not ran:
        return part if nan else value
    return value if (value < part if op == "late min" else value > part) else part


class _Notes(ast.NodeTransformer):
    """Adds notes to the bodies of parallel loops; functions inside have names of their own."""

    def __init__(self, inside: bool) -> None:
        self.inside = inside

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef  # type: ignore[assignment]

    def visit_For(self, node: ast.For) -> Any:
        before, self.inside = self.inside, self.inside or is_parfor(node.iter)
        self.generic_visit(node)
        self.inside = before
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        found = accumulation(node) if self.inside else None
        if found is None or not found.late or not isinstance(found.target, ast.Name):
            return node
        name = found.target.id
        text = ast.unparse(found.operands[0])
        lines = [f"{VALUE}{name} = {text}", f"{RAN}{name} = 1"]
        lines += [f"if {VALUE}{name} != {VALUE}{name}: {NAN}{name} = 1"]
        lines += [f"{name} = {LATE['late ' + found.op]}({VALUE}{name}, {name})"]
        made = ast.parse("\n".join(lines)).body
        for part in (inner for statement in made for inner in ast.walk(statement)):
            if isinstance(part, ast.expr | ast.stmt):
                ast.copy_location(part, node)
        return made


def with_notes(statements: list[ast.stmt], inside: bool) -> list[ast.stmt]:
    """Statements whose parallel loops note what came by (`inside`: they are the body of one)."""
    made = (_Notes(inside).visit(statement) for statement in statements)
    return [new for found in made for new in (found if isinstance(found, list) else [found])]


def noted(statements: list[ast.stmt]) -> set[str]:
    """The names of notes in statements."""
    names = {n.id for s in statements for n in ast.walk(s) if isinstance(n, ast.Name)}
    return {name for name in names if name.startswith((NAN, RAN, VALUE))}
