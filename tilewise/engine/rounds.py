"""A plan as rounds: what a worker does between two exchanges. In: a plan. Out: rounds, the same for driver and workers.

In a round a worker joins the pieces cut in the round before, runs, and cuts the pieces of the next exchange. Exchanges
that stand together and do not need each other share a round; one that crosses nothing needs none.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from tilewise.ir.order import Order
from tilewise.layout import Exchange, OnDriver, Piece, place
from tilewise.ops.traits.collectives import Collective, CollectiveCall
from tilewise.plan.exchanges import Exchanges, together
from tilewise.records import dataclass
from tilewise.stage.steps import Exchange as ExchangeStep
from tilewise.stage.steps import reads


@dataclass(frozen=True)
class Run:
    """Steps [first, last) of the plan, on every block."""

    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Move:
    """One exchange: the value at `pos` becomes the value at `target`. A scatter comes from an array of the driver's.

    Elsewhere in a plan worker 0 stands for the driver: they share a place, so that the bytes are the same.
    """

    exchange: Exchange
    pos: int
    target: int
    dtype: np.dtype[Any]
    order: Order
    scatter: bool
    frees: tuple[int, ...]
    site: tuple[str, int] | None

    @property
    def name(self) -> str:
        """What it is called in a profile."""
        return str(self.exchange.kind)

    @property
    def needs(self) -> tuple[int, ...]:
        """The values that must be there before it."""
        return (self.pos,)

    def between(self, sender: int, receiver: int) -> list[Piece]:
        """The pieces that go from one worker to another (or to itself), in order; not for scatters."""
        return self._between.get((sender, receiver), [])

    def arriving(self, worker: int) -> list[Piece]:
        """The pieces that a worker assembles, in order."""
        return self._arriving.get(worker, [])

    @cached_property
    def _between(self) -> dict[tuple[int, int], list[Piece]]:
        return _grouped(self.exchange.pieces, lambda p: (place(p.src_worker), place(p.dst_worker)))

    @cached_property
    def _arriving(self) -> dict[int, list[Piece]]:
        return _grouped(self.exchange.pieces, lambda p: place(p.dst_worker))


@dataclass(frozen=True, eq=False)
class Shuffle:
    """One round of a collective. All send to all others, if only empty pieces."""

    call: CollectiveCall
    needs: tuple[int, ...]  # operands; after the first exchange, what it is about
    target: int
    width: int  # pieces that go from one worker to another
    frees: tuple[int, ...]
    scatter = False

    @property
    def name(self) -> str:
        """What it is called in a profile."""
        return self.call.collective.label()

    @property
    def site(self) -> tuple[str, int] | None:
        """Where it was recorded."""
        return self.call.site

    def between(self, sender: int, receiver: int) -> list[int]:
        """Something goes between any two workers."""
        return [receiver] if sender != receiver else []


Act = Run | Move | Shuffle


def _grouped(pieces: Iterable[Piece], key: Callable[[Piece], Any]) -> dict[Any, list[Piece]]:
    out: dict[Any, list[Piece]] = {}
    for piece in pieces:
        out.setdefault(key(piece), []).append(piece)
    return out


@dataclass(frozen=True, eq=False)
class Round:
    """Join, then run, then cut."""

    joins: tuple[Move | Shuffle, ...]
    body: tuple[Act, ...]
    cuts: tuple[Move | Shuffle, ...]

    @property
    def scatters(self) -> tuple[Move, ...]:
        """What the driver sends with the round."""
        return tuple(m for m in self.body if isinstance(m, Move) and m.scatter)

    def senders(self, worker: int, workers: int) -> list[int]:
        """The others that send something to a worker for this round."""
        return [v for v in range(workers) if v != worker and any(m.between(v, worker) for m in self.joins)]

    def receivers(self, worker: int, workers: int) -> list[int]:
        """The others to whom a worker sends something at its end."""
        return [v for v in range(workers) if v != worker and any(m.between(worker, v) for m in self.cuts)]


def rounds(plan: Exchanges) -> tuple[Round, ...]:
    """Cut a plan at the exchanges that cross."""
    done: list[Round] = []
    joins: tuple[Move | Shuffle, ...] = ()
    body: list[Act] = []
    cuts: list[Move | Shuffle] = []
    for act in _actions(plan):
        crosses = isinstance(act, Shuffle) or (
            isinstance(act, Move) and not act.scatter and act.exchange.network_elements > 0
        )
        # A scatter needs nothing from here: it may come before exchanges that are waiting to be cut.
        free = not isinstance(act, Run) and (act.scatter or (crosses and not {c.target for c in cuts} & {*act.needs}))
        if cuts and not free:
            done.append(Round(joins, tuple(body), tuple(cuts)))
            joins, body, cuts = tuple(cuts), [], []
        if crosses:
            assert not isinstance(act, Run)
            cuts.append(act)
        else:
            body.append(act)
    if cuts:
        done.append(Round(joins, tuple(body), tuple(cuts)))
        joins, body = tuple(cuts), []
    done.append(Round(joins, tuple(body), ()))
    return tuple(done)


def _actions(plan: Exchanges) -> list[Act]:
    out: list[Act] = []
    groups = {group[0]: group for group in together(plan.steps, plan.routes)}
    grouped = {k for group in groups.values() for k in group}
    fresh = itertools.count(-1, -1)  # positions of values on the way, below all of the plan's own
    for first, last in plan.ranges():
        step = plan.steps[first]
        if not isinstance(step, ExchangeStep):
            out.append(Run(first, last))
        elif plan.traffic(step) is not None:
            out.extend(_collective(plan, step))
        elif first in groups:  # each goes its first step, then each its second
            ways = [_moves(plan, k, fresh) for k in groups[first]]
            out.extend(move for each in itertools.zip_longest(*ways) for move in each if move is not None)
        else:
            assert first in grouped, "an exchange that moves nothing"
    return out


def _moves(plan: Exchanges, index: int, fresh: Iterator[int]) -> list[Move]:
    """The exchanges of one step."""
    step, route = plan.steps[index], plan.routes[index]
    assert isinstance(step, ExchangeStep)
    spec, pos, out = plan.specs[step.pos], step.input, list[Move]()
    passed: tuple[int, ...] = ()
    for e in route:
        final = e is route[-1]
        target = step.pos if final else next(fresh)
        scatter = isinstance(e.src, OnDriver) and pos in plan.leaves
        frees = (*passed, *step.frees) if final else passed
        out.append(Move(e, pos, target, spec.dtype, spec.order, scatter, frees, spec.site))
        pos, passed = target, (() if final else (target,))
    return out


def _collective(plan: Exchanges, step: ExchangeStep) -> list[Shuffle]:
    """The rounds of a collective."""
    collective, traffic, ins = plan.specs[step.pos].op, plan.traffic(step), reads(step)
    assert isinstance(collective, Collective) and traffic is not None
    operands = tuple(plan.operand(x) for x in ins)
    call = CollectiveCall(collective, operands, plan.operand(step.pos), plan.mesh, plan.specs[step.pos].site)
    last = len(traffic.widths) - 1
    return [
        Shuffle(call, (step.pos,) if k else ins, step.pos, width, step.frees if k == last else ())
        for k, width in enumerate(traffic.widths)
    ]
