"""Code for what may be asked for next. In: an evaluation about to run, other pending cells. Out: requests, in pieces.

A program that prints its results one by one would wait for the compiler at each of them. While code of the first is
waited for, the others are planned as if this evaluation had come to its end, and their code is asked for. The plans are
the very ones that those evaluations will look for; a guess that is wrong (a result is never asked for, or asked for
together with another) costs a plan and code that nobody uses. No cell and no node of the program changes, and no buffer
is read: all of it happens on copies of nodes, with arrays that nobody fills in the place of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import numpy as np

from tilewise import compiler
from tilewise.array.cell import ND, Cell
from tilewise.array.pending import CHEAP, pending_cells
from tilewise.array.schedule.deferred import Call
from tilewise.array.session import session_here
from tilewise.backend import chosen
from tilewise.config import Settings
from tilewise.engine.device import runner
from tilewise.engine.run import Runner
from tilewise.ir.node import Node, twin
from tilewise.ops.const import Const
from tilewise.plan.stages import Stages
from tilewise.store.base import Source

MOST_NODES = 1024  # of all pending work: more takes longer to look through than code takes to arrive
MOST_RESULTS = 16


def requests(
    nodes: Sequence[Node], wanted: Iterable[int], outputs: Iterable[Cell], settings: Settings
) -> Iterator[None]:
    """Ask for the code of what is pending besides an evaluation that computes the wanted ones of some nodes."""
    try:
        after = _After({nodes[i] for i in wanted}, set(outputs))
    except MemoryError:  # no room for the places of values: the evaluation under way may well have enough
        return
    for cell in after.results()[:MOST_RESULTS]:
        yield
        with suppress(Exception):  # what cannot be planned ahead says so when it is asked for
            yield from after.asked(cell, settings)


class _After:
    """Pending work as it will be once some nodes are known, in copies: the program's own nodes are not held on to."""

    def __init__(self, known: set[Node], outputs: set[Cell]) -> None:
        here = session_here()
        self._users: dict[Node, set[Node]] = {}  # copies by what they read
        self._nodes: dict[Cell, Node] = {}  # the copies that cells have
        copies: dict[Node, Node] = {}
        for c in pending_cells():
            node = c.node
            if node is not None and c not in outputs and c.owner is here and self._copy(node, known, copies):
                self._nodes[c] = copies[node]
        self._own = {n for n in copies.values() if type(n.op) is not Const}

    def _copy(self, root: Node, known: set[Node], copies: dict[Node, Node]) -> bool:
        """Copy a node and what it hangs on; whether that can be done, and is not too much."""
        stack = [root]
        while stack:
            n = stack[-1]
            if n in copies:
                stack.pop()
            elif n.value is not None or n in known:
                if isinstance(n.value, Source) or not n.known or n.dtype.hasobject:
                    return False
                copies[n] = twin(n, ())
                copies[n].value = _array_like(n) if n.value is None else np.empty_like(n.value)
            elif type(n.op) is Call:
                return False
            elif left := [x for x in n.inputs if x not in copies]:
                stack += left
            else:
                copies[n] = made = n if type(n.op) is Const else twin(n, [copies[x] for x in n.inputs])
                for x in made.inputs:
                    self._users.setdefault(x, set()).add(made)
            if len(copies) + len(stack) > MOST_NODES:
                return False
        return True

    def results(self) -> list[Cell]:
        """The cells that no other pending work hangs on, in the order in which they were recorded."""
        return [c for c, n in self._nodes.items() if n not in self._users]

    def asked(self, cell: Cell, settings: Settings) -> Iterator[None]:
        """Plan the evaluation of a cell, ask for its code, and take it as done."""
        root = self._nodes[cell]
        new: dict[Node, Node] = {}
        at, values, structure = compiler.graph_of([root])
        if structure.stored or root.value is not None:
            return
        if structure.rewritable:
            new = compiler.rewritten([root], structure, settings, False) or {}
            at, values, structure = compiler.graph_of([new.get(root, root)])
        living = [n for n in self._nodes.values() if n is not root and n.value is None]
        outputs = [root, *(n for n in living if (m := new.get(n, n)) in at and not isinstance(m.op, CHEAP))]
        yield
        own = [at[new.get(n, n)] for n in outputs]
        wanted = sorted(set(own))
        plan = compiler.prepare(at, wanted, settings, structure)
        kept = self._needed_elsewhere(list(at), plan, own)
        if not kept <= set(wanted):
            wanted = sorted({*wanted, *kept})
            plan = compiler.prepare(at, wanted, settings, structure)
        if plan.bound is None:
            plan.bound = runner(plan.steps, chosen(settings))
        yield
        if isinstance(plan.bound, Runner):
            yield from plan.bound.asks(list(at), values)
        nodes = list(at)
        for n in {*outputs, *(nodes[i] for i in wanted)} & self._own:
            if n.value is None:
                n.value = _array_like(n)

    def _needed_elsewhere(self, nodes: list[Node], plan: Stages, own: list[int]) -> set[int]:
        """Positions that other pending work refers to, as `here.run` has them."""
        inside = set(nodes)

        def outside(i: int) -> bool:
            return not self._users.get(nodes[i], set()) <= inside

        found = {i for i in own if nodes[i].value is None and outside(i) and nodes[i].known}
        return found | {kept for i, kept in plan.costly if outside(i)}


def _array_like(node: Node) -> ND:
    """An array that lies as the value of a node."""
    order = node.order or tuple(range(node.ndim))
    made: ND = np.empty([node.dims[axis] for axis in order], node.dtype)
    return made.transpose([order.index(axis) for axis in range(len(order))])
