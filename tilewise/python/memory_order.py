"""Arrays that NumPy would lay out otherwise. In: a lowered program. Out: a refusal of what hangs on it.

New arrays of compiled programs lie in C order; many of NumPy's have the order of their operands (of `A.T * 2`, or of
an argument in Fortran order). Only a few functions show the difference: `reshape` and `ravel` give a view of an array
in one order and a copy of it in another, `ravel(order="K")` other elements. Of such arrays, these are left to Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.kernel.program.ir import HostCall, Invoke, Param, Stmt, View, results_of
from tilewise.python.build import Array, Builder, Static, Value
from tilewise.python.refuse import Refused

_VIEWS_OR_COPIES = ("reshape", "ravel", "ascontiguousarray", "asfortranarray", "an assignment of a shape")


def hangs_on(name: str, args: Sequence[Value], options: Mapping[str, Value]) -> str:
    """The name of a call whose result hangs on how its first argument lies in memory; "" of others."""
    own = name.rpartition(".")[2]
    kept = _asks(args, options, "KA")
    alone = not args or not isinstance(args[0], Array)  # computed for this call: nobody else sees it
    return name if kept or (own in _VIEWS_OR_COPIES and not alone) else ""


def in_c_order(sample: Any, args: Sequence[Value], options: Mapping[str, Value]) -> bool:
    """Whether all arrays that a call gives lie in C order, if its arguments do."""
    if isinstance(sample, tuple):
        return all(in_c_order(part, args, options) for part in sample)
    return not isinstance(sample, np.ndarray) or (sample.flags.c_contiguous and not _asks(args, options, "FKA"))


def _asks(args: Sequence[Value], options: Mapping[str, Value], orders: str) -> bool:
    given = [v.value for v in (*args, *options.values()) if isinstance(v, Static) and isinstance(v.value, str)]
    return any(len(v) == 1 and v in orders for v in given)


def check(b: Builder, every: Sequence[Stmt], params: Sequence[Param], *, main: bool) -> None:
    """Raise Refused if a call hangs on the order of an array that NumPy may have in another one."""
    sites = [s for s in every if isinstance(s, HostCall) and b.hang.get(s.which, ("",))[0]]
    if not sites:
        return
    turned = {p.name for p in params if p.array is not None and p.array.rank > 1 and not (main and p.array.dense)}
    other = set() if main else set(turned)
    steps = [s for s in every if isinstance(s, View | HostCall | Invoke)]
    before = -1
    while before < len(turned) + len(other):
        before = len(turned) + len(other)
        for name, like in b.likes.items():
            if b.arrays[name][1] > 1 and not (turned | other).isdisjoint(like):
                other.add(name)
        for s in steps:
            _spread(b, s, turned, other)
    for s in sites:
        what, line, _ = b.hang[s.which]
        if any(v in other for v in s.inputs[:1]):
            text = f"{what} of an array that NumPy may lay out in another order than compiled loops do"
            raise Refused(text, line, "Copy it with .copy() first")


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
    straight = not isinstance(s, Invoke) and b.hang[s.which][2] and inputs.isdisjoint(turned | other)
    for name in results_of(s):
        if name in b.arrays and b.arrays[name][1] > 1 and not straight:
            turned.add(name)
            if isinstance(s, Invoke) or not s.shown or not inputs.isdisjoint(other):
                other.add(name)
