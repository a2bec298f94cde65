"""Bodies as machine code. In: a loop that is proved independent, its values. Out: tasks that run without the lock.

A task becomes a function of its first and last iteration and of the names of the body, which the front end of loops
(`python/`) compiles. Threads call it as they would call the body; accumulated names are its results. Where code ends
with an exception, everything is put back, the first failing iteration is found by halving its task, and the
interpreter runs that one: the exception and its line are Python's own.
"""

from __future__ import annotations

import ast
import copy
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from tilewise.api.functions.call_cache import MISSED
from tilewise.api.functions.source_call import SourceFunction
from tilewise.array.arithmetic import strict_errors
from tilewise.config import current
from tilewise.parfor.bodies.effort import span_of
from tilewise.parfor.job import MISSING, Cancelled, Job
from tilewise.parfor.reductions.late import with_notes
from tilewise.parfor.rewrite import LoopSource
from tilewise.parfor.threads import run_threads
from tilewise.parfor.walk.names import is_parfor
from tilewise.python.functions.source import keep_tree
from tilewise.python.refuse import Refused

LARGE_TASKS_PER_WORKER = 8  # at most this part of a worker's iterations is one task; later ones are smaller
FIRST, LAST, ELEMENTS = "_tw_first", "_tw_last", "_tw_elements"

_compiled: WeakKeyDictionary[LoopSource, dict[Any, SourceFunction]] = WeakKeyDictionary()


class NotNative(Exception):
    """Why a body does not run as machine code."""


class _Failed(BaseException):
    """A task has ended with an exception."""

    def __init__(self, task: range) -> None:
        self.task = task
        self._parfor_iteration = task.start


class _Plain(ast.NodeTransformer):
    """Loops inside as plain ones."""

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        if is_parfor(node.iter):
            if any(k.arg == "rng" for k in node.iter.keywords):  # type: ignore[attr-defined]
                raise NotNative(f"streams of random numbers (line {node.lineno})")
            node.iter = ast.copy_location(span_of(node.iter), node.iter)
        return node


def task_function(
    source: LoopSource, body: types.FunctionType, elements: Any, parameters: Sequence[str], returned: Sequence[str]
) -> types.FunctionType:
    """The function of a task: from which iteration to which, what the loop goes over, and the names of the body."""
    node = source.node
    given = () if isinstance(elements, range) else (ELEMENTS,)
    text = f"def _tw_task({', '.join((FIRST, LAST, *given, *parameters))}):\n"
    if isinstance(elements, range):
        start, step = elements.start, elements.step
        text += f"    for _tw_target in range({start} + {step} * {FIRST}, {start} + {step} * {LAST}, {step}): pass\n"
    else:
        text += f"    for _tw_k in range({FIRST}, {LAST}):\n        _tw_target = {ELEMENTS}[_tw_k]\n"
    text += f"    return ({''.join(f'{name}, ' for name in returned)})"
    function = ast.parse(text).body[0]
    for inner in ast.walk(function):
        if isinstance(inner, ast.expr | ast.stmt | ast.arg):
            ast.copy_location(inner, node)
    assert isinstance(function, ast.FunctionDef) and isinstance(function.body[0], ast.For)
    loop = function.body[0]
    statements = with_notes([_Plain().visit(copy.deepcopy(s)) for s in node.body], inside=True)
    target = copy.deepcopy(node.target)
    if isinstance(elements, range):
        loop.target, loop.body = target, statements
    else:
        assert isinstance(loop.body[0], ast.Assign)
        loop.body[0].targets = [target]
        loop.body += statements
    ast.fix_missing_locations(function)
    free = body.__code__.co_freevars
    outer = ast.parse(f"def _tw_outer({', '.join(free)}):\n    pass\n    return _tw_task").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body[0] = function
    names: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(ast.Module([outer], [])), body.__code__.co_filename, "exec"), names)
    code = names["_tw_outer"](*[None] * len(free)).__code__
    code = code.replace(co_name=source.function.name, co_qualname=source.function.name)
    cells = dict(zip(free, body.__closure__ or (), strict=True))
    made = types.FunctionType(
        code, body.__globals__, source.function.name, None, tuple(cells[n] for n in code.co_freevars)
    )
    keep_tree(made, function)
    return made


@dataclass(kw_only=True)
class NativeJob(Job):
    """A loop whose tasks are machine code."""

    code: SourceFunction
    over: tuple[Any, ...]  # the array that the loop goes over, if it is one
    parameters: tuple[str, ...]
    returned: tuple[str, ...]

    def run_task(self, task: range, more: Mapping[str, Any], stop_at: Callable[[], float]) -> dict[str, Any]:
        """Run iterations; accumulated names afterwards."""
        if task.start > stop_at():
            raise Cancelled
        try:
            return self.run_range(task.start, task.stop, more)
        except Exception:
            raise _Failed(task) from None

    def run_range(self, first: int, last: int, more: Mapping[str, Any]) -> dict[str, Any]:
        """Run iterations from one to before another."""
        given = {**self.names, **more}
        args = (first, last, *self.over, *(given[n] for n in self.parameters))
        quick = self.code.quick
        found: Any = MISSED if quick is None else quick(args)
        if found is MISSED:
            found = self.code.call(args, {})
        return {**more, **dict(zip(self.returned, found, strict=True))}  # summed arrays are in `more`

    def plain(self) -> Job:
        """The same loop for the interpreter."""
        return Job(**{f.name: getattr(self, f.name) for f in fields(Job)})


def native_job(source: LoopSource, job: Job) -> NativeJob:
    """A loop as machine code, ready to run. Raises NotNative, with the reason."""
    _check(job)
    parameters = tuple(n for n, v in job.names.items() if v is not MISSING)
    returned, elements = tuple(job.reductions), job.elements
    over = (elements,) if isinstance(elements, np.ndarray) else ()
    span = elements if isinstance(elements, range) else None
    kept = _compiled.setdefault(source, {})
    key = (parameters, returned, span and (span.start, span.step), job.body.__globals__.get("__name__"))
    code = kept.get(key)
    body: Any = job.body
    if code is None:
        function = task_function(source, body, elements, parameters, returned)
        code = kept[key] = SourceFunction(function, task=True)
    made = NativeJob(
        **{f.name: getattr(job, f.name) for f in fields(Job)},
        code=code,
        over=over,
        parameters=parameters,
        returned=returned,
    )
    try:
        made.run_range(0, 0, job.starts())  # compiles
    except Refused as error:
        raise NotNative(f"{error.construct} (line {error.line})" if error.line else error.construct) from None
    if code.calls_python():
        raise NotNative("it calls functions that only Python can call")
    return made


def _check(job: Job) -> None:
    """Raise for what machine code cannot have."""
    results = job.results
    for what, there in (
        ("streams of random numbers", job.streams is not None),
        ("lists, dicts or objects as results", bool(results.lists or results.dicts or results.instances)),
        ("names that keep the value of the last iteration (check=False)", bool(job.kept)),
        ("an array that is accumulated has other names", job.hidden),
        ("it goes over something else than a range or an array", not isinstance(job.elements, range | np.ndarray)),
        ("np.errstate that raises", strict_errors()),
        ('engine="numpy"', current().engine == "numpy"),
    ):
        if there:
            raise NotNative(what)


def run_native(job: NativeJob, otherwise: Callable[[Job], dict[str, Any]]) -> dict[str, Any]:
    """Run a loop on threads. `otherwise` runs it by the interpreter, if code cannot do what Python does."""
    try:
        return run_threads(job)
    except _Failed as failed:
        task = failed.task
    plain = job.plain()
    backup = job.results.backup()
    iteration = _first_failure(job, task, backup)
    starts = job.starts() | _sums(job)
    try:
        plain.run_task(range(iteration, iteration + 1), starts, lambda: float("inf"))
    finally:
        job.results.restore(backup)
    return otherwise(plain)


def _first_failure(job: NativeJob, task: range, backup: Any) -> int:
    """The first iteration of a task that fails: halves are run until one is left."""
    first, last = task.start, task.stop
    while last - first > 1:
        middle = (first + last) // 2
        job.results.restore(backup)
        try:
            job.run_range(first, middle, job.starts() | _sums(job))
            first = middle
        except Exception:
            last = middle
    job.results.restore(backup)
    return first


def _sums(job: Job) -> dict[str, Any]:
    """Copies of arrays that are accumulated, by name."""
    return {n: array.copy(order="K") for array, _ in job.summed for n, v in job.names.items() if v is array}
