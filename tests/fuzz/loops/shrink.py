"""Shrinking. In: a failing case and a test of failure. Out: a smaller case that still fails the same way."""

from __future__ import annotations

import ast
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from tests.fuzz.loops.case import AliasSpec, ArraySpec, Case, ScalarSpec, Spec
from tests.fuzz.loops.generate import usable

CONSTANTS = (0, 1, 1.0)
Block = list[ast.stmt]
Made = Callable[[], Case]


def shrink(case: Case, fails: Callable[[Case], bool], seconds: float) -> Case:
    """Apply simplifications of one sort after the other, as long as any leaves a case that fails."""
    end = time.monotonic() + seconds
    before = None
    while case != before and time.monotonic() < end:
        before = case
        for edit in (_without_statements, _unwrapped, _without_parameters, _plainer_expressions, _plainer_arguments):
            case = _through(case, edit, fails, end)
    return case


def _through(case: Case, edit: Callable[[Case], Iterator[Made]], fails: Callable[[Case], bool], end: float) -> Case:
    """Try each place once; after a success, go on at the same place of what is left."""
    at = 0
    while True:
        for smaller in islice(edit(case), at, None):
            if time.monotonic() > end:
                return case
            made = smaller()
            if usable(made) is not None and fails(made):
                case = made
                break
            at += 1
        else:
            return case


def _text(tree: ast.Module) -> str:
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def _blocks(tree: ast.AST) -> Iterator[Block]:
    for node in ast.walk(tree):
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            if isinstance(block, list) and block:
                yield block


def _edited(case: Case, edit: Callable[[Block, int], Block | None]) -> Iterator[Made]:
    """The case with one statement replaced by what `edit` gives for it."""
    tree = ast.parse(case.source)

    def made(b: int, k: int, new: Block) -> Case:
        other = copy.deepcopy(tree)
        target = list(_blocks(other))[b]
        target[k : k + 1] = copy.deepcopy(new)
        if not target:
            target.append(ast.Pass())
        return replace(case, source=_text(other))

    for b, block in enumerate(_blocks(tree)):
        for k in range(len(block) - 1, -1, -1):
            new = edit(block, k)
            if new is not None:
                yield partial(made, b, k, new)


def _without_statements(case: Case) -> Iterator[Made]:
    def edit(block: Block, k: int) -> Block | None:
        named_f = isinstance(block[k], ast.FunctionDef) and block[k].name == "f"  # type: ignore[attr-defined]
        return None if (isinstance(block[k], ast.Pass) and len(block) == 1) or named_f else []

    yield from _edited(case, edit)


def _unwrapped(case: Case) -> Iterator[Made]:
    """Bodies in the place of loops and conditions."""

    def edit(block: Block, k: int) -> Block | None:
        node = block[k]
        if isinstance(node, (ast.If, ast.While)):
            return node.body
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name):
            first = ast.Assign([ast.Name(node.target.id, ast.Store())], ast.Constant(0))
            return [first, *node.body]
        return None

    yield from _edited(case, edit)

    def other(block: Block, k: int) -> Block | None:
        node = block[k]
        return node.orelse if isinstance(node, ast.If) and node.orelse else None

    yield from _edited(case, other)


def _expressions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None, ast.expr]]:
    """Places of expressions that are read: the node above, its field and the place in it."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.Attribute, ast.JoinedStr, ast.FormattedValue)):
            held = [("args", k, a) for k, a in enumerate(node.args)] if isinstance(node, ast.Call) else []
            yield from ((node, name, k, a) for name, k, a in held)
            continue
        for name, value in ast.iter_fields(node):
            for k, item in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if isinstance(item, ast.expr) and isinstance(getattr(item, "ctx", ast.Load()), ast.Load):
                    yield node, name, k, item


def _plainer_expressions(case: Case) -> Iterator[Made]:
    tree = ast.parse(case.source)

    def made(at: int, new: ast.expr) -> Case:
        other = copy.deepcopy(tree)
        above, field, k, _ = list(_expressions(other))[at]
        if k is None:
            setattr(above, field, copy.deepcopy(new))
        else:
            getattr(above, field)[k] = copy.deepcopy(new)
        return replace(case, source=_text(other))

    for at, (_, name, _, found) in enumerate(_expressions(tree)):
        if isinstance(found, ast.Constant) or name == "func":
            continue
        parts = [n for n in ast.iter_child_nodes(found) if isinstance(n, ast.expr)]
        if isinstance(found, ast.Tuple) and len(found.elts) > 1:
            parts = [ast.Tuple(found.elts[:k] + found.elts[k + 1 :], ast.Load()) for k in range(len(found.elts))]
        for new in [*parts, *(ast.Constant(c) for c in CONSTANTS)]:
            if isinstance(getattr(new, "ctx", ast.Load()), ast.Load):
                yield partial(made, at, new)


def _without_parameters(case: Case) -> Iterator[Made]:
    for k in range(len(case.specs) - 1, -1, -1):
        if any(isinstance(s, AliasSpec) and s.of >= k for s in case.specs):
            continue
        tree = ast.parse(case.source)
        f = next(n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == "f")
        used = {n.id for n in ast.walk(f) if isinstance(n, ast.Name)}
        if f.args.args[k].arg not in used:
            del f.args.args[k]
            yield partial(Case, _text(tree), case.specs[:k] + case.specs[k + 1 :])


def _plainer_arguments(case: Case) -> Iterator[Made]:
    for k, spec in enumerate(case.specs):
        for plainer in _plainer(spec):
            specs = (*case.specs[:k], plainer, *case.specs[k + 1 :])
            yield partial(replace, case, specs=specs)


def _plainer(spec: Spec) -> Iterator[Spec]:
    if isinstance(spec, ScalarSpec):
        for text in ("1", "1.0"):
            if spec.text != text or spec.later != text:
                yield ScalarSpec(text, text)
        if spec.later != spec.text:
            yield ScalarSpec(spec.text, spec.text)
    if isinstance(spec, AliasSpec) and spec.index != "[:]":
        yield replace(spec, index="[:]")
    if isinstance(spec, ArraySpec):
        for change in ({"steps": ()}, {"order": "C"}, {"special": False}, {"dtype": "float64"}, {"dtype": "int64"}):
            new = replace(spec, **change)  # type: ignore[arg-type]
            if new != spec and not ("dtype" in change and spec.dtype in ("int64", "float64")):
                yield new
        for k, n in enumerate(spec.shape):
            for less in sorted({1, n // 2, n - 1}):
                if 0 < less < n:
                    yield replace(spec, shape=(*spec.shape[:k], less, *spec.shape[k + 1 :]))
