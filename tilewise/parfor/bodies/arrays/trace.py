"""A loop as array expressions. In: a loop that is proved independent, its values. Out: `Expression`, ready to run.

The body is run once on traced values, with its loop variables as positions. Inner loops become axes as well, which
needs their iterations to be independent, too: they are analysed like the outer one. Everything is computed before
anything is written; where the result would take too much memory, the outermost loop is cut.
"""

from __future__ import annotations

import ast
import copy
import math
import types
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from tilewise.array.arithmetic import strict_errors
from tilewise.array.handle import from_buffer
from tilewise.machine import machine
from tilewise.parfor.analyse import FAILURES, walked
from tilewise.parfor.bodies.arrays import indexing, rules
from tilewise.parfor.bodies.arrays.axes import Axis, NotArrays, Position, Ranges, as_position, merged
from tilewise.parfor.bodies.arrays.indexing import Write, inside
from tilewise.parfor.bodies.arrays.traced import Node, Recorder, Traced, Values, node_of
from tilewise.parfor.bodies.effort import span_of
from tilewise.parfor.job import MISSING, Job
from tilewise.parfor.liveness import live_after
from tilewise.parfor.rewrite import LoopSource
from tilewise.parfor.verdict import Judge
from tilewise.parfor.walk.names import is_parfor

MEMORY_SHARE = 8  # a value takes at most this part of the machine's memory
AXIS = "_tw_axis"
_ = (indexing, rules)  # they say what operators do


class Sum:
    """A name that is accumulated by +: what is added to it."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.parts: list[tuple[Node, tuple[Axis, ...]]] = []

    def __iadd__(self, value: Any) -> Sum:  # type: ignore[misc]
        node = node_of(self.trace, value)
        kind = np.asarray(node.sample).dtype
        if np.ndim(node.sample) or (kind.kind in "iu" and kind.itemsize < 8) or isinstance(value, Position):
            raise NotArrays("a sum of arrays, of small integers or of loop variables")
        self.parts.append((node, tuple(self.trace.active)))
        return self

    def _refuse(self, *_: Any) -> Any:
        raise NotArrays("an accumulated name used in another way")

    __add__ = __radd__ = __bool__ = __float__ = __lt__ = __gt__ = __array__ = __index__ = _refuse
    __array_ufunc__ = None


class Trace(Recorder):
    """The body, run once."""

    def __init__(self, count: int, results: Sequence[Any]) -> None:
        super().__init__()
        self.results = results
        self.outer = Axis(0, count)
        self.active = [self.outer]
        self.orders = 0
        self.writes: list[Write] = []

    def given(self, value: Any) -> Any:
        """A value from outside, as the body sees it."""
        if type(value) is not np.ndarray or value.dtype.kind not in "biufc":
            return value
        node = Node((), value, lambda v: from_buffer(value), shown=True)
        if any(np.may_share_memory(value, result) for result in self.results):
            self.written.add(id(node))
        self.nodes.append(node)
        return Traced(node, self)

    def loop(self, *bounds: Any) -> Iterator[Position]:
        """An inner loop over a range: one round with its positions."""
        start, stop, step = {1: (0, *bounds, 1), 2: (*bounds, 1)}.get(len(bounds), bounds)
        low, high = as_position(start), as_position(stop)
        if low is None or high is None or not isinstance(step, int) or not step:
            raise NotArrays("an inner loop whose bounds depend on data")
        self.orders += 1
        if low.terms or high.terms:
            if step != 1:
                raise NotArrays("an inner loop with a step whose bounds depend on the outer one")
            first = low.lowest
            length, bounds = high.highest - first, (low.plus(Position({}, -first)), high.plus(Position({}, -first)))
            axis = Axis(self.orders, length, bounds)
        else:
            first, length = low.const, len(range(low.const, high.const, step))
            axis = Axis(self.orders, length)
        if length <= 0:
            raise NotArrays("an inner loop without iterations")
        self.active.append(axis)
        yield Position({axis: step}, first)
        self.active.pop()

    def write(self, target: Traced, parts: Sequence[Any], value: Any) -> None:
        """An assignment to a part of an array."""
        if id(target.node) not in self.written or any(isinstance(p, Traced) for p in parts):
            raise NotArrays("a write to a part of a value, or by a table")
        node = node_of(self, value)
        at = [p.start if isinstance(p, indexing.Window) else p for p in parts]
        used = merged(*(p.dims for p in at if isinstance(p, Position)))
        if set(self.active) - set(used) or set(node.dims) - set(used):
            raise NotArrays("iterations that write to the same elements")
        shape = target.node.sample[tuple(map(indexing._sampled, parts))].shape
        np.broadcast_to(node.sample, shape)
        self.writes.append(Write(target.node.sample, tuple(parts), node, merged(self.active)))


class Expression:
    """A loop as array expressions."""

    def __init__(self, trace: Trace, sums: dict[str, Sum]) -> None:
        self.trace, self.sums = trace, sums
        largest = max((n.elements * _itemsize(n) for n in trace.nodes if not n.shown), default=1)
        self.pieces = min(trace.outer.length, math.ceil(largest / (machine().memory_bytes / MEMORY_SHARE)))
        self.seconds, self.plain_seconds = trace.seconds, trace.plain_seconds

    def run(self, before: dict[str, Any]) -> dict[str, Any]:
        """Compute and write everything; accumulated names."""
        kept: dict[int, Any] = {}
        outer, found, totals = self.trace.outer, [], dict(before)
        triangle = any(a.bounds for w in self.trace.writes for a in w.axes)
        with np.errstate(all="ignore") if triangle else nullcontext():  # pairs that no iteration has are computed, too
            for piece in range(self.pieces):
                ends = (piece * outer.length // self.pieces, (piece + 1) * outer.length // self.pieces)
                values = Values(Ranges({outer: ends}), kept)
                arrays = [(values.of(w.node), w.array.dtype) for w in self.trace.writes]
                sums = {n: [_total(values, *part) for part in s.parts] for n, s in self.sums.items()}
                found.append((values.ranges, [_converted(np.asarray(a), t) for a, t in arrays]))
                for name, parts in sums.items():
                    for part in parts:
                        totals[name] = totals[name] + np.asarray(part)[()]
        for ranges, computed in found:
            for write, array in zip(self.trace.writes, computed, strict=True):
                write.run(array, ranges)
        return totals


def _converted(array: Any, dtype: np.dtype[Any]) -> Any:
    """Values as elements of a result. Where one has no room there, the loop itself raises, warns or wraps."""
    kind = array.dtype.kind
    if kind == "c" and dtype.kind != "c":
        raise NotArrays("complex numbers for an array of others")
    if kind in "fiu" and dtype.kind in "iu" and array.size and not np.can_cast(array.dtype, dtype):
        limits = np.iinfo(dtype)
        if kind == "f":
            wide = array.astype(np.float64, copy=False)
            fits = (wide > float(limits.min) - 1.0) & (wide < float(limits.max) + 1.0)
        else:
            fits = (array >= limits.min) & (array <= limits.max)
        if not fits.all():
            raise NotArrays(f"numbers that {dtype} has no room for")
    return array.astype(dtype, copy=False)


def _total(values: Values, node: Node, axes: tuple[Axis, ...]) -> Any:
    """The sum of a value over all iterations around it."""
    array: Any = values.aligned(node, merged(axes), 0)
    shape = [values.ranges.length(a) for a in merged(axes)]
    mask = inside(merged(axes), values.ranges)
    array = np.broadcast_to(array, shape)
    if mask is not None:
        array = np.where(np.broadcast_to(mask, shape), array, np.zeros((), array.dtype))
    return np.sum(array)


def _itemsize(node: Node) -> int:
    return int(np.asarray(node.sample).dtype.itemsize)


class _Axes(ast.NodeTransformer):
    """Inner loops over ranges, by another name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_For(self, node: ast.For) -> Any:
        self.generic_visit(node)
        span = span_of(node.iter)
        if not (isinstance(span, ast.Call) and getattr(span.func, "id", "") == "range") or node.orelse:
            raise NotArrays("an inner loop over something else than a range")
        if is_parfor(node.iter) and any(k.arg == "rng" for k in node.iter.keywords):  # type: ignore[attr-defined]
            raise NotArrays("streams of random numbers")
        node.iter = ast.copy_location(ast.Call(ast.Name(self.name, ast.Load()), span.args, []), node)
        return node


def expression(source: LoopSource, job: Job, names: dict[str, Any]) -> Expression:
    """The loop as array expressions. Raises NotArrays, with the reason."""
    results = job.results
    for what, there in (
        ("streams of random numbers", job.streams is not None),
        ("lists, dicts or objects as results", bool(results.lists or results.dicts or results.instances)),
        ("arrays that are accumulated", bool(job.summed)),
        ("names that keep the value of the last iteration (check=False)", bool(job.kept)),
        ("it goes over something else than a range", not isinstance(job.elements, range)),
        ("np.errstate that raises", strict_errors()),
        ("accumulations other than +", any(op != "+" for op in job.reductions.values())),
        ("a variable that is no name", not isinstance(source.node.target, ast.Name)),
        (
            "try, with, while, break, continue or a function inside",
            any(isinstance(n, _OTHER) for n in ast.walk(source.node)),
        ),
    ):
        if there:
            raise NotArrays(what)
    trace = Trace(len(job.elements), [*results.arrays])
    sums = {name: Sum(trace) for name in job.reductions}
    body = _traced_body(source, job)
    span = job.elements
    assert isinstance(span, range)
    given = {n: trace.given(v) for n, v in job.names.items() if v is not MISSING} | sums
    own = Position({trace.outer: span.step}, span.start)
    try:
        body(own, trace.loop, *(given.get(n, MISSING) for n in job.names))
    except Exception as error:
        raise NotArrays(f"{type(error).__name__}: {error}") from None
    if not trace.writes and not any(s.parts for s in sums.values()):
        raise NotArrays("nothing is written")
    _independent(source, job, names)
    return Expression(trace, sums)


_OTHER = (
    ast.Try, ast.With, ast.While, ast.Break, ast.Continue, ast.FunctionDef, ast.ClassDef, ast.Lambda, ast.ListComp,
    ast.GeneratorExp, ast.DictComp, ast.SetComp,
)  # fmt: skip


def _independent(source: LoopSource, job: Job, names: dict[str, Any]) -> None:
    """Raise unless iterations of inner loops are independent of each other, too."""
    if not any(isinstance(n, ast.For) and n is not source.node for n in ast.walk(source.node)):
        return
    function = copy.deepcopy(source.function)
    place = (source.node.lineno, source.node.col_offset)
    node = next(n for n in ast.walk(function) if isinstance(n, ast.For) and (n.lineno, n.col_offset) == place)
    node.body = [_Axes("parfor").visit(s) for s in node.body]
    try:
        walk = walked([ast.fix_missing_locations(node)], names, None)
        verdicts = [Judge(walk, loop, live_after(function.body, loop.node)).verdict() for loop in walk.found]
    except FAILURES:
        raise NotArrays("an inner loop that cannot be followed") from None
    for verdict in verdicts:
        if not verdict.independent or verdict.reductions.keys() - job.reductions.keys():
            raise NotArrays(f"an inner loop whose iterations depend on each other (line {verdict.line})")


def _traced_body(source: LoopSource, job: Job) -> types.FunctionType:
    """The body as a function of its loop variable, of what makes inner loops, and of its names."""
    body: Any = job.body
    assert isinstance(source.node.target, ast.Name)
    parameters = [source.node.target.id, AXIS, *job.names]
    lines = [f"def _tw_traced({', '.join(parameters)}):"]
    lines += [f"    if {n} is _tw_missing: del {n}" for n, v in job.names.items() if v is MISSING]
    free = (*body.__code__.co_freevars, "_tw_missing")
    made = ast.parse("\n".join([*lines, "    pass"])).body[0]
    assert isinstance(made, ast.FunctionDef)
    made.body += [_Axes(AXIS).visit(copy.deepcopy(s)) for s in source.node.body]
    outer = ast.parse(f"def _tw_outer({', '.join(dict.fromkeys(free))}):\n    pass\n    return _tw_traced").body[0]
    assert isinstance(outer, ast.FunctionDef)
    outer.body[0] = made
    space: dict[str, Any] = {}
    exec(compile(ast.fix_missing_locations(ast.Module([outer], [])), body.__code__.co_filename, "exec"), space)
    code = space["_tw_outer"](*[None] * len(dict.fromkeys(free))).__code__
    cells = dict(zip(body.__code__.co_freevars, body.__closure__ or (), strict=True))
    cells["_tw_missing"] = types.CellType(MISSING)
    return types.FunctionType(code, body.__globals__, "_tw_traced", None, tuple(cells[n] for n in code.co_freevars))
