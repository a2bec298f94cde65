"""The tiling problem of a graph. In: items, layouts of leaves, a mesh, a machine. Out: tables for search/solve.py.

A variable for the rule of every operator; one for the set of layouts in which a value with several users is held
(replicas.py). Costs: what a rule computes, what holding costs, what a user pays to take its operand from what is held.
Everything that repeats (equal operators on equal shapes, as in an unrolled loop) is worked out once, and its tables are
the same objects.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field

import numpy as np

from tilewise.config import current
from tilewise.cost.model import TICKS, Rates, work_cost
from tilewise.ir.node import Node
from tilewise.ir.reductions import LAWS
from tilewise.ir.scalar import EXPENSIVE
from tilewise.layout import (
    Layout,
    Mesh,
    OnDriver,
    Outside,
    Replicate,
    at_first,
    bare,
    even_divisions,
    reduction,
)
from tilewise.ops.create import is_new
from tilewise.ops.elementwise import Map, scaled
from tilewise.ops.traits.rule import Rule, rules
from tilewise.ops.views import Arrange
from tilewise.records import dataclass
from tilewise.solver.model.graph import Aliases, Graph, Use, behind, results, seen, shown
from tilewise.solver.model.replicas import (
    MAX_HELD,
    Held,
    Kind,
    direct,
    needless,
    one_kind,
    reach_costs,
    sets_of,
    spread_costs,
    undominated,
    widened,
)
from tilewise.solver.problem import INF, Ints, Problem
from tilewise.tuning import tuned

NOTHING: Ints = np.zeros(0, dtype=np.int64)
MAX_USES = 6  # of a value: with more, all pairs of layouts are weighed

Slots = tuple[tuple[int, Arrange | None], ...]  # the operands of a user that are one value: which, through what


@dataclass(frozen=True, eq=False)
class Choices:
    """The rules of an operator on a mesh."""

    rules: tuple[Rule, ...]
    work: Ints
    outs: Held  # the layouts that results may have, each once
    out_at: Ints  # per rule: which of them
    notable: Held  # those that users' rules depend on: partial ones, and uneven cuts
    asks: dict[Slots, tuple[Held, ...]] = field(default_factory=dict)  # what `needs` found


@dataclass(frozen=True, eq=False)
class Holding:
    """The sets of layouts that may be held of a value."""

    sets: tuple[Held, ...]
    cost: Ints  # [layout it is made in, or 0 for a leaf; set]
    reach: Ints  # [set, layout]
    at: dict[Layout, int]  # columns of `reach`
    ends: Ints | None  # for a result: what its final layout costs, per set


@dataclass
class Model:
    """The problem, and what its variables stand for."""

    graph: Graph
    mesh: Mesh
    machine: Rates
    sources: dict[int, Held]  # of leaves: the layouts they are in
    choices: dict[int, Choices]
    holdings: dict[int, Holding]
    rule_at: dict[int, int]  # item -> variable
    held_at: dict[int, int]
    wanted: frozenset[int]  # results
    problem: Problem

    def replicated(self) -> list[int]:
        """Values for everything replicated (each operator's last rule): costly, but always possible."""
        values = [len(table) - 1 for table in self.problem.unary]
        held = set(self.held_at.values())
        costs = {v: self.problem.unary[v] for v in held}
        for (i, j), table in self.problem.pairs.items():
            if i in held:
                costs[i] = np.minimum(costs[i] + table[:, values[j]], INF)
            elif j in held:
                costs[j] = np.minimum(costs[j] + table[values[i]], INF)
        for v, cost in costs.items():
            values[v] = int(cost.argmin())
        return values

    def kind(self, item: int) -> Kind:
        """The type of a value."""
        return kind_of(self.graph.items[item].node, self.mesh, self.machine)


_worlds: dict[tuple[Mesh, Rates], int] = {}  # numbers, which are looked up faster
_choices: dict[object, Choices] = {}
_holdings: dict[object, Holding] = {}
_tables: dict[object, Ints] = {}


def kind_of(n: Node, mesh: Mesh, machine: Rates) -> Kind:
    """What of a node decides the cost of converting it."""
    rate = None
    if is_new(n):
        rate = 0.0 if machine.objective == "bytes" else TICKS / machine.store_rate
    return one_kind(n.dims, n.dtype.itemsize, mesh, machine.tariff, rate)


def model_of(
    graph: Graph,
    wanted: Sequence[Use],
    sources: Sequence[Held],
    mesh: Mesh,
    machine: Rates,
    *,
    limited: bool = False,
) -> Model:
    """Tables for a graph whose leaves, in order, are in some layouts. If memory is limited, small sets stay, too."""
    return _Builder(graph, wanted, sources, mesh, machine, limited).build()


class _Builder:
    def __init__(
        self, graph: Graph, wanted: Sequence[Use], sources: Sequence[Held], mesh: Mesh, machine: Rates, limited: bool
    ) -> None:
        self.limited = limited
        self.graph = graph
        self.mesh = mesh
        self.machine = machine
        self.world = _worlds.setdefault((mesh, machine), len(_worlds))
        self.wanted = results(wanted)
        self.sources = dict(zip((i for i, x in enumerate(graph.items) if x.given), sources, strict=True))
        self.kinds = [kind_of(x.node, mesh, machine) for x in graph.items]
        self.choices: dict[int, Choices] = {}
        self.holdings: dict[int, Holding] = {}
        self.rule_at: dict[int, int] = {}
        self.held_at: dict[int, int] = {}
        self.unary: list[Ints] = []
        self.pairs: dict[tuple[int, int], Ints] = {}

    def build(self) -> Model:
        for i, item in enumerate(self.graph.items):
            if not item.given and not item.constant:
                self.choices[i] = self._choices(i)
                self.rule_at[i] = self._variable(self.choices[i].work)
            least = 1 if item.given and i in self.wanted else 2  # an input that is a result needs a final layout, too
            if not item.constant and len(item.users) + (i in self.wanted) >= least:
                self.held_at[i] = self._variable(NOTHING)  # in program order, which the search follows
        for i, item in enumerate(self.graph.items):
            if not item.constant:
                self._spread(i)
        for table in (_choices, _holdings, _tables):
            if len(table) > tuned().solver_tables_kept:
                table.clear()
        return Model(
            self.graph,
            self.mesh,
            self.machine,
            self.sources,
            self.choices,
            self.holdings,
            self.rule_at,
            self.held_at,
            frozenset(self.wanted),
            Problem(self.unary, self.pairs),
        )

    def _variable(self, costs: Ints) -> int:
        self.unary.append(costs)
        return len(self.unary) - 1

    def _choices(self, i: int) -> Choices:
        item = self.graph.items[i]
        n = item.node
        have = tuple([self._notable(use) for use in item.uses])
        types = tuple([(x.shape, x.dtype) for x in n.inputs])
        key = (_kin(n, have), n.shape, n.dtype, types, have, self.world)
        found = _choices.get(key)
        if found is None:
            rows = tuple(rules(n, have, self.mesh, first=self.machine.objective == "bytes"))
            work = np.array([work_cost(n, r, self.mesh, self.machine) for r in rows], dtype=np.int64)
            same = (
                rows,
                work.tobytes(),
                self.kinds[i],
            )  # Other operators with equal rules share what follows from them.
            found = _choices.get(same)
            if found is None:
                outs = {x: k for k, x in enumerate(dict.fromkeys([r.out for r in rows]))}
                out_at = np.array([outs[r.out] for r in rows], dtype=np.intp)
                found = Choices(rows, work, tuple(outs), out_at, notable(tuple(outs), self.kinds[i]))
                _choices[same] = found
            _choices[key] = found
        return found

    def _notable(self, use: Use) -> Held:
        """The layouts an operand might have that its user's rules depend on."""
        item = self.graph.items[use.item]
        if item.constant:
            return ()
        if item.given:
            some = notable(self.sources[use.item], self.kinds[use.item])
        else:
            some = self.choices[use.item].notable
        if use.alias is None or not some:
            return some
        return tuple(dict.fromkeys(y for x in some if (y := seen(x, use.alias, self.mesh)) is not None))

    def _spread(self, i: int) -> None:
        """The costs of bringing a value to its users."""
        item, wanted = self.graph.items[i], i in self.wanted
        users = [(u, self._slots(i, u)) for u in item.users]
        if i in self.held_at:
            self._hold(i, users)
        elif users:
            self._direct(i, *users[0])
        elif wanted:
            mine = self.choices[i]
            key = (mine, self.wanted[i], self.kinds[i], item.node.op.stays)
            ends = _tables.get(key)
            if ends is None:
                ends = _tables[key] = self._ends(i, mine.outs)[mine.out_at]
            self._add_unary(self.rule_at[i], ends)

    def _slots(self, i: int, user: int) -> Slots:
        return tuple((k, use.alias) for k, use in enumerate(self.graph.items[user].uses) if use.item == i)

    def _ends(self, i: int, layouts: Held) -> Ints:
        """What the final layout of a result costs, per layout that it is made in."""
        kind, aliases, small = self.kinds[i], self.wanted[i], small_bytes(self.graph.items[i].node, self.machine)
        return np.array([settle(x, kind, small, aliases)[0] for x in layouts], dtype=np.int64)

    def _direct(self, i: int, user: int, slots: Slots) -> None:
        """One user: it asks for its layouts, and the value is made in one."""
        kind, mine, other = self.kinds[i], self.choices.get(i), self.choices[user]
        key = (mine or self.sources[i], other, slots, kind)
        table = _tables.get(key)
        if table is None:
            by_out = self._asked(mine.outs if mine else self.sources[i], mine is not None, needs(other, slots), kind)
            table = _tables[key] = by_out if mine is None else by_out[mine.out_at]
        if mine is None:
            self._add_unary(self.rule_at[user], table[0])
        else:
            self._add_pair(self.rule_at[i], self.rule_at[user], table)

    def _asked(self, outs: Held, made: bool, asked: tuple[Held, ...], kind: Kind) -> Ints:
        """What it costs to give a user what it asks for by each rule: [layout the value is made in, rule]."""
        key = (outs, made, asked, kind)
        table = _tables.get(key)
        if table is None:
            at = {x: k for k, x in enumerate(dict.fromkeys(x for row in asked for x in row))}
            sets = tuple(tuple(at[x] for x in row) for row in asked)
            given = _given(outs, made, tuple(at), kind)
            between = kind.matrix(tuple(at), tuple(at)) if max(map(len, sets)) > 1 else given
            table = _tables[key] = spread_costs(given, between, sets)
        return table

    def _hold(self, i: int, users: list[tuple[int, Slots]]) -> None:
        """Several users: a set of layouts is held, and each user takes what it needs from there."""
        kind, mine = self.kinds[i], self.choices.get(i)
        asking = tuple(dict.fromkeys([(self.choices[u], slots) for u, slots in users]))
        uses = sum([len(slots) for _, slots in users]) + (i in self.wanted)
        uses = min(uses, MAX_USES if self.mesh.grid else MAX_HELD)
        small = small_bytes(self.graph.items[i].node, self.machine)
        ends = self.wanted.get(i)
        quick = (mine or self.sources[i], asking, ends, small, uses, kind, self.limited)
        holding = _holdings.get(quick)
        if holding is None:
            asked = kind.sorted(dict.fromkeys(x for other, slots in asking for row in needs(other, slots) for x in row))
            outs = mine.outs if mine else self.sources[i]
            key = (outs, mine is None, asked, ends, small, uses, kind, self.limited)
            holding = _holdings.get(key)
            if holding is None:
                holding = _holdings[key] = _holding(
                    outs, mine is not None, asked, kind, ends, small, uses, self.limited
                )
            _holdings[quick] = holding
        self.holdings[i] = holding
        var = self.held_at[i]
        if mine is None:
            self.unary[var] = holding.cost[0]
        else:
            cost = _tables.get((holding, mine))
            if cost is None:
                cost = _tables[holding, mine] = holding.cost[mine.out_at]
            self.unary[var] = np.zeros(len(holding.sets), dtype=np.int64)
            self._add_pair(self.rule_at[i], var, cost)
        if holding.ends is not None:
            self._add_unary(var, holding.ends)
        for u, slots in users:
            other = self.choices[u]
            taken = _tables.get((holding, other, slots))
            if taken is None:
                taken = _tables[holding, other, slots] = _taken(holding, needs(other, slots))
            self._add_pair(var, self.rule_at[u], taken)

    def _add_unary(self, var: int, costs: Ints) -> None:
        self.unary[var] = self.unary[var] + costs

    def _add_pair(self, i: int, j: int, table: Ints) -> None:
        if i > j:
            i, j, table = j, i, _transposed(table)
        known = self.pairs.get((i, j))
        self.pairs[i, j] = table if known is None else known + table


def _kin(n: Node, have: tuple[Held, ...]) -> object:
    """What of an operator its rules and its work depend on: of an elementwise one, hardly anything."""
    if not isinstance(n.op, Map):
        return n.op
    name = n.op.fn.name
    laws = LAWS.get(name, {})
    partial = {reduction(x) for row in have for x in row} if laws else ()
    fused = tuple([isinstance(x.op, Map) for x in n.inputs])
    known = tuple([(law, scaled(n, law[1])) for law in laws.items() if law[0] in partial])
    return name in EXPENSIVE, known, fused, current().exact if known else None


def _transposed(table: Ints) -> Ints:
    key = (id(table), "transposed")
    found = _transposes.get(key)
    if found is None or found[0] is not table:
        found = _transposes[key] = (table, np.ascontiguousarray(table.T))
        if len(_transposes) > tuned().solver_tables_kept:
            _transposes.clear()
    return found[1]


_transposes: dict[object, tuple[Ints, Ints]] = {}


def _given(outs: Held, made: bool, targets: Held, kind: Kind) -> Ints:
    """The costs of layouts from each that a value may be made in, or (one row) from the nearest that a leaf is in."""
    costs = kind.matrix(outs, targets)
    if not made:
        costs = costs.min(axis=0, keepdims=True)
    return costs


def _holding(
    outs: Held,
    made: bool,
    asked: Held,
    kind: Kind,
    aliases: Aliases | None,
    small: int,
    uses: int,
    limited: bool,
) -> Holding:
    """The sets worth weighing for a value. `aliases` is None for what is no result."""
    settled: dict[Layout, tuple[int, Layout]] = {}
    if aliases is not None:
        settled = {x: settle(x, kind, small, aliases) for x in outs}
    wide = widened(asked)
    asked_for = tuple(dict.fromkeys(wide.values()))
    ends = [end for _, end in settled.values()]
    layouts = tuple(dict.fromkeys([x for x in (*asked_for, *outs, *ends) if not isinstance(x, Outside)]))
    at: dict[Layout, int] = {x: k for k, x in enumerate(layouts)}
    between = kind.matrix(layouts, layouts)
    given = between[[at[x] for x in outs]] if made else kind.matrix(outs, layouts).min(axis=0, keepdims=True)
    alone = made and uses <= 2 and not limited and direct(between)
    sets = sets_of(layouts, between, 1 if alone else min(uses, MAX_HELD))
    cost = spread_costs(given, between, sets)
    reach = reach_costs(between, sets)
    left = None
    takes = [reach[:, : len(asked_for)]]
    if aliases is not None:
        leaving = [(settled.get(x) or settle(x, kind, small, aliases))[0] for x in layouts]
        left = reach_costs(np.array(leaving, dtype=np.int64)[:, None], sets)[:, 0]
        takes.append(left[:, None])
    taken = np.concatenate(takes, axis=1)
    each = [kind.bytes_of(x) if limited else 0 for x in layouts]
    weight = np.array([sum([each[x] for x in s]) for s in sets], dtype=np.int64)  # None replaces a lighter set.
    many = uses == MAX_USES or not kind.mesh.grid  # on a 1-D mesh there are few sets anyway
    worth = np.delete(np.arange(len(sets)), [] if many else needless(cost, taken, weight, sets, uses))
    keep = worth[undominated(np.concatenate([cost.T, taken, weight[:, None]], axis=1)[worth])]
    return Holding(
        tuple([tuple([layouts[x] for x in sets[k]]) for k in keep.tolist()]),
        np.ascontiguousarray(cost[:, keep]),
        reach[keep],
        at | {x: at[wide[x]] for x in asked},
        None if left is None else left[keep],
    )


def _taken(holding: Holding, asked: tuple[Held, ...]) -> Ints:
    """What a user pays by each rule from each set: [set, rule]."""
    first = holding.reach[:, [holding.at[row[0]] for row in asked]]
    for k in range(1, max(map(len, asked))):
        more = [j for j, row in enumerate(asked) if len(row) > k]
        first[:, more] += holding.reach[:, [holding.at[asked[j][k]] for j in more]]
    return np.ascontiguousarray(np.minimum(first, INF))


def notable(layouts: Held, kind: Kind) -> Held:
    """The layouts that are partial, not cut evenly, or on the driver: those that rules depend on."""
    return tuple(x for x in layouts if _notable(x, kind))


def _notable(layout: Layout, kind: Kind) -> bool:
    if isinstance(layout, Outside):  # whether small work may be done at the driver's place, where bytes count
        return isinstance(layout, OnDriver) and kind.tariff.all_bytes
    return layout not in kind.usual.index or reduction(layout) is not None


def needs(user: Choices, slots: Slots) -> tuple[Held, ...]:
    """Per rule of a user: the layouts it asks of one value."""
    found = user.asks.get(slots)
    if found is None:
        if len(slots) == 1:
            ((k, alias),) = slots
            found = tuple((behind(r.ins[k], alias),) for r in user.rules)
        else:
            found = tuple(tuple(dict.fromkeys(behind(r.ins[k], alias) for k, alias in slots)) for r in user.rules)
        user.asks[slots] = found
    return found


def small_bytes(n: Node, machine: Rates) -> int:
    """Up to which size a result is expected to be read by the driver."""
    return 0 if n.op.stays else machine.small_bytes


def settle(layout: Layout, kind: Kind, small_bytes: int, aliases: Aliases) -> tuple[int, Layout]:
    """The cheapest layout for a result that is in this one, and its cost: not partial, no ghosts.

    The result may be seen through aliases, which must have a layout, too. Small results are expected to be read, so
    that bringing them to the driver counts.
    """
    small = kind.itemsize * math.prod(kind.shape) <= small_bytes
    plain = bare(layout)
    ends: list[Layout] = [Replicate()]
    if reduction(layout) is None and not isinstance(layout, Outside) and shown(plain, aliases, kind.mesh):
        ends = [plain, Replicate()] if small else [plain]
    else:
        found = [x for a, n in enumerate(kind.shape) if n > 1 for x in even_divisions(a, n, kind.mesh)]
        ends += [x for x in found if shown(x, aliases, kind.mesh)]
        if kind.tariff.all_bytes and small and kind.shape and kind.shape[0]:
            first = at_first(kind.shape, kind.mesh)
            here = shown(first, aliases, kind.mesh)
            if here and kind.cost(layout, first) <= min(kind.cost(layout, x) for x in ends):
                ends.append(first)  # and it is where it will be read
    costs = [kind.cost(layout, x) + (kind.cost(x, OnDriver()) if small else 0) for x in ends]
    best = min(range(len(ends)), key=costs.__getitem__)
    return costs[best], ends[best]
