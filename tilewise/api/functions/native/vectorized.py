"""vectorize, compiled from the source. In: a function of numbers, arrays, otypes. Out: results, pending if large."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.native.elements import Component, Elements, elements_loop, record
from tilewise.api.functions.native.kinds import DTYPES, PYTHON, of_result, spec, stored
from tilewise.api.functions.native.loop import result_types
from tilewise.api.functions.native.select import selected
from tilewise.api.functions.purity import plain
from tilewise.api.functions.trace.scalar_trace import own_key
from tilewise.api.functions.trace.tape import Tape
from tilewise.api.functions.warn import name_of
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.schedule import policy
from tilewise.ops.elementwise import broadcast
from tilewise.ops.traits.rule import LETTERS
from tilewise.ops.user import Opaque, opaque
from tilewise.python.policy import loops_of
from tilewise.python.refuse import Refused
from tilewise.python.scalars.arithmetic import NATIVE_DTYPES

DTypes = tuple[np.dtype[Any], ...]
MANY_CALLS = 1 << 14  # by Python they take about as long as compiling
SHORT = frozenset(map(np.dtype, ("i1", "i2", "i4", "u1", "u2")))  # integers that are small for the front end


def loops_in(f: Any) -> bool:
    """Whether a function has loops: then small arrays are much work, too."""
    found = plain(f)
    return found is not None and bool(loops_of(found))


def little(arrays: Sequence[Any], calls: int | None = None) -> bool:
    """Whether arrays are small and known, and a function of their elements is not called often (or `calls` times)."""
    if calls is None:
        calls = math.prod(np.broadcast_shapes(*(a.shape for a in arrays)))
    return calls < MANY_CALLS and policy.small([a for a in arrays if type(a) is Array])


def by_source(f: Any, arrays: Sequence[Any], given: Any) -> tuple[Tape | Elements, DTypes, tuple[Any, ...]]:
    """What computes a function on all elements: selections, or a compiled loop. Raises Refused.

    Then the dtypes of the results, and numbers that follow the arguments of selections.
    """
    kinds = tuple(PYTHON[a.dtype.kind] for a in arrays)
    found = result_types(f, [spec(k) for k in kinds])
    several = {len(s) - 1 if s[0] == "tuple" else 0 for s in found}
    if len(several) != 1 or several == {1}:
        raise Refused("a result that is one number, or several, as it comes")
    outs = _targets(f, arrays, given, several.pop())
    found_tape = _selected(f, arrays, outs)
    if found_tape is not None:
        return found_tape[0], outs, tuple(map(np.asarray, found_tape[1]))
    tuples = found[0][0] == "tuple"
    dtypes = tuple(a.dtype if a.dtype.name in NATIVE_DTYPES else DTYPES[k] for a, k in zip(arrays, kinds, strict=True))
    return Elements(f, elements_loop(f, kinds, dtypes, outs, tuples), kinds, dtypes, outs, tuples), outs, ()


def _selected(f: Any, arrays: Sequence[Any], outs: DTypes) -> tuple[Tape, tuple[Any, ...]] | None:
    """The tape of a function whose branches become selections, if its results can be stored so."""
    if any(a.dtype == np.uint64 for a in arrays):  # which are no int64
        return None
    specs = ["int" if a.dtype in SHORT else spec(PYTHON[a.dtype.kind]) for a in arrays]
    tape, numbers = selected(f, specs)
    return (tape, numbers) if tape is not None and all(map(_stores, tape.dtypes, outs)) else None


def _stores(have: np.dtype[Any], want: np.dtype[Any]) -> bool:
    """Whether numbers are stored as they are cast: integers that do not fit, and NaN as an integer, raise."""
    return np.can_cast(have, want, "safe" if have.kind in "iu" else "same_kind")


def _targets(f: Any, arrays: Sequence[Any], given: Any, count: int) -> DTypes:
    """The dtypes of the results: given, or what the first element's would be."""
    if given is not None:
        targets = tuple(np.dtype(t) for t in given)
        if len(targets) != (count or 1):
            raise Refused("another number of results than of otypes")
        return targets
    try:
        kinds = result_types(f, [spec(a.dtype) for a in arrays])
    except Refused:
        kinds = ()
    ways = {tuple(map(of_result, k[1:] if k[0] == "tuple" else (k,))) for k in kinds}
    dtypes = {tuple(map(stored, way)) for way in ways}
    larger = any(int in way for way in ways) and any(a.dtype == np.uint64 for a in arrays)  # an int may not fit
    if len(dtypes) == 1 and not larger:
        return dtypes.pop()
    made = f(*[first(a) for a in arrays])  # the type of the result depends on the value
    return tuple(np.asarray(m).dtype for m in (made if isinstance(made, tuple) else (made,)))


def first(a: Any) -> Any:
    """The first element, as a NumPy scalar."""
    return np.asarray(rec.unwrap(a)).flat[0]


def applied(run: Elements, arrays: Sequence[Any]) -> Any:
    """At once if arrays are small, else recorded."""
    ours = [a for a in arrays if type(a) is Array]
    policy.flush_loop(ours)
    if policy.small(ours) and all(a.nbytes < policy.eager_limit() for a in arrays):
        made = run.arrays(*(np.asarray(rec.unwrap(a)) for a in arrays), *run.loop.captured)
        results = [rec.wrap(x) for x in made]
        return tuple(results) if run.several else results[0]
    return recorded(run, [rec.as_node(a) for a in arrays])


def recorded(run: Elements, inputs: Sequence[Any]) -> Any:
    """Pending results of nodes that broadcast together."""
    shape = broadcast([n.shape for n in inputs])
    out = LETTERS[: len(shape)]
    terms = [out[len(shape) - n.ndim :] for n in inputs]
    nodes, letters = with_captured(run.loop, inputs, terms, len(shape))
    kind = (run.several, *(d.str for d in (*run.dtypes, *run.outs)))
    key, name = ("compiled elements", own_key(run.f, run), kind), name_of(run.f)
    if not run.several:
        op = Opaque(run, key, f"{','.join(letters)}->{out}", None, name)
        return rec.record(opaque(op, nodes, shape, run.outs[0]))
    size = record(run.outs).itemsize
    op = Opaque(run, key, f"{','.join(letters)}->{out}Z", None, name)
    whole = opaque(op, nodes, (*shape, size), np.dtype(np.uint8))
    made = []
    for k, d in enumerate(run.outs):
        part = Opaque(Component(run.outs, k), (*key, k), f"{out}Z->{out}", None, f"result {k} of {name}")
        made.append(rec.record(opaque(part, (whole,), shape, d)))
    return tuple(made)


def with_captured(loop: Any, inputs: Sequence[Any], terms: list[str], used: int) -> tuple[Any, list[str]]:
    """Operands and their letters, with the arrays that functions refer to: each whole, everywhere."""
    more = [rec.as_node(c) for c in loop.captured]
    for n in more:
        terms = [*terms, LETTERS[used : used + n.ndim]]
        used += n.ndim
    return (*inputs, *more), terms
