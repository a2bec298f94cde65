"""Loops whose iterations may run at the same time. In: a program. Out: the program, with such loops marked.

A loop is marked if no iteration touches an element that another one writes (accesses.py), no number is carried from one
to the next, and nothing in it can fail but subscripts, which backends prove to be in range before they make use of it.

Others that can fail (divisions, subscripts that are computed) are marked if they can be run again (restarts.py): where
an iteration fails, the loop is run again from its start, in order. These may add integers up, too (sums.py).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise import accesses
from tilewise.kernel.program.optimise.liveness import live_after
from tilewise.kernel.program.optimise.restarts import restarts
from tilewise.kernel.program.optimise.small_arrays import on_stack, own_memory
from tilewise.kernel.program.optimise.sums import added, in_parts
from tilewise.kernel.program.walk import (
    BLOCKS,
    arrays_set,
    arrays_used,
    expressions,
    names_read,
    names_set,
    statements,
)

LEAST_WORK = 10_000  # statements: fewer are never worth a thread
SHALLOW = 1  # loops around one whose iterations have no loops: deeper ones are not worth a thread


def parallel(program: ir.Program) -> ir.Program:
    """The outermost loops that can be."""
    return replace(program, body=_marked(program, program.body, 0, live_after(program)))


def _marked(program: ir.Program, block: ir.Block, depth: int, live: dict[int, frozenset[str]]) -> ir.Block:
    out: list[ir.Stmt] = []
    for s in block:
        if isinstance(s, ir.For) and not s.rare and not s.proved and _worth(s, depth):
            again = restarts(program, s)
            sums = added(program, s) if again and depth <= _deepest(s) else ()
            later = (names_set((s,)) & live.get(id(s), frozenset())).difference(sums)
            own = _private(s, sums) or frozenset()  # the last one sets them all
            if independent(program, s, again, sums) and later <= own:
                out.append(
                    replace(s, parallel=True, kept=bool(later), restarts=again, sums=sums, body=in_parts(s.body, sums))
                )
                continue
        names = BLOCKS.get(type(s), ())
        deeper = depth + isinstance(s, ir.For | ir.Loop)
        inner = {n: _marked(program, getattr(s, n), deeper - (n == "proved"), live) for n in names}
        out.append(replace(cast(Any, s), **inner) if inner else s)
    return tuple(out)


def _worth(s: ir.For, depth: int) -> bool:
    loops = any(isinstance(x, ir.For | ir.Loop) for x in statements(s.body))
    stores = any(isinstance(x, ir.Store) for x in statements(s.body))
    shallow = loops or depth <= SHALLOW
    makes = stores or depth <= _deepest(s)
    return makes and shallow and isinstance(s.step, ir.Const) and _work(s) >= LEAST_WORK


def _deepest(s: ir.For) -> int:
    """How many loops may be around one that adds integers up: those inside of others are mostly short."""
    return int(any(isinstance(x, ir.For | ir.Loop) for x in statements(s.body)))


def _work(s: ir.Stmt) -> float:
    """How many statements run at most; infinity if that is not known."""
    inside = 1.0 + sum(_work(x) for name in ("then", "other", "body") for x in getattr(s, name, ()))
    if isinstance(s, ir.Loop):
        return math.inf
    if isinstance(s, ir.For):
        ends = [int(e.value) for e in (s.start, s.stop, s.step) if isinstance(e, ir.Const)]
        return inside * len(range(*ends)) if len(ends) == 3 else math.inf
    return inside


def independent(program: ir.Program, s: ir.For, may_fail: bool = False, sums: Collection[str] = ()) -> bool:
    """Whether the iterations of a loop do not need each other, but for sums; `may_fail`: they may raise errors."""
    own = own_memory(program, s)
    if own is None or not _sound(program, s, own, may_fail) or _private(s, sums) is None:
        return False
    return s.independent or accesses.independent(program, s, own)


def _sound(program: ir.Program, loop: ir.For, own: frozenset[str], may_fail: bool) -> bool:
    """Whether a body only computes: it does not end early, fail, or hold memory other than its own."""
    labels = {s.label for s in statements(loop.body) if isinstance(s, ir.Named)}
    for s in statements(loop.body):
        if isinstance(s, ir.Return | ir.Product | ir.HostCall | ir.Invoke):
            return False
        if isinstance(s, ir.Alloc) and not (s.private and on_stack(program, s)):
            return False
        if isinstance(s, ir.Fail) and not may_fail:
            return False
        if isinstance(s, ir.Leave) and s.label not in labels:
            return False
        if isinstance(s, ir.View) and (not s.array.startswith("$") or s.array.startswith("$a")):
            roots = program.arrays[s.array].roots
            if not roots or not roots <= own:
                return False
        if not may_fail and any(isinstance(e, ir.Op) and e.fault >= 0 for e in expressions(s)):
            return False
    return loop.name not in names_set(loop.body)


def _private(loop: ir.For, sums: Collection[str] = ()) -> frozenset[str] | None:
    """What every iteration sets, if none reads what an earlier one has set (other than `sums`); else None."""
    names, arrays = names_set(loop.body).difference(sums), arrays_set(loop.body)
    left: dict[str, list[frozenset[str]]] = {}  # by labels: what is set where they are left
    good = True

    def walk(block: ir.Block, known: frozenset[str]) -> frozenset[str]:
        """What is surely set after a block, where that goes on."""
        nonlocal good
        for s in block:
            if ((names_read(s) & names) | (arrays_used(s) & arrays)) - known:
                good = False
            if isinstance(s, ir.Set):
                known |= {s.name}
            elif isinstance(s, ir.Alloc | ir.View):
                known |= {s.array}
            elif isinstance(s, ir.If):
                known = _together([walk(b, known) for b in (s.then, s.other) if not leaves(b, known)], known)
            elif isinstance(s, ir.For):
                walk(s.body, known | {s.name})
                walk(s.proved, known)
            elif isinstance(s, ir.Loop):
                walk(s.body, known)
            elif isinstance(s, ir.Named):
                ended = [] if leaves(s.body, known) else [walk(s.body, known)]
                known = _together([*ended, *left.pop(s.label, ())], known)
            elif isinstance(s, ir.Leave):
                left.setdefault(s.label, []).append(known)
        return known

    def leaves(block: ir.Block, known: frozenset[str]) -> bool:
        """Whether a block does not go on; it is walked then."""
        if block and isinstance(block[-1], ir.Leave | ir.Return | ir.Fail):
            walk(block, known)
            return True
        return False

    known = walk(loop.body, frozenset([loop.name]))
    return known if good else None


def _together(ways: list[frozenset[str]], otherwise: frozenset[str]) -> frozenset[str]:
    """What all ways have set."""
    return frozenset.intersection(*ways) if ways else otherwise
