"""Neighbouring loops over elements as one loop. In: a program. Out: the program with fewer of them.

    u[1:-1] = a * (v[2:] - v[:-2])          for i: t = a * (v[i + 2] - v[i]); u[i + 1] = t; w[i + 1] = t * b
    w[1:-1] = u[1:-1] * b            =>

Element loops (`For.independent`) follow each other, and whatever two of them touch, one to write it, is either apart or
the same element in the same iteration. Sizes between them are computed before. Tests of shapes and of subscripts become
one guard; where it fails, the statements run as they were written, by the forms that are right for all shapes: so
exceptions come at their place. Arrays that nobody looks at later are numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.liveness import NONE, Names, follow_back
from tilewise.kernel.program.optimise.slices.guards import doubtful, in_range, movable, only_fails, opposite, surely
from tilewise.kernel.program.optimise.slices.nests import Touch, element_nest, touches
from tilewise.kernel.program.optimise.slices.same_places import Definitions
from tilewise.kernel.program.walk import BLOCKS, arrays_used, expressions, mapped, names_read, statements

MOST_NESTS = 12
MOST_ARRAYS = 16  # that one loop goes through
MOST_PARTS = 400  # expressions in it


def fusion(program: ir.Program) -> ir.Program:
    """All neighbours that can be."""
    loops = [s for s in statements(program.body) if isinstance(s, ir.For) and s.independent and not s.rare]
    if len(loops) < 2:
        return program
    maker = _Maker(program)
    body = maker.block(program.body)
    return replace(program, body=body, names={**program.names, **maker.names})


@dataclass(frozen=True)
class Nest:
    """A loop over elements: its loops from outside to inside, what it does, what must hold, what is right anyway."""

    loops: tuple[ir.For, ...]
    body: ir.Block
    tests: tuple[ir.Expr, ...]
    anyway: ir.Block
    touches: tuple[Touch, ...]


Item = tuple[ir.Stmt, Nest | None]


@dataclass
class Group:
    """Neighbours that will be one loop, with what stands between them."""

    nests: list[Nest] = field(default_factory=list)
    stmts: list[Item] = field(default_factory=list)
    apart: list[ir.Expr] = field(default_factory=list)  # tests that what the nests touch lies apart
    tests: list[ir.Expr] = field(default_factory=list)
    equal: list[frozenset[ir.Expr]] = field(default_factory=list)  # lengths that are equal if the tests hold

    def same(self, a: ir.Expr, b: ir.Expr) -> bool:
        """Whether two lengths are equal."""
        return a == b or any(a in c and b in c for c in self.equal)


class _Before:
    """What the statements of a group so far read, set and use."""

    def __init__(self) -> None:
        self.numbers, self.arrays = set[str](), set[str]()

    def add(self, s: ir.Stmt) -> None:
        for x in statements((s,)):
            self.numbers |= names_read(x)
            self.arrays |= arrays_used(x) | _arrays_set(x)
            if isinstance(x, ir.Set | ir.For):
                self.numbers.add(x.name)


def _between(s: ir.Stmt, before: _Before) -> bool:
    """Whether a statement between two nests can be done before both, or is a test of shapes or a subscript."""
    if isinstance(s, ir.If):
        return only_fails(s)
    if isinstance(s, ir.Set):
        return s.name not in before.numbers and (movable(s.value) or doubtful(s))
    if isinstance(s, ir.View | ir.Alloc):
        fresh = s.array not in before.arrays and all(movable(e) for e in expressions(s) if not isinstance(e, ir.Span))
        return fresh and not (isinstance(s, ir.Alloc) and s.zero)
    return False


def _parts(test: ir.Expr) -> list[ir.Expr]:
    """The tests that all must hold."""
    if isinstance(test, ir.Op) and test.fn == "logical_and":
        return [p for a in test.args for p in _parts(a)]
    return [test]


class _Maker:
    def __init__(self, program: ir.Program) -> None:
        self.program, self.names = program, dict[str, str]()
        self.known = Definitions(program)
        self.live: dict[int, Names] = {}

        def note(s: ir.Stmt, after: Names) -> None:
            self.live[id(s)] = self.live.get(id(s), NONE) | after

        follow_back(program, lambda s: frozenset(arrays_used(s)), _arrays_set, note)

    def block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Stmt] = []
        added: list[str] = []
        at = 0
        while at < len(block):
            s = block[at]
            nest = self._nest(s)
            group = self._grown(block[at:]) if nest is not None or isinstance(s, ir.Alloc) else Group()
            if len(group.nests) > 1:
                for t, _ in group.stmts:
                    added += self.known.define(t)
                out += self._fused(group)
                at += len(group.stmts)
                continue
            inner: dict[str, ir.Block] = {}
            for n in BLOCKS.get(type(s), ()) if nest is None else ():
                with self.known.inside(s):
                    inner[n] = self.block(getattr(s, n))
            out.append(replace(cast(Any, s), **inner) if inner else s)
            added += self.known.define(s)
            at += 1
        self.known.forget(added)
        return tuple(out)

    # -- what can be one loop ----------------------------------------------------------------------------------------

    def _nest(self, s: ir.Stmt) -> Nest | None:
        """A statement as a loop over elements; None: it is none."""
        if isinstance(s, ir.If):
            if len(s.then) != 1 or not s.other or not isinstance(s.then[0], ir.For) or not movable(s.test):
                return None
            found = self._nest(s.then[0])
            rare = all(isinstance(x, ir.Alloc) or (isinstance(x, ir.For) and x.rare) for x in s.other)
            return replace(found, tests=tuple(_parts(s.test)), anyway=s.other) if found and rare else None
        loops, block = element_nest(s) or ((), ())
        if not loops:
            return None
        return Nest(loops, block, (), (_rarely(loops[0]),), touches(loops, block))

    def _grown(self, block: ir.Block) -> Group:
        """The first nest with as many of its neighbours as can be, and what stands before and between them.

        The last of them has memory in common with one before: else it would not be worth it.
        """
        group = trial = Group()
        pending: list[Item] = []
        added: list[str] = []
        before = _Before()
        for s in block:
            nest = self._nest(s)
            if nest is not None:
                trial = Group([*trial.nests, nest], [*trial.stmts, *pending, (s, nest)], trial.apart.copy())
                pending = []
                self._demand(trial, [t for _, n in trial.stmts if n is not None for t in n.tests])
                if len(trial.nests) > 1 and not self._fits(trial, nest):
                    break
                if len(trial.nests) == 1 or self._shares(trial, nest):
                    group = trial
            elif _between(s, before):
                pending.append((s, None))
                added += self.known.define(s)
            else:
                break
            before.add(s)
        self.known.forget(added)
        return group

    def _demand(self, group: Group, tests: Iterable[ir.Expr]) -> None:
        """Add tests to the guard, and the equal lengths that they speak of."""
        for test in dict.fromkeys(tests):
            group.tests.append(test)
            if isinstance(test, ir.Op) and test.fn == "equal":
                a, b = (self.known.form(x) for x in test.args)
                touched = [c for c in group.equal if a in c or b in c]
                group.equal = [c for c in group.equal if c not in touched] + [frozenset([a, b]).union(*touched)]

    def _cannot(self, group: Group, test: ir.Expr) -> bool:
        """Whether a test of shapes fails, as lengths are equal."""
        for part in _parts(test):
            differ = part
            if isinstance(part, ir.Op) and part.fn == "logical_not":
                differ = opposite(part.args[0])
            if isinstance(differ, ir.Op) and differ.fn == "not_equal":
                a, b = (self._chosen(group, self.known.form(x)) for x in differ.args)
                if group.same(a, b):
                    return True
        return False

    def _chosen(self, group: Group, e: ir.Expr) -> ir.Expr:
        """A length without a choice of two that are equal."""
        return e.no if isinstance(e, ir.Pick) and group.same(e.yes, e.no) else e

    def _fits(self, group: Group, nest: Nest) -> bool:
        """Whether a nest may be done in the same loop as those before."""
        known = self.known
        lengths = [[known.form(s.stop) for s in n.loops] for n in (group.nests[0], nest)]
        if len(lengths[0]) != len(lengths[1]) or not all(map(group.same, *lengths)):
            return False
        for s, _ in group.stmts:
            if isinstance(s, ir.Alloc) and not (
                len(s.shape) == len(lengths[0]) and all(map(group.same, map(known.form, s.shape), lengths[0]))
            ):
                return False
        before = [t for n in group.nests[:-1] for t in n.touches]
        made = {s.array for s, _ in group.stmts if isinstance(s, ir.Alloc)}  # most of these will be numbers
        through = {known.place(t.array) for t in (*before, *nest.touches) if known.memory(t.array) not in made}
        if len(group.nests) > MOST_NESTS or len(through) > MOST_ARRAYS:
            return False
        if sum(1 for n in group.nests for s in n.body for _ in expressions(s)) > MOST_PARTS:
            return False
        for a in before:
            for b in nest.touches:
                if not (a.write or b.write) or not known.may_meet(a.array, b.array):
                    continue
                if not self._same(a, b, len(nest.loops)):
                    test = known.steps_apart(a.array, b.array)
                    if test is None:
                        return False
                    group.apart.append(test)
        return True

    def _shares(self, group: Group, nest: Nest) -> bool:
        """Whether a nest goes through memory that one before it in the group goes through."""
        memory = {self.known.memory(t.array) for n in group.nests[:-1] for t in n.touches}
        return any(self.known.memory(t.array) in memory for t in nest.touches)

    def _same(self, a: Touch, b: Touch, depth: int) -> bool:
        """Whether two touch the same element in the same iteration, and in no other."""
        every = {ir.Var(f"#{k}", ir.INT) for k in range(depth)}
        if a.index != b.index or len(a.index) != depth or {*a.index} != every:
            return False
        return self.known.place(a.array) == self.known.place(b.array) and not self.known.repeats(a.array)

    # -- the loop ----------------------------------------------------------------------------------------------------

    def _fused(self, group: Group) -> list[ir.Stmt]:
        made = {s.array: s for s, _ in group.stmts if isinstance(s, ir.Alloc | ir.View)}
        gone = self._gone(group, made)
        body = self._body(group, gone)
        loop: ir.Block = body
        for outer in reversed(group.nests[0].loops):
            loop = (replace(outer, body=loop),)

        risky = _risky(s for s, _ in group.stmts)

        def length(e: Any) -> Any:
            """Lengths of arrays that are not made, or not before the guard."""
            if isinstance(e, ir.Dim) and e.array in gone | risky:
                s = made[e.array]
                return mapped(s.shape[e.axis] if isinstance(s, ir.Alloc) else s.spans[e.axis].length, length)
            return e

        loop = mapped(loop, length)
        before: list[ir.Stmt] = []
        inside: list[ir.Stmt] = []  # where the guard holds
        slow: list[ir.Stmt] = []
        tests = [*group.tests, *group.apart]
        for s, nest in group.stmts:
            if nest is not None:
                slow += nest.anyway
            elif isinstance(s, ir.If):
                slow.append(s)
                if not self._cannot(group, s.test):
                    tests.append(opposite(s.test))
            elif isinstance(s, ir.Set) and doubtful(s):
                slow.append(s)
                before.append(mapped(surely(s), length))
                tests += in_range(s)
            elif getattr(s, "array", "") in gone:
                slow.append(s)
            elif getattr(s, "array", "") in risky:
                slow.append(s)
                inside.append(mapped(s, length))
            else:
                before.append(mapped(s, length))
        tests = list(dict.fromkeys(mapped(t, length) for t in tests))
        if not tests:
            return [*before, *loop]
        guard = tests[0]
        for t in tests[1:]:
            guard = ir.Op("logical_and", ir.BOOL, (guard, t))
        return [*before, ir.If(guard, (*inside, *loop), tuple(slow))]

    def _gone(self, group: Group, made: dict[str, ir.Alloc | ir.View]) -> set[str]:
        """Arrays of the group that nobody looks at later."""
        later = self.live.get(id(group.stmts[-1][0]), NONE)
        shown: dict[str, set[str]] = {}
        for name, s in made.items():
            if isinstance(s, ir.Alloc):
                shown[name] = {name}
            else:
                for names in shown.values():
                    if s.source in names and self.known.place(name) == self.known.place(s.source):
                        names.add(name)
        found = [names for names in shown.values() if not names & later and all(map(self._only_here, names))]
        gone = {n for names in found for n in names}
        others = {s.source for n, s in made.items() if isinstance(s, ir.View) and n not in gone}
        written: set[Any] = set()  # elements that are there as numbers
        lost = set(others)
        for nest in group.nests:
            for t in nest.touches:
                if t.write:
                    written.add((self.known.place(t.array), t.index))
                elif (self.known.place(t.array), t.index) not in written:
                    lost.add(t.array)
        return {n for names in found if not names & lost for n in names}

    def _only_here(self, array: str) -> bool:
        return self.known.counts[f"array {array}"] == 1

    def _body(self, group: Group, gone: set[str]) -> ir.Block:
        """What one iteration does. Elements that it has written are read as numbers."""
        out: list[ir.Stmt] = []
        held: dict[Any, ir.Var] = {}
        variables = [ir.Var(s.name, ir.INT) for s in group.nests[0].loops]
        for nest in group.nests:
            own = {s.name: v for s, v in zip(nest.loops, variables, strict=True)}

            def changed(e: Any, own: dict[str, ir.Var] = own) -> Any:
                if isinstance(e, ir.Var):
                    return own.get(e.name, e)
                if isinstance(e, ir.Load):
                    return held.get((self.known.place(e.array), e.index), e)
                return e

            for s in nest.body:
                s = cast(ir.Store | ir.Set, mapped(s, changed))
                if isinstance(s, ir.Set):
                    out.append(s)
                    continue
                dtype = self.program.arrays[s.array].dtype
                assert s.value.dtype == dtype
                name = f"$f{len(self.names)}.{s.array}"
                self.names[name] = dtype
                number = held[self.known.place(s.array), s.index] = ir.Var(name, dtype)
                out.append(ir.Set(name, s.value))
                if s.array not in gone:
                    out.append(replace(s, value=number))
        return tuple(out)


def _arrays_set(s: ir.Stmt) -> Names:
    return frozenset([s.array]) if isinstance(s, ir.Alloc | ir.View) else NONE


def _risky(stmts: Iterable[ir.Stmt]) -> set[str]:
    """Views at subscripts that may be out of range, and views of these."""
    numbers, views = set[str](), set[str]()
    for s in stmts:
        if isinstance(s, ir.Set) and (doubtful(s) or names_read(s) & numbers):
            numbers.add(s.name)
        elif isinstance(s, ir.View) and (names_read(s) & numbers or s.source in views):
            views.add(s.array)
    return views


def _rarely(s: ir.For) -> ir.For:
    """A nest that is worth no code."""
    return cast(ir.For, mapped(s, lambda x: replace(x, rare=True) if isinstance(x, ir.For) else x))
