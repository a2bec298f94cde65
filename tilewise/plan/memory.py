"""The memory a plan needs. In: steps, types and layouts of values. Out: bytes, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewise.layout import Layout, Mesh, OnDriver, local_dims
from tilewise.plan.mesh import Spec
from tilewise.plan.steps import Step, View, makes


def held_bytes(spec: Spec, layout: Layout | None, mesh: Mesh) -> int:
    """Bytes of a value on the worker that holds most of it (layout None: one worker with all of it)."""
    if isinstance(layout, OnDriver):
        return 0
    dims = spec.shape if layout is None else local_dims(layout, spec.shape, mesh)
    return prod(dims) * spec.dtype.itemsize


def peak_bytes(
    steps: Sequence[Step],
    specs: Sequence[Spec],
    layouts: Sequence[Layout] | None,
    mesh: Mesh,
    results: Sequence[int],
) -> int:
    """The most bytes a worker holds at once: inputs, what is alive, what is being made."""
    size = [held_bytes(s, None if layouts is None else layouts[i], mesh) for i, s in enumerate(specs)]
    alive = {i for i, s in enumerate(specs) if s.leaf}
    now = most = sum(size[i] for i in alive)
    for step in steps:
        if not isinstance(step, View):
            for m in makes(step):
                if m not in alive:
                    alive.add(m)
                    now += size[m]
        most = max(most, now)
        for x in step.frees:
            if x in alive and x not in results and not specs[x].leaf:
                alive.discard(x)
                now -= size[x]
    return most
