"""Dear terms of sums, side by side. In: a program. Out: loops with a second form, for subscripts that are in range.

`for j in range(n): s += np.exp(x[j])` has to add in this order, so that LLVM makes no vector of it, and computes
one term after the other. In the second form the terms of a block go into a small array, as vectors, and are added from
there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.hoist import pure
from tilewise.kernel.program.optimise.reorder import ONE, surely
from tilewise.kernel.program.walk import BLOCKS, expressions, names_read, names_set, statements

TERMS = 16  # of a block
LEAST = 16  # terms that are worth it
MOST_SUMS = 3  # of one loop
MOST_TURNS = 16  # of a loop inside, which LLVM unrolls
DEAR = frozenset(
    "divide sqrt reciprocal exp exp2 expm1 log log2 log10 log1p cbrt sin cos tan arcsin arccos arctan sinh cosh tanh "
    "arcsinh arccosh arctanh erf erfc ndtr expit logit power arctan2 hypot logaddexp".split()
)
CHEAP = frozenset(
    "add subtract multiply minimum maximum fmin fmax negative absolute fabs square copysign cast where equal not_equal "
    "less less_equal greater greater_equal logical_and logical_or logical_not".split()
)
FLOATS = ("float32", "float64")
ZERO = ir.Const(ir.INT, 0)


def terms(program: ir.Program) -> ir.Program:
    """All innermost loops that add such terms up."""
    maker = _Maker(program)
    body = maker.block(program.body)
    if not maker.names:
        return program
    names, arrays = {**program.names, **maker.names}, {**program.arrays, **maker.arrays}
    return replace(program, body=body, names=names, arrays=arrays, faults=(*program.faults, maker.full))


class _Maker:
    full = ir.Fault("MemoryError", "Unable to allocate an array", 0)

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.names, self.arrays = dict[str, str](), dict[str, ir.Array]()
        every = [e for s in statements(program.body) for e in expressions(s)]
        self.read = Counter(e.name for e in every if isinstance(e, ir.Var))

    def block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Stmt] = []
        for s in block:
            made = self.second_form(s) if isinstance(s, ir.For) and not (s.rare or s.proved) else ()
            if made:
                out.append(replace(cast(ir.For, s), proved=made))
                continue
            inner = {n: self.block(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
            out.append(replace(cast(Any, s), **inner) if inner else s)
        return tuple(out)

    def second_form(self, j: ir.For) -> ir.Block:
        """The loop in blocks of terms, or nothing."""
        j = replace(j, body=self._at_once(j.body))
        changed = names_set((j,))
        if j.step != ONE or not (pure(j.start) and pure(j.stop)) or names_read(j) & changed:
            return ()
        sums = [s for s in j.body if self._adds(s)]
        if not 0 < len(sums) <= MOST_SUMS or not self._straight(j, sums):
            return ()
        several = ir.Op("greater_equal", ir.BOOL, (_plus(j.stop, j.start, "subtract"), ir.Const(ir.INT, LEAST)))
        return (ir.If(several, self._blocks(j, sums), (surely(replace(j, rare=True)),)),)

    def _blocks(self, j: ir.For, sums: list[ir.Stmt]) -> ir.Block:
        """Whole blocks, whose lengths LLVM knows, and one of what is left."""
        number = len(self.names)
        first, end, k = (self._name(f"{j.name}~{number}{what}") for what in ("first", "end", "k"))
        fault = len(self.program.faults)
        allocations, body, added = list[ir.Stmt](), list[ir.Stmt](), list[ir.Stmt]()
        for before, s in zip(j.body, surely(j).body, strict=True):
            if before not in sums:
                body.append(s)
                continue
            value = cast(ir.Op, cast(ir.Set | ir.Store, s).value)
            at = 1 if self._itself(s, value.args[0]) else 0
            array = f"$terms{number}.{len(added)}"
            root = frozenset([array])
            self.arrays[array] = ir.Array(value.dtype, 1, unit=True, dense=True, roots=root)
            size = (ir.Const(ir.INT, TERMS),)
            allocations.append(ir.Alloc(array, size, False, fault, fault, fault, private=True))
            body.append(ir.Store(array, (k,), value.args[at], (-1,)))
            args = list(value.args)
            args[at] = ir.Load(array, value.dtype, (k,), (-1,))
            added.append(replace(cast(Any, s), value=replace(value, args=tuple(args))))
        counter = ir.Set(j.name, _plus(first, k))

        def blocks(start: ir.Expr, stop: ir.Expr, length: ir.Expr) -> ir.For:
            turn = replace(j, name=k.name, start=ZERO, stop=length, step=ONE)
            turns = (replace(turn, body=(counter, *body)), replace(turn, body=tuple(added)))
            return replace(j, name=first.name, start=start, stop=stop, step=ir.Const(ir.INT, TERMS), body=turns)

        last = _plus(j.stop, ir.Const(ir.INT, TERMS - 1), "subtract")
        length = _plus(j.stop, j.start, "subtract")
        left = ir.Set(end.name, ir.Op("remainder", ir.INT, (length, ir.Const(ir.INT, TERMS))))
        return (
            *allocations,
            blocks(j.start, last, ir.Const(ir.INT, TERMS)),
            left,
            blocks(_plus(j.stop, end, "subtract"), j.stop, end),
        )

    def _at_once(self, block: ir.Block) -> ir.Block:
        """`$t := row[i]; row[i] := $t + term`, as sums are lowered whose terms may do anything, in one statement."""
        out: list[ir.Stmt] = []
        for s in block:
            before = out[-1] if out else None
            value = s.value if isinstance(s, ir.Set | ir.Store) else None
            if isinstance(before, ir.Set) and isinstance(value, ir.Op) and value.args:
                first = value.args[0]
                once = isinstance(first, ir.Var) and first.name == before.name and self.read[before.name] == 1
                if once and before.name.startswith("$") and self._itself(s, before.value):
                    out.pop()
                    s = replace(cast(Any, s), value=replace(value, args=(before.value, *value.args[1:])))
            out.append(s)
        return tuple(out)

    def _name(self, name: str) -> ir.Var:
        self.names[name] = ir.INT
        return ir.Var(name, ir.INT)

    def _adds(self, s: ir.Stmt) -> bool:
        """Whether a statement adds to a float, or takes from it."""
        e = s.value if isinstance(s, ir.Set | ir.Store) else None
        if not isinstance(e, ir.Op) or e.dtype not in FLOATS or e.fn not in ("add", "subtract") or e.fault >= 0:
            return False
        return not e.loose and (self._itself(s, e.args[0]) or (e.fn == "add" and self._itself(s, e.args[1])))

    def _itself(self, s: ir.Stmt, e: ir.Expr) -> bool:
        """Whether an expression is what a statement sets."""
        if isinstance(s, ir.Set):
            return isinstance(e, ir.Var) and e.name == s.name
        return isinstance(s, ir.Store) and isinstance(e, ir.Load) and (e.array, e.index) == (s.array, s.index)

    def _straight(self, j: ir.For, sums: list[ir.Stmt]) -> bool:
        """Whether a body computes terms from what iterations do not set, and adds them to what it does not look at."""
        every = list(statements(j.body))
        changed = names_set((j,))
        totals = {s.name for s in sums if isinstance(s, ir.Set)}
        rows = {s.array for s in sums if isinstance(s, ir.Store)}
        roots = frozenset().union(*(self.program.arrays[a].roots for a in rows))
        memory = frozenset().union(*(self.program.arrays[a].memory for a in rows))
        if len(totals) + len(rows) < len(sums) or memory & {p.name for p in self.program.params}:
            return False
        for s in sums:
            if isinstance(s, ir.Store) and not all(
                pure(i) and not names_read(ir.Set("", i)) & changed for i in s.index
            ):
                return False
        if sum(isinstance(s, ir.Set) and s.name in totals for s in every) > len(totals):
            return False
        reads = [e for s in every for e in self._operands(s, sums)]
        if any(isinstance(e, ir.Var) and e.name in totals for e in reads):
            return False
        if any(isinstance(e, ir.Load) and self.program.arrays[e.array].roots & roots for e in reads):
            return False
        dear = any(isinstance(e, ir.Op) and e.fn in DEAR and e.dtype in FLOATS for e in reads)
        if not dear or not all(map(_simple, reads)) or j.name in names_set(j.body):
            return False
        return self._known(j.body, {j.name}, changed - totals, sums) is not None

    def _operands(self, s: ir.Stmt, sums: list[ir.Stmt]) -> Iterator[ir.Expr]:
        """What a statement reads, of sums only their terms."""
        if s in sums:
            value = cast(ir.Op, cast(Any, s).value)
            s = ir.Set("", value.args[1 if self._itself(s, value.args[0]) else 0])
        return expressions(s)

    def _known(self, block: ir.Block, known: set[str], own: set[str], sums: list[ir.Stmt]) -> set[str] | None:
        """What is set after a block that is assignments and short loops; None: it is not, or reads what is not set."""
        for s in block:
            if {e.name for e in self._operands(s, sums) if isinstance(e, ir.Var)} & own - known:
                return None
            if isinstance(s, ir.For) and not (s.rare or s.proved) and 0 < _turns(s) <= MOST_TURNS:
                inside = self._known(s.body, known | {s.name}, own, [])
                if inside is None:
                    return None
                known = inside
            elif isinstance(s, ir.Set):
                known = known | {s.name}
            elif s not in sums:
                return None
        return known


def _simple(e: ir.Expr) -> bool:
    """Whether LLVM makes vectors of an expression, as far as it goes."""
    if isinstance(e, ir.Op):
        dtypes = (e.dtype, *(a.dtype for a in e.args))
        return e.fault < 0 and not e.loose and e.fn in CHEAP | DEAR and not any(t[0] == "c" for t in dtypes)
    return not isinstance(e, ir.Apart)


def _turns(s: ir.For) -> int:
    """How often a loop runs; 0: that is not known."""
    ends = [int(e.value) for e in (s.start, s.stop, s.step) if isinstance(e, ir.Const)]
    return len(range(*ends)) if len(ends) == 3 else 0


def _plus(a: ir.Expr, b: ir.Expr, fn: str = "add") -> ir.Op:
    return ir.Op(fn, ir.INT, (a, b), exact=True)
