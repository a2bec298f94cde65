"""A function with parfor loops as one that hands them over. In: a function. Out: the same function, and its loops.

Each parfor becomes a function of steps and of the names that its body uses, and a call of the runner with it; those
inside of others as well, as they may use what the outer ones leave of the machine. Line numbers stay what they were.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewise.errors import ParforError, message
from tilewise.parfor.reductions.late import noted, with_notes
from tilewise.parfor.walk.names import assigned, is_parfor
from tilewise.python.functions.same_source import is_source

RUN, MISSING = "_tw_run_parfor", "_tw_missing"


@dataclass(frozen=True)
class LoopSource:
    """One loop of a function."""

    node: ast.For
    function: ast.FunctionDef
    assigned: frozenset[str]
    generator: str | None
    where: str
    depth: int  # parfors around it


class _Rewriter(ast.NodeTransformer):
    def __init__(self, function: ast.FunctionDef, original: ast.FunctionDef, local: set[str], file: str) -> None:
        self.function, self.original, self.local, self.file = function, original, local, file
        self.originals = {(n.lineno, n.col_offset): n for n in ast.walk(original) if isinstance(n, ast.For)}
        self.loops: list[LoopSource] = []
        self.depth = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return self.generic_visit(node) if node is self.function else node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return node

    def visit_For(self, node: ast.For) -> Any:
        if not is_parfor(node.iter):
            return self.generic_visit(node)
        number = len(self.loops)
        where = f"{self.file}:{node.lineno}"
        _refuse(node, where)
        names = {n.id for part in node.body for n in ast.walk(part) if isinstance(n, ast.Name)}
        generator = next((k.value for k in node.iter.keywords if k.arg == "rng"), None)  # type: ignore[attr-defined]
        if generator is not None and not isinstance(generator, ast.Name):
            raise ParforError(message("rng is the name of the generator that the body uses", where=where))
        own = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
        name = generator.id if generator is not None else None
        parameters = sorted((names & self.local) - own | ({name} if name is not None else set()))
        written = frozenset(assigned(node.body) - own)
        original = self.originals[node.lineno, node.col_offset]
        self.loops.append(LoopSource(original, self.original, written, name, where, self.depth))
        self.depth += 1
        node.body = [new for part in node.body for new in _several(self.visit(part))]
        self.depth -= 1
        return self._replacement(node, number, parameters, sorted(written))

    def _replacement(self, node: ast.For, number: int, parameters: list[str], written: list[str]) -> list[ast.stmt]:
        body, out = f"_tw_body_{number}", f"_tw_out_{number}"
        lines = [f"def {body}(_tw_steps, {', '.join(parameters)}):"]
        lines += [f"    if {p} is {MISSING}: del {p}" for p in parameters]
        lines += ["    for _tw_target in _tw_steps: pass", "    return locals()"]
        lines += [f"{out} = {RUN}({number}, {body}, None, locals())", f"if {out}.last: _tw_target = {out}.last[0]"]
        lines += [f"if {w!r} in {out}.values: {w} = {out}.values[{w!r}]" for w in written]
        made = ast.parse("\n".join(lines)).body
        for statement in made:
            for inner in ast.walk(statement):
                if isinstance(inner, ast.expr | ast.stmt | ast.arg):
                    ast.copy_location(inner, node)
        function, call, last = made[0], made[1], made[2]
        assert isinstance(function, ast.FunctionDef) and isinstance(call, ast.Assign) and isinstance(last, ast.If)
        loop = next(n for n in function.body if isinstance(n, ast.For))
        loop.target, loop.body = node.target, node.body
        assert isinstance(call.value, ast.Call) and isinstance(last.body[0], ast.Assign)
        call.value.args[2] = node.iter
        last.body[0].targets = [node.target]
        return [*made, *node.orelse]


def _several(made: Any) -> list[ast.stmt]:
    """What a visit gave: statements, or one of them."""
    return made if isinstance(made, list) else [made]


def _refuse(node: ast.For, where: str) -> None:
    """Raise for bodies that cannot be handed over."""
    own = {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    for name in sorted(own & assigned(node.body)):
        raise ParforError(
            message(
                f"the body of a parfor assigns to the loop's variable {name}",
                where=where,
                cure="Use another name in the body",
            )
        )
    nested = {id(n) for f in ast.walk(node) if isinstance(f, ast.FunctionDef | ast.Lambda) for n in ast.walk(f)}
    inner = {id(n) for f in ast.walk(node) if isinstance(f, ast.For | ast.While) and f is not node for n in ast.walk(f)}
    for n in ast.walk(node):
        if id(n) in nested:
            continue
        if isinstance(n, ast.Return | ast.Yield | ast.YieldFrom | ast.Await) or (
            isinstance(n, ast.Break) and id(n) not in inner
        ):
            what = type(n).__name__.lower()
            raise ParforError(
                message(
                    f"a parfor has no {what} (line {n.lineno}): it would end the loop for other iterations",
                    where=where,
                    cure="Use a plain for",
                )
            )
        if isinstance(n, ast.Global | ast.Nonlocal):
            raise ParforError(message("a parfor assigns to no global names", got=", ".join(n.names), where=where))


def rewritten(
    function: Callable[..., Any], run: Callable[..., Any], missing: Any
) -> tuple[Callable[..., Any], list[LoopSource]]:
    """The function with its loops handed to `run`, and the loops."""
    if not isinstance(function, types.FunctionType):
        raise ParforError(message("tw.parallel is for functions", got=type(function).__name__))
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError) as error:
        raise ParforError(
            message(
                f"the source of {function.__name__} is not available, so its loops cannot be looked at",
                cure="Write the function in a file or a notebook cell",
            )
        ) from error
    node = ast.parse(text).body[0]
    if not isinstance(node, ast.FunctionDef):
        raise ParforError(message("tw.parallel is for plain functions", got=type(node).__name__))
    code = function.__code__
    if not is_source(node, code):
        text = f"the source of {function.__name__} has changed since it was read, so its loops cannot be looked at"
        raise ParforError(message(text, cure="Load it again"))
    ast.increment_lineno(node, code.co_firstlineno - min((d.lineno for d in node.decorator_list), default=node.lineno))
    node.decorator_list = []
    declared = {n for s in ast.walk(node) if isinstance(s, ast.Global | ast.Nonlocal) for n in s.names}
    local = set(code.co_varnames) | set(code.co_cellvars)
    original = copy.deepcopy(node)
    node.body = with_notes(node.body, inside=False)
    rewriter = _Rewriter(node, original, local | noted(node.body), code.co_filename)
    rewriter.visit(node)
    for loop in rewriter.loops:
        if loop.assigned & declared:
            names = ", ".join(sorted(loop.assigned & declared))
            raise ParforError(message("a parfor assigns to no global names", got=names, where=loop.where))
    made = _compiled(node, function, code.co_filename)
    return _with_space(made, function, {RUN: run, MISSING: missing}), rewriter.loops


def _compiled(node: ast.FunctionDef, function: types.FunctionType, file: str) -> types.FunctionType:
    """The function of a changed syntax tree, with the names that the original one sees."""
    node.args.defaults, node.args.kw_defaults = (
        [ast.Constant(None)] * len(node.args.defaults),
        [None if d is None else ast.Constant(None) for d in node.args.kw_defaults],
    )
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    node.returns = None
    free = function.__code__.co_freevars
    outer = ast.parse(f"def _tw_outer({', '.join((*free, RUN, MISSING))}):\n    pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    node.name = "_tw_function"  # its own name stays one from outside, for functions that call themselves
    outer.body = [node, ast.parse(f"return {node.name}").body[0]]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    names: dict[str, Any] = {}
    exec(compile(module, file, "exec"), names)
    made: types.FunctionType = names["_tw_outer"](*([None] * (len(free) + 2)))
    return made


def _with_space(made: types.FunctionType, function: types.FunctionType, more: dict[str, Any]) -> Callable[..., Any]:
    """The same code with the original's globals, defaults and closure."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    cells |= {name: types.CellType(value) for name, value in more.items()}
    closure = tuple(cells[name] for name in made.__code__.co_freevars)
    code = made.__code__.replace(co_name=function.__code__.co_name, co_qualname=function.__code__.co_qualname)
    out = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    out.__kwdefaults__ = function.__kwdefaults__
    return out
