"""A traced function's plan. In: a function, the structure of its arguments. Out: what replays its graph on others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise import compiler, events
from tilewise.api.functions.guards import Guards
from tilewise.api.functions.purity import Untraceable, content, function_key, plain
from tilewise.api.functions.trace.array_trace import (
    Given,
    Made,
    Template,
    containers,
    flatten,
    spec_of,
    trace,
    unflatten,
)
from tilewise.api.functions.trace.captured_arrays import Captured
from tilewise.api.functions.trace.number import At, Floats, Number
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.assign import store
from tilewise.array.cell import LOCK, Cell
from tilewise.array.evaluation.commit import conform
from tilewise.array.handle import Array, from_buffer, meta, window_of
from tilewise.array.schedule import policy, sites
from tilewise.array.schedule.co_results import compute_together, together
from tilewise.array.schedule.deferred import Deferred
from tilewise.array.session import cluster_here, on_workers, unlimited_memory
from tilewise.backend import chosen
from tilewise.backend.base import Replay, Replays
from tilewise.config import Settings, current
from tilewise.engine.device import replays, runner
from tilewise.interrupts import to_the_end
from tilewise.ir.node import Node
from tilewise.ir.order import gapless
from tilewise.observe.progress import showing
from tilewise.ops.const import Const, const
from tilewise.plan.stages import Stages


def twice(leaves: Sequence[Any]) -> tuple[tuple[int, int], ...]:
    """Which arguments are the same array as an earlier one."""
    first: dict[int, int] = {}
    pairs = [(i, first.setdefault(id(v), i)) for i, v in enumerate(leaves) if type(v) in (Array, np.ndarray)]
    return tuple(p for p in pairs if p[0] != p[1])


def attempt(f: Any, structure: Any, leaves: Sequence[Any], captured: Sequence[Array], floats: list[int]) -> Any:
    """A plan for calls like this one (these floats as parameters), or why there is none."""
    try:
        return make(f, structure, leaves, captured, floats)
    except Untraceable as error:
        return Untraceable(error.construct, error.where, error.pure)  # without the frames it came through


def make(f: Any, structure: Any, leaves: Sequence[Any], captured: Sequence[Array], floats: list[int]) -> Plan:
    """A plan for calls like this one; the floats at these places are parameters."""
    where = [i for i, v in enumerate(leaves) if type(v) in (Array, np.ndarray)]
    specs = [spec_of(leaves[i]) for i in where]
    numbers = Floats(len(floats))
    ours = _makes_ours(f, leaves) or bool(captured)

    def call(others: Captured, args: Sequence[Array]) -> Any:
        filled = [v if type(v) in (Array, np.ndarray) else others.of(v) for v in leaves]
        for i, a in zip(where, args, strict=True):
            filled[i] = a
        for i, first in twice(leaves):
            filled[i] = filled[first]
        for k, i in enumerate(floats):
            filled[i] = Number(At(k), numbers)
        given = unflatten(structure, iter(filled))
        args_, kwargs = given
        result = others.of(f)(*args_, **kwargs)
        after: list[Any] = []
        if flatten(given, after) != structure or any(a is not b for a, b in zip(after, filled, strict=True)):
            raise Untraceable("a change of a list or dict that is an argument", pure=False)
        if containers(result) & containers(given):
            raise Untraceable("a result that is a list or dict of the arguments", pure=False)
        return result

    settings = current()
    # Rules look at numbers; floats that are parameters have none.
    template = trace(specs, call, captured, lambda roots: {} if numbers.used else _rewritten(roots, settings))
    if any(isinstance(r, Number) for r in template.result[1]):
        raise Untraceable("a result that is a float argument")
    return Plan(template, where, floats, numbers, ours)


def _makes_ours(f: Any, leaves: Sequence[Any]) -> bool:
    """Whether results are Arrays: there is one among the arguments, or something of ours that makes them.

    Raises Untraceable for one that may ask for the class of an ndarray: its stand-in is an Array.
    """
    kinds = list(map(type, leaves))
    if np.ndarray not in kinds:
        return True
    watch = Guards()
    for v in (f, *(v for v, t in zip(leaves, kinds, strict=True) if t is not Array and t is not np.ndarray)):
        found = plain(v)
        if found is None:
            content(v, watch=watch)
        else:
            function_key(found, arrays=[], watch=watch)
    if watch.kinds:
        raise Untraceable("a class of arrays, and stand-ins are of another than ndarrays", pure=False)
    return watch.ours or Array in kinds


def _rewritten(roots: Sequence[Node], settings: Settings) -> dict[Node, Node]:
    """What rules make of a trace, once instead of at each call."""
    return compiler.rewritten(roots, compiler.graph_of(roots)[2], settings, on_workers()) or {}


class Plan:
    """A template and how to fill it. `ours`: its results are Arrays, else ndarrays and NumPy's numbers."""

    def __init__(self, template: Template, where: list[int], floats: list[int], numbers: Floats, ours: bool) -> None:
        self.template, self.where, self.floats, self.numbers, self.ours = template, where, floats, numbers, ours
        self.written = {i for i, _ in template.writes}
        structure, results = template.result
        self.structure, self.results = structure, results
        self.roots = [r.node for r in results if isinstance(r, Made)]
        # what a run computes: results, then what becomes of arguments
        self.ends = [*self.roots, *(n for _, n in template.writes)]
        self.most = max((r.nbytes for r in self.ends), default=0)
        fixed = [*(r.fixed for r in results if isinstance(r, Made)), *(False for _ in template.writes)]
        # where a value is, its node, whether it is a number, and whether this is the first to take it
        self.outs = [
            (template.at[n], n, number, _computed_here(n) and n not in self.ends[:k])
            for k, (n, number) in enumerate(zip(self.ends, fixed, strict=True))
        ]
        self.at = template.at
        self.blank: list[Any] = [n.op.value if type(n.op) is Const else n.value for n in template.order]
        self.places = [self.at.get(n) for n in template.inputs]
        self.bound: tuple[tuple[bool | str | None, ...], Stages, Replays] | None = None
        self.together = together(self.roots)

    def run(self, leaves: Sequence[Any], captured: Sequence[Array]) -> Any:
        """The results for these arguments."""
        arrays = inputs = [leaves[i] for i in self.where]
        if captured:
            inputs = [*arrays, *(_cell_array(c) for c in dict.fromkeys(x._cell for x in captured))]
        policy.close(inputs)
        numbers: dict[Node, Any] = {}
        if self.numbers:
            numbers = self.numbers.values([leaves[i] for i in self.floats])
        if self.written:
            self._check_writes(inputs)
        settings = current()
        if not settings.compare and cluster_here(settings.blocks)[0] is None:
            if self.small(inputs) or self.of_others(inputs):
                made = self._now(inputs, numbers, settings)
                if made is not None:
                    return self.fill(made, arrays)
            elif self.defers(inputs):
                return self.fill(self.defer(inputs, numbers), arrays)
        made = self._later(inputs, numbers)
        return self.fill(made if self.ours else _evaluated(made), arrays)

    def _check_writes(self, inputs: Sequence[Any]) -> None:
        cells = [id(x._cell) if type(x) is Array else id(x) for x in inputs]
        for i in self.written:
            if type(inputs[i]) is not Array or cells.count(cells[i]) > 1:
                raise Untraceable("a write to an argument that is given twice, or is not an Array")
            nd = meta(inputs[i])
            if not nd.flags.writeable:
                raise Untraceable("a write to an argument that is read-only")
            if i in self.template.reshaped and not gapless(nd):  # a view of its stand-in, and a copy of this
                raise Untraceable("a write to an argument with gaps, or turned around, in another shape or order")

    def small(self, inputs: Sequence[Any]) -> bool:
        """Whether all is known and small."""
        limit = policy.eager_limit()
        for x in inputs:
            nd = policy.known(x) if type(x) is Array else x
            if nd is None or nd.nbytes >= limit:
                return False
        return self.most < limit

    def of_others(self, inputs: Sequence[Any]) -> bool:
        """Whether all is known and some of it is NumPy's: to compute it later, that would have to be copied now."""
        if not current().eager_bytes or not unlimited_memory() or not any(type(x) is np.ndarray for x in inputs):
            return False
        return all(type(x) is np.ndarray or policy.known(x) is not None for x in inputs)

    def defers(self, inputs: Sequence[Any]) -> bool:
        """Whether a call on these arrays is not recorded before something reads its results: large known ones."""
        if not self.roots or self.written or not current().eager_bytes or not unlimited_memory() or self.small(inputs):
            return False
        return all(type(x) is Array and policy.known(x) is not None for x in inputs)

    def defer(self, inputs: Sequence[Any], numbers: dict[Node, Any]) -> list[Array]:
        """The results of a call on known arrays, pending: nothing is computed or recorded yet."""
        with LOCK:
            leaves = [rec.as_node(x) for x in inputs]
        at = sites.spot(2)

        def run() -> list[Any] | None:
            settings = current()
            if settings.compare or settings.engine is not None or not unlimited_memory():
                return None
            if cluster_here(settings.blocks)[0] is not None or any(type(n.value) is not np.ndarray for n in leaves):
                return None
            with showing(settings.progress):
                return self._computed([n.value for n in leaves], numbers, settings)

        def record(cells: dict[int, Cell]) -> None:
            made = self.replayed(leaves, numbers)
            for k, cell in cells.items():
                node = made[k]
                if node.site is None and node.value is None:
                    sites.mark(node, at)
                cell.node = node
            self._gather(cells)

        call = Deferred(run, record, self.together)
        return [call.result(r.node, r.fixed, at.line) for r in self.results if isinstance(r, Made)]

    def _now(self, inputs: Sequence[Any], numbers: dict[Node, Any], settings: Settings) -> list[Any] | None:
        """Run the plan at once: all is known (None: another thread has recorded a write meanwhile)."""
        with LOCK:
            if any(type(x) is Array and x._cell.node is not None for x in inputs):
                return None
            given = [meta(x) if type(x) is Array else x for x in inputs]
            with showing(settings.progress):
                made = self._computed(given, numbers, settings)
            del given
            if self.written:
                with to_the_end():  # Ctrl-C finds all arguments as they were, or all as they become
                    self._write(inputs, made[len(self.roots) :])
        return self.wrapped(made)

    def _write(self, inputs: Sequence[Any], made: Sequence[Any]) -> None:
        """Arguments take their new values, as new buffers where they show all of their cells. (Under the lock.)"""
        for (i, _), nd in zip(self.template.writes, made, strict=True):
            x = inputs[i]
            cell, shown = x._cell, meta(x)
            if shown.strides == nd.strides and window_of(x) is None:
                del shown
                x._nd = None  # lets go of the old buffer
                cell.take(nd)
            else:
                cell.own()
                meta(x)[...] = nd

    def _computed(self, given: Sequence[Any], numbers: dict[Node, Any], settings: Settings) -> list[Any]:
        """The buffers of all results, for these arguments. (The caller holds the lock.)"""
        values = self.blank.copy()
        plan, lines = self._planned(settings)
        for at, nd in zip(self.places, given, strict=True):
            if at is not None:
                values[at] = nd
        for n, v in numbers.items():
            if n in self.at:
                values[self.at[n]] = n.dtype.type(v)
        if events.listeners or not settings.native or not lines.lean:
            plan.bound.run(self.template.order, values)
        else:
            lines.run(values)
        return self.made(values)

    def line_for(self, arrays: Sequence[Any]) -> Replay | None:
        """What calls with arrays that lie like these go through, under these settings and here."""
        settings = current()
        if self.written or self.bound is None or self.bound[0] != _way(settings):
            return None
        if not self.bound[2].lean or not self.small(arrays):
            return None
        values = self.blank.copy()
        for at, x in zip(self.places, arrays, strict=True):
            if at is not None:
                values[at] = meta(x) if type(x) is Array else x
        return None if settings.compare or not settings.native else self.bound[2].found(values)

    def made(self, values: list[Any]) -> list[Any]:
        """The buffers of a run's results; `values` is emptied."""
        ends = [(values[at], root, first) for at, root, _, first in self.outs]
        values.clear()  # what a view shows may become its own, if nobody else has it
        return [conform(value, root, first) for value, root, first in ends]

    def wrapped(self, made: Sequence[Any]) -> list[Any]:
        """The results that buffers of a run become: those after them are what arguments became."""
        return [self.wrap(nd, fixed) for nd, (_, _, fixed, _) in zip(made, self.outs[: len(self.roots)], strict=False)]

    def wrap(self, nd: Any, fixed: bool) -> Any:
        """The result that a buffer becomes; `fixed`: it is a number."""
        return from_buffer(nd, fixed) if self.ours else nd[()] if fixed else nd

    def _planned(self, settings: Settings) -> tuple[Stages, Replays]:
        """The plan for one worker, made once and bound to its kernels; the lines it becomes."""
        way = _way(settings)
        if self.bound is None or self.bound[0] != way:
            wanted = sorted({self.at[r] for r in self.ends})
            at, _, structure = compiler.graph_of(self.ends)
            assert list(at) == list(self.at), "a template is numbered as a graph is"
            plan = compiler.prepare(at, wanted, settings, structure)
            if plan.bound is None:
                plan.bound = runner(plan.steps, chosen(settings))
            given = [at for at in (*self.places, *map(self.at.get, self.numbers.used)) if at is not None]
            lines = replays(chosen(settings), plan.bound, self.template.order, given, wanted)
            self.bound = (way, plan, lines)
        return self.bound[1:]

    def _later(self, inputs: Sequence[Any], numbers: dict[Node, Any]) -> list[Array]:
        """Record the graph again, on these arguments."""
        policy.flush_loop([x for x in inputs if type(x) is Array])
        leaves = [rec.as_node(x) for x in inputs]
        trail = 0
        for n in leaves:
            trail |= n.trail
        made = self.template.replay(leaves, _constants(numbers))
        arrays = []
        for r in self.results:
            if isinstance(r, Made):
                node = made[self.at[r.node]]
                arrays.append(rec.record(node, r.fixed))
                node.trail |= trail if node.inputs else 0
        for i, n in self.template.writes:
            store(inputs[i], made[self.at[n]])
        self._gather(dict(enumerate(x._cell for x in arrays)))
        return arrays

    def replayed(self, leaves: Sequence[Node], numbers: dict[Node, Any]) -> list[Node]:
        """The nodes of all results, on these leaves."""
        made = self.template.replay(leaves, _constants(numbers))
        return [made[self.at[r]] for r in self.roots]

    def _gather(self, cells: dict[int, Cell]) -> None:
        """Note which results are computed together."""
        for j, others in enumerate(self.together):
            if j in cells and others and unlimited_memory():
                compute_together(cells[j], [cells[k] for k in sorted((j, *others)) if k in cells])

    def fill(self, made: Sequence[Any], given: Sequence[Any]) -> Any:
        """The results, nested as the function gives them."""
        if self.structure is None and len(made) == 1:
            return made[0]
        left = iter(made)
        flat = [
            next(left) if isinstance(r, Made) else given[r.which] if isinstance(r, Given) else r for r in self.results
        ]
        return unflatten(self.structure, iter(flat))


def _computed_here(n: Node) -> bool:
    """Whether a node's value is made by the run: that of a leaf is somebody else's."""
    return n.value is None and type(n.op) is not Const


def _evaluated(made: Sequence[Array]) -> list[Any]:
    """The ndarrays and NumPy numbers that recorded results are, computed together."""
    forcing.evaluate_arrays(made)
    return [x.compute()[()] if x._fixed else x.compute() for x in made]


def _constants(numbers: dict[Node, Any]) -> dict[Node, Node]:
    return {n: const(n.dtype.type(v)) for n, v in numbers.items()}


def _way(settings: Settings) -> tuple[bool | str | None, ...]:
    """What of the settings a plan hangs on."""
    return settings.fusion, settings.native, settings.backend, settings.rewrite, settings.exact


def _cell_array(cell: Any) -> Array:
    """A handle on the whole of a cell."""
    x = object.__new__(Array)
    x._cell, x._nd, x._gen, x._fixed = cell, None, 0, False
    return x
