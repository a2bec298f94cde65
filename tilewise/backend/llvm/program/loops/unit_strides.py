"""Loops along axes that may lie without gaps. In: an innermost loop. Out: the loop, perhaps in two forms.

A column of a matrix has gaps in C order and none in Fortran's. LLVM makes vectors only of loads that follow each other,
so where the strides of all that a loop walks along are those of neighbours, it runs in a form that says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program.loops.loop_ranges import parts_of
from tilewise.kernel.program.ir import INT, Const, Expr, For, Load, Op, Set, Store, Var
from tilewise.kernel.program.walk import expressions, names_read

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

Axes = frozenset[tuple[str, int]]
MOST = 8  # statements of a loop that is emitted twice
NONE: Axes = frozenset()


def either(em: Emitter, s: For, loop: Callable[[], None]) -> None:
    """Emit a loop; where it is worth it, also for axes without gaps."""
    axes = _doubtful(em, s)
    if not axes:
        loop()
        return
    fn, near = em.fn, None
    for array, axis in sorted(axes):
        stride = em.word(em.arrays[array].strides[axis])
        fits: Val = stride.cmp("eq", np.dtype(em.p.arrays[array].dtype).itemsize)
        near = fits if near is None else near & fits
    assert near is not None
    unit, gaps, after = fn.fresh("unit"), fn.fresh("gaps"), fn.fresh("walked")
    fn.do(f"br i1 {near.name}, label %{unit}, label %{gaps}")
    before = em.near
    for label, known in ((unit, before | axes), (gaps, before)):
        fn.label(label)
        em.near = known
        loop()
        em.jump(after)
    em.near = before
    fn.label(after)


def _doubtful(em: Emitter, s: For) -> Axes:
    """The axes that a loop goes along and that may have gaps, if LLVM can make vectors of it where they have none."""
    if s.rare or em.long or em.bounds.checked or len(s.body) > MOST or not isinstance(s.step, Const):
        return NONE
    found: set[tuple[str, int]] = set()
    for x in s.body:
        if not isinstance(x, Set | Store) or (isinstance(x, Store) and not s.independent):
            return NONE
        if isinstance(x, Set) and x.name in names_read(x) and not _joins(x.value):
            return NONE
        reached: list[Load | Store] = [e for e in expressions(x) if isinstance(e, Load)]
        if isinstance(x, Store):
            reached.append(x)
        for e in reached:
            for axis, (i, fault) in enumerate(zip(e.index, e.faults, strict=True)):
                if fault >= 0 and not em.bounds.proved(e.array, axis, i):
                    return NONE
                if not _moves(i, s.name):
                    continue
                a = em.p.arrays[e.array]
                if not _by_one(i, s.name) or (a.dense and axis < a.rank - 1):
                    return NONE
                if not (a.dense or (a.unit and axis == a.rank - 1)):
                    found.add((e.array, axis))
        if any(isinstance(e, Op) and e.fault >= 0 for e in expressions(x)):
            return NONE
    return frozenset(found) - em.near


def _joins(e: Expr) -> bool:
    """Whether a number may be joined with others in any order."""
    return isinstance(e, Op) and (e.loose or (e.dtype == INT and e.fn in ("add", "minimum", "maximum")))


def _moves(e: Expr, name: str) -> bool:
    return any(isinstance(x, Var) and x.name == name for x in parts_of(e))


def _by_one(e: Expr, name: str) -> bool:
    """Whether an expression is a loop's variable, and something that stays."""
    if isinstance(e, Var):
        return e.name == name
    if isinstance(e, Op) and e.fn in ("add", "subtract") and len(e.args) == 2:
        left, right = e.args
        return (_by_one(left, name) and not _moves(right, name)) or (
            e.fn == "add" and _by_one(right, name) and not _moves(left, name)
        )
    return False
