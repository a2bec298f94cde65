"""Bodies too long for one pass are cut where little is stored and nothing is computed twice."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilewise as tw
from tilewise.array.handle import node_of
from tilewise.compiler import compile_stages
from tilewise.ir.node import walk
from tilewise.ops.elementwise import Map
from tilewise.plan.draft import Draft
from tilewise.rounding import MAX_BODY
from tilewise.stage.steps import passes


def two_chains(np: Any, x: Any) -> Any:
    """The greatest of many values and where it was: both chains are longer than a pass."""
    best, where = x[:-60] * 0.5, x[:-60] * 0.0
    for k in range(1, 60):
        near = abs(x[:-60] - x[k : k - 60]) * x[k : k - 60]
        wins = near > best
        best, where = np.where(wins, near, best), np.where(wins, float(k), where)
    return best, where


def test_chains_that_share_their_turns_are_cut_together() -> None:
    """Nothing of a long loop is computed twice, whichever of its results grows too long first."""
    x = np.random.default_rng(0).random(200)
    with tw.config(eager_bytes=0, flush=False):
        given = tw.array(x)
        got = two_chains(tw, given)
        nodes = walk([node_of(a) for a in got])
        wanted = [n in {node_of(a) for a in got} for n in nodes]
        steps = compile_stages(Draft(nodes, wanted, fusion=True, merge=False), frozenset())[0].steps
        operators = sum(type(n.op) is Map for n in nodes)
        written = [i.fn for s in steps for p in passes(s) for i in p.kernel.body if not i.fn.startswith("const:")]
        assert operators > MAX_BODY and len(written) == operators
        for a, b in zip(got, two_chains(np, x), strict=True):
            assert np.array_equal(np.asarray(a), b)
