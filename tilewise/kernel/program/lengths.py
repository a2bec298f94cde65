"""Lengths of arrays that are the same numbers wherever the arrays are made. In: a program. Out: by array, its axes."""

from __future__ import annotations

from tilewise.kernel.program.ir import Alloc, Const, Expr, HostCall, Invoke, Program, View, results_of
from tilewise.kernel.program.walk import statements

Lengths = tuple[int | None, ...]  # of each axis; None: it is not known


def known_lengths(program: Program) -> dict[str, Lengths]:
    """Of arrays of which something is known."""
    every: dict[str, list[Lengths]] = {}
    for p in program.params:
        if p.array is not None:
            every[p.name] = [(None,) * (p.array.rank - 1) + (p.width,) if p.width else ()]
    for s in statements(program.body):
        if isinstance(s, Alloc | View):
            made = s.shape if isinstance(s, Alloc) else [x.length for x in s.spans]
            every.setdefault(s.array, []).append(tuple(map(_number, made)))
        elif isinstance(s, HostCall | Invoke):
            for name in results_of(s):
                every.setdefault(name, []).append(())
    found = {name: tuple(map(_same, zip(*made, strict=False))) for name, made in every.items()}
    return {name: lengths for name, lengths in found.items() if any(n is not None for n in lengths)}


def _number(e: Expr) -> int | None:
    return max(int(e.value), 0) if isinstance(e, Const) else None


def _same(lengths: tuple[int | None, ...]) -> int | None:
    return lengths[0] if len({*lengths}) == 1 else None
