"""The end of lowering. In: statements, variables. Out: a program, with what is known of its arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from tilewise.kernel.program.idle import without_idle
from tilewise.kernel.program.ir import (
    Alloc,
    Array,
    Block,
    Dim,
    For,
    HostCall,
    Invoke,
    Param,
    Program,
    Set,
    Stmt,
    Store,
    Var,
    View,
    results_of,
)
from tilewise.kernel.program.walk import expressions, statements
from tilewise.python import memory_order, read_only
from tilewise.python.build import ONE, ZERO, Builder


def finished(
    name: str,
    b: Builder,
    body: Block,
    params: list[Param],
    results: list[tuple[str, ...]],
    apart: bool,
    *,
    main: bool = True,
) -> Program:
    """The program. `main`: no other program calls it."""
    body = without_idle(body)
    every = list(statements(body))
    used = {e.name for s in every for e in expressions(s) if isinstance(e, Var)}
    used |= {s.name for s in every if isinstance(s, Set | For)}
    used |= {n for s in every if isinstance(s, HostCall | Invoke) for n in results_of(s)}
    names = {n: t for n, t in b.names.items() if n in used}
    arrays = _arrays(b, every, params)
    memory_order.check(b, every, params, main=main)
    read_only.check(every, arrays)
    stored = {r for s in every if isinstance(s, Store) for r in arrays[s.array].roots}
    stored |= {r for s in every if isinstance(s, HostCall) for a in s.writes for r in arrays[a].roots}
    params = [replace(p, written=p.array is not None and p.name in stored) for p in params]
    faults = tuple(b.faults)
    return Program(name, tuple(params), names, arrays, body, faults, tuple(results), apart)


def with_functions(main: Program, functions: list[Program]) -> Program:
    """A program and its functions; which arguments are written to, by functions that they are given to as well."""
    every = [main, *functions]
    changed = True
    while changed:
        changed = False
        for k, p in enumerate(every):
            written: set[str] = set()
            for s in statements(p.body):
                if isinstance(s, Invoke):
                    pairs = zip(s.inputs, every[1 + s.function].params, strict=True)
                    written.update(r for v, q in pairs if q.written for r in p.arrays[cast(str, v)].roots)
            read_only.refuse_write(written)
            params = tuple(
                replace(q, written=q.written or (q.array is not None and q.name in written)) for q in p.params
            )
            changed = changed or params != p.params
            every[k] = replace(p, params=params)
    return replace(every[0], functions=tuple(replace(p, faults=()) for p in every[1:]))


def _arrays(b: Builder, every: list[Stmt], params: list[Param]) -> dict[str, Array]:
    """What is known of each array: which memory it shows, whether it has gaps."""
    made: dict[str, list[Alloc | View | HostCall | Invoke]] = {}
    for s in every:
        if isinstance(s, Alloc | View):
            made.setdefault(s.array, []).append(s)
        elif isinstance(s, HostCall | Invoke):
            for n in results_of(s):
                if n in b.arrays:
                    made.setdefault(n, []).append(s)
    facts = {p.name: p.array for p in params if p.array is not None}
    known = {n: Array(b.arrays[n][0], b.arrays[n][1], True, True, b.roots.get(n, frozenset())) for n in (*made, *facts)}
    for n, a in facts.items():
        known[n] = replace(known[n], unit=a.unit, dense=a.dense)
    changed = True
    while changed:
        changed = False
        for n, ways in made.items():
            now, roots = known[n], known[n].roots
            unit, dense = now.unit, now.dense
            for s in ways:
                if isinstance(s, View):
                    roots |= known[s.source].roots
                    unit, dense = unit and _unit(s, known[s.source]), dense and _dense(s, known[s.source])
                elif isinstance(s, Invoke) or (isinstance(s, HostCall) and s.shown):
                    unit, dense = unit and n in b.dense, dense and n in b.dense
                    roots = roots.union(*(known[v].roots for v in s.inputs if isinstance(v, str)))
            if (unit, dense, roots) != (now.unit, now.dense, now.roots):
                known[n] = replace(now, unit=unit, dense=dense, roots=roots)
                changed = True
    return known


def _unit(v: View, source: Array) -> bool:
    if not v.spans:
        return True
    last = v.spans[-1]
    return source.unit and last.axis == source.rank - 1 and last.step == ONE


def _dense(v: View, source: Array) -> bool:
    """Whether a view is a part of the first axes, and all of the others."""
    first = len(v.at)
    axes = [a for a, _ in v.at] + [s.axis for s in v.spans]
    if not source.dense or axes != list(range(source.rank)):
        return False
    return all(
        (s.step == ONE) and ((s.start == ZERO and s.length == Dim(v.source, s.axis)) or k == 0)
        for k, s in enumerate(v.spans)
    ) and first == source.rank - len(v.spans)
