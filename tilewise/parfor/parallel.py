"""@tw.parallel: a function whose parfor loops run in parallel. In: a function. Out: one with the same results.

Each loop is analysed with the values it has when it starts, cut into tasks, and run. `report` says what was decided
the last time.
"""

from __future__ import annotations

import ast
import functools
import inspect
import os
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tilewise.array.cell import Cell
from tilewise.array.handle import Array
from tilewise.errors import ParforError, message
from tilewise.parfor.analyse import FAILURES, walked
from tilewise.parfor.blas_threads import blas_threads
from tilewise.parfor.bodies.arrays.run import run_arrays
from tilewise.parfor.bodies.choose import Way, chosen
from tilewise.parfor.bodies.native import run_native
from tilewise.parfor.job import MISSING, Job, Results, inside
from tilewise.parfor.liveness import live_after
from tilewise.parfor.loop import Loop
from tilewise.parfor.options import Options
from tilewise.parfor.partition import partition
from tilewise.parfor.processes import run_processes, workers_can_fork
from tilewise.parfor.remembered import Start
from tilewise.parfor.rewrite import LoopSource, rewritten
from tilewise.parfor.streams import Streams
from tilewise.parfor.threads import run_threads
from tilewise.parfor.verdict import Judge, Verdict
from tilewise.parfor.walk.loops import Statements


@dataclass(frozen=True)
class LoopReport:
    """How a loop ran: `str` says it in a line."""

    where: str
    verdict: Verdict | None  # None: the check was off
    mode: str
    workers: int
    tasks: tuple[int, ...]
    partition: str
    body: str = "python"  # "native": machine code, "arrays": array expressions
    why: str = ""  # not another way

    def __str__(self) -> str:
        """One line."""
        checked = "not checked (check=False)" if self.verdict is None else str(self.verdict)
        how = f"{self.mode}, {self.workers} workers, {len(self.tasks)} tasks ({self.partition})"
        body = f"body: {self.body}{' (' * bool(self.why)}{self.why}{')' * bool(self.why)}"
        return f"parfor at {self.where}: {checked}; {how}; {body}"


@dataclass
class Out:
    """What a loop leaves behind: its last element, if it ran, and the values of names."""

    last: list[Any] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)


class Parallel:
    """A function under @tw.parallel."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.report: list[LoopReport] = []
        self._function = function
        self._changed, self._loops = rewritten(function, self._run, MISSING)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call the function."""
        self.report = []
        return self._changed(*args, **named)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method, for functions of classes."""
        return self if instance is None else types.MethodType(self, instance)

    def _run(self, number: int, body: Callable[..., Any], loop: Any, local: dict[str, Any]) -> Out:
        source = self._loops[number]
        if not isinstance(loop, Loop):  # another function of the same name: the plain loop
            loop = Loop(list(loop), Options())
        if not len(loop):
            return Out()
        closure = inspect.getclosurevars(self._function)
        names = {**self._function.__globals__, **closure.nonlocals, **local}
        run = _Run(source, body, loop, names, self.report)
        return run.out()


class _Run:
    """One execution of one loop."""

    def __init__(
        self, source: LoopSource, body: Any, loop: Loop, names: dict[str, Any], report: list[LoopReport]
    ) -> None:
        self.source, self.body, self.loop, self.names, self.report = source, body, loop, names, report
        self.options = loop.options
        code = body.__code__
        self.parameters = code.co_varnames[1 : code.co_argcount]

    def out(self) -> Out:
        """Analyse and run."""
        count = len(self.loop)
        streams = Streams(self.options.rng) if self.options.rng is not None else None
        start = Start(self.source, self.loop.elements if self.options.check else None, self.names)
        walk, verdict = start.take() or self._analysed()
        given = {name: self.names.get(name, MISSING) for name in self.parameters}
        reductions = {n: op for n, op in verdict.reductions.items() if n in self.source.assigned and n in given}
        kept = unchecked = self.source.assigned - reductions.keys() if not self.options.check else frozenset()
        results, summed, back = self._written(walk, verdict, given)
        start.put(walk, verdict)
        mode = self._mode(results, summed, given)
        workers = min(self.options.workers or cores(), count)
        if workers == 1 or count == 1 or inside.worker:
            mode = "here"
        tasks, name = self._tasks(count, workers)
        if mode == "here":
            tasks, kept = [range(count)], self.source.assigned
        job = Job(
            self.body,
            given,
            self.loop.elements,
            tasks,
            workers,
            results,
            reductions,
            summed,
            frozenset(kept),
            streams,
            self.source.generator,
            self.source.where,
            ast.unparse(self.source.node.target),
        )
        if inside.worker or count == 1:
            way = Way("python", "it runs inside of a worker" if inside.worker else "one iteration")
        else:
            way = chosen(self.source, replace(job, kept=frozenset(unchecked)), self.options, self.names, walk)
        values = None
        if way.arrays is not None:
            values, why = run_arrays(way.arrays, job)
            way = way if values is not None else Way("python", why)
        if way.native is not None:
            mode, job, name = "threads", way.native, way.partition or name
        elif way.arrays is not None:
            mode, name, job = "here", "static", replace(job, tasks=[range(count)])
        sizes = tuple(map(len, job.tasks))
        checked = verdict if self.options.check else None
        self.report.append(LoopReport(self.source.where, checked, mode, workers, sizes, name, way.body, way.why))
        if values is None:
            python = _interpreted(mode)
            values = run_native(way.native, python) if way.native is not None else python(job)
        for handle, array in back:
            handle[...] = array
        return Out([self.loop.elements[count - 1]], values)

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

    def _written(
        self, walk: Statements, verdict: Verdict, given: dict[str, Any]
    ) -> tuple[Results, list[Any], list[Any]]:
        """What the loop writes to, what it accumulates in place, and arrays of ours that are to be written back."""
        index = walk.found[0].index
        touched = [t for t in walk.touches if t.access.write and index in t.access.loops]
        written = {o for t in touched for o in t.objs if index not in o.born}
        if not self.options.check:
            written |= set(walk.memory.known.values())
        sums = {
            o: verdict.reductions[o.name] for o in written if verdict.reductions.get(o.name) and self._is_sum(walk, o)
        }
        objects = {id(a): a for a in walk.memory.alive}
        results, summed, back = Results(), [], []
        cells: dict[int, list[str]] = {}
        for name, value in given.items():
            if isinstance(value, Array):
                cells.setdefault(id(value._cell), []).append(name)
        for obj in sorted(written, key=lambda o: o.code):
            thing = objects.get(obj.key)
            if obj.key in cells:
                (name, *others) = cells[obj.key]
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
            elif obj.written and isinstance(getattr(thing, "__dict__", None), dict) and not isinstance(thing, Cell):
                results.instances.append(thing)
            elif obj.written:
                text = f"a parfor cannot have {obj.name} ({type(thing).__name__}) as a result"
                cure = "Use arrays, lists or dicts that the function has names for"
                raise ParforError(message(text, where=self.source.where, cure=cure))
        for name, value in given.items():
            if isinstance(value, Array):
                given[name] = np.asarray(value)
        return results, summed, back

    @staticmethod
    def _is_sum(walk: Statements, obj: Any) -> bool:
        return all(t.op is not None for t in walk.touches if obj in t.objs)

    def _mode(self, results: Results, summed: list[Any], given: dict[str, Any]) -> str:
        """Where the loop runs: processes, unless the user says threads and results allow it."""
        named = [sum(v is array for v in given.values()) for array, _ in summed]
        roots = [_root(v) for v in (*given.values(), *self.names.values()) if isinstance(v, np.ndarray)]
        hidden = any(n != 1 or sum(r is array for r in roots) > 2 for n, (array, _) in zip(named, summed, strict=True))
        if self.options.mode == "threads":
            for what, there in (
                ("a dict as a result", bool(results.dicts)),
                ("an array that is accumulated under several names", hidden),
            ):
                if there:
                    raise ParforError(
                        message(
                            f"threads cannot keep apart {what}", where=self.source.where, cure='Use mode="processes"'
                        )
                    )
            return "threads"
        if not workers_can_fork():
            if self.options.mode == "processes" or results.dicts or hidden:
                raise ParforError(
                    message(
                        "processes of a parfor need fork, which this system does not have", cure='Use mode="threads"'
                    )
                )
            return "threads"
        return "processes"

    def _tasks(self, count: int, workers: int) -> tuple[list[range], str]:
        options = self.options
        if options.tasks is not None:
            return partition(count, options.tasks, "static"), "static"
        name = options.partition or ("fixed" if options.task_size is not None else None)
        if name is None:
            name = "factoring" if count // 4 >= workers else "naive"
        return partition(count, workers, name, options.task_size), name


def _interpreted(mode: str) -> Callable[[Job], dict[str, Any]]:
    """What runs a loop by the interpreter."""
    return {"here": _here, "threads": _threads}.get(mode, run_processes)


def _threads(job: Job) -> dict[str, Any]:
    with blas_threads(max(1, cores() // job.workers)):
        return run_threads(job)


def _here(job: Job) -> dict[str, Any]:
    """The plain loop, in this process; what was before comes back if it fails."""
    for array, _ in job.summed:
        job.results.arrays.append(array)
    backup = job.results.backup()
    try:
        out = job.run_task(job.tasks[0], {}, lambda: float("inf"))
    except BaseException:
        job.results.restore(backup)
        raise
    return {name: out[name] for name in job.kept if name in out}


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


def _root(array: np.ndarray[Any, Any]) -> Any:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


def cores() -> int:
    """The processors that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


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
