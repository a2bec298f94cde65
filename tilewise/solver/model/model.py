"""The tiling problem of a graph. In: items, layouts of leaves, a mesh, a machine. Out: tables for search/solve.py.

A variable for the rule of every operator; one for the set of layouts in which a value with several users is held
(replicas.py). Costs: what a rule computes, what holding costs, what a user pays to take its operand from what is held.
Everything that repeats (equal operators on equal shapes, as in an unrolled loop) is worked out once, and its tables are
the same objects.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewise.cost.model import TICKS, Rates, work_costs
from tilewise.ir.node import Node
from tilewise.layout import Mesh, OnDriver
from tilewise.ops.create import is_new
from tilewise.ops.traits.rule import Rule, divisions, driver_matters, with_first
from tilewise.records import dataclass
from tilewise.solver.model.choices import Asked, Choices, Slots, kin, needs, notable
from tilewise.solver.model.graph import Graph, Use, results, seen
from tilewise.solver.model.holding import MAX_USES, Holding, holding_of, settle, small_bytes, taken
from tilewise.solver.model.replicas import MAX_HELD, Held, Kind, one_kind, spread_costs
from tilewise.solver.problem import INF, Ints, Problem
from tilewise.tuning import tuned

NOTHING: Ints = np.zeros(0, dtype=np.int64)
HERE: Held = (OnDriver(),)


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
    kinds: Sequence[Kind]  # the types of values
    conversions: Sequence[tuple[tuple[int, int], Ints]] = ()  # under a budget: bytes of those between two variables

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
        return self.kinds[item]


_worlds: dict[tuple[Mesh, Rates], int] = {}  # numbers, which are looked up faster
_kinds: dict[object, Kind] = {}
_rules: dict[object, tuple[Rule, ...]] = {}
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
        self.by_bytes = machine.objective == "bytes"
        self.wanted = results(wanted)
        self.sources = dict(zip((i for i, x in enumerate(graph.items) if x.given), sources, strict=True))
        self.kinds = [self._kind(x.node) for x in graph.items]
        self.notable: list[Held] = []  # per item, so far
        self.choices: dict[int, Choices] = {}
        self.holdings: dict[int, Holding] = {}
        self.rule_at: dict[int, int] = {}
        self.held_at: dict[int, int] = {}
        self.unary: list[Ints] = []
        self.pairs: dict[tuple[int, int], Ints] = {}

    def build(self) -> Model:
        for i, item in enumerate(self.graph.items):
            if item.given:
                self.notable.append(notable(self.sources[i], self.kinds[i]))
            elif item.constant:
                self.notable.append(())
            else:
                found = self.choices[i] = self._choices(i)
                self.rule_at[i] = self._variable(found.work)
                self.notable.append(found.notable)
            least = 1 if item.given and i in self.wanted else 2  # an input that is a result needs a final layout, too
            if not item.constant and len(item.users) + (i in self.wanted) >= least:
                self.held_at[i] = self._variable(NOTHING)  # in program order, which the search follows
        for i, item in enumerate(self.graph.items):
            if not item.constant:
                self._spread(i)
        for table in (_kinds, _rules, _choices, _holdings, _tables):
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
            self.kinds,
        )

    def _kind(self, n: Node) -> Kind:
        """As `kind_of`, found by a number instead of a mesh and a machine."""
        key = (self.world, n.dims, n.dtype, is_new(n))
        found = _kinds.get(key)
        if found is None:
            found = _kinds[key] = kind_of(n, self.mesh, self.machine)
        return found

    def _variable(self, costs: Ints) -> int:
        self.unary.append(costs)
        return len(self.unary) - 1

    def _choices(self, i: int) -> Choices:
        item = self.graph.items[i]
        n = item.node
        have = tuple([self._notable(use) for use in item.uses])
        if self.by_bytes and HERE in have and not driver_matters(n, have):
            have = tuple([() if row == HERE else row for row in have])
        types = tuple([(x.shape, x.dtype) for x in n.inputs])
        law, cost = kin(n, have)
        same = (law, n.shape, n.dtype, types, have)
        key = (cost, self.world, *same)
        found = _choices.get(key)
        if found is None:
            rows = _rules.get((self.mesh, *same))
            if rows is None:
                rows = _rules[self.mesh, *same] = divisions(n, have, self.mesh)
            if self.by_bytes:
                rows = with_first(n, have, rows, self.mesh)
            work = np.array(work_costs(n, rows, self.mesh, self.machine), dtype=np.int64)
            equal = (rows, work.tobytes(), self.kinds[i])  # Operators with equal rules share what follows from them.
            found = _choices.get(equal)
            if found is None:
                outs = {x: k for k, x in enumerate(dict.fromkeys([r.out for r in rows]))}
                out_at = np.array([outs[r.out] for r in rows], dtype=np.intp)
                found = Choices(rows, work, tuple(outs), out_at, notable(tuple(outs), self.kinds[i]))
                _choices[equal] = found
            _choices[key] = found
        return found

    def _notable(self, use: Use) -> Held:
        """The layouts an operand might have that its user's rules depend on."""
        some = self.notable[use.item]
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
        return tuple([(k, use.alias) for k, use in enumerate(self.graph.items[user].uses) if use.item == i])

    def _ends(self, i: int, layouts: Held) -> Ints:
        """What the final layout of a result costs, per layout that it is made in."""
        kind, aliases, small = self.kinds[i], self.wanted[i], small_bytes(self.graph.items[i].node, self.machine)
        return np.array([settle(x, kind, small, aliases)[0] for x in layouts], dtype=np.int64)

    def _direct(self, i: int, user: int, slots: Slots) -> None:
        """One user: it asks for its layouts, and the value is made in one."""
        kind, mine, other = self.kinds[i], self.choices.get(i), self.choices[user]
        asked = needs(other, slots)
        key = (mine or self.sources[i], asked, kind)
        table = _tables.get(key)
        if table is None:
            by_out = self._asked(mine.outs if mine else self.sources[i], mine is not None, asked, kind)
            table = _tables[key] = by_out if mine is None else by_out.take(mine.out_at, axis=0)
        if mine is None:
            self._add_unary(self.rule_at[user], table[0])
        else:
            self._add_pair(self.rule_at[i], self.rule_at[user], table)

    def _asked(self, outs: Held, made: bool, asked: Asked, kind: Kind) -> Ints:
        """What it costs to give a user what it asks for by each rule: [layout the value is made in, rule]."""
        key = (outs, made, asked, kind)
        table = _tables.get(key)
        if table is None:
            at = {x: k for k, x in enumerate(asked.layouts)}
            given = _given(outs, made, asked.layouts, kind)
            if all([len(row) == 1 for row in asked.rows]):
                table = given.take([at[row[0]] for row in asked.rows], axis=1)
            else:
                sets = tuple([tuple([at[x] for x in row]) for row in asked.rows])
                table = spread_costs(given, kind.matrix(asked.layouts, asked.layouts), sets)
            _tables[key] = table
        return table

    def _hold(self, i: int, users: list[tuple[int, Slots]]) -> None:
        """Several users: a set of layouts is held, and each user takes what it needs from there."""
        kind, mine = self.kinds[i], self.choices.get(i)
        asked = [needs(self.choices[u], slots) for u, slots in users]
        asking = tuple(dict.fromkeys(asked))
        uses = sum([len(slots) for _, slots in users]) + (i in self.wanted)
        uses = min(uses, MAX_USES if self.mesh.grid else MAX_HELD)
        small = small_bytes(self.graph.items[i].node, self.machine)
        ends = self.wanted.get(i)
        quick = (mine or self.sources[i], asking, ends, small, uses, kind, self.limited)
        holding = _holdings.get(quick)
        if holding is None:
            layouts = kind.sorted(dict.fromkeys([x for other in asking for x in other.layouts]))
            outs = mine.outs if mine else self.sources[i]
            key = (outs, mine is None, layouts, ends, small, uses, kind, self.limited)
            holding = _holdings.get(key)
            if holding is None:
                holding = holding_of(outs, mine is not None, layouts, kind, ends, small, uses, self.limited)
                _holdings[key] = holding
            _holdings[quick] = holding
        self.holdings[i] = holding
        var = self.held_at[i]
        self.unary[var] = holding.alone
        if mine is not None:
            cost = _tables.get((holding, mine))
            if cost is None:
                cost = _tables[holding, mine] = holding.cost.take(mine.out_at, axis=0)
            self._add_pair(self.rule_at[i], var, cost)
        for (u, _), other in zip(users, asked, strict=True):
            table = _tables.get((holding, other))
            if table is None:
                table = _tables[holding, other] = taken(holding, other.rows)
            self._add_pair(var, self.rule_at[u], table)

    def _add_unary(self, var: int, costs: Ints) -> None:
        self.unary[var] = self.unary[var] + costs

    def _add_pair(self, i: int, j: int, table: Ints) -> None:
        if i > j:
            i, j, table = j, i, _transposed(table)
        known = self.pairs.get((i, j))
        self.pairs[i, j] = table if known is None else known + table


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
