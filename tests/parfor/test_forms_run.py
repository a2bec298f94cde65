"""Loops with known answers, run: what is independent gives the plain loop's results on threads and in processes."""

from __future__ import annotations

import ast
import linecache
import sys
import types
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tests.parfor.rows.aliases import ALIAS_ROWS
from tests.parfor.rows.cells import CELL_ROWS
from tests.parfor.rows.forms import FORM_ROWS
from tests.parfor.rows.instances import INSTANCE_ROWS
from tests.parfor.rows.linked import COUNTED
from tests.parfor.rows.row import SETUP, Row
from tilewise.parfor.walk.names import assigned

MODULE = "tilewise_parfor_rows"
MANY = 60  # rows; of more, processes run fewer
LEFT = ("s", "c", "mx", "mn")  # names that loops accumulate
COUNTED_RUN = [row._replace(setup=SETUP + row.setup) for row in COUNTED]
GROUPS = {
    "cells": CELL_ROWS,
    "forms": FORM_ROWS,
    "aliases": ALIAS_ROWS,
    "instances": INSTANCE_ROWS,
    "counted": COUNTED_RUN,
}


def program(row: Row, mode: str, names: list[str]) -> str:
    """A function with the loop, which returns the names that are accumulated."""
    node = ast.parse(row.source).body[0]
    assert isinstance(node, ast.For) and isinstance(node.iter, ast.Call)
    span = node.iter.args[0]
    counts = isinstance(span, ast.Constant) or (isinstance(span, ast.Name) and span.id == "n")
    over = f"range({ast.unparse(span)})" if counts else ast.unparse(span)
    left = [n for n in LEFT if n in assigned([node])]
    lines = [
        f"def program({', '.join(names)}):",
        f"    for {ast.unparse(node.target)} in tw.parfor({over}, mode={mode!r}, workers=2):",
    ]
    lines += ["        " + line for part in node.body for line in ast.unparse(part).split("\n")]
    return "\n".join([*lines, f"    return [{', '.join(left)}]", ""])


def execute(source: str, space: dict[str, Any]) -> None:
    """Run statements whose functions have source for those who ask."""
    file = f"<row {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec", dont_inherit=True), space)


def run(row: Row, mode: str, parallel: bool) -> Any:
    """What is left in all names."""
    module = sys.modules[MODULE] = types.ModuleType(MODULE)  # where processes find its classes
    space = vars(module)
    execute(row.setup, space)
    plain = {n: v for n, v in space.items() if not n.startswith("__")}
    given = {n: v for n, v in plain.items() if not isinstance(v, types.ModuleType | types.FunctionType | type)}
    space["tw"] = tw
    execute(program(row, mode, list(given)), space)
    function = tw.parallel(space["program"]) if parallel else space["program"]
    left = function(**given)
    return left, given


def shown(value: Any, depth: int = 0) -> Any:
    """A value in a form that can be compared; sums are rounded."""
    if depth > 6 or isinstance(value, types.FunctionType | types.BuiltinFunctionType | type | np.ufunc):
        return "..."
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return [shown(v, depth + 1) for v in value.ravel()]
    if isinstance(value, np.ndarray):
        return value.dtype.str, repr((np.round(value, 9) if value.dtype.kind in "fc" else value).tolist())
    if isinstance(value, dict):
        return [(shown(k, depth + 1), shown(v, depth + 1)) for k, v in value.items()]  # in order
    if isinstance(value, list | tuple):
        return type(value).__name__, [shown(v, depth + 1) for v in value]
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    if hasattr(value, "__dict__"):
        return type(value).__name__, shown(vars(value), depth + 1)
    return type(value).__name__, repr(round(value, 9) if isinstance(value, float) else value)


@pytest.mark.parametrize("mode", ["threads", "processes"])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.filterwarnings("ignore")
def test_results(group: str, mode: str, some: Some) -> None:
    wrong, ran = [], 0
    rows = [row for row in GROUPS[group] if row.answers[0]]
    for row in some(rows, 4 if mode == "processes" and len(rows) > MANY else 2):
        try:
            expected = shown(run(row, mode, parallel=False))
        except (IndexError, KeyError, TypeError, ValueError):
            continue  # rows need not run
        try:
            found = shown(run(row, mode, parallel=True))
        except tw.ParforError as error:
            if mode == "processes" or "threads cannot keep apart" not in str(error):
                wrong.append(f"{row.source}{error}")
            continue
        ran += 1
        if found != expected:
            wrong.append(f"{row.source}{expected}\n{found}"[:2000])
    assert not wrong, "\n\n".join(wrong)
    assert ran > 5
