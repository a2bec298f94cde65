"""A program as a golden text. In: a Program. Out: its source, its plans on one worker and on meshes, all kernels."""

from __future__ import annotations

import inspect
from typing import Any

import tilewise as tw
from tests.golden.programs import Program
from tilewise.plan.show import Kernels

RULE = "-" * 100
# Everything is recorded, loops included, and layouts are chosen by the rates of the fixed machine. What a session or a
# variable of the environment says otherwise is not looked at.
SETTINGS: dict[str, Any] = {
    "eager_bytes": 0,
    "flush": False,
    "machine": "fixed",
    "objective": "time",
    "blocks": 1,
    "tile": None,
    "tune": False,
    "exact": False,
    "rewrite": True,
    "fusion": True,
    "native": True,
    "layout_seed": None,
    "fallback": "silent",
}


def golden(program: Program) -> str:
    """The text of a program."""
    kernels = Kernels()
    with tw.config(**SETTINGS):
        plans = [_plan(program, kernels)]
        with tw.session(engine="virtual", workers=4):
            plans.append(_plan(program, kernels, 0))
        if program.grid:
            with tw.session(engine="virtual", mesh=(2, 2)):
                plans.append(_plan(program, kernels, 0, 1))
    source = inspect.getsource(program.run).rstrip()
    return f"\n{RULE}\n".join([source, *plans, kernels.text()]) + "\n"


def _plan(program: Program, kernels: Kernels, *axes: int) -> str:
    """The plan of the current session; inputs with many rows are cut along axes before."""
    leaves = []
    for leaf in program.leaves:
        x = tw.asarray(leaf.array())
        leaves.append(tw.evaluate(x.relayout(*axes[: len(leaf.shape)])) if axes and leaf.placed else x)
    made = program.run(*leaves)
    plan = tw.explain(*(made if isinstance(made, tuple) else (made,)))
    assert plan.optimal, "a search that ends by its clock may end elsewhere the next time"
    return plan.steps_text(kernels)
