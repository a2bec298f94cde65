"""Checks of a plan in the making. In: a draft, the pass that made it. Out: nothing, or an AssertionError that names it.

Tests turn this on for every plan (compiler.checked); a wrong plan then fails where it is made, not where it runs.
"""

from __future__ import annotations

from tilewise.ops.const import Const
from tilewise.plan.draft import Draft
from tilewise.stage.steps import Pass, Step, Tiled, makes, reads


def verify(draft: Draft, name: str) -> None:
    """Raise if a step reads what is not there, two make one value, a wanted value is not made, or a kernel is wrong."""
    nodes = draft.nodes
    wanted = {x for x, w in enumerate(draft.wanted) if w}
    there = {i for i, n in enumerate(nodes) if n.value is not None or type(n.op) is Const}
    made: set[int] = set()
    for step in draft.steps:
        _check_reads(step, there, name)
        for x in makes(step):
            assert x not in made, f"{name}: two steps make {x} ({nodes[x].op.label()})"
            made.add(x)
            there.add(x)
        assert wanted.isdisjoint(step.frees), f"{name}: a wanted value is freed"
        there.difference_update(step.frees)
        for inner in step.steps if isinstance(step, Tiled) else (step,):
            if isinstance(inner, Pass):
                _check_kernel(inner, name)
    missing = [nodes[x].op.label() for x in sorted(wanted - there)]
    assert not missing, f"{name}: nothing makes {missing}"


def _check_reads(step: Step, there: set[int], name: str) -> None:
    inside: set[int] = set()
    for inner in step.steps if isinstance(step, Tiled) else (step,):
        missing = [x for x in reads(inner) if x not in there and x not in inside]
        assert not missing, f"{name}: {type(inner).__name__} reads {missing}, which is not there"
        inside.update(makes(inner))
    if isinstance(step, Tiled):
        assert inside.issuperset(step.outs), f"{name}: a group gives what it does not make"
        assert there.issuperset(step.inputs), f"{name}: a group reads what is not there"


def _check_kernel(step: Pass, name: str) -> None:
    kernel = step.kernel
    assert len(kernel.inputs) == len(step.inputs), f"{name}: a kernel of {len(kernel.inputs)} inputs is given others"
    assert len(kernel.outputs) == len(step.outs), f"{name}: a kernel of {len(kernel.outputs)} results makes others"
    if step.iterations is None:
        assert len(kernel.params) == len(step.params), f"{name}: a kernel of {len(kernel.params)} numbers gets others"
