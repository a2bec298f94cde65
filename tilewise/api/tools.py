"""Our own names: compute, evaluate, session. In: Arrays. Out: ndarrays, Arrays, sessions."""

from __future__ import annotations

from typing import Any

from tilewise.array import force as forcing
from tilewise.array.cell import ND
from tilewise.array.handle import Array
from tilewise.array.session import Session, cluster_here, worker_count
from tilewise.config import current
from tilewise.ir.node import Length, Node
from tilewise.layout import Mesh
from tilewise.observe.explain import Plan
from tilewise.observe.profile import Profile
from tilewise.plan.mesh import MeshPlan, Spec


def evaluate(*arrays: Array) -> Any:
    """Evaluate, and keep the results as Arrays where they are; shared work is done once.

    >>> import tilewise as tw
    >>> x, y = tw.evaluate(tw.arange(3) + 1, tw.arange(3) * 2)
    >>> x
    Array([1, 2, 3])
    """
    forcing.evaluate([x._cell for x in arrays if isinstance(x, Array)])
    return arrays[0] if len(arrays) == 1 else arrays


def compute(*arrays: Any) -> Any:
    """Evaluate, and give ndarrays that the caller owns; shared work is done once.

    >>> import tilewise as tw
    >>> tw.compute(tw.arange(3) + 1, tw.arange(3).sum())
    (array([1, 2, 3]), array(3))
    """
    forcing.evaluate([x._cell for x in arrays if isinstance(x, Array)])
    results: tuple[ND, ...] = tuple(x.compute() if isinstance(x, Array) else x for x in arrays)  # type: ignore[attr-defined]
    return results[0] if len(results) == 1 else results


session = Session
profile = Profile


def explain(*arrays: Array, workers: int | None = None, mesh: Any = None, blocks: int | None = None) -> Plan:
    """What evaluating arrays would do, and cost. Nothing is run.

    Without options it is the plan that the current session would run; `workers` asks for another size.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0):
    ...     a = tw.ones((100, 100))
    ...     plan = tw.explain((2 * a + 1).sum(axis=0))
    >>> len(plan.stages), plan.network_bytes
    (1, 0)
    """
    if not arrays or not all(isinstance(x, Array) for x in arrays):
        raise TypeError("explain takes one or more Arrays")
    settings = current()
    shape = (
        Mesh(worker_count("virtual", workers, mesh), blocks or settings.blocks)
        if workers is not None or mesh is not None
        else None
    )
    if shape is None:
        cluster, _ = cluster_here(settings.blocks)
        shape = None if cluster is None else cluster.mesh
    plan, nodes, wanted = forcing.plan_of(arrays, shape)
    if isinstance(plan, MeshPlan):
        return Plan(plan.steps, plan.specs, plan.mesh, plan.layouts, plan, wanted)
    at = {n: i for i, n in enumerate(nodes)}
    specs = [
        Spec(
            n.op,
            () if n.value is not None else tuple(at[x] for x in n.inputs),
            _most(n),
            n.dtype,
            n.order,
            n.site,
            n.value is not None,
        )
        for n in nodes
    ]
    return Plan(plan.steps, specs, Mesh(1), None, None, wanted)


def _most(n: Node) -> tuple[int, ...]:
    """The shape, with the largest value of lengths that masks decide."""
    return tuple((d.value if d.value is not None else d.mask.size) if isinstance(d, Length) else d for d in n.shape)
