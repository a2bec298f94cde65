"""What loops cost. In: a loop. Out: IR for units of work, by which it is decided whether threads are worth it.

A unit is an operation that does not wait for another: about 0.2 ns. Types of loops count, clocks do not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewise.backend.llvm.emit.text import Val
from tilewise.kernel.program.ir import (
    Block,
    Const,
    Dim,
    Expr,
    For,
    If,
    Load,
    Loop,
    Op,
    Pick,
    Set,
    Stmt,
    Store,
    Var,
    View,
)
from tilewise.kernel.program.walk import arrays_set, expressions, names_read, names_set

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

DEAR = {"divide": 8, "sqrt": 10, "power": 60, "floor_divide": 12, "remainder": 15}
VECTORS = 4  # iterations of a simple loop in the time of one, as LLVM makes vectors of them
TRIPS, TURNS = 8, 50  # of loops whose lengths are not known before, and of those without an end


def of_iteration(em: Emitter, s: For, start: Val, count: Val, step: Val) -> Val:
    """Units of an iteration in the middle of the loop."""
    middle = start + count.op("sdiv", 2) * step
    em.assumed[s.name] = middle
    total = _of_block(em, s.body, names_set(s.body) | {f"array {a}" for a in arrays_set(s.body)}, {s.name})
    del em.assumed[s.name]
    return total


def of_all(s: For, count: Val, cost: Val) -> Val:
    """Units of all iterations."""
    return (count * cost).op("sdiv", VECTORS) if vectors(s) else count * cost


def _of_block(em: Emitter, block: Block, changed: set[str], known: set[str]) -> Val:
    total = em.number(1)
    for s in block:
        units = _own(s)
        if isinstance(s, For):
            trips, more = _trips(em, s, changed, known), set[str]()
            if trips.name != str(TRIPS) and isinstance(s.step, Const):
                em.assumed[s.name], more = em.e(s.start) + trips.op("sdiv", 2) * s.step.value, {s.name}
            total = total + of_all(s, trips, _of_block(em, s.body, changed, known | more))
            em.assumed.pop(s.name, None)
        elif isinstance(s, Loop):
            total = total + _of_block(em, s.body, changed, known) * TURNS
        else:
            for name in ("then", "other", "body"):
                if inner_block := getattr(s, name, ()):
                    total = total + _of_block(em, inner_block, changed, known)
        total = total + units
    return total


def vectors(s: For) -> bool:
    """Whether a loop surely becomes one over vectors: it computes elements of rows, by simple operations."""
    sets = names_set(s.body)
    known, stores = set(s.sums), bool(s.sums)
    for x in s.body:
        if not isinstance(x, Set | Store) or (names_read(x) & sets) - known:
            return False
        if not all(_simple(e, s.name, sets) for e in expressions(x)):
            return False
        if isinstance(x, Store):
            if not (_along(x.index, s.name, sets) and any(_reads(i, s.name) for i in x.index)):
                return False
            stores = True
        else:
            known.add(x.name)
    return stores


_SIMPLE = frozenset("add subtract multiply divide sqrt negative absolute minimum maximum cast square".split())


def _simple(e: Expr, name: str, sets: set[str]) -> bool:
    """Whether an expression (not what is in it) is one operation of vectors."""
    if isinstance(e, Load):
        return e.dtype in ("float64", "float32") and _along(e.index, name, sets)
    if isinstance(e, Op):
        return e.fault < 0 and (e.fn in _SIMPLE or e.dtype == "bool")
    return isinstance(e, Const | Var | Dim | Pick)


def _reads(e: Expr, name: str) -> bool:
    return any(isinstance(x, Var) and x.name == name for x in _parts(e))


def _along(index: tuple[Expr, ...], name: str, sets: set[str]) -> bool:
    """Whether subscripts walk a row, or stay."""
    if any(isinstance(e, Load) or (isinstance(e, Var) and e.name in sets) for i in index for e in _parts(i)):
        return False
    if any(_reads(i, name) for i in index[:-1]):
        return False
    last = index[-1] if index else None
    if isinstance(last, Op) and last.fn in ("add", "subtract") and isinstance(last.args[1], Const):
        last = last.args[0]
    return isinstance(last, Var | Const | Dim) or last is None


def _trips(em: Emitter, s: For, changed: set[str], known: set[str]) -> Val:
    """How often an inner loop runs, about."""
    parts = [e for x in (s.start, s.stop) for e in _parts(x)]
    if any(_changes(e, changed, known) for e in parts) or not isinstance(s.step, Const):
        return em.number(TRIPS)
    span = em.e(s.stop) - em.e(s.start) if s.step.value > 0 else em.e(s.start) - em.e(s.stop)
    return span.op("sdiv", abs(s.step.value)).intrinsic("smax", 0).intrinsic("smin", 1 << 30)


def _changes(e: Expr, changed: set[str], known: set[str]) -> bool:
    if isinstance(e, Var):
        return e.name in changed and e.name not in known
    if isinstance(e, Op):
        return e.fault >= 0
    return isinstance(e, Load) or (hasattr(e, "array") and f"array {e.array}" in changed)


def _parts(e: Expr) -> Iterator[Expr]:
    yield e
    if isinstance(e, Op):
        for a in e.args:
            yield from _parts(a)
    elif not isinstance(e, Const | Var) and not hasattr(e, "axis"):
        yield Load("", "", (), ())  # anything else: not known before


def _own(s: Stmt) -> int:
    """Units of a statement itself."""
    if not isinstance(s, Set | Store | If | View):
        return 1
    total = 2 if isinstance(s, Store) else 0
    for e in expressions(s):
        if isinstance(e, Op):
            total += DEAR.get(e.fn, 30 if e.fn in _FUNCTIONS or e.fn.startswith("libm") else 1)
        elif isinstance(e, Load):
            total += 1
    return total


_FUNCTIONS = frozenset("exp log sin cos tan tanh sinh cosh arctan arcsin arccos arctan2 expm1 log1p exp2 cbrt".split())
