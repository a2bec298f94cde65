"""Calls of traced functions that are not recorded yet. In: how to run one, how to record it. Out: pending cells.

Recording a call costs microseconds an operator, and pays only if recorded work reads a result: it shares passes with
the call then. So a call is a note at first. Where all of its results are asked for just as they are, its own plan runs;
where anything else reads a result, the call is recorded, as of the line where it was made.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from tilewise.array.cell import LOCK, ND, Cell, set_expander
from tilewise.array.handle import Array, from_node
from tilewise.array.lengths.unsized import Turned, node_now
from tilewise.array.pending import PENDING, register, waiting
from tilewise.interrupts import to_the_end
from tilewise.ir.node import Node, Op


class Call(Op):
    """One result of a call."""

    __slots__ = ("deferred", "which")
    name = "call"

    def __init__(self, deferred: Deferred, which: int) -> None:
        self.deferred, self.which = deferred, which


class Deferred:
    """A call: `run` gives the buffers of all its results, `record` replaces the nodes of the cells it is given.

    `together[k]` are the results that go along with result k, should someone ask for it (co_results.py).
    """

    __slots__ = ("_cells", "_record", "_run", "_together")

    def __init__(
        self,
        run: Callable[[], Sequence[ND] | None],
        record: Callable[[dict[int, Cell]], None],
        together: Sequence[Sequence[int]],
    ) -> None:
        self._run, self._record, self._together = run, record, together
        self._cells: list[weakref.ref[Cell]] = []

    def result(self, like: Node, fixed: bool, site: tuple[str, int]) -> Array:
        """A pending array for the next result, of the type of a node."""
        node = Node()
        node.op, node.inputs, node.value, node.trail, node.site = Call(self, len(self._cells)), (), None, 0, site
        node.shape, node.dtype, node.order = like.shape, like.dtype, like.order
        x = from_node(node, fixed)
        register(x._cell)
        self._cells.append(weakref.ref(x._cell))
        return x

    def living(self) -> dict[int, Cell]:
        """The cells that still stand for a result of this call."""
        found = {k: cell for k, ref in enumerate(self._cells) if (cell := ref()) is not None}
        return {k: c for k, c in found.items() if (n := c.node) is not None and _call(n) is self}

    def expand(self) -> None:
        """Record the call: its cells get nodes of the graph."""
        with LOCK:
            cells = self.living()
            if cells:
                self._record(cells)

    def computed(self, outputs: Sequence[Cell]) -> list[Cell]:
        """Run the call if all its results are asked for, with what goes along. Gives the cells that are known now."""
        living = self.living()
        asked = {k for k, c in living.items() if c in outputs}
        asked |= {j for k in asked for j in self._together[k] if j in living}
        made = self._run() if len(asked) == len(self._cells) else None
        if made is None:
            return []
        with to_the_end():  # Ctrl-C finds all cells as they were, or all with their values
            for k, c in living.items():
                c.take(made[k])
                PENDING.pop(id(c), None)
        return list(living.values())


def _call(node: Node) -> Deferred | None:
    return node.op.deferred if type(node.op) is Call else None


def run_calls(outputs: list[Cell]) -> list[Cell]:
    """Run the call that these cells are results of, or record the calls among them. Gives what is still to compute.

    For a view of what is not counted yet, that is what it is a view of.
    """
    for c in outputs:  # seldom one, and this is asked for each evaluation
        if c.node is not None and type(c.node.op) in (Call, Turned):
            break
    else:
        return outputs
    outputs = [c.node.op.cell if c.node is not None and type(c.node.op) is Turned else c for c in outputs]
    calls = {d: None for c in outputs if c.node is not None and (d := _call(c.node)) is not None}
    if len(calls) == 1 and all(c.node is not None and _call(c.node) is not None for c in outputs):
        next(iter(calls)).computed(outputs)
    for d in calls:
        d.expand()
    return [c for c in dict.fromkeys(outputs) if waiting(c)]


def _expanded(cell: Cell, node: Node) -> Node:
    """The node of a cell to build upon."""
    call = _call(node)
    if call is not None:
        call.expand()
        return cell.read()
    return node_now(node.op) if type(node.op) is Turned else node


set_expander(_expanded)
