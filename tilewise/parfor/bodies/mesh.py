"""Bodies that are array plans of a session's workers. In: a loop on Arrays that workers hold. Out: how it runs there.

The loop runs here, in its order, on the Arrays themselves. What several iterations record becomes one plan: they are
independent, so workers compute them side by side, and exchanges of all of them share rounds. Nothing of the inputs
comes to the driver. Arrays that the loop writes are Arrays of its own until it has come to its end.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array.handle import Array, from_buffer, from_node, meta, node_of
from tilewise.array.schedule import policy
from tilewise.array.session import current_session
from tilewise.config import config, current
from tilewise.errors import ParforError, message
from tilewise.machine import machine
from tilewise.parfor.job import Job, Results, inside
from tilewise.parfor.options import Options
from tilewise.parfor.partition import partition
from tilewise.parfor.plan.facts import tree_of
from tilewise.parfor.plan.optimise import BUDGET_SHARE, Decision
from tilewise.parfor.plan.tree import Node, Tree, amount
from tilewise.parfor.plan.values import root_of

if TYPE_CHECKING:
    from tilewise.array.session import Session

MOST_RECORDED = 128  # operators of one plan: choosing layouts for more takes longer than iterations in turn lose

Back = list[tuple[Any, Array]]  # what is written after the loop, and its new value


def planned_on_mesh(
    node: ast.For, names: Mapping[str, Any], given: Mapping[str, Any], count: int, options: Options
) -> Decision | None:
    """How a loop runs on the workers of the session; None: it runs elsewhere."""
    session = _session()
    if session is None or options.mode not in (None, "mesh") or options.merge is not None:
        if options.mode == "mesh":
            cure = 'Use it inside of tw.session(engine="ray", workers=4), or leave mode out'
            raise ParforError(message('mode="mesh" runs a loop on the workers of a session', got="none", cure=cure))
        return None
    held = sorted(name for name, value in given.items() if isinstance(value, Array) and _on_workers(value))
    if not held and options.mode is None:
        return None
    tree = tree_of(node, names, count)
    recorded = _operators(tree.root)
    if options.mode is None and (tree.unknown or recorded > MOST_RECORDED):
        return None
    tasks = _tasks(tree, recorded, options, session)
    most = max(map(len, tasks))
    memory = sum(tree.shared.values()) + most * tree.memory
    where = f"{', '.join(held)} on the workers" if held else "asked for"
    reasons = (
        f"mesh: {where}; {most} iterations side by side in a plan, of about {recorded:.0f} operators each",
        f"memory: {amount(memory)} on all workers together",
    )
    seconds = count * tree.iteration_seconds / session.workers
    made = Decision("mesh", session.workers, tuple(tasks), "static", "memory", 1, 1, memory, seconds)
    return replace(made, reasons=reasons, tree=tree)


def _session() -> Session | None:
    """The session whose workers may run a loop."""
    session, settings = current_session(), current()
    if session is None or session.cluster is None or session.closed or session.workers == 1 or inside.worker:
        return None
    return session if settings.engine is None and not settings.compare else None


def _on_workers(x: Array) -> bool:
    """Whether an array is on workers, or will be, and is no small one."""
    node = x._cell.node
    return node is not None and node.known and meta(x).nbytes >= policy.eager_limit()


def _operators(node: Node) -> float:
    """How many operators a node executes; an iteration of a loop inside counts as one at least."""
    own = float(node.kind in ("operator", "for", "while"))
    inside = sum(child.count * _operators(child) for child in node.children)
    return max(own, inside) if node.kind in ("for", "while") else own + inside


def _tasks(tree: Tree, recorded: float, options: Options, session: Session) -> list[range]:
    """The iterations of each plan."""
    count = tree.count
    if options.tasks is not None:
        return partition(count, options.tasks, "static")
    budget = session.memory * session.workers if session.memory else int(BUDGET_SHARE * machine().memory_bytes)
    room = min(budget, options.memory or budget) - sum(tree.shared.values())
    most = max(1, min(int(MOST_RECORDED // max(1.0, recorded)), room // max(1, tree.memory)))
    most = options.workers or most
    if options.partition is not None or options.task_size is not None:
        return partition(count, most, options.partition or "fixed", options.task_size)
    return partition(count, math.ceil(count / most), "static")


def own_results(touched: Sequence[tuple[Any, Any]], given: dict[str, Any]) -> tuple[Results, Back] | None:
    """Arrays of its own for what a loop writes, in `given`, and what is to be written back; None: it cannot be so."""
    results, back = Results(), Back()
    replaced: dict[str, Array] = {}
    for obj, thing in touched:
        names = [n for n, v in given.items() if v is thing or (isinstance(v, Array) and id(v._cell) == obj.key)]
        if isinstance(thing, list | dict):
            (results.lists if isinstance(thing, list) else results.dicts).append(thing)  # type: ignore[arg-type]
            continue
        x = given[names[0]] if names else None
        if isinstance(x, Array):
            made = from_node(node_of(x))
        elif isinstance(x, np.ndarray) and x.dtype.kind in "biufc" and not _shared(x, given):
            made = from_buffer(x.copy(order="K"))
        else:
            return None
        if any(given[n] is not x for n in names):
            return None  # views of one array
        back.append((x, made))
        replaced |= dict.fromkeys(names, made)
    given.update(replaced)
    return results, back


def _shared(x: np.ndarray[Any, Any], given: Mapping[str, Any]) -> bool:
    """Whether other names show the same memory."""
    return any(isinstance(v, np.ndarray) and v is not x and root_of(v) is root_of(x) for v in given.values())


def run_mesh(job: Job, back: Back) -> dict[str, Any]:
    """Run a loop, some iterations in a plan; names afterwards."""
    backup, values, done = job.results.backup(), dict[str, Any](), 0
    left, inside.left = inside.left, 1
    try:
        for task in job.tasks:
            with config(flush=False):
                found = job.run_task(task, values, lambda: float("inf"))
            values = {name: found[name] for name in job.kept if name in found}
            made = [x for x in (*_arrays(job.results), *(values[n] for n in job.reductions)) if isinstance(x, Array)]
            forcing.evaluate_arrays(list({id(x): x for x in (*(x for _, x in back), *made)}.values()))
            done += len(task)
            job.progress(done)
    except BaseException:
        job.results.restore(backup)
        raise
    finally:
        inside.left = left
    return values


def _arrays(results: Results) -> Iterator[Any]:
    for one in results.lists:
        yield from one
    for table in results.dicts:
        yield from table.values()
