"""Nests in a better order. In: a program. Out: loops with a second form, for where no subscript is out of range.

A loop over j whose iterations are independent, with loops inside, may run in any order that keeps the order of what
each j does. So j becomes the innermost loop where rows lie along it; and where numbers are added up over k (which must
stay in order), several j are done side by side: one waits for its sum while the others go on, or they are one vector.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.dependence.expr import Expr
from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.accesses import Accesses
from tilewise.kernel.program.optimise.hoist import pure
from tilewise.kernel.program.optimise.liveness import live_after
from tilewise.kernel.program.optimise.parallel import independent
from tilewise.kernel.program.walk import (
    BLOCKS,
    expressions,
    mapped,
    names_read,
    names_set,
    statements,
)

WIDE = 8  # iterations of a loop that are worth to be the innermost
ABREAST = 4  # chains of additions that do not wait for each other
ABREAST_ALONG = 16  # the same where elements lie side by side: LLVM makes vectors of them
BLOCK = 128  # iterations of a loop that becomes the innermost, for one thread
MOST_STATEMENTS = 12  # of a body that is done several times abreast
MOST_ALONG = 6  # and of one that is done in vectors
ONE = ir.Const(ir.INT, 1)
FULL = ir.Fault("MemoryError", "Unable to allocate an array", 0)


def reorder(program: ir.Program) -> ir.Program:
    """All loops for which another order is better."""
    maker = _Maker(program)
    body = maker.block(program.body, 0)
    program = replace(program, body=body, names={**program.names, **maker.names})
    if maker.arrays:
        program = replace(program, arrays={**program.arrays, **maker.arrays}, faults=(*program.faults, FULL))
    return program


class _Maker:
    def __init__(self, program: ir.Program) -> None:
        self.program, self.names, self.arrays = program, dict[str, str](), dict[str, ir.Array]()
        self.live = live_after(program)

    def block(self, block: ir.Block, depth: int) -> ir.Block:
        out: list[ir.Stmt] = []
        for s in block:
            made = self.second_form(s, depth) if isinstance(s, ir.For) and not s.rare else ()
            if made:
                out.append(replace(cast(ir.For, s), proved=made))
                continue
            deeper = depth + isinstance(s, ir.For | ir.Loop)
            inner = {n: self.block(getattr(s, n), deeper) for n in BLOCKS.get(type(s), ())}
            out.append(replace(cast(Any, s), **inner) if inner else s)
        return tuple(out)

    def second_form(self, j: ir.For, depth: int) -> ir.Block:
        """The loop in another order, or nothing."""
        live = self.live[id(j)]
        if j.step != ONE or not all(map(pure, (j.start, j.stop))) or not any(isinstance(s, ir.For) for s in j.body):
            return ()
        changed = names_set((j,))
        if not _nest(j.body, changed) or changed & live or not independent(self.program, j):
            return ()
        rows = _Rows(self.program, j)
        if rows.along and (rows.accumulates or rows.across) and _separate(j.body):
            form = self._blocks(j) if depth == 0 else _sunk(j, j.body)
        elif (rows.accumulates or rows.carries) and len(list(statements(j.body))) <= MOST_STATEMENTS:
            form = self._abreast(j, rows.along and len(list(statements(j.body))) <= MOST_ALONG)
        else:
            return ()
        wide = ir.Op("greater_equal", ir.BOOL, (_minus(j.stop, j.start), ir.Const(ir.INT, WIDE)))
        return (ir.If(wide, form, (surely(replace(j, rare=True)),)),) if form else ()

    def _blocks(self, j: ir.For) -> ir.Block:
        """Blocks of j, each with j as the innermost loop: they are for several threads."""
        name = f"{j.name}~blocks"
        self.names[name] = ir.INT
        first = ir.Var(name, ir.INT)
        end = ir.Op("add", ir.INT, (first, ir.Const(ir.INT, BLOCK)), exact=True)
        part = replace(j, start=first, stop=ir.Op("minimum", ir.INT, (end, j.stop)))
        body = _sunk(part, j.body)
        return (replace(j, name=name, step=ir.Const(ir.INT, BLOCK), body=body, independent=True),)

    def _abreast(self, j: ir.For, along: bool) -> ir.Block:
        """Many j at a time, or four, then the rest one by one."""
        inner = [at for at, s in enumerate(j.body) if isinstance(s, ir.For)]
        k = j.body[inner[0]]
        assert isinstance(k, ir.For)
        if len(inner) != 1 or any(isinstance(s, ir.For) for s in k.body):
            return ()
        before, after = j.body[: inner[0]], j.body[inner[0] + 1 :]
        own = names_set(j.body) - {k.name}

        def part(stmts: ir.Block, t: int) -> ir.Block:
            def change(node: Any) -> Any:
                if isinstance(node, ir.Var) and node.name == j.name:
                    return ir.Op("add", ir.INT, (node, ir.Const(ir.INT, t)), exact=True) if t else node
                if isinstance(node, ir.Var | ir.Set) and node.name in own:
                    return replace(node, name=self._copy(node.name, t))
                return node

            return cast(ir.Block, mapped(stmts, change))

        rows = self._rows(k, before, after, own) if _long(after) else {}
        out: list[ir.Stmt] = [self._row(row) for row in rows.values()]
        first = j.start
        for width in (ABREAST_ALONG, ABREAST) if along else (ABREAST,):
            many, by = range(width), ir.Const(ir.INT, width)
            body = (
                *(s for t in many for s in part(before, t)),
                replace(k, body=tuple(s for t in many for s in part(k.body, t))),
                *(self._by_turns(j, after, rows, width) if rows else (s for t in many for s in part(after, t))),
            )
            end = _minus(j.stop, ir.Const(ir.INT, width - 1))
            out.append(surely(replace(j, start=first, stop=end, step=by, body=body)))
            whole = ir.Op("floor_divide", ir.INT, (_minus(j.stop, first), by))
            first = ir.Op("add", ir.INT, (first, ir.Op("multiply", ir.INT, (whole, by), exact=True)), exact=True)
        return (*out, surely(replace(j, start=first, rare=True)))

    def _rows(self, k: ir.For, before: ir.Block, after: ir.Block, own: set[str]) -> dict[str, str]:
        """What follows the loop over k needs of it: by names, arrays for the numbers of all j that go abreast."""
        made = names_set((*before, *k.body))
        read = {n for s in statements(after) for n in names_read(s)}
        if k.name in read or not read & own <= made:
            return {}
        rows = {name: f"$row{len(self.names)}.{at}" for at, name in enumerate(sorted(read & own))}
        for name, row in rows.items():
            self.arrays[row] = ir.Array(self.program.names[name], 1, unit=True, dense=True, roots=frozenset([row]))
        return rows

    def _row(self, row: str) -> ir.Alloc:
        fault = len(self.program.faults)
        return ir.Alloc(row, (ir.Const(ir.INT, ABREAST_ALONG),), False, fault, fault, fault, private=True)

    def _by_turns(self, j: ir.For, after: ir.Block, rows: dict[str, str], width: int) -> ir.Block:
        """What follows a loop, for one j after the other: it is much code, and written once."""
        turn = ir.Var(self._copy(j.name, -1), ir.INT)
        kept = [
            ir.Store(row, (ir.Const(ir.INT, t),), ir.Var(self._copy(name, t), self.program.names[name]), (-1,))
            for name, row in rows.items()
            for t in range(width)
        ]
        taken = [ir.Set(n, ir.Load(row, self.program.names[n], (turn,), (-1,))) for n, row in rows.items()]

        def change(node: Any) -> Any:
            here = isinstance(node, ir.Var) and node.name == j.name
            return ir.Op("add", ir.INT, (node, turn), exact=True) if here else node

        body = (*taken, *cast(ir.Block, mapped(after, change)))
        zero, one = ir.Const(ir.INT, 0), ir.Const(ir.INT, 1)
        return (*kept, ir.For(turn.name, zero, ir.Const(ir.INT, width), one, body, j.line, rare=True))

    def _copy(self, name: str, t: int) -> str:
        new = f"{name}~{t}"
        self.names[new] = self.program.names[name]
        return new


def _long(block: ir.Block) -> bool:
    """Whether statements are much code."""
    ops = [e for s in statements(block) for e in expressions(s) if isinstance(e, ir.Op)]
    return any(e.fn in ("remainder", "floor_divide") and e.dtype == ir.INT for e in ops)


def _minus(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return ir.Op("subtract", ir.INT, (a, b), exact=True)


def _nest(block: ir.Block, changed: set[str], loops: frozenset[str] = frozenset()) -> bool:
    """Whether a body is assignments, and loops of such whose lengths j does not change."""
    for s in block:
        if isinstance(s, ir.For):
            fits = isinstance(s.step, ir.Const) and pure(s.start) and pure(s.stop) and not s.rare and not s.proved
            if not fits or names_read(s) & (changed - loops) or not _nest(s.body, changed, loops | {s.name}):
                return False
        elif not isinstance(s, ir.Set | ir.Store) or any(isinstance(e, ir.Op) and e.loose for e in expressions(s)):
            return False
    return True


def _sunk(j: ir.For, block: ir.Block) -> ir.Block:
    """The statements of a block, each run of assignments for all j."""
    out: list[ir.Stmt] = []
    run: list[ir.Stmt] = []
    for s in (*block, None):
        if s is not None and not isinstance(s, ir.For):
            run.append(s)
            continue
        if run:
            out.append(surely(replace(j, body=tuple(run), independent=True)))
            run = []
        if s is not None:
            out.append(replace(s, body=_sunk(j, s.body)))
    return tuple(out)


def _separate(block: ir.Block) -> bool:
    """Whether numbers are read in the run of assignments that sets them, and after that."""
    every = list(statements(block))
    own = {s.name for s in every if isinstance(s, ir.Set)}
    known: set[str] = set()
    for s in block:
        if isinstance(s, ir.For):
            known = set()
            if not _separate(s.body):
                return False
            inside = {x.name for x in statements(s.body) if isinstance(x, ir.Set)}
            if any(names_read(x) & (own - inside) for x in (s, *statements(s.body))):
                return False
            continue
        if names_read(s) & own - known:
            return False
        known |= names_set((s,))
    return True


class _Rows:
    """How the elements of a nest lie: `along` j (rows are walked if j is the innermost), `across` inner loops.

    accumulates: an inner loop writes one element again and again; carries: it needs numbers of its last iteration.
    """

    def __init__(self, program: ir.Program, j: ir.For) -> None:
        self.program, self.forms, self.by_j = program, Accesses(program, j), j
        self.along = self.across = self.accumulates = self.carries = False
        self.good = True
        self._block(j.body, (j,))
        self.along = self.along and self.good

    def _block(self, block: ir.Block, loops: tuple[ir.For, ...]) -> None:
        for s in block:
            if isinstance(s, ir.For):
                self.carries = self.carries or _carries(s)
                self._block(s.body, (*loops, s))
        j, last = self.forms.index_of(self.by_j), self.forms.index_of(loops[-1])
        for array, index, write in _accesses(block):
            found = [self.forms.form(i, loops) for i in index]
            if any(f is None for f in found) or not self.program.arrays[array].unit:
                self.good = False
                continue
            at = cast(list[Expr], found)
            if any(f.slope(j) for f in at[:-1]) or (at and at[-1].slope(j) not in (0, 1)):
                self.good = False
            self.along = self.along or any(f.slope(j) for f in at)
            if len(loops) > 1:
                self.across = self.across or any(f.slope(last) for f in at[:-1])
                self.accumulates = self.accumulates or (write and not any(f.slope(last) for f in at))


def _carries(k: ir.For) -> bool:
    """Whether an iteration reads a number that the one before has set."""
    sets, known = {s.name for s in k.body if isinstance(s, ir.Set)}, set[str]()
    for s in k.body:
        if (names_read(s) & sets) - known:
            return True
        known |= names_set((s,))
    return False


def _accesses(block: ir.Block) -> list[tuple[str, tuple[ir.Expr, ...], bool]]:
    found = []
    for s in block:
        found += [(e.array, e.index, False) for e in expressions(s) if isinstance(e, ir.Load)]
        if isinstance(s, ir.Store):
            found.append((s.array, s.index, True))
    return found


def surely(s: ir.For) -> ir.For:
    """A loop whose subscripts are in range."""

    def change(node: Any) -> Any:
        if not isinstance(node, ir.Load | ir.Store) or all(f < 0 for f in node.faults):
            return node
        index = tuple(
            ir.Op("add", ir.INT, (ir.Dim(node.array, axis), i), exact=True)
            if fault >= 0 and isinstance(i, ir.Const) and i.value < 0
            else i
            for axis, (i, fault) in enumerate(zip(node.index, node.faults, strict=True))
        )
        return replace(cast(Any, node), index=index, faults=(-1,) * len(index))

    return cast(ir.For, mapped(s, change))
