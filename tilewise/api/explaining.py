"""explain and profile, loaded when first asked for. In: Arrays. Out: plans, and what ran."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tilewise.api.data import stores
from tilewise.api.functions.loop_plan import loop_plan
from tilewise.array.cell import LOCK
from tilewise.array.evaluation.in_turns import plan_shares, plan_streams, written_by_loops
from tilewise.array.evaluation.workers import reads_files_only, specs_of, within
from tilewise.array.handle import Array, from_buffer, from_node, node_of
from tilewise.array.lengths.expected import expecting
from tilewise.array.program import Program, program_of
from tilewise.array.session import byte_budget, cluster_here, current_session, mesh_of
from tilewise.backend import host_backend
from tilewise.config import Settings, current
from tilewise.cost.model import Rates
from tilewise.cost.stored import machine_for
from tilewise.engine.cluster import Cluster
from tilewise.engine.to_sink import driver_bytes
from tilewise.errors import ConfigError, MemoryBudgetError, message
from tilewise.ir.node import Node, walk
from tilewise.layout import Mesh
from tilewise.observe.explain import Plan
from tilewise.observe.in_turns import InTurns
from tilewise.observe.profile import Profile
from tilewise.ops.reduce import reduce
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.shares import Shares
from tilewise.stage.tiles import as_run
from tilewise.store.base import Sink, Source

profile = Profile


def explain(
    *arrays: Any,
    workers: int | None = None,
    mesh: Any = None,
    network: Any = None,
    memory: Any = None,
    objective: str | None = None,
    detail: str | None = None,
    store: Any = None,
) -> Any:
    """What evaluating arrays would do, and cost. Nothing is run.

    Of a function and its arguments, `tw.explain(f, *args)` says what becomes of its loops (a `LoopPlan`): types,
    checks, vectors, or why they are not compiled. Of one under `@tw.parallel` it says how each loop would run and why;
    statements around its loops are run, on copies of the arguments.

    Without options it is the plan that the current session would run; `workers` asks for another size. `network` is the
    rate into a worker ("10Gbit"), `memory` what a worker may use ("4GiB"; a plan over it is an error), and
    `objective="bytes"` chooses layouts by the bytes that move alone ("time" is the default, and a setting).
    `store` is the path (or its suffix) of a file that the results would be written to, as by `x.store(path)`.
    `detail="passes"` shows what each pass of the compiler took, `detail="steps"` every step of the plan in a line.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0):
    ...     a = tw.ones((100, 100))
    ...     plan = tw.explain((2 * a + 1).sum(axis=0))
    >>> len(plan.stages), plan.network_bytes
    (1, 0)
    """
    if arrays and callable(arrays[0]) and type(arrays[0]) is not Array:
        explained = getattr(arrays[0], "explained", None)  # a function with parallel loops says it itself
        return loop_plan(arrays[0], arrays[1:]) if explained is None else explained(*arrays[1:])
    arrays = tuple(from_buffer(np.asarray(x), fixed=True) if isinstance(x, np.generic) else x for x in arrays)
    if not arrays or not all(type(x) is Array for x in arrays):
        raise TypeError("explain takes one or more Arrays")
    settings = current()
    machine = asked_machine(settings, network, objective)
    budget = byte_budget(memory)
    asked = workers is not None or mesh is not None
    shape = _mesh(workers, mesh, settings) if asked else None
    if not asked:
        cluster, _ = cluster_here(settings.blocks)
        shape = None if cluster is None else cluster.mesh
        session = current_session()
        budget = session.memory if budget is None and session is not None else budget
    program = program_of(arrays, shape is not None)
    outline = program.outline()

    def again(size: Any) -> Plan:
        count, grid = (None, size) if isinstance(size, tuple) else (size, None)
        return _shown(outline(), _mesh(count, grid, settings), machine, again, budget, None, refuses=False)

    if detail not in (None, "passes", "steps"):
        raise ConfigError(message(f"no detail {detail!r}", cure='Use detail="passes" or detail="steps"'))
    beside = None if asked else program.beside_bytes()
    shown = _shown(program, shape, machine, again, budget, beside)
    if budget is not None:
        if not asked and shown.memory_bytes > budget:
            cluster = cluster_here(settings.blocks)[0]
            with LOCK, expecting(walk(program.on_mesh().roots), None) as masks:
                shares = None if cluster is None else _shared(program, cluster, budget)
                if shares is not None or reads_files_only(walk(program.roots)):
                    shown = _in_turns(program, machine, again, budget, [str(m) for m in masks], shares=shares)
        within(shown.memory_bytes, budget)
    shown.detail = detail
    if store is not None:
        _written(shown, lambda dims, dtype: stores.outline(store, dims, dtype), shape or Mesh(1))
        for x in arrays:
            if x._cell.node is None:  # nothing is computed for it
                shown.write_known(x.shape, x.dtype)
    here = None if asked else current_session()
    shown.moved_before = {} if here is None else dict(here.moved)
    return shown


def _written(shown: Plan, into: Callable[[tuple[int, ...], Any], Sink], mesh: Mesh) -> None:
    """Results are written to a store: by loops over blocks where these can, or from where they are."""
    if isinstance(shown, InTurns):
        shown.write_by_loops(lambda plan, pos, dims, d, far: written_by_loops(plan, pos, into(dims, d), far))
    shown.write_results(lambda layout, dims, dtype: driver_bytes(layout, mesh, into(dims, dtype)))


def _in_turns(
    program: Program,
    machine: Rates,
    again: Callable[[Any], Plan],
    budget: int,
    masks: Sequence[str],
    counting_bytes: int = 0,
    shares: Shares | None = None,
) -> Plan:
    """The plan that runs block by block: here, or (`shares`) on workers."""
    program = program.on_mesh()
    found = plan_streams(_asked(program), current(), budget)[0] if shares is None else shares.streams
    shown = InTurns(found, machine, again, budget, masks, counting_bytes, shares)
    shown.passes = (*program.passes, ("solve", found.plan.solved_s), *found.plan.stages.seconds)
    return shown


def _asked(program: Program) -> list[Node]:
    return [program.roots[k] for k in dict.fromkeys(program.asked)]


def _shared(program: Program, cluster: Cluster, budget: int) -> Shares | None:
    """The same on workers, if these can share it."""
    found = plan_shares(_asked(program.on_mesh()), current(), budget, cluster)
    return None if found is None else found[0]


def _mesh(workers: int | None, mesh: Any, settings: Settings) -> Mesh | None:
    """The mesh asked for; None for one worker, which runs what the local engine runs."""
    found = mesh_of("virtual", workers, mesh, settings.blocks)
    return None if found == Mesh(1) else found


def _count_of(mask: Node) -> Array:
    """How many elements a mask keeps, as an evaluation counts them."""
    return from_node(reduce(mask, "add", tuple(range(mask.ndim)), False, np.dtype(np.intp)))


SHARES = (1.0, 0.5, 0.125)  # of what masks can keep, that plans are made for to say what moves at most


def _shown(
    program: Program,
    mesh: Mesh | None,
    machine: Rates,
    again: Callable[[Any], Plan],
    budget: int | None,
    beside: int | None,
    refuses: bool = True,
) -> Plan:
    """The plan of a program on a mesh (None: here) whose workers hold some bytes beside.

    `beside` is None where these are not the workers of this session. Without `refuses`, a plan that needs more than the
    budget is shown where there is no other.

    What masks keep is counted before the rest is planned. Where it can only be guessed, the plan that moves most is
    shown, of some that may come of it.
    """
    program = program if mesh is None else program.on_mesh()
    args = (mesh, machine, again, budget, beside, refuses)
    shown = _planned(program, *args)
    if mesh is None or not shown.guessed:
        return shown
    plans = [shown, *(_planned(program, *args, share) for share in SHARES)]
    most = max(plans, key=lambda plan: plan.network_bytes)
    most.likely = None if most is shown else shown
    most.memory_bytes = max(plan.memory_bytes for plan in plans)
    return most


def _planned(
    program: Program,
    mesh: Mesh | None,
    machine: Rates,
    again: Callable[[Any], Plan],
    budget: int | None,
    beside: int | None,
    refuses: bool,
    share: float | None = None,
) -> Plan:
    """The same for masks that keep what is expected, or a share of what they can."""
    left = None if budget is None else budget - (beside or 0)
    program.cuts.clear()
    program.dropped.clear()
    with LOCK, expecting(walk(program.roots), share) as masks:
        texts = [str(m) for m in masks]
        if mesh is None:
            plan, nodes, wanted = program.plan(None)
            specs = specs_of(nodes)
            steps = as_run(plan.steps, specs, host_backend(current().native).tiling)
            stored = [i for i, n in enumerate(nodes) if isinstance(n.value, Source) and n.value.opened_by_workers]
            shown = Plan(steps, specs, Mesh(1), None, None, wanted, machine, None, again, budget, (), texts, stored)
            shown.passes = (*program.passes, *plan.seconds)
            if budget is not None and shown.memory_bytes > budget:
                left_over = {id(d) for n in walk(program.on_mesh().roots) for d in n.shape}  # others become selections
                sums = [_count_of(m.length.mask) for m in masks if m.how != "counted" and id(m.length) in left_over]
                plans = [_shown(program_of((c,), False), None, machine, again, budget, None) for c in sums]
                try:
                    return _in_turns(program, machine, again, budget, texts, sum(p.read_bytes for p in plans))
                except MemoryBudgetError:
                    if refuses:
                        raise
            return shown
        held = program.beside_bytes() if beside is not None else 0
        with program.counted([m.length for m in masks], mesh, machine, left) as counts:
            plan, nodes, wanted = program.plan(mesh, machine, left)
            unread = program.beside_bytes() - held if beside is not None else 0  # only masks were made of these
            unread += sum(size for leaf, size in program.brought.items() if leaf not in set(nodes))
    if not isinstance(plan, Exchanges):  # there is nothing to do
        return Plan(plan.steps, specs_of(nodes), mesh, None, None, wanted, machine, None, again, budget)
    before = [*((p, []) for p in program.cuts), *((p, [pos]) for p, pos in counts)]
    first = [Plan(p.steps, p.specs, p.mesh, p.layouts, p, ends, machine, beside=beside or 0) for p, ends in before]
    rest = (beside or 0) + unread - max(program.dropped, default=0)
    at = WeakKeyDictionary((n, i) for i, n in enumerate(nodes))  # a plan keeps no data
    at.update({old: at[n] for old, n in program.new.items() if n in at})

    def locate(x: Any) -> int | None:
        return at.get(node_of(x)) if type(x) is Array else None

    args = (plan.steps, plan.specs, plan.mesh, plan.layouts, plan, wanted, machine, locate, again, budget, first, texts)
    shown = Plan(*args, beside=rest, guessed=any(m.how != "counted" for m in masks))
    shown.passes = (*program.passes, ("solve", plan.solved_s), *plan.stages.seconds)
    return shown


def asked_machine(settings: Settings, network: Any, objective: str | None) -> Rates:
    """The machine that a plan is made for."""
    if objective not in (None, "time", "bytes"):
        raise ConfigError(message(f"no objective {objective!r}", cure='Use objective="time" or objective="bytes"'))
    machine = machine_for(settings)
    if network is not None:
        machine = replace(machine, network_rate=parse_rate(network))
    return machine if objective is None else replace(machine, objective=objective)


RATE = re.compile(r"\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([kKmMgGtT]?)(i?)(bit|b|B|)(?:/s|ps)?\s*")


def parse_rate(network: Any) -> float:
    """Bytes per second from "10Gbit", "10Gb/s" or "1.25GB/s" (b is a bit, B a byte), or from a number of bytes.

    >>> parse_rate("10Gbit"), parse_rate("10 Gbps"), parse_rate("1.25GB/s")
    (1250000000.0, 1250000000.0, 1250000000.0)
    """
    found = RATE.fullmatch(str(network))
    if found is not None:
        number, prefix, binary, unit = found.groups()
        rate: float = float(number) * (1024 if binary else 1000) ** " kmgt".index(prefix.lower() or " ")
        rate /= 8 if unit in ("b", "bit") else 1
        if 0 < rate < math.inf:
            return rate
    raise ConfigError(message("network is a rate", got=repr(network), cure='Write network="10Gbit"'))
