"""Whether a text is that of a function. In: a syntax tree, code. Out: whether the one compiles to the other.

Files change while programs run, and names such as `<string>` stand for many texts: what `inspect` finds may be the
source of another function.
"""

from __future__ import annotations
import __future__

import ast
import dis
import functools
import operator
from collections.abc import Iterator
from types import CodeType
from typing import Any

from tilewise.python.functions.nodes import walk

_FUTURE = functools.reduce(
    operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names), 0
)
_FORMS = frozenset(("CACHE", "EXTENDED_ARG", "PUSH_NULL", "PRECALL"))  # of a call
_READS = {"LOAD_METHOD": "LOAD_ATTR"}
_TABLES = (
    "co_name", "co_names", "co_varnames", "co_cellvars", "co_freevars",
    "co_argcount", "co_posonlyargcount", "co_kwonlyargcount",
)  # fmt: skip
_REWRITTEN = "@py"  # how names begin that pytest puts into functions with assert


def is_source(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> bool:
    """Whether a definition compiles to some code; True where that cannot be told.

    >>> f = lambda x: x + 1
    >>> [is_source(ast.parse(t, mode="eval").body, f.__code__) for t in ("lambda x: x + 1", "lambda x: x + 2")]
    [True, False]
    """
    if any(name.startswith(_REWRITTEN) for name in code.co_names):
        return True
    made = _compiled(node, code)
    if made is not None and (_same(made, code) or _content(made) == _content(code)):
        return True
    return any(map(_mangled, _names(node)))


def _compiled(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> CodeType | None:
    """The code of a definition inside of a function with the same names around it; None: of another name, or none."""
    given = node.args
    bare = ast.arguments(
        posonlyargs=_bare(given.posonlyargs),
        args=_bare(given.args),
        vararg=given.vararg and _bare([given.vararg])[0],
        kwonlyargs=_bare(given.kwonlyargs),
        kw_defaults=[None if d is None else ast.copy_location(ast.Constant(None), d) for d in given.kw_defaults],
        kwarg=given.kwarg and _bare([given.kwarg])[0],
        defaults=[ast.copy_location(ast.Constant(None), d) for d in given.defaults],
    )
    inner: ast.stmt
    if isinstance(node, ast.Lambda):
        inner = ast.copy_location(ast.Return(ast.copy_location(ast.Lambda(bare, node.body), node)), node)
    elif node.name != code.co_name:
        return None
    else:  # its own name stays one from outside, for functions that call themselves
        inner = ast.copy_location(ast.FunctionDef("_tw_function", bare, node.body, [], None), node)
    imports = "".join(f"import {name}\n" for name in code.co_names if name.isidentifier())  # modules, most likely
    outer = ast.parse(f"{imports}def outer({', '.join(code.co_freevars)}):\n    pass")
    function = outer.body[-1]
    assert isinstance(function, ast.FunctionDef)
    function.body = [inner]
    try:
        made = compile(outer, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)
    except (SyntaxError, ValueError):
        return None
    return next(_codes_in(next(_codes_in(made)))).replace(co_name=code.co_name)


def _bare(given: list[ast.arg]) -> list[ast.arg]:
    """Arguments without annotations."""
    return [ast.copy_location(ast.arg(a.arg, None), a) for a in given]


def _same(a: CodeType, b: CodeType) -> bool:
    """Whether codes are alike to the byte, which is told quickly: most are."""
    if a.co_code != b.co_code or any(getattr(a, name) != getattr(b, name) for name in _TABLES):
        return False
    pairs = zip(a.co_consts, b.co_consts, strict=False)
    return len(a.co_consts) == len(b.co_consts) and all(
        isinstance(y, CodeType) and _same(x, y) if isinstance(x, CodeType) else _constant(x) == _constant(y)
        for x, y in pairs
    )


def _names(node: ast.AST) -> Iterator[str]:
    for n in walk(node):
        yield from (v for v in (getattr(n, f, None) for f in ("id", "attr", "arg", "name")) if isinstance(v, str))


def _mangled(name: str) -> bool:
    """Whether a name is another one inside of a class."""
    return name.startswith("__") and not name.endswith("__")


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    return (c for c in code.co_consts if isinstance(c, CodeType))


def _content(code: CodeType) -> Any:
    """What code does, wherever its text is: Python calls methods of imported modules in a way of their own."""
    steps = [i for i in dis.get_instructions(code) if i.opname not in _FORMS]
    names = (code.co_name, code.co_varnames, code.co_cellvars, code.co_freevars)
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
    return names, counts, [(_READS.get(i.opname, i.opname), _operand(i)) for i in steps]


def _operand(step: dis.Instruction) -> Any:
    if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
        return None
    return _content(step.argval) if isinstance(step.argval, CodeType) else _constant(step.argval)


def _constant(value: Any) -> Any:
    """A constant; the blanks of texts are not compared, as lines are indented elsewhere.

    Nor are the functions around a class, which are in its full name.
    """
    if isinstance(value, tuple | frozenset):
        return type(value)(map(_constant, value))
    if isinstance(value, str):
        return "".join(value.rpartition("<locals>.")[2].split())
    return type(value), repr(value)
