"""The memory a plan needs. In: steps, types and layouts of values. Out: bytes, before anything runs.

A worker's block store counts the same while it runs (engine/worker.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewise.layout import Exchange as Move
from tilewise.layout import Layout, Mesh, OnDriver, Replicate, lengths_of, most_held, reduction, shards
from tilewise.ops.traits.collectives import Collective, Operand, traffic
from tilewise.plan.blocks import Spec
from tilewise.plan.exchanges import together
from tilewise.stage.steps import Exchange, Step, Tiled, View, makes


def held_bytes(spec: Spec, layout: Layout | None, mesh: Mesh) -> int:
    """Bytes of a value on the worker that holds most of it (layout None: one worker with all of it)."""
    count = prod(spec.shape) if layout is None else most_held(layout, spec.shape, mesh)
    return count * spec.dtype.itemsize


def peak_bytes(
    steps: Sequence[Step],
    specs: Sequence[Spec],
    layouts: Sequence[Layout] | None,
    mesh: Mesh,
    results: Sequence[int],
    routes: Sequence[Sequence[Move]] = (),
) -> int:
    """The most bytes a worker holds at once: inputs, what is alive or being made, values between exchanges."""
    size = [held_bytes(s, None if layouts is None else layouts[i], mesh) for i, s in enumerate(specs)]
    memory = list(range(len(specs)))  # whose memory a value is in: a view's is that of what it shows
    alive = {i for i, s in enumerate(specs) if s.leaf}
    users = dict.fromkeys(alive, 1)  # values in each memory that counts (not constants)
    now = most = sum(size[i] for i in alive)
    groups = _side_by_side(steps, routes)
    under_way = {k for last, group in groups.items() for k in group if k != last}
    waiting: list[int] = []  # what exchanges that go on side by side will free
    for k, step in enumerate(steps):
        for m in makes(step):
            if m in alive:
                continue
            alive.add(m)
            if isinstance(step, View) and specs[m].shape:  # NumPy copies an element
                memory[m] = memory[step.input]
            else:
                now += size[m]
                users[m] = 0
            if memory[m] in users:
                users[memory[m]] += 1
        on_the_way = groups.get(k, [k]) if k < len(routes) else []
        between = sum(_between(routes[j], specs[makes(steps[j])[0]], mesh) for j in on_the_way)
        inside = 0 if layouts is None else sum(size[m] for m in _untiled(step, layouts))
        inside += _under_way(step, specs, layouts, mesh)
        most = max(most, now + between + inside + _overtaking(steps, k, specs, mesh, routes))
        waiting.extend(step.frees)
        if k in under_way:
            continue
        for x in waiting:
            if x in alive and x not in results and not specs[x].leaf:
                alive.discard(x)
                if memory[x] in users:
                    users[memory[x]] -= 1
                    now -= 0 if users[memory[x]] else size[memory[x]]
        waiting = []
    return most


def _side_by_side(steps: Sequence[Step], routes: Sequence[Sequence[Move]]) -> dict[int, list[int]]:
    """By the last of them, exchanges that go on together and of which several have values on the way."""
    groups = together(steps, routes) if routes else []
    return {g[-1]: g for g in groups if sum(len(routes[k]) > 1 for k in g) > 1}


def _under_way(step: Step, specs: Sequence[Spec], layouts: Sequence[Layout] | None, mesh: Mesh) -> int:
    """Bytes of a collective's pieces on the worker that gets most: as they came, and joined."""
    if layouts is None or not isinstance(step, Exchange) or not isinstance(op := specs[step.pos].op, Collective):
        return 0
    ins, out = (
        [Operand(specs[x].shape, specs[x].dtype, layouts[x]) for x in positions]
        for positions in ((step.input, *step.more), (step.pos,))
    )
    moved = traffic(op.op, ins, out[0], mesh)
    most = moved.bytes if moved.expected is None else moved.expected
    return 2 * (-(-most // mesh.workers) if moved.arriving is None else moved.arriving)


def _untiled(step: Step, layouts: Sequence[Layout]) -> set[int]:
    """What tiles make for themselves and blocks store, where some block has nothing for a pass: they run one by one."""
    if not isinstance(step, Tiled) or not any(reduction(layouts[m]) for m in step.outs):
        return set()
    inner = {m for s in step.steps if not isinstance(s, View) for m in makes(s)}
    empty = any(0 in lengths_of(cut) for m in inner for cut in shards(layouts[m]))
    return inner.difference(step.outs) if empty else set()


def _between(route: Sequence[Move], spec: Spec, mesh: Mesh) -> int:
    """The most bytes that intermediate values of a route take up beside its ends; worker 0 stands for the driver."""
    ways = [held_bytes(spec, Replicate() if isinstance(e.dst, OnDriver) else e.dst, mesh) for e in route[:-1]]
    return max((a + b for a, b in zip([0, *ways], [*ways, 0], strict=True)), default=0)


def _overtaking(
    steps: Sequence[Step], k: int, specs: Sequence[Spec], mesh: Mesh, routes: Sequence[Sequence[Move]]
) -> int:
    """Bytes that come from the driver for later exchanges while step k, one that crosses, waits for its round."""
    if k >= len(routes) or all(isinstance(e.src, OnDriver) for e in routes[k]):
        return 0
    total = 0
    for step, route in zip(steps[k + 1 :], routes[k + 1 :], strict=True):
        if not isinstance(step, Exchange):
            break
        if route and isinstance(route[0].src, OnDriver):
            total += held_bytes(specs[step.pos], route[0].dst, mesh)
    return total
