"""The costs of tiling a program: volume of communication, and work if asked. In: Program. Out: a Problem.

Layouts on a mesh of p workers: Shard of axis 0 or 1, Replicate, Partial. Costs are elements received per worker, times
p * p / (p - 1), so that all are whole numbers. A variable per operator says which of its signatures it runs; a value
with two uses or more has a second variable, the set of layouts in which it is held (conversions are then paid once).
On a mesh of two axes a layout is a pair.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.tilings.programs import Op, Program, Shape
from tilewise.solver.problem import Limit, Problem

R, P = 2, 3  # Replicate, Partial; 0 and 1 are Shards of that axis.
Layout = tuple[int, ...]  # one placement per axis of the mesh
Ints = NDArray[np.int64]


class Signature(NamedTuple):
    inputs: tuple[int, ...]
    output: int
    cost: int  # in units of elements


class Mesh(NamedTuple):
    sizes: tuple[int, ...] = (8,)
    work: bool = False  # whether work that is replicated costs


def elements(shape: Shape) -> int:
    return int(np.prod(shape, dtype=object)) if shape else 1


def _map_signatures(kind: str, inputs: tuple[Shape, ...], shape: Shape) -> list[Signature]:
    found = []
    for axis in range(len(shape)):
        ins = []
        for operand in inputs:
            column = len(operand) == 1 and len(shape) == 2 and operand[0] != shape[1]  # one number per row
            own = axis if column and axis == 0 else axis - (len(shape) - len(operand))
            ins.append(own if own >= 0 and operand[own] == shape[axis] else R)
        found.append(Signature(tuple(ins), axis, 0))
    found.append(Signature((R,) * len(inputs), R, 0))
    if kind == "linear":
        found.append(Signature((P,) * len(inputs), P, 0))
    if kind == "bilinear":
        for slot in range(len(inputs)):
            found.append(Signature(tuple(P if at == slot else R for at in range(len(inputs))), P, 0))
    return found


def _fold_signatures(kind: str, shape: Shape, axis: int | None, p: int) -> list[Signature]:
    reduced = set(range(len(shape))) if axis is None else {axis}
    rest = [a for a in range(len(shape)) if a not in reduced]
    size = elements(tuple(shape[a] for a in rest))
    found = []
    for a in range(len(shape)):
        if a not in reduced:
            found.append(Signature((a,), rest.index(a), 0))
        elif kind == "sum":
            found.append(Signature((a,), P, 0))
        else:  # Partial(max) is reduced at once.
            found.append(Signature((a,), R, 2 * p * size))
            found.extend(Signature((a,), b, p * size) for b in range(len(rest)))
    found.append(Signature((R,), R, 0))
    if kind == "sum":
        found.append(Signature((P,), P, 0))
    return found


def _matmul_signatures(left: Shape, right: Shape) -> list[Signature]:
    found = []
    rows = len(left) == 2
    if rows:
        found.append(Signature((0, R), 0, 0))
    if len(right) == 2:
        found.append(Signature((R, 1), 1 if rows else 0, 0))
    return [
        *found,
        Signature((len(left) - 1, 0), P, 0),
        Signature((P, R), P, 0),
        Signature((R, P), P, 0),
        Signature((R, R), R, 0),
    ]


@cache
def signatures(kind: str, inputs: tuple[Shape, ...], shape: Shape, axis: int | None, p: int) -> tuple[Signature, ...]:
    """The ways to run an operator in p pieces."""
    if kind == "new":  # Made where it is needed, but not everywhere: with volume alone, that would cost nothing.
        return tuple(Signature((), a, 0) for a in range(len(shape))) or (Signature((), R, 0),)
    if kind in ("sum", "max"):
        return tuple(_fold_signatures(kind, inputs[0], axis, p))
    if kind == "matmul":
        return tuple(_matmul_signatures(*inputs))
    if kind == "scan":
        assert axis is not None
        size = elements(shape)
        ways = [Signature((a,), a, p * p * size // shape[a] if a == axis else 0) for a in range(len(shape))]
        return (*ways, Signature((R,), R, 0), Signature((P,), P, 0))
    return tuple(_map_signatures(kind, inputs, shape))


def convert(source: int, target: int, size: int, p: int) -> int:
    """Units to bring an array of `size` elements from one placement to another."""
    if source in (target, R):
        return 0
    if source == P:
        return (2 if target == R else 1) * p * size
    return {R: p * size, P: 0}.get(target, size)


@cache
def conversions(rank: int, size: int, sizes: tuple[int, ...]) -> tuple[tuple[Layout, ...], Ints]:
    """All layouts of an array, and the cheapest way from each to each."""
    single = [*range(rank), R, P]
    layouts = tuple(product(single, repeat=len(sizes)))
    table = np.full((len(layouts), len(layouts)), np.iinfo(np.int64).max // 4)
    workers = int(np.prod(sizes))
    for i, source in enumerate(layouts):
        for j, target in enumerate(layouts):
            changed = [k for k in range(len(sizes)) if source[k] != target[k]]
            if not changed:
                table[i, j] = 0
            elif len(changed) == 1:
                k = changed[0]
                local = size * workers // sizes[k]
                for other in range(len(sizes)):
                    if other != k and source[other] not in (R, P):
                        local //= sizes[other]
                scale = 1 if len(sizes) == 1 else workers // sizes[k]
                table[i, j] = convert(source[k], target[k], local // scale if len(sizes) == 1 else local, sizes[k])
    for k in range(len(layouts)):
        table = np.minimum(table, table[:, k, None] + table[None, k, :])
    return layouts, table


@cache
def holdings(rank: int, mesh_axes: int) -> tuple[tuple[Layout, ...], ...]:
    """The sets of layouts worth holding: pairs of shardings, or one layout."""
    single = tuple(product([*range(rank), R, P], repeat=mesh_axes))
    shards = [layout for layout in single if all(a < R for a in layout)]
    return tuple((layout,) for layout in single) + tuple(combinations(shards, 2))


@cache
def _link(outputs: tuple[Layout, ...], rank: int, size: int, mesh: Mesh) -> Ints:
    """From an operator's output to the set that is held."""
    layouts, table = conversions(rank, size, mesh.sizes)
    at = {layout: i for i, layout in enumerate(layouts)}
    rows = []
    for output in outputs:
        o = at[output]
        row = []
        for held in holdings(rank, len(mesh.sizes)):
            ways = []
            for first, *then in (held, held[::-1]):
                f = at[first]
                ways.append(table[o, f] + sum(min(table[o, at[t]], table[f, at[t]]) for t in then))
            row.append(min(ways))
        rows.append(row)
    return np.array(rows, dtype=np.int64)


@cache
def _use(targets: tuple[Layout, ...], rank: int, size: int, mesh: Mesh) -> Ints:
    """From the set that is held to what a consumer's signatures read."""
    layouts, table = conversions(rank, size, mesh.sizes)
    at = {layout: i for i, layout in enumerate(layouts)}
    return np.array(
        [
            [min(table[at[held], at[target]] for held in kept) for target in targets]
            for kept in holdings(rank, len(mesh.sizes))
        ],
        dtype=np.int64,
    )


@cache
def _edge(outputs: tuple[Layout, ...], targets: tuple[Layout, ...], rank: int, size: int, mesh: Mesh) -> Ints:
    layouts, table = conversions(rank, size, mesh.sizes)
    at = {layout: i for i, layout in enumerate(layouts)}
    return np.array([[table[at[o], at[t]] for t in targets] for o in outputs], dtype=np.int64)


class Choice(NamedTuple):
    """What an operator's values mean: the layouts read, per slot, and written."""

    reads: tuple[tuple[Layout, ...], ...]
    writes: tuple[Layout, ...]
    unary: Ints


@cache
def choices(kind: str, inputs: tuple[Shape, ...], shape: Shape, axis: int | None, mesh: Mesh) -> Choice:
    per_axis = [signatures(kind, inputs, shape, axis, p) for p in mesh.sizes]
    combined = list(product(*per_axis))
    reads = tuple(tuple(tuple(s.inputs[slot] for s in way) for way in combined) for slot in range(len(inputs)))
    writes = tuple(tuple(s.output for s in way) for way in combined)
    cost = [sum(s.cost for s in way) for way in combined]
    if mesh.work:
        size = max([elements(shape), *map(elements, inputs)])
        for at, way in enumerate(combined):
            idle = [p for s, p in zip(way, mesh.sizes, strict=True) if all(a >= R for a in (*s.inputs, s.output))]
            cost[at] += size * int(np.prod(idle, dtype=np.int64)) // 4
    return Choice(reads, writes, np.array(cost, dtype=np.int64))


def _resolve(ops: tuple[Op, ...], at: int) -> tuple[int, bool]:
    """The value behind transposes, and whether its axes come in the other order."""
    turned = False
    while ops[at].kind == "transpose":
        turned = turned != (len(ops[at].shape) == 2)
        at = ops[at].inputs[0]
    return at, turned


def _turn(layouts: tuple[Layout, ...]) -> tuple[Layout, ...]:
    return tuple(tuple(1 - a if a < R else a for a in layout) for layout in layouts)


def build(program: Program, mesh: Mesh | None = None, budget: float | None = None) -> Problem:
    """The problem of tiling a program. With `budget` (between 0 and 1), a limit at every operator: that far from the
    least memory any plan needs at the worst moment, to what the plan needs that holds all that is live everywhere."""
    mesh = mesh or Mesh()
    ops = program.ops
    uses: dict[int, list[tuple[int, int, bool]]] = {}
    for at, op in enumerate(ops):
        if op.kind != "transpose":
            for slot, operand in enumerate(op.inputs):
                source, turned = _resolve(ops, operand)
                uses.setdefault(source, []).append((at, slot, turned))
    unary: list[Ints] = []
    pairs: dict[tuple[int, int], Ints] = {}
    variable: dict[int, int] = {}
    choice: dict[int, Choice] = {}
    keeper: dict[int, int] = {}
    for at, op in enumerate(ops):
        if op.kind == "transpose":
            continue
        shapes = tuple(ops[operand].shape for operand in op.inputs)
        mine = choice[at] = choices(op.kind, shapes, op.shape, op.axis, mesh)
        me = variable[at] = keeper[at] = len(unary)
        unary.append(mine.unary)
        for slot, operand in enumerate(op.inputs):
            source, turned = _resolve(ops, operand)
            targets = _turn(mine.reads[slot]) if turned else mine.reads[slot]
            shape = ops[source].shape
            if keeper[source] != variable[source]:
                table = _use(targets, len(shape), elements(shape), mesh)
            else:
                table = _edge(choice[source].writes, targets, len(shape), elements(shape), mesh)
            key = (keeper[source], me)
            pairs[key] = pairs[key] + table if key in pairs else table
        if len(uses.get(at, ())) > 1:
            keeper[at] = len(unary)
            rank, size = len(op.shape), elements(op.shape)
            unary.append(np.zeros(len(holdings(rank, len(mesh.sizes))), dtype=np.int64))
            pairs[me, keeper[at]] = _link(mine.writes, rank, size, mesh)
    limits = () if budget is None else _limits(program, uses, choice, keeper, variable, mesh, budget)
    return Problem(unary, pairs, limits)


def _memory(layouts: tuple[Layout, ...], size: int, sizes: tuple[int, ...]) -> int:
    workers = int(np.prod(sizes))
    total = 0
    for layout in layouts:
        here = size * workers
        for placement, p in zip(layout, sizes, strict=True):
            here = here // p if placement < R else here
        total += here
    return total


def _limits(
    program: Program,
    uses: dict[int, list[tuple[int, int, bool]]],
    choice: dict[int, Choice],
    keeper: dict[int, int],
    variable: dict[int, int],
    mesh: Mesh,
    budget: float,
) -> tuple[Limit, ...]:
    ops = program.ops
    use: dict[int, Ints] = {}
    for at, me in variable.items():
        shape = ops[at].shape
        held: tuple[tuple[Layout, ...], ...] = tuple((layout,) for layout in choice[at].writes)
        if keeper[at] != me:
            held = holdings(len(shape), len(mesh.sizes))
        use[at] = np.array([_memory(sets, elements(shape), mesh.sizes) for sets in held], dtype=np.int64)
    last = {at: max((reader for reader, _, _ in uses.get(at, ())), default=at) for at in variable}
    moments = [{keeper[at]: use[at] for at in variable if at <= now <= last[at]} for now in variable]
    least = max(sum(int(u.min()) for u in live.values()) for live in moments)
    most = max(sum(int(u.max()) for u in live.values()) for live in moments)
    allowed = least + int((most - least) * budget)
    return tuple(Limit(allowed, live) for live in moments)
