"""Whether a text is that of a function. In: a syntax tree, code. Out: whether the one compiles to the other.

Files change while programs run, and names such as `<string>` stand for many texts: what `inspect` finds may be the
source of another function.
"""

from __future__ import annotations
import __future__

import ast
import copy
import dis
import functools
import operator
from collections.abc import Iterator
from types import CodeType
from typing import Any

_FUTURE = functools.reduce(
    operator.or_, (getattr(__future__, n).compiler_flag for n in __future__.all_feature_names), 0
)
_FORMS = frozenset(("CACHE", "EXTENDED_ARG", "PUSH_NULL", "PRECALL"))  # of a call
_READS = {"LOAD_METHOD": "LOAD_ATTR"}
_REWRITTEN = "@py"  # how names begin that pytest puts into functions with assert


def is_source(node: ast.FunctionDef | ast.Lambda, code: CodeType) -> bool:
    """Whether a definition compiles to some code; True where that cannot be told.

    >>> f = lambda x: x + 1
    >>> [is_source(ast.parse(t, mode="eval").body, f.__code__) for t in ("lambda x: x + 1", "lambda x: x + 2")]
    [True, False]
    """
    if any(name.startswith(_REWRITTEN) for name in code.co_names) or any(map(_mangled, _names(node))):
        return True
    node = copy.deepcopy(node)
    given = node.args
    given.defaults = [ast.Constant(None)] * len(given.defaults)
    given.kw_defaults = [None if d is None else ast.Constant(None) for d in given.kw_defaults]
    for argument in ast.walk(given):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    inner: ast.stmt
    if isinstance(node, ast.Lambda):
        inner = ast.Return(node)
    else:
        if node.name != code.co_name:
            return False
        node.decorator_list, node.returns = [], None
        node.name = "_tw_function"  # its own name stays one from outside, for functions that call themselves
        inner = node
    outer = ast.parse(f"def outer({', '.join(code.co_freevars)}):\n    pass").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body = [inner]
    module = ast.fix_missing_locations(ast.Module([outer], []))
    try:
        made = compile(module, code.co_filename, "exec", code.co_flags & _FUTURE, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    found = next(_codes_in(next(_codes_in(made))))
    return bool(_content(found.replace(co_name=code.co_name)) == _content(code))


def _names(node: ast.AST) -> Iterator[str]:
    for n in ast.walk(node):
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
