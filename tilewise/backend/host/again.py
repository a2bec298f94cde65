"""Steps that run again and again on arrays of the same sizes. In: a step, its kernel, nodes. Out: a function of values.

What `run_step` looks up and works out from the sizes is done here once. What such a function does raises no warnings
only where the caller sees to it (`np.errstate`, which takes as long as a small operator).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from tilewise.backend import threads
from tilewise.backend.host import steps
from tilewise.backend.host.arrays import fresh, maker
from tilewise.backend.host.steps import Values, box_around, called, made_by, run_step
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Update
from tilewise.ops.views import explain
from tilewise.ops.views.cut import Cut
from tilewise.stage.cut_axis import drops_axes, space_of
from tilewise.stage.steps import Call, Pass, Step, View
from tilewise.tuning import tuned

Bound = Callable[[Values], None]


def bound_step(step: Step, kernel: Any, nodes: Sequence[Any]) -> Bound:
    """A step as a function; `nodes` are those of every run."""
    if type(step) is View:
        return _view(step, nodes[step.pos])
    if type(step) is Call:
        return _call(step, nodes)
    if type(step) is Pass and not step.blas and step.letters is None and step.iterations is None:
        dims = space_of(step, nodes)
        if 0 not in dims:
            return _pass(step, kernel, nodes, dims)
    return lambda values: run_step(step, kernel, nodes, values, set())


def _getter(at: Sequence[int]) -> Callable[[Values], Any]:
    """What takes some of the values out of all."""
    if len(at) > 1:
        return itemgetter(*at)
    if at:
        (only,) = at
        return lambda values: (values[only],)
    return lambda values: ()


def _new(bound: Bound, at: Sequence[int]) -> Bound:
    """Note which values a function always makes in memory of their own, as `fresh` gives it."""
    bound.makes_new = at  # type: ignore[attr-defined]
    return bound


def _view(step: View, node: Any) -> Bound:
    pos, source, op = step.pos, step.input, node.op
    if type(op) is not Cut:
        shown = op.numpy

        def view(values: Values) -> None:
            values[pos] = shown(values[source])

        return view
    key = op.key()

    def cut(values: Values) -> None:
        values[pos] = values[source][key]

    return cut


def _call(step: Call, nodes: Sequence[Any]) -> Bound:
    node = nodes[step.pos]
    pos, inputs, op = step.pos, step.inputs, node.op
    if type(op) is not Map:

        def call(values: Values) -> None:
            values[pos] = called(node, [values[x] for x in inputs])

        return call
    if not node.dims and (number := _number(step, nodes)) is not None:
        return number
    nbytes, function, get = node.nbytes, op.numpy, _getter(inputs)

    def small_map(values: Values) -> None:
        given = get(values)
        small = nbytes < steps._map_parallel_bytes
        values[pos] = np.asarray(function(*given)) if small else called(node, given)

    return small_map


def _number(step: Call, nodes: Sequence[Any]) -> Bound | None:
    """A ufunc of numbers straight into a new one, not by way of a scalar; None of what is no ufunc, or casts."""
    pos, inputs, node = step.pos, step.inputs, nodes[step.pos]
    ufunc, given = node.op.fn.call, tuple(nodes[x].dtype for x in inputs)
    if not isinstance(ufunc, np.ufunc) or ufunc.nout != 1:
        return None
    if ufunc.resolve_dtypes((*given, None)) != (*given, node.dtype):
        return None
    new = maker(node)
    if len(inputs) == 2:
        one, two = inputs

        def of_two(values: Values) -> None:
            values[pos] = ufunc(values[one], values[two], out=new())

        return of_two

    get = _getter(inputs)

    def number(values: Values) -> None:
        values[pos] = ufunc(*get(values), out=new())

    return number


def _pass(step: Pass, kernel: Callable[..., None], nodes: Sequence[Any], dims: tuple[int, ...]) -> Bound:
    inputs, params, places = _getter(step.inputs), _getter(step.params), step.outs
    if not step.plain:
        return _writing_pass(step, kernel, nodes, dims)
    if len(places) == 1:
        (pos,) = places
        new = maker(nodes[pos])

        def single(values: Values) -> None:
            made = new()
            kernel(dims, inputs(values), params(values), (made,))
            values[pos] = made

        return _new(single, places)

    makers = [maker(nodes[pos]) for pos in places]

    def several(values: Values) -> None:
        made = [new() for new in makers]
        kernel(dims, inputs(values), params(values), made)
        for pos, x in zip(places, made, strict=True):
            values[pos] = x

    return _new(several, places)


class _Beside(NamedTuple):
    """How an update becomes an array of its own: the part that is computed, and those that are copied from its base."""

    base: int
    window: tuple[Any, ...]
    copied: tuple[tuple[bool, tuple[Any, ...]], ...]  # whether all threads should copy it


def _beside(step: Pass, k: int, nodes: Sequence[Any]) -> _Beside | None:
    """None where the base may be overwritten, or the window is not a box of whole steps."""
    base, node = step.writes[k], nodes[step.outs[k]]
    assert base is not None
    if step.last_uses[k] and nodes[base].value is None:
        return None
    window = node.op.window
    found, parts = explain(window), box_around(window, node.dims)
    if found is None or parts == (...,):
        return None
    axes, starts = found
    walked = {a.base: slice(a.start, a.start + a.length) for a in axes if a.base is not None}
    key = tuple([walked.get(axis, slice(s, s + 1)) for axis, s in enumerate(starts)])
    probe = fresh(node)
    one, other = probe[key].__array_interface__, window.on(probe).__array_interface__
    if any(one[x] != other[x] for x in ("data", "shape", "strides")):
        return None  # it drops an axis, say
    most = tuned().copy_part_bytes
    return _Beside(base, key, tuple((probe[part].nbytes >= most, part) for part in parts))


def _writing_pass(step: Pass, kernel: Callable[..., None], nodes: Sequence[Any], dims: tuple[int, ...]) -> Bound:
    """A pass that writes into parts of other arrays, or reduces."""
    inputs, params = _getter(step.inputs), _getter(step.params)
    # Position, node, the window or the part that is filled, and how, where it is always done in the same way.
    outs: list[tuple[int, Callable[[], Any], Any, Any, _Beside | None]] = []
    for k, pos in enumerate(step.outs):
        node = nodes[pos]
        if step.writes[k] is not None:
            assert isinstance(node.op, Update)
            outs.append((pos, maker(node), node.op.window, None, _beside(step, k, nodes)))
        else:
            dropped = drops_axes(step, k, node)
            key = (*(0 if r else slice(None) for r in step.kernel.reduced), Ellipsis) if dropped else None
            outs.append((pos, maker(node), None, key, None))

    if len(outs) == 1:
        ((pos, new, window, key, beside),) = outs
        if window is None:

            def reducing(values: Values) -> None:
                out = new()
                kernel(dims, inputs(values), params(values), (out if key is None else out[key],))
                values[pos] = out

            return _new(reducing, (pos,))
        if beside is not None and not any(large for large, _ in beside.copied):
            source, inside, parts = beside.base, beside.window, [part for _, part in beside.copied]

            def updating(values: Values) -> None:
                out, base = new(), values[source]
                for part in parts:
                    out[part] = base[part]
                kernel(dims, inputs(values), params(values), (out[inside],))
                values[pos] = out

            return _new(updating, (pos,))

    def writing(values: Values) -> None:
        given = inputs(values)
        made, seen = [], []
        for k, (_, new, window, key, beside) in enumerate(outs):
            if window is None:
                out = new()
                seen.append(out if key is None else out[key])
            elif beside is not None:
                out, base = new(), values[beside.base]
                for large, part in beside.copied:
                    if large:
                        threads.parallel_copy(out[part], base[part])
                    else:
                        out[part] = base[part]
                seen.append(out[beside.window])
            else:
                out = made_by(step, k, nodes, values, given, set())
                seen.append(window.on(out))
            made.append(out)
        kernel(dims, given, params(values), seen)
        for (pos, *_), out in zip(outs, made, strict=True):
            values[pos] = out

    return _new(writing, [pos for pos, _, window, _, beside in outs if window is None or beside is not None])
