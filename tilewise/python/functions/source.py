"""The source of a function. In: a function. Out: its syntax tree, with the lines of its file.

Files, notebooks and the interactive prompt all leave their text where `inspect` finds it, or there is none.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from functools import lru_cache
from types import CodeType, FunctionType
from weakref import WeakKeyDictionary

from tilewise.python.functions.nodes import walk
from tilewise.python.functions.same_source import is_source
from tilewise.python.refuse import Refused

_made: WeakKeyDictionary[CodeType, ast.FunctionDef] = WeakKeyDictionary()  # of functions that were never text


def tree_of(f: FunctionType) -> ast.FunctionDef | ast.Lambda:
    """The definition of a function. Raises Refused where there is no source, or more than one that it could be."""
    made = _made.get(f.__code__)
    return made if made is not None else parsed(f.__code__)


def keep_tree(f: FunctionType, tree: ast.FunctionDef) -> None:
    """Say which tree a function was compiled from that has no source of its own."""
    _made[f.__code__] = tree


@lru_cache(maxsize=1024)
def parsed(code: CodeType) -> ast.FunctionDef | ast.Lambda:
    """The same, of a function's code."""
    found = _in_lines(_known_lines(code), code.co_firstlineno, code)
    if len(found) == 1 and is_source(found[0], code):
        return found[0]
    lines, first = _lines(code)
    found = _in_lines(lines, first, code)
    if len(found) != 1:
        found = _at_place(code)
    if len(found) != 1 or not is_source(found[0], code):
        raise Refused("source that is not that of the function", first, "Define the function on lines of its own")
    return found[0]


def _in_lines(lines: list[str], first: int, code: CodeType) -> list[ast.FunctionDef | ast.Lambda]:
    """Functions of the right name and arguments in some lines; none if these are a lambda in a longer statement."""
    try:
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except SyntaxError:
        return []
    found = _candidates(tree, code)
    if found and first > 1:
        ast.increment_lineno(tree, first - 1)
    return found


def _known_lines(code: CodeType) -> list[str]:
    """The lines from the first that code has to its last: mostly the function, without a tokenizer."""
    linecache.checkcache(code.co_filename)
    return linecache.getlines(code.co_filename)[max(code.co_firstlineno, 1) - 1 : _last(code)]


def _last(code: CodeType) -> int:
    """The last line that code has."""
    inner = [_last(c) for c in code.co_consts if isinstance(c, CodeType)]
    return max([end or 0 for _, end, _, _ in code.co_positions()] + inner)


def _candidates(tree: ast.AST, code: CodeType) -> list[ast.FunctionDef | ast.Lambda]:
    """Functions of the right name and arguments."""
    kinds = (ast.FunctionDef, ast.Lambda)
    found = [n for n in walk(tree) if isinstance(n, kinds) and getattr(n, "name", "<lambda>") == code.co_name]
    return [n for n in found if _arguments(n) == code.co_varnames[: _count(code)]]


def _at_place(code: CodeType) -> list[ast.FunctionDef | ast.Lambda]:
    """Those of the whole file whose lines and columns are those of the code; the innermost."""
    try:
        tree = _file("".join(linecache.getlines(code.co_filename)))
    except SyntaxError:
        return []
    spots = [(line, at) for line, _, at, _ in code.co_positions() if line is not None and at is not None]
    spots = [s for s in spots if s != (code.co_firstlineno, 0)]  # that of the beginning
    found = [n for n in _candidates(tree, code) if spots and _first(n) == code.co_firstlineno]
    around = [n for n in found if all(_start(n) <= s < _end(n) for s in spots)]
    return [n for n in around if not any(m is not n and _start(n) <= _start(m) and _end(m) <= _end(n) for m in around)]


@lru_cache(maxsize=16)
def _file(text: str) -> ast.Module:
    return ast.parse(text)


def _first(node: ast.FunctionDef | ast.Lambda) -> int:
    """The line where a function begins, for its code."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    return min(d.lineno for d in (node, *decorators))


def _start(node: ast.FunctionDef | ast.Lambda) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.FunctionDef | ast.Lambda) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def _lines(code: CodeType) -> tuple[list[str], int]:
    """The lines of a function, and the number of the first."""
    try:
        return inspect.getsourcelines(code)
    except (OSError, TypeError, IndexError):
        whole = linecache.getlines(code.co_filename)  # of doctests and the like, which inspect does not look for
    if not 0 < code.co_firstlineno <= len(whole):
        raise Refused("no source at hand", 0, "Define the function in a file or a notebook")
    return inspect.getblock(whole[code.co_firstlineno - 1 :]), code.co_firstlineno


def _arguments(node: ast.FunctionDef | ast.Lambda) -> tuple[str, ...]:
    a = node.args
    rest = [x.arg for x in (a.vararg, a.kwarg) if x is not None]
    return (*(x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)), *rest)


def _count(code: CodeType) -> int:
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_argcount + code.co_kwonlyargcount + stars
