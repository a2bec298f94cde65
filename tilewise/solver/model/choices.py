"""The rules an operator may follow, as the solver weighs them. In: a node, its rules. Out: what these ask of operands.

Values that are equal are one object, so that tables made of them are found by identity.
"""

from __future__ import annotations

from dataclasses import field

from tilewise.config import current
from tilewise.ir.node import Node
from tilewise.ir.reductions import LAWS
from tilewise.ir.scalar import EXPENSIVE
from tilewise.layout import Layout, OnDriver, Outside, reduction
from tilewise.ops.elementwise import Map, scaled
from tilewise.ops.traits.rule import Rule
from tilewise.ops.views import Arrange
from tilewise.records import dataclass
from tilewise.solver.model.graph import behind
from tilewise.solver.model.replicas import Held, Kind
from tilewise.solver.problem import Ints
from tilewise.tuning import tuned

Slots = tuple[tuple[int, Arrange | None], ...]  # the operands of a user that are one value: which, through what


@dataclass(frozen=True, eq=False)
class Asked:
    """What a user asks of one value: per rule some layouts; `layouts` has each of them once."""

    rows: tuple[Held, ...]
    layouts: Held


@dataclass(frozen=True, eq=False)
class Choices:
    """The rules of an operator on a mesh."""

    rules: tuple[Rule, ...]
    work: Ints
    outs: Held  # the layouts that results may have, each once
    out_at: Ints  # per rule: which of them
    notable: Held  # those that users' rules depend on: partial ones, and uneven cuts
    asks: dict[Slots, Asked] = field(default_factory=dict)  # what `needs` found


_asked: dict[tuple[Held, ...], Asked] = {}


def needs(user: Choices, slots: Slots) -> Asked:
    """What a user asks of one value."""
    found = user.asks.get(slots)
    if found is None:
        rows: tuple[Held, ...]
        if len(slots) == 1:
            ((k, alias),) = slots
            rows = tuple([(behind(r.ins[k], alias),) for r in user.rules])
        else:
            rows = tuple([tuple(dict.fromkeys(behind(r.ins[k], alias) for k, alias in slots)) for r in user.rules])
        found = _asked.get(rows)
        if found is None:
            if len(_asked) > tuned().solver_tables_kept:
                _asked.clear()
            found = _asked[rows] = Asked(rows, tuple(dict.fromkeys([x for row in rows for x in row])))
        user.asks[slots] = found
    return found


def kin(n: Node, have: tuple[Held, ...]) -> tuple[object, object]:
    """What its rules depend on, and what its work does beside them: of an elementwise operator, hardly anything."""
    if not isinstance(n.op, Map):
        return n.op, None
    name = n.op.fn.name
    cost = (name in EXPENSIVE, *[isinstance(x.op, Map) for x in n.inputs])
    laws = LAWS.get(name) if any(have) else None
    if not laws:
        return None, cost
    partial = {reduction(x) for row in have for x in row}
    known = tuple([(law, scaled(n, law[1])) for law in laws.items() if law[0] in partial])
    return (known, current().exact) if known else None, cost


def notable(layouts: Held, kind: Kind) -> Held:
    """The layouts that are partial, not cut evenly, or on the driver: those that rules depend on."""
    return tuple(x for x in layouts if _notable(x, kind))


def _notable(layout: Layout, kind: Kind) -> bool:
    if isinstance(layout, Outside):  # whether small work may be done at the driver's place, where bytes count
        return isinstance(layout, OnDriver) and kind.tariff.all_bytes
    return layout not in kind.usual.index or reduction(layout) is not None
