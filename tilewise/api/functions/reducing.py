"""tw.reduce, and scans with a state: Parakeet's operators. In: functions of states and elements. Out: arrays.

Functions are compiled from their source. What cannot be compiled is called by Python, at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise.api.create import asarray, full
from tilewise.api.dispatch import public
from tilewise.api.functions.native.elements import Component, record
from tilewise.api.functions.native.kinds import Kind, stored
from tilewise.api.functions.native.lines import (
    Functions,
    Kinds,
    Lines,
    emitted_kinds,
    lines_loop,
    merging,
    state_kinds,
    tree_loop,
)
from tilewise.api.functions.native.vectorized import applied, with_captured
from tilewise.api.functions.trace.scalar_trace import own_key
from tilewise.api.functions.warn import name_of, warn
from tilewise.array import record as rec
from tilewise.array.schedule import policy
from tilewise.config import current
from tilewise.errors import message
from tilewise.ir.reductions import user_reduction
from tilewise.ops.traits.rule import LETTERS
from tilewise.ops.user import JOINED, Opaque, opaque
from tilewise.python.refuse import Refused

BYTES = "Y"  # the letter of the bytes of several results


def reduce(f: Callable[..., Any], *xs: Any, init: Any = None, combine: Any = None, axis: int | None = 0) -> Any:
    """Reduce an axis (None: all elements) of arrays that broadcast together, in order.

    Without `combine`: state = f(state, x, ...) along the axis, as a loop does it; the state begins with `init`, a
    number or a tuple of numbers (or with the first element of a single array).

    With `combine`: what f makes of the elements is combined: state = combine(state, f(x, ...)). `combine` must be
    associative (it need not be commutative): pieces are then reduced by themselves, by all threads and workers.

    f is given elements as NumPy scalars. A tuple gives as many arrays.

    >>> import tilewise as tw
    >>> x = tw.array([[3.0, -1.0], [4.0, 1.0], [-5.0, 9.0]])
    >>> tw.reduce(lambda s, v: s + v if v > 0 else s, x, init=0.0)
    Array([ 7., 10.])
    >>> low, count = tw.reduce(lambda s, v: (min(s[0], v), s[1] + 1), x, init=(float("inf"), 0))
    >>> low, count
    (Array([-5., -1.]), Array([3, 3]))
    >>> tw.reduce(lambda v: v * v, x, combine=lambda a, b: a if a > b else b, axis=1)
    Array([ 9., 16., 81.])
    """
    if axis is None:
        xs = tuple(asarray(x) for x in public(np.broadcast_arrays)(*map(asarray, xs)))
        return reduce(f, *(x.reshape(-1) for x in xs), init=init, combine=combine)
    return _along("reduce", Functions(f, combine, None), xs, axis, init)


def scanned(f: Any, xs: Sequence[Any], axis: int, init: Any, combine: Any, emit: Any) -> Any:
    """All states of a reduction, or what `emit` makes of them."""
    return _along("scan", Functions(f, combine, emit), xs, axis, init)


def combined(f: Any, dtype: np.dtype[Any], axis: int, scans: bool) -> Lines:
    """The fold or scan of elements by an associative function of two. Raises Refused."""
    by = Functions(None, f, None)
    kinds, several = state_kinds(by, (dtype,), None)
    if several:
        raise Refused("a tuple where a fold has one number")
    out = stored(kinds[0])
    merge, tree = (None, None) if scans else (merging(f, (out,), False), tree_loop(f, (out,), False))
    loop = lines_loop(by, (out,), (out,), False, False, (out,), scans)
    return Lines(by, loop, merge, tree, axis, (out,), None, (out,), False, scans)


def _along(operator: str, by: Functions, given: Sequence[Any], axis: int, init: Any) -> Any:
    arrays: list[Any] = [asarray(x) for x in public(np.broadcast_arrays)(*map(asarray, given))]
    if not arrays or arrays[0].ndim == 0:
        raise ValueError(message(f"{operator} needs an axis", got="no array with axes"))
    bad = next((x.dtype for x in arrays if not rec.numeric(x.dtype)), None)
    if bad is not None:
        raise TypeError(message(f"{operator} takes numbers", got=f"dtype {bad}", cure="Convert with astype"))
    at = np.lib.array_utils.normalize_axis_index(axis, arrays[0].ndim)
    if init is None and by.combine is None and len(arrays) > 1:
        raise TypeError(message(f"{operator} of several arrays begins with a value", cure="Give init="))
    first = None if init is None else tuple(map(_number, init if isinstance(init, tuple) else (init,)))
    if arrays[0].shape[at] == 0 and first is None:
        text = f"zero-size array to {operator} with {name_of(by.f)} which has no identity"
        raise ValueError(message(text, cure="Give init="))
    policy.flush_loop(arrays)
    try:
        run, kinds = _lines(operator, by, [x.dtype for x in arrays], at, first, isinstance(init, tuple))
    except Refused as error:
        why = error
    else:
        return _applied(operator, run, kinds, arrays, first)
    if current().engine != "numpy":
        warn(operator, by.f, why, arrays, "runs as plain Python")
    return _by_python(operator, by, [np.asarray(rec.unwrap(x)) for x in arrays], at, first, isinstance(init, tuple))


def _number(value: Any) -> Any:
    """A number to begin with: of Python, or of NumPy."""
    found = rec.unwrap(value)
    if isinstance(found, np.ndarray) and found.ndim == 0:
        found = found[()]
    if type(found) in (bool, int, float, complex) or isinstance(found, np.number | np.bool_):
        return found
    raise TypeError(message("init is a number, or a tuple of numbers", got=type(value).__name__))


def _kind(number: Any) -> Kind:
    return number.dtype if isinstance(number, np.generic) else type(number)


def _lines(
    operator: str, by: Functions, dtypes: list[np.dtype[Any]], axis: int, first: Any, tuples: bool
) -> tuple[Lines, Kinds]:
    """The compiled operator on blocks. Raises Refused."""
    if current().engine == "numpy":
        raise Refused("no compiled form on the engine numpy")
    start = None if first is None else tuple(map(_kind, first))
    kinds, several = state_kinds(by, dtypes, start, tuples if first is not None else None)
    scans = operator == "scan"
    outs = tuple(map(stored, kinds))
    if scans and by.emit is not None:
        outs = (stored(emitted_kinds(by.emit, kinds, several)),)
    merge = tree = None
    if by.combine is not None and not scans:
        merge, tree = merging(by.combine, kinds, several), tree_loop(by.combine, kinds, several)
    begins = first is not None and (scans or by.combine is None)
    loop = lines_loop(by, dtypes, kinds, several, begins, outs, scans)
    values = None if not begins else tuple(_as_kind(v, k) for v, k in zip(first, kinds, strict=True))
    return Lines(by, loop, merge, tree, axis, tuple(dtypes), values, outs, several, scans), kinds


def _as_kind(value: Any, kind: Kind) -> Any:
    return kind(value) if isinstance(kind, type) else kind.type(value)


def _applied(operator: str, run: Lines, kinds: Kinds, arrays: list[Any], first: Any) -> Any:
    """At once if arrays are small, else recorded."""
    at, shape = run.axis, arrays[0].shape
    rest = shape if run.scans else (*shape[:at], *shape[at + 1 :])
    late = first is not None and run.first is None  # joins at the end, so that it counts once
    if shape[at] == 0 and not run.scans:
        made = [full(rest, _as_kind(v, k), stored(k)) for v, k in zip(first, kinds, strict=True)]
    elif policy.small(arrays):
        made = [rec.wrap(m[()]) for m in run.arrays(*(rec.unwrap(x) for x in arrays), *run.loop.captured)]
    else:
        made = _recorded(operator, run, arrays, rest)
    if late and shape[at]:
        made = _begun(run, kinds, made, first)
    return tuple(made) if run.several and run.by.emit is None else made[0]


def _begun(run: Lines, kinds: Kinds, made: list[Any], first: Any) -> list[Any]:
    """States combined with those that they begin with."""
    assert run.merge is not None
    values = [np.asarray(_as_kind(v, k), stored(k)) for v, k in zip(first, kinds, strict=True)]
    found = applied(run.merge, [*values, *map(asarray, made)])
    return list(found) if run.several else [found]


def _recorded(operator: str, run: Lines, arrays: list[Any], rest: tuple[int, ...]) -> list[Any]:
    own = LETTERS[: arrays[0].ndim]
    along = own[run.axis]
    term = own if run.scans else own.replace(along, JOINED)
    out = own.replace(along, JOINED if run.scans else "")
    inputs, terms = with_captured(run.loop, [rec.as_node(x) for x in arrays], [term] * len(arrays), len(own))
    functions = tuple(own_key(f, run) for f in run.by.named().values())
    begins = None if run.first is None else tuple((type(v), repr(v)) for v in run.first)
    dtypes = tuple(d.str for d in (*run.dtypes, *run.outs))
    key = (operator, tuple(run.by.named()), functions, run.axis, begins, dtypes)
    text = f"{operator} with {name_of(run.by.f)}"
    several = len(run.outs) > 1
    accum = None
    if run.merge is not None and not several and not run.scans:
        accum = user_reduction(text, key, run.merge)
    op = Opaque(run, key, f"{','.join(terms)}->{out}{BYTES if several else ''}", accum, text)
    if not several:
        return [rec.record(opaque(op, inputs, rest, run.outs[0]), fixed=not rest)]
    size = record(run.outs).itemsize
    whole = opaque(op, inputs, (*rest, size), np.dtype(np.uint8))
    made = []
    for k, d in enumerate(run.outs):
        part = Opaque(Component(run.outs, k), (*key, k), f"{out}{BYTES}->{out}", None, f"result {k} of {text}")
        made.append(rec.record(opaque(part, (whole,), rest, d), fixed=not rest))
    return made


def _by_python(operator: str, by: Functions, arrays: list[Any], axis: int, first: Any, tuples: bool) -> Any:
    """The same by Python, whose results say what dtypes there are."""
    moved = [np.moveaxis(a, axis, -1) for a in np.broadcast_arrays(*arrays)]
    outer = moved[0].shape[:-1]
    lines = []
    for at in np.ndindex(outer):
        elements = zip(*(m[at] for m in moved), strict=True)
        start: list[Any] = [] if first is None else [first if tuples else first[0]]
        if by.combine is None:
            steps: Any = elements if start else itertools.chain([next(elements)[0]], elements)
            states = itertools.accumulate([*start, *steps], lambda s, v: by.f(s, *v))
        else:
            states = itertools.accumulate([*start, *(by.f(*v) for v in elements)], by.combine)
        found = list(states)[1 if start and operator == "scan" else 0 :]
        lines.append([by.emit(s) if by.emit is not None else s for s in found] if operator == "scan" else found[-1])
    several = bool(lines) and isinstance(lines[0][0] if operator == "scan" else lines[0], tuple)
    results = []
    for k in range(len(lines[0][0] if operator == "scan" else lines[0])) if several else (None,):
        column = [[_part(s, k) for s in x] if operator == "scan" else _part(x, k) for x in lines]
        made = np.array(column).reshape((*outer, *([len(column[0])] if operator == "scan" else [])))
        results.append(rec.wrap(np.moveaxis(made, -1, axis) if operator == "scan" else made[()]))
    return tuple(results) if several else results[0]


def _part(state: Any, k: int | None) -> Any:
    return state if k is None else state[k]
