"""No second name for an array where one will do. In: a program. Out: with fewer names.

    =$t := column renamed; part := =$t[i]   =>   part := column[i]

Functions that were put in the place of their calls name what they were given. Each name has words of its own for
lengths and strides, and holds the memory: that is code, and work in every iteration.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, cast

from tilewise.kernel.program import ir
from tilewise.kernel.program.optimise.slices.split_names import renamed
from tilewise.kernel.program.walk import BLOCKS, arrays_set, arrays_used, statements

FARTHEST = 100  # statements after a name that are looked at, each with those inside


def aliases(program: ir.Program) -> ir.Program:
    """Without the names of the compiler's own that stand for another array as long as they are used."""
    every = list(statements(program.body))
    made = Counter(s.array for s in every if isinstance(s, ir.Alloc | ir.View))
    made.update(n for s in every if isinstance(s, ir.HostCall | ir.Invoke) for n in ir.results_of(s))
    uses = Counter(n for s in every for n in arrays_used(s))
    gone = {s.array for s in every if isinstance(s, ir.View) and _our_own(s) and made[s.array] == 1}
    if not gone:
        return program
    maker = _Maker(gone, uses)
    body = maker.block(program.body)
    return replace(program, body=body, arrays={n: a for n, a in program.arrays.items() if n not in maker.dropped})


def _our_own(s: ir.View) -> bool:
    """Whether it names an argument of a function that was put in the place of its call, or what a loop goes over."""
    return s.renamed and s.array != s.source and (s.array.startswith("=$") or s.array[0].isdigit())


class _Maker:
    def __init__(self, gone: set[str], uses: Counter[str]) -> None:
        self.gone, self.uses = gone, uses
        self.dropped: set[str] = set()

    def block(self, block: ir.Block) -> ir.Block:
        out = list(block)
        at = 0
        while at < len(out):
            s = out[at]
            end = self._last_use(out, at) if isinstance(s, ir.View) and s.array in self.gone else None
            if isinstance(s, ir.View) and end is not None:
                self.dropped.add(s.array)
                self.uses[s.source] += self.uses.pop(s.array, 0) - 1
                out[at:end] = renamed(tuple(out[at + 1 : end]), s.array, s.source)
                continue
            inner = {n: self.block(getattr(s, n)) for n in BLOCKS.get(type(s), ())}
            if inner:
                out[at] = replace(cast(Any, s), **inner)
            at += 1
        return tuple(out)

    def _last_use(self, block: list[ir.Stmt], at: int) -> int | None:
        """Behind the last statement that uses a name, if it stands for its source until there; None: it may not."""
        s = block[at]
        assert isinstance(s, ir.View)
        left = self.uses[s.array]
        for k in range(at + 1, min(len(block), at + 1 + FARTHEST)):
            if left == 0:
                return k
            inside = (block[k],)
            left -= sum(s.array in arrays_used(x) for x in statements(inside))
            if s.source in arrays_set(inside):
                return None
        return min(len(block), at + 1 + FARTHEST) if left == 0 else None
