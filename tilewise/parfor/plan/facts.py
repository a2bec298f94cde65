"""The facts that a plan is made from. In: a loop with its values, settings, the session. Out: a `Decision`."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.array.session import current_session
from tilewise.machine import machine
from tilewise.parfor.analyse import FAILURES
from tilewise.parfor.job import inside
from tilewise.parfor.merge import all_zero
from tilewise.parfor.options import Options
from tilewise.parfor.plan.estimate import estimate
from tilewise.parfor.plan.inputs import Pattern
from tilewise.parfor.plan.optimise import BUDGET_SHARE, Decision, Facts, decide
from tilewise.parfor.plan.profile import FIXED, seconds
from tilewise.parfor.plan.tree import Node, Tree

DECIDING = ("workers", "mode", "tasks", "task_size", "partition", "merge", "memory")  # options that plans depend on
MOST_DECIDED = 16  # plans of one loop with the same values
Arrays = Sequence[np.ndarray[Any, Any]]


def cores() -> int:
    """The processors that this process may use now."""
    try:
        return min(len(os.sched_getaffinity(0)), machine().cores)
    except AttributeError:
        return machine().cores


def planned(
    node: ast.For,
    tree: Callable[[], Tree],
    count: int,
    options: Options,
    modes: frozenset[str],
    arrays: Arrays,
    summed: Sequence[tuple[np.ndarray[Any, Any], str]],
    reads: Callable[[], list[Pattern]],
) -> Decision:
    """The plan of a loop, here and now, by what it costs (`tree`); `reads` is asked if it may run on a cluster."""
    if inside.worker:  # what is left of the machine, in this process
        options = replace(options, mode=None, merge=None, workers=min(options.workers or inside.left, inside.left))
        modes &= {"threads"}
        if inside.left == 1 or not modes:
            empty = Tree(Node("parfor", "", node.lineno, count), count)
            reason = ("inside of a worker",)
            made = Decision("here", 1, (range(count),), "static", "memory", 1, 1, 0, 0.0)
            return replace(made, reasons=reason, tree=empty)
    known = facts(options, modes, arrays, summed)
    if options.mode == "cluster" or options.merge == "cluster" or known.cluster_workers:
        known = replace(known, reads=tuple(reads()))
    cost = tree()
    if known.reads:
        return decide(cost, options, known)
    key = (*(getattr(options, name) for name in DECIDING), known)
    plan: Decision | None = cost.decided.get(key)
    if plan is None:
        if len(cost.decided) >= MOST_DECIDED:
            cost.decided.clear()
        plan = cost.decided[key] = decide(cost, options, known)
    return plan


def tree_of(node: ast.For, names: Mapping[str, Any], count: int) -> Tree:
    """The tree of a loop; one whose costs are not known if it cannot be followed."""
    try:
        return estimate(node, names, count)
    except FAILURES as error:
        root = Node("parfor", ast.unparse(node.target), node.lineno, count, 0, seconds("call", 1, FIXED))
        return Tree(root, count, {}, [f"the body ({type(error).__name__}: {error})"])


def facts(
    options: Options,
    modes: frozenset[str],
    arrays: Arrays = (),
    summed: Sequence[tuple[np.ndarray[Any, Any], str]] = (),
) -> Facts:
    """The machine, the session, and what is written."""
    session = current_session()
    given = options.memory
    if given is None and session is not None and session.engine != "ray":
        given = session.memory
    ray = session if session is not None and session.engine == "ray" and not session.closed else None
    here = inside.left if inside.worker else cores()
    return Facts(
        cores=here,
        memory=int(BUDGET_SHARE * machine().memory_bytes) if given is None else given,
        limited=given is not None,
        threads_allowed="threads" in modes,
        processes_allowed="processes" in modes,
        cluster_workers=ray.workers if ray is not None and "cluster" in modes else 0,
        cluster_cores=0 if ray is None else ray.workers * max(1, here // ray.workers),
        cluster_memory=None if ray is None else ray.memory,
        results=sum(a.nbytes for a in arrays),
        compared=sum(a.nbytes for a in arrays if not all_zero(a)),
        wide=sum(8 * a.size for a in arrays),
        summed=sum(a.nbytes for a, _ in summed),
    )
