"""Where Python ints leave 64 bits. In: a case and its outcome. Out: whether its OverflowError is the accepted one.

The one accepted difference: an int that does not fit into 64 bits, after a first write, may raise at its line, with the
arguments as they are then. The function is run once more by plain Python with every operation watched.
"""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.fuzz.loops.case import MODULES, Case
from tests.fuzz.loops.outcome import Outcome, run, same_value

LEAST, MOST = -(2**63), 2**63 - 1
KEPT = 100  # places


@dataclass
class Watch:
    """What the watched function tells."""

    args: list[Any]
    written: bool = False
    found: list[tuple[int, list[Any]]] = field(default_factory=list)  # lines after a write, with the arguments then

    def number(self, value: Any, line: int) -> Any:
        """The result of an operation."""
        if type(value) is int and not LEAST <= value <= MOST and self.written and len(self.found) < KEPT:
            self.found.append((line, [a.copy() if isinstance(a, np.ndarray) else a for a in self.args]))
        return value

    def changed(self, value: Any, line: int) -> Any:
        """What a name is after `name += ...`: an array was written to."""
        self.written |= isinstance(value, np.ndarray)
        return self.number(value, line)

    def write(self, value: Any) -> Any:
        """A value that is about to be stored in an array."""
        self.written = True
        return value


class _Watched(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _told("number", node)

    visit_UnaryOp = visit_BinOp  # type: ignore[assignment]
    visit_Call = visit_BinOp  # type: ignore[assignment]

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        self.generic_visit(node)
        if any(isinstance(n, ast.Subscript) for t in node.targets for n in ast.walk(t)):
            node.value = _told("write", node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | list[ast.AST]:
        self.generic_visit(node)
        if not isinstance(node.target, ast.Name):
            node.value = _told("write", node.value)
            return node
        # The result has a name: it is looked at afterwards.
        seen = ast.copy_location(ast.Name(node.target.id, ast.Load()), node)
        return [node, ast.copy_location(ast.Expr(_told("changed", seen)), node)]


def _told(method: str, node: ast.expr) -> ast.Call:
    watch = ast.Attribute(ast.Name("_watch", ast.Load()), method, ast.Load())
    line = [ast.Constant(node.lineno)] if method != "write" else []
    return ast.copy_location(ast.Call(watch, [node, *line], []), node)


def accepted(case: Case, call: int, got: Outcome) -> bool:
    """Whether it is an OverflowError after a write, where an int does not fit, with the arguments as they were then."""
    if not got.error.startswith("OverflowError"):
        return False
    tree = ast.fix_missing_locations(_Watched().visit(ast.parse(case.source)))
    args = case.arguments(call)
    watch = Watch(args)
    names: dict[str, Any] = {"math": math, "np": np, **MODULES, "_watch": watch}
    exec(compile(tree, "<loops watched>", "exec"), names)
    run(names["f"], args, traced=True)
    return any(line == got.line and not same_value(list(got.args), then, loose=False) for line, then in watch.found)
