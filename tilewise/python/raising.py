"""raise and assert. In: trees. Out: faults; where the message has more than integers in it, a call of Python's.

Messages may be f-strings, `%`, `+` and `str.format` of texts: what is text stays an expression of Python, and what is
computed in it is an argument of the call that raises.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
from typing import TYPE_CHECKING, Any

from tilewise.kernel.program.ir import INT, Expr, If
from tilewise.python.build import Scalar, Static, Value, negate
from tilewise.python.refuse import Refused
from tilewise.python.scope import Dead

if TYPE_CHECKING:
    from tilewise.python.statements import Statements
from tilewise.python import values
from tilewise.python.host import calling

_TEXTUAL = frozenset(("str", "repr", "format"))


def raise_(lo: Statements, node: ast.Raise) -> None:
    """raise X(...)"""
    line, made = node.lineno, node.exc
    if made is None or node.cause is not None:
        raise Refused("raise without an exception, or from another", line)
    call = isinstance(made, ast.Call)
    kind = values.value(lo, made.func if isinstance(made, ast.Call) else made)
    found = kind.value if isinstance(kind, Static) else None
    found = getattr(found, "python", found)
    if not (isinstance(found, type) and issubclass(found, Exception)) or (call and made.keywords):  # type: ignore[attr-defined]
        raise Refused("raise of something else than a class, or its call", line)
    _raised(lo, found, made.args if isinstance(made, ast.Call) else [], line)


def assert_(lo: Statements, node: ast.Assert) -> None:
    """assert test, message: the message is computed where the test fails."""
    test = lo.condition(node.test)
    env = dict(lo.env or {})
    with lo.b.inside() as fails, contextlib.suppress(Dead):
        _raised(lo, AssertionError, [] if node.msg is None else [node.msg], node.lineno)
    lo.env = env
    lo.b.emit(If(negate(test), tuple(fails)))


def _raised(lo: Statements, kind: type[Exception], args: list[ast.expr], line: int) -> None:
    """Raise an exception of these arguments."""
    own = getattr(builtins, kind.__name__, None) is kind
    if own and len(args) <= 1 and (native := _integers_only(lo, args, line)) is not None:
        text, parts = native
        if text or not args:
            lo.fail(kind.__name__, text, line, *parts)
    computed: list[Value] = []
    message = _texts(lo, args, computed)

    def act(*given: Any) -> None:
        raise kind(*message(*given))

    calling.called(lo, act, computed, {}, line, name=kind.__name__, sampled=lambda *a: None)
    lo.fail("AssertionError", "", line)


def printed(lo: Statements, node: ast.Call) -> Value | None:
    """print of texts with what is computed in them; None: it has none."""
    if node.keywords or not any(_is_text(lo, a) and not isinstance(a, ast.Constant) for a in node.args):
        return None
    computed: list[Value] = []
    texts = _texts(lo, node.args, computed)

    def act(*given: Any) -> None:
        print(*texts(*given))

    return calling.called(lo, act, computed, {}, node.lineno, name="print", effect=True, sampled=lambda *a: None)


def _texts(lo: Statements, args: list[ast.expr], computed: list[Value]) -> Any:
    """A function of Python that gives some arguments, of what is computed in them."""
    trees = [_textual(lo, a, computed) for a in args]
    body = ast.Tuple(trees, ast.Load())
    names = ast.arguments([], [ast.arg(f"v{k}") for k in range(len(computed))], None, [], [], None, [])
    tree = ast.fix_missing_locations(ast.Expression(ast.Lambda(names, body)))
    return eval(compile(tree, "<text>", "eval"), {})


def _integers_only(lo: Statements, args: list[ast.expr], line: int) -> tuple[str, tuple[Expr, ...]] | None:
    """A message with no other numbers than Python's integers, which faults carry; None: it has others."""
    text = ""
    parts: list[Expr] = []
    for p in [q for a in args for q in (a.values if isinstance(a, ast.JoinedStr) else [a])]:
        if isinstance(p, ast.FormattedValue) and p.format_spec is None and p.conversion == -1:
            at, env = len(lo.b.block), dict(lo.env or {})
            found = values.value(lo, p.value)
            if not isinstance(found, Scalar) or not found.t.py or found.t.dtype != INT:
                del lo.b.block[at:]
                lo.env = env
                return None
            text += f"{{{len(parts)}}}"
            parts.append(lo.b.keep(found.e))
            continue
        known = p.value if isinstance(p, ast.Constant) else _named_text(lo, p, line)
        if not isinstance(known, str):
            return None
        text += known.replace("{", "{{").replace("}", "}}")
    return text, tuple(parts)


def _named_text(lo: Statements, node: ast.expr, line: int) -> Any:
    """The text that a name from outside stands for."""
    if not isinstance(node, ast.Name) or lo.is_local(node.id):
        return None
    found = values.outer(lo, node.id, line)
    return found.value if isinstance(found, Static) else None


def _is_text(lo: Statements, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add | ast.Mod) and (_is_text(lo, node.left) or _is_text(lo, node.right))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in _TEXTUAL and not lo.is_local(node.func.id)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in ("format", "join") and _is_text(lo, node.func.value)
    return isinstance(node, ast.JoinedStr)


def _textual(lo: Statements, node: ast.expr, computed: list[Value]) -> ast.expr:
    """An expression of Python with arguments v0, v1, ... in the places of what is computed."""

    def inner(n: Any) -> Any:
        return _textual(lo, n, computed)

    if isinstance(node, ast.JoinedStr):
        return ast.JoinedStr([p if isinstance(p, ast.Constant) else inner(p) for p in node.values])
    if isinstance(node, ast.FormattedValue):
        spec = None if node.format_spec is None else inner(node.format_spec)
        return ast.FormattedValue(inner(node.value), node.conversion, spec)
    if isinstance(node, ast.Tuple):
        return ast.Tuple([inner(e) for e in node.elts], ast.Load())
    if _is_text(lo, node):
        if isinstance(node, ast.BinOp):
            return ast.BinOp(inner(node.left), node.op, inner(node.right))
        if isinstance(node, ast.Call):
            func = node.func if isinstance(node.func, ast.Name) else inner_method(node, inner)
            keywords = [ast.keyword(k.arg, inner(k.value)) for k in node.keywords]
            return ast.Call(func, [inner(a) for a in node.args], keywords)
        return node
    found = lo.settled(values.value(lo, node), node.lineno)
    computed.append(found)
    return ast.Name(f"v{len(computed) - 1}", ast.Load())


def inner_method(node: ast.Call, inner: Any) -> ast.expr:
    assert isinstance(node.func, ast.Attribute)
    return ast.Attribute(inner(node.func.value), node.func.attr, ast.Load())
