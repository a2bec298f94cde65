"""Loops over arrays that turn out to lie apart. In: a program. Out: such loops in two versions, one chosen at run time.

    for _ in range(steps):
        for i in ...: new[i] := u[i - 1] + u[i + 1]
        u, new := new, u

Both names stand for either array, in turn, so that nothing says that the loop over i writes what it does not read. Two
comparisons of addresses do: in the version for arrays that lie apart, what is written has a name whose memory is its
own. The other version is as it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.parallel import independent
from tilewise.kernel.program.optimise.restarts import restarts
from tilewise.kernel.program.optimise.slices.split_names import renamed
from tilewise.kernel.program.walk import BLOCKS, arrays_set, arrays_used, mapped, statements

MOST_PAIRS = 6  # of arrays that are compared before a loop
MOST_STATEMENTS = 60  # of a loop that is worth another version


def versions(program: ir.Program) -> ir.Program:
    """The outermost loops that gain by it."""
    maker = _Maker(program)
    body = maker.block(program.body)
    return replace(program, body=body, arrays=maker.arrays)


class _Maker:
    def __init__(self, program: ir.Program) -> None:
        self.program, self.arrays = program, dict(program.arrays)
        every = list(statements(program.body))
        self.made = Counter(s.array for s in every if isinstance(s, ir.Alloc | ir.View))
        self.used = Counter(a for s in every for a in arrays_used(s))

    def block(self, block: ir.Block) -> ir.Block:
        out: list[ir.Stmt] = []
        for s in block:
            made = self._two(s) if isinstance(s, ir.For) and not s.rare else None
            if made is None:
                inner = {n: self.block(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
                made = replace(cast(Any, s), **inner) if inner else s
            out.append(made)
        return tuple(out)

    def _two(self, s: ir.For) -> ir.Stmt | None:
        """A loop in two versions; None: that cannot be, or is no better."""
        every = list(statements((s,)))
        stored = {x.array for x in every if isinstance(x, ir.Store)}
        if not stored or len(every) > MOST_STATEMENTS:
            return None
        inside = arrays_set(s.body)
        shows = self._views(every, inside)
        if shows is None:
            return None
        touched = {shows.get(a, a) for x in every for a in arrays_used(x)}
        written = {shows.get(a, a) for a in stored}
        pairs = [
            (a, b)
            for a in sorted(written)
            for b in sorted(touched)
            if (a < b or (a != b and b not in written)) and self._roots(a) & self._roots(b)
        ]
        if not pairs or len(pairs) > MOST_PAIRS or not inside.isdisjoint(x for p in pairs for x in p):
            return None
        new = {a: self._new(a) for a in sorted({a for p in pairs for a in p} & written)}
        names = {**new, **{v: self._new(v, new[a]) for v, a in shows.items() if a in new}}
        body: ir.Block = (s,)
        for old, name in names.items():
            body = renamed(body, old, name)
        program = replace(self.program, arrays=self.arrays)
        before, after = (sum(independent(program, x, restarts(program, x)) for x in _loops(b)) for b in ((s,), body))
        if after == before:
            return None
        tests = [ir.Apart(a, b) for a, b in pairs]
        test = reduce(lambda a, b: ir.Op("logical_and", ir.BOOL, (a, b)), cast(list[ir.Expr], tests))
        return ir.If(test, (*(self._another(a, n) for a, n in new.items()), *body), (_rare(s),))

    def _views(self, every: list[ir.Stmt], inside: set[str]) -> dict[str, str] | None:
        """What arrays that a loop sets are views of; None: more than views that nobody else looks at."""
        shows: dict[str, str] = {}
        uses = Counter(a for s in every for a in arrays_used(s))
        for s in every:
            if isinstance(s, ir.View):
                if self.made[s.array] > 1 or uses[s.array] < self.used[s.array] or s.source in inside - shows.keys():
                    return None
                shows[s.array] = shows.get(s.source, s.source)
            elif isinstance(s, ir.Alloc | ir.HostCall | ir.Invoke):
                return None
        return shows

    def _roots(self, array: str) -> frozenset[str]:
        return self.program.arrays[array].roots

    def _new(self, array: str, like: str = "") -> str:
        """A name for an array whose memory is its own, or that of another such name."""
        name = f"{array}{ir.OWN}{len(self.arrays)}"
        known = self.arrays[array]
        roots = self.arrays[like].roots if like else frozenset(f"{r}{ir.OWN}{len(self.arrays)}" for r in known.roots)
        self.arrays[name] = replace(known, roots=roots)
        return name

    def _another(self, array: str, name: str) -> ir.View:
        """Another name for an array."""
        zero, one = ir.Const(ir.INT, 0), ir.Const(ir.INT, 1)
        spans = tuple(ir.Span(k, zero, ir.Dim(array, k), one) for k in range(self.program.arrays[array].rank))
        return ir.View(name, array, (), spans, renamed=True)


def _rare(s: ir.For) -> ir.For:
    """A loop that is not worth much code, with those inside."""
    return cast(ir.For, mapped(s, lambda x: replace(x, rare=True) if isinstance(x, ir.For) else x))


def _loops(block: ir.Block) -> Iterator[ir.For]:
    return (s for s in statements(block) if isinstance(s, ir.For))
