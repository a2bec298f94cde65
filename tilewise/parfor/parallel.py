"""@tw.parallel: a function whose parfor loops run in parallel. In: a function. Out: one with the same results.

Each loop is analysed with the values it has when it starts, cut into tasks, and run. `report` says what was decided
the last time.
"""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.array.cell import Cell
from tilewise.array.handle import Array
from tilewise.errors import ParforError, message
from tilewise.later import later
from tilewise.parfor.analyse import FAILURES, walked
from tilewise.parfor.blas_threads import blas_threads
from tilewise.parfor.bodies.arrays.run import run_arrays
from tilewise.parfor.bodies.choose import Way, chosen
from tilewise.parfor.bodies.mesh import own_results, planned_on_mesh, run_mesh
from tilewise.parfor.bodies.native import run_native
from tilewise.parfor.job import MISSING, Job, Results, inside
from tilewise.parfor.liveness import live_after
from tilewise.parfor.loop import Loop
from tilewise.parfor.options import Options
from tilewise.parfor.plan.explain import AllPlanned, LoopReport, ParallelPlan, stopped_copies
from tilewise.parfor.plan.facts import planned, tree_of
from tilewise.parfor.plan.inputs import Pattern, patterns
from tilewise.parfor.plan.optimise import Decision, lock_seconds, saved_seconds
from tilewise.parfor.plan.tree import Tree
from tilewise.parfor.processes import run_processes, workers_can_fork
from tilewise.parfor.progress import looping
from tilewise.parfor.reductions.in_place import hidden, in_place
from tilewise.parfor.reductions.late import notes_of
from tilewise.parfor.remembered import Start
from tilewise.parfor.rewrite import LoopSource, rewritten
from tilewise.parfor.streams import Streams
from tilewise.parfor.threads import run_threads
from tilewise.parfor.verdict import Judge, Verdict
from tilewise.parfor.walk.loops import Statements

if TYPE_CHECKING:
    from tilewise.parfor.cluster import driver as cluster
else:
    cluster = later("tilewise.parfor.cluster.driver")


@dataclass
class Out:
    """What a loop leaves behind: its last element, if it ran, and the values of names."""

    last: list[Any] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


class Parallel:
    """A function under @tw.parallel."""

    does_as_wrapped = True  # for those who look at the function

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.report: list[LoopReport] = []
        self._explained: dict[int, LoopReport] | None = None  # plans by loop, while nothing is to be run
        self._function = function
        self._changed, self._loops = rewritten(function, self._run, MISSING)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function."""
        self.report = []
        return self._changed(*args, **named)

    def explained(self, *args: Any) -> ParallelPlan:
        """What `tw.explain` says: the plan of each loop. Statements around loops run, on copies of the arguments."""
        found: dict[int, LoopReport] = {}
        self._explained = found
        try:
            with stopped_copies(args) as copies:
                self._changed(*copies)
        finally:
            self._explained = None
        return ParallelPlan(
            self._function.__name__, tuple(found[k] for k in sorted(found)), sum(not s.depth for s in self._loops)
        )

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method, for functions of classes."""
        return self if instance is None else types.MethodType(self, instance)

    def _run(self, number: int, body: Callable[..., Any], loop: Any, local: dict[str, Any]) -> Out:
        source = self._loops[number]
        if not isinstance(loop, Loop):  # another function of the same name: the plain loop
            loop = Loop(list(loop), Options())
        if not len(loop):
            return Out()
        if source.depth and inside.left == 1 and self._explained is None:
            return _plain(source, body, loop, local)
        closure = inspect.getclosurevars(self._function)
        names = {**self._function.__globals__, **closure.nonlocals, **local}
        run = _Run(source, body, loop, names)
        if self._explained is None:
            return run.out(self.report if not source.depth else [])
        if number not in self._explained:
            self._explained[number] = run.planned()[-1]
        if len(self._explained) == sum(not s.depth for s in self._loops):
            raise AllPlanned
        return Out()


class _Run:
    """One execution of one loop."""

    def __init__(self, source: LoopSource, body: Any, loop: Loop, names: dict[str, Any]) -> None:
        self.source, self.body, self.loop, self.names = source, body, loop, names
        self.options = loop.options
        code = body.__code__
        self.parameters = code.co_varnames[1 : code.co_argcount]

    def planned(self) -> tuple[Job, Way, list[Any], LoopReport]:
        """Analyse and decide; also arrays of ours that are to be written back."""
        count = len(self.loop)
        streams = Streams(self.options.rng) if self.options.rng is not None else None
        start = Start(self.source, self.loop.elements if self.options.check else None, self.names)
        walk, verdict = start.take() or self._analysed()
        given = {name: self.names.get(name, MISSING) for name in self.parameters}
        reductions = {n: op for n, op in verdict.reductions.items() if n in self.source.assigned and n in given}
        notes = notes_of(reductions)
        reductions |= notes
        given |= dict.fromkeys(notes, 0)
        kept = unchecked = self.source.assigned - reductions.keys() if not self.options.check else frozenset()
        touched = self._touched(walk)
        on_mesh = self._on_mesh(touched, given)
        summed: list[Any] = []
        cells: list[Any] = []
        if on_mesh is not None:
            plan, results, back = on_mesh
        else:
            results, summed, cells, back = self._written(walk, verdict, given, touched)
        start.put(walk, verdict)
        arrays = [x for _, x in back] + results.arrays + [x for x, _ in summed]
        stays = in_place(self.source.node, self.source.assigned, given, arrays)
        reductions = {n: op for n, op in reductions.items() if n not in stays}
        kept = unchecked = unchecked - stays
        several = hidden(self.source.node, self.names, given, [x for x, _ in summed])
        if on_mesh is None:
            modes = self._modes(results, several, cells)
            written = {id(a) for a in (*results.arrays, *(a for a, _ in summed))}

            def reads() -> list[Pattern]:
                if not self.options.check:
                    return []
                return patterns(walk if isinstance(walk, Statements) else self._analysed()[0], given, written)

            def tree() -> Tree:
                return start.tree(lambda: tree_of(self.source.node, self.names, count))

            plan = planned(self.source.node, tree, count, self.options, modes, results.arrays, summed, reads)
        if plan.mode in ("here", "mesh"):
            kept = self.source.assigned - stays
        job = Job(
            self.body,
            given,
            self.loop.elements,
            list(plan.tasks),
            plan.workers,
            results,
            reductions,
            summed,
            frozenset(kept),
            streams,
            self.source.generator,
            self.source.where,
            ast.unparse(self.source.node.target),
            cells,
            checked=self.options.check,
            merge=plan.merge,
            threads=plan.threads,
            left=plan.left,
            inner=plan.inner,
            inputs=plan.inputs,
            hidden=several,
        )
        way = self._way(plan, replace(job, kept=frozenset(unchecked)), walk, start)
        checked = verdict if self.options.check else None
        report = _report(LoopReport(self.source.where, checked, plan.mode, plan.workers, (), "", plan=plan), job, way)
        return job, way, back, report

    def _way(self, plan: Decision, job: Job, walk: Statements, start: Start) -> Way:
        """How the body runs."""
        if plan.mode == "mesh":
            return Way("recorded")
        if job.cells:
            return Way("python", "cells of lists, dicts or objects are accumulated")
        if inside.worker or len(self.loop) == 1:
            return Way("python", "it runs inside of a worker" if inside.worker else "one iteration")
        if plan.mode == "cluster":
            return Way("python", "it runs on a cluster")
        remembered = start.found
        kept = remembered.no_arrays if remembered else None
        gain = saved_seconds(plan) + (lock_seconds(plan) if plan.mode == "threads" else 0.0)
        way = chosen(self.source, job, self.options, self.names, walk, kept, gain)
        if remembered is not None:
            remembered.no_arrays = way.no_arrays
        return way

    def out(self, reports: list[LoopReport]) -> Out:
        """Analyse, decide and run."""
        job, way, back, report = self.planned()
        values = None
        if way.arrays is not None:
            values, why = run_arrays(way.arrays, job)
            if values is None:
                way = Way("python", why)
                report = _report(report, job, way)
        reports.append(report)
        if values is None:
            assert report.plan is not None
            python = partial(run_mesh, back=back) if way.body == "recorded" else _interpreted(report.plan.mode)
            with looping(len(self.loop)) as job.progress:
                if way.native is not None:
                    way.native.progress = job.progress
                values = run_native(way.native, python) if way.native is not None else python(job)
        for handle, array in back:
            handle[...] = array
        return Out([self.loop.elements[len(self.loop) - 1]], values)

    def _analysed(self) -> tuple[Statements, Verdict]:
        node, body = self.source.node, self.source.function.body
        try:
            walk = walked([node], self.names, None)
            judges = [Judge(walk, loop, live_after(body, loop.node)) for loop in walk.found]
            verdicts = [judge.verdict() for judge in judges]
        except FAILURES as error:
            text = message(
                f"the body of a parfor could not be followed ({type(error).__name__}: {error})",
                where=self.source.where,
                cure="Use a plain for",
            )
            raise ParforError(text) from error
        bad = next((v for v in verdicts if not v.independent), None)
        if bad is not None and self.options.check:
            raise ParforError(_complaint(bad, self.source))
        first = verdicts[0]
        return walk, first if first.independent else replace(first, reductions=judges[0].accumulated())

    def _touched(self, walk: Statements) -> list[tuple[Any, Any]]:
        """What the loop writes to: as the walk knows it, and the objects themselves."""
        index = walk.found[0].index
        touches = [t for t in walk.touches if t.access.write and index in t.access.loops]
        written = {o for t in touches for o in t.objs if index not in o.born}
        if not self.options.check:
            written |= set(walk.memory.known.values())
        objects = {id(a): a for a in walk.memory.alive}
        return [(o, objects.get(o.key)) for o in sorted(written, key=lambda o: o.code)]

    def _on_mesh(self, touched: list[tuple[Any, Any]], given: dict[str, Any]) -> tuple[Decision, Results, Any] | None:
        """How the loop runs on the workers of the session, if it does."""
        asked = self.options.mode == "mesh"
        if not self.options.check and not asked:
            return None
        plan = planned_on_mesh(self.source.node, self.names, given, len(self.loop), self.options)
        own = None if plan is None else own_results(touched, given)
        if asked and own is None:
            cure = "Use arrays without other views of them, lists and dicts, or leave mode out"
            raise ParforError(message("the mesh cannot keep apart what is written", where=self.source.where, cure=cure))
        return None if plan is None or own is None else (plan, *own)

    def _written(
        self, walk: Statements, verdict: Verdict, given: dict[str, Any], touched: list[tuple[Any, Any]]
    ) -> tuple[Results, list[Any], list[Any], list[Any]]:
        """What the loop writes to, arrays and cells that it accumulates, and arrays of ours to be written back."""
        written = [o for o, _ in touched]
        sums = {
            o: verdict.reductions[o.name] for o in written if verdict.reductions.get(o.name) and self._is_sum(walk, o)
        }
        results, summed, back = Results(), [], []
        cells: list[Any] = []
        ours: dict[int, list[str]] = {}
        for name, value in given.items():
            if isinstance(value, Array):
                ours.setdefault(id(value._cell), []).append(name)
        for obj, thing in touched:
            if obj.code in verdict.cells:
                cells.append((thing, *verdict.cells[obj.code]))
                continue
            if obj.key in ours:
                (name, *others) = ours[obj.key]
                array = np.array(given[name])
                back.append((given[name], array))
                for other in (name, *others):
                    given[other] = array
                thing = array
            if isinstance(thing, np.ndarray):
                _contiguous(thing, obj.name, self.source.where)
                if obj in sums:
                    summed.append((thing, sums[obj]))
                else:
                    results.arrays.append(thing)
            elif isinstance(thing, list):
                results.lists.append(thing)
            elif isinstance(thing, dict):
                results.dicts.append(thing)
            elif isinstance(thing, np.random.BitGenerator):
                results.streams.append(thing)
            elif obj.written and isinstance(getattr(thing, "__dict__", None), dict) and not isinstance(thing, Cell):
                results.instances.append(thing)
            elif obj.written:
                text = f"a parfor cannot have {obj.name} ({type(thing).__name__}) as a result"
                cure = "Use arrays, lists or dicts that the function has names for"
                raise ParforError(message(text, where=self.source.where, cure=cure))
        for name, value in given.items():
            if isinstance(value, Array):
                given[name] = np.asarray(value)
        return results, summed, cells, back

    @staticmethod
    def _is_sum(walk: Statements, obj: Any) -> bool:
        return all(t.op is not None for t in walk.touches if obj in t.objs)

    def _modes(self, results: Results, several: bool, cells: list[Any]) -> frozenset[str]:
        """Where the loop can run, as far as its results go; raises if it cannot run where the user says."""
        modes = {"threads", "processes", "cluster"}
        if not workers_can_fork():
            modes.remove("processes")
        if results.streams:
            if self.options.mode not in (None, "threads"):
                cure = 'Use rng=generator, or mode="threads"'
                text = "the states of generators of a list come back from threads only"
                raise ParforError(message(text, where=self.source.where, cure=cure))
            modes = {"threads"}  # or the plain loop
        if self.options.mode == "threads":
            for what, there in (
                ("a dict as a result", bool(results.dicts)),
                ("an array that is accumulated under several names", several),
                ("cells of lists, dicts or objects that are accumulated", bool(cells)),
            ):
                if there:
                    cure = 'Use mode="processes"'
                    raise ParforError(message(f"threads cannot keep apart {what}", where=self.source.where, cure=cure))
        if several or cells or results.dicts or not self.options.check:
            modes -= {"threads"} if self.options.mode != "threads" else set()
        if not results.streams and not modes & {self.options.mode or "threads", "processes"}:
            text = "processes of a parfor need fork, which this system does not have"
            raise ParforError(message(text, cure='Use mode="threads" or mode="cluster"'))
        return frozenset(modes)


def _report(report: LoopReport, job: Job, way: Way) -> LoopReport:
    """What is said of a loop whose body runs in some way."""
    assert report.plan is not None
    mode, partition, tasks = report.plan.mode, report.plan.partition, job.tasks
    if way.native is not None:
        mode, partition, tasks = "threads", way.partition or partition, way.native.tasks
    elif way.arrays is not None:
        mode, partition, tasks = "here", "static", [range(len(job.elements))]
    sizes = tuple(map(len, tasks))
    return replace(report, mode=mode, partition=partition, tasks=sizes, body=way.body, why=way.why)


def _interpreted(mode: str) -> Callable[[Job], dict[str, Any]]:
    """What runs a loop by the interpreter."""
    return {"here": _here, "threads": _threads, "cluster": _cluster}.get(mode, run_processes)


def _threads(job: Job) -> dict[str, Any]:
    with blas_threads(job.threads):
        return run_threads(job)


def _cluster(job: Job) -> dict[str, Any]:
    return cluster.run_cluster(job)


def _here(job: Job) -> dict[str, Any]:
    """The plain loop, in this process; what was before comes back if it fails."""
    done = itertools.count(1)
    job.count = lambda: job.progress(next(done))
    before, inside.left = inside.left, job.left
    for array, _ in job.summed:
        job.results.arrays.append(array)
    for thing, _, _ in job.cells:
        kinds: dict[type, list[Any]] = {list: job.results.lists, dict: job.results.dicts}
        next((kinds[k] for k in kinds if isinstance(thing, k)), job.results.instances).append(thing)
    backup = job.results.backup()
    try:
        # All iterations: machine code that gave up on them had them in several tasks.
        out = job.run_task(range(len(job.elements)), {}, lambda: float("inf"))
    except BaseException:
        job.results.restore(backup)
        raise
    finally:
        inside.left = before
    return {name: out[name] for name in job.kept if name in out}


def _plain(source: LoopSource, body: Callable[..., Any], loop: Loop, local: dict[str, Any]) -> Out:
    """A loop inside of another one for which nothing of the machine is left."""
    code = body.__code__
    given = {name: local.get(name, MISSING) for name in code.co_varnames[1 : code.co_argcount]}
    names = body(iter(loop), **given)
    return Out([loop.elements[len(loop) - 1]], {name: names[name] for name in source.assigned if name in names})


def _complaint(verdict: Verdict, source: LoopSource) -> str:
    places = "; ".join(f"line {line}: {text}" for line, text in verdict.accesses)
    why = f" ({verdict.why})" if verdict.why else ""
    assert verdict.pair is not None
    return message(
        f"iterations {verdict.pair[0]} and {verdict.pair[1]} of a parfor are not independent: "
        f"{verdict.variable}{why}, {places} [{verdict.test}]",
        where=source.where,
        cure="Use a plain for, or check=False if you know that they are",
    )


def _contiguous(array: np.ndarray[Any, Any], name: str, where: str) -> None:
    if not (array.flags.c_contiguous or array.flags.f_contiguous):
        raise ParforError(message(f"the memory of {name} has gaps", where=where, cure="Use a copy of it as the result"))


def parallel(function: Callable[..., Any]) -> Parallel:
    """A function whose loops over `tw.parfor` run in parallel, with the results of the plain loops.

    A loop is analysed when it starts, with the values it has then; one whose iterations depend on each other is an
    error.

    >>> import numpy as np
    >>> import tilewise as tw
    >>> @tw.parallel
    ... def squares(x):
    ...     out = np.zeros(len(x))
    ...     total = 0.0
    ...     for i in tw.parfor(range(len(x))):
    ...         out[i] = x[i] ** 2
    ...         total += out[i]
    ...     return out, total
    >>> squares([1.0, 2.0, 3.0])
    (array([1., 4., 9.]), np.float64(14.0))
    """
    return Parallel(function)
