"""Arrays that NumPy would lay out otherwise. In: a lowered program. Out: a refusal of what depends on that.

New arrays of compiled programs lie in C order; many of NumPy's have the order of their operands (of `A.T * 2`, or of
an argument in Fortran order). Only a few functions show the difference: `reshape` and `ravel` give a view of an array
in one order and a copy of it in another, `ravel(order="K")` other elements. Of such arrays, these are left to Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.kernel.program.ir import HostCall, Invoke, Param, Stmt, View, results_of
from tilewise.python.build import Array, Builder, CalledByOrder, Static, Value
from tilewise.python.refuse import Refused

_VIEWS_OR_COPIES = ("reshape", "ravel", "ascontiguousarray", "asfortranarray", "an assignment of a shape")


def called(name: str, line: int, sample: Any, args: Sequence[Value], options: Mapping[str, Value]) -> CalledByOrder:
    """What memory order has to do with a call that gives a sample for samples."""
    own = name.rpartition(".")[2]
    alone = not args or not isinstance(args[0], Array)  # computed for this call: nobody else sees it
    depends = _asks(args, options, "KA") or (own in _VIEWS_OR_COPIES and not alone)
    return CalledByOrder(name if depends else "", line, _in_c_order(sample) and not _asks(args, options, "FKA"))


def _in_c_order(sample: Any) -> bool:
    if isinstance(sample, tuple):
        return all(map(_in_c_order, sample))
    return not isinstance(sample, np.ndarray) or sample.flags.c_contiguous


def _asks(args: Sequence[Value], options: Mapping[str, Value], orders: str) -> bool:
    given = [v.value for v in (*args, *options.values()) if isinstance(v, Static) and isinstance(v.value, str)]
    return any(len(v) == 1 and v in orders for v in given)


def check(b: Builder, every: Sequence[Stmt], params: Sequence[Param], *, main: bool) -> None:
    """Raise Refused if a call depends on the order of an array that NumPy may have in another one."""
    sites = [s for s in every if isinstance(s, HostCall) and b.calls[s.which].depends]
    if not sites:
        return
    turned = {p.name for p in params if p.array is not None and p.array.rank > 1 and not (main and p.array.dense)}
    other = set() if main else set(turned)
    steps = [s for s in every if isinstance(s, View | HostCall | Invoke)]
    before = -1
    while before < len(turned) + len(other):
        before = len(turned) + len(other)
        for name, like in b.like.items():
            if b.arrays[name][1] > 1 and not (turned | other).isdisjoint(like):
                other.add(name)
        for s in steps:
            _spread(b, s, turned, other)
    for s in sites:
        call = b.calls[s.which]
        if any(v in other for v in s.inputs[:1]):
            text = f"{call.depends} of an array that NumPy may lay out in another order than compiled loops do"
            raise Refused(text, call.line, "Copy it with .copy() first")


def _spread(b: Builder, s: View | HostCall | Invoke, turned: set[str], other: set[str]) -> None:
    """What a statement makes of arrays that lie otherwise."""
    if isinstance(s, View):
        if b.arrays[s.array][1] > 1:
            axes = [span.axis for span in s.spans if span.axis >= 0]
            if axes != sorted(axes) or s.source in turned:
                turned.add(s.array)
            if s.source in other:
                other.add(s.array)
        return
    inputs = {v for v in s.inputs if isinstance(v, str)}
    straight = not isinstance(s, Invoke) and b.calls[s.which].in_c_order and inputs.isdisjoint(turned | other)
    for name in results_of(s):
        if name in b.arrays and b.arrays[name][1] > 1 and not straight:
            turned.add(name)
            if isinstance(s, Invoke) or not s.shown or not inputs.isdisjoint(other):
                other.add(name)
