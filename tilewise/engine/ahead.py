"""Which plans may be under way while the driver goes on. In: a plan. Out: whether nothing in its data can make it fail.

A plan that can fail (an index out of range, a user's function, a file that is gone) is waited for: the error is then
raised by the statement that asked for the value, and what was recorded is still there. This is a list of what cannot:
what is not on it is waited for, which costs a turn of the driver and no more.
"""

from __future__ import annotations

from tilewise.layout import Stored
from tilewise.ops.const import Const
from tilewise.ops.contract import Contract
from tilewise.ops.create import Arange, Empty, Full
from tilewise.ops.elementwise import Map
from tilewise.ops.index import Update
from tilewise.ops.join import Broadcast, Concat, Copy
from tilewise.ops.move import Pin
from tilewise.ops.reduce import Reduce
from tilewise.ops.reshape import Reshape
from tilewise.plan.exchanges import Exchanges
from tilewise.stage.steps import Call, Pass, Step, Tiled, View, Write

SAFE_CALLS = (Const, Contract, Empty, Full, Arange, Broadcast, Concat, Copy, Reshape, Pin, Reduce)


def never_fails(plan: Exchanges) -> bool:
    """Whether the plan comes to its end whatever the elements of its leaves are."""
    if any(isinstance(plan.layouts[p], Stored) for p in plan.leaves):
        return False  # reading may fail
    return all(_safe(plan, step) for step in plan.steps)


def _safe(plan: Exchanges, step: Step) -> bool:
    if isinstance(step, Tiled):
        return all(_safe(plan, inner) for inner in step.steps)
    if isinstance(step, Pass | View):
        return True
    if isinstance(step, Write):
        return isinstance(plan.specs[step.pos].op, Update)  # a window: no indices to check
    if isinstance(step, Call):
        spec = plan.specs[step.pos]
        return isinstance(spec.op, SAFE_CALLS) or (isinstance(spec.op, Map) and spec.dtype.kind in "bfc")
    return plan.traffic(step) is None
