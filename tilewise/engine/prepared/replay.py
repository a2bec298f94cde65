"""Running a plan again on the only block of a worker. In: a plan that ran before, arrays. Out: arrays, pieces to send.

What a worker looks up and counts for every value is the same in every run of a plan on blocks that lie alike: all of it
is bound here once, to a table of calls on a list of arrays. Blocks are counted where a run begins and where it ends;
the most that it takes up between them is known from the run before (`worker.py`). Steps on several blocks, collectives
and what the driver or a file gives are run as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from tilewise.backend.host.again import bound_step
from tilewise.backend.host.arrays import has_margins, widened
from tilewise.engine.held import Held
from tilewise.engine.prepared.plan import Index, Prepared, WorkerStep, nothing_of
from tilewise.engine.rounds import Act, Move, Run
from tilewise.engine.run import Runner, any_unshared, note_site
from tilewise.interrupts import allowed
from tilewise.ir.reductions import Reduction
from tilewise.layout import Exchange, Shard, Stored, blocked
from tilewise.layout import dims as dims_of
from tilewise.ops.elementwise import Map
from tilewise.ops.traits.collectives import Parts
from tilewise.plan.exchanges import Exchanges
from tilewise.stage.steps import Call, Pass, Tiled, View, makes, reads
from tilewise.store import pool

ND = np.ndarray[Any, Any]
Values = list[Any]  # by position, those on the way between two exchanges at the end
Waiting = Mapping[int, list[ND]]  # pieces that came, by sender
Reached = Callable[[int, int, int], None]  # is told how far a run is
NOTHING: dict[int, list[ND]] = {}
_QUIET: Any = nullcontext()
BRIEF_BYTES = 1 << 20  # that a pass sees, so that nobody need hear of its end
_UNKNOWN: Any = object()  # whether there is a script


class Script:
    """A plan as one worker runs it again."""

    lies: dict[int, int]  # by position: how results lie that are always in new memory (`MemoryBlocks.lies`), once seen

    def __init__(self, learned: Prepared, backend: str) -> None:
        plan, block = learned.plan, learned.blocks[0]
        self.senders = learned.senders
        shown = _Shown(plan)
        self.joins = [tuple(_Joining(learned, m, shown) for m in _moves(r.joins)) for r in learned.rounds]
        self.bodies = [tuple(_acts(learned, r.body, backend, shown)) for r in learned.rounds]
        self.loud = [
            any(j.reduce is not None for j in joins) or any(type(step) not in (Pass, View) for *_, step in body)
            for joins, body in zip(self.joins, self.bodies, strict=True)
        ]
        self.nodes: Any = plan.nodes(block)
        self.cuts = [
            tuple((v, tuple((m.pos, at) for m in _moves(r.cuts) for _, at in learned.cut(m, v))) for v in receivers)
            for r, receivers in zip(learned.rounds, learned.receivers, strict=True)
        ]
        on_the_way = {m.target for r in learned.rounds for m in _moves((*r.joins, *r.body))}
        self.length = len(plan.specs) + sum(target < 0 for target in on_the_way)
        self.steps = len(plan.steps)
        nowhere = {j.target for joins in self.joins for j in joins if j.empty}
        self.results = [
            (pos, None if pos in nowhere else block if blocked(plan.layouts[pos]) else -1) for pos in plan.wanted
        ]
        self.leaves = {pos: k for k, pos in enumerate(plan.leaves)}
        made = {x for acts in self.bodies for act, *_ in acts for x in getattr(act, "makes_new", ())}
        twice = len({*plan.wanted}) < len(plan.wanted)
        self.new = set() if twice else made.intersection(plan.wanted)
        # Others may show the memory of new ones, and are stored after them.
        self.order = sorted(range(len(self.results)), key=lambda k: self.results[k][0] not in self.new)
        self.lies = {}
        self.kept: list[tuple[int, tuple[Any, int, int]]] | None = None  # of results: as `Fresh` keeps them
        self.tells = any(block == -1 or pos in self.leaves for pos, block in self.results)
        self.calls = [tuple(j.bound() for j in joins) for joins in self.joins]
        self.steps_of = {act: step for acts in self.bodies for act, _, _, step in acts}
        brief = [_brief(acts) for acts in self.bodies]
        self.brief = None not in brief
        sent = [tuple((v, _cutter(parts)) for v, parts in cuts) for cuts in self.cuts]
        self.rounds = [*zip(self.senders, self.calls, brief, self.bodies, sent, strict=True)]
        self._consts = plan.consts
        self._blank: Values = [None] * self.length
        self._given: Any = None  # the numbers that are in it

    def values(self, consts: Sequence[tuple[str, bytes]]) -> Values:
        """Nothing but the plan's numbers, given as they are sent; those of a loop are often the same in each step."""
        if consts and consts != self._given:
            for pos, (dtype, raw) in zip(self._consts, consts, strict=True):
                self._blank[pos] = np.frombuffer(raw, dtype).reshape(())
            self._given = consts
        return self._blank.copy()

    def note_site(self, error: Exception, act: Any) -> None:
        """Tell where the operator of a call that failed was recorded."""
        step = self.steps_of.get(act)
        if step is not None:
            note_site(error, self.nodes, step)

    def keep(self, keys: Sequence[int], values: Values, leaves: Sequence[Parts], store: Held) -> None:
        """Store what the plan makes; some of it may be its leaves."""
        for k in self.order:
            key, (pos, block) = keys[k], self.results[k]
            if pos in self.leaves:
                store.put(key, leaves[self.leaves[pos]])
            elif block is None:
                store.put(key, {})
            elif pos not in self.new:
                store.put(key, {block: values[pos]})
            else:
                lies = self.lies.get(pos)
                store.put_new(key, block, values[pos], lies)
                if lies is None and (lies := store.lies(key, has_margins)[1]) is not None:
                    self.lies[pos] = lies


class Again:
    """A run by script."""

    def __init__(self, by: Script, values: Values, leaves: Sequence[Parts], peak_bytes: int) -> None:
        self._by, self._values, self._leaves = by, values, leaves
        self.peak_bytes = peak_bytes  # as whoever asked for the run counts it

    def advance(self, k: int, waiting: Waiting, reached: Reached | None, before: int) -> int:
        """One round, but for what is sent after it: the bytes that came from others, beside those before it.

        No block is counted on the way: Ctrl-C may come at any moment.
        """
        by = self._by
        joins, body = by.calls[k], by.bodies[k]
        if not joins and not body:
            return 0
        with allowed(), np.errstate(all="ignore") if by.loud[k] else _QUIET:  # recorded work raises no warnings
            return compute(by, self._values, waiting, joins, body, before, reached)

    def pieces(self, k: int) -> list[tuple[int, list[ND]]]:
        """What goes to others after a round."""
        values = self._values
        return [(v, [values[pos][at] for pos, at in cuts]) for v, cuts in self._by.cuts[k]]

    def keep(self, keys: Sequence[int], store: Held) -> None:
        """Store the results."""
        self._by.keep(keys, self._values, self._leaves, store)


def compute(
    by: Script, values: Values, waiting: Waiting, joins: Any, body: Any, before: int, reached: Reached | None
) -> int:
    """What is between two messages: the bytes that came."""
    came, step = 0, None
    try:
        for join in joins:
            came += join(values, waiting)
        for act, frees, done, step in body:  # noqa: B007 (`step` is told where it fails)
            act(values)
            for x in frees:
                values[x] = None
            if done and reached is not None:
                reached(done, by.steps, before + came)
    except Exception as error:
        if step is not None:
            note_site(error, by.nodes, step)
        raise
    return came


def repeats(learned: Prepared, backend: str) -> bool:
    """Whether a plan may be run by script, as far as is known."""
    return learned.scripts.get(backend, _UNKNOWN) is not None


def again(
    learned: Prepared, backend: str, leaves: Sequence[Parts], consts: Sequence[Any], peak_bytes: int
) -> Again | None:
    """A run by script on blocks of leaves, one of each; None where there is no script."""
    by = learned.scripts.get(backend, _UNKNOWN)
    if by is _UNKNOWN:
        by = learned.scripts[backend] = script(learned, backend)
    if by is None:
        return None
    values: Values = [None] * by.length
    for pos, parts in zip(learned.plan.leaves, leaves, strict=True):
        (values[pos],) = parts.values()
    if consts:
        for pos, value in zip(learned.plan.consts, consts, strict=True):
            values[pos] = np.asarray(value)
    return Again(by, values, leaves, peak_bytes)


def script(learned: Prepared, backend: str) -> Script | None:
    """The script of a plan; None where blocks must be looked at one by one, or something comes from elsewhere."""
    moves = [m for r in learned.rounds for m in (*r.joins, *r.cuts, *r.body) if not isinstance(m, Run)]
    if len(learned.blocks) != 1 or learned.plan.stages.centred:
        return None
    if not all(isinstance(m, Move) and not m.scatter and not isinstance(m.exchange.src, Stored) for m in moves):
        return None
    steps = [s for r in learned.rounds for a in r.body if isinstance(a, Run) for s in learned.steps(a, backend)]
    nodes: Any = learned.plan.nodes(learned.blocks[0])
    for s in steps:
        if s.inner:
            return None
        bound = s.runner
        if not isinstance(bound, Runner) or any(any_unshared(bases, nodes) for *_, bases in bound.steps):
            return None
    return Script(learned, backend)


def _moves(acts: Sequence[Act]) -> list[Move]:
    return [m for m in acts if isinstance(m, Move)]


class _Shown:
    """The values of a plan that may be seen where they lie instead of being copied."""

    def __init__(self, plan: Exchanges) -> None:
        self.only_read = {m for s in plan.steps for m in makes(s)}.difference(plan.wanted)
        self.stays = {*plan.leaves}  # nobody writes to these in a run, nor to views of them
        for step in plan.steps:
            for s in step.steps if isinstance(step, Tiled) else (step,):
                if type(s) is Pass:  # which makes memory of its own, and writes to nothing but its bases
                    self.only_read.difference_update(base for base in s.writes if base is not None)
                else:
                    self.only_read.difference_update(reads(s))
                if type(s) is View and s.input in self.stays:
                    self.stays.add(s.pos)


def _acts(learned: Prepared, body: Any, backend: str, shown: _Shown) -> Any:
    """What happens in a round: a call, what goes after it (but numbers, which take up nothing), how many steps of the
    plan are done by then (0: nobody need hear of it), and the step that it is."""
    nodes: Any = learned.plan.nodes(learned.blocks[0])
    for act in body:
        if isinstance(act, Move):
            yield _Joining(learned, act, shown), (), 0, None
        else:
            for k, step in enumerate(learned.steps(act, backend), act.first + 1):
                seen = sum(nodes[x].nbytes for x in (*step.reads, *step.makes))
                brief = type(step.step) is View or (seen < BRIEF_BYTES and _elementwise(step.step, nodes))
                frees = tuple(x for x in step.frees if x < 0 or nodes[x].dims)
                yield _step(learned, step, nodes), frees, 0 if brief else k, step.step


def _elementwise(step: Any, nodes: Any) -> bool:
    """Whether a step takes no longer than its bytes say."""
    return type(step) is Pass or (type(step) is Call and type(nodes[step.pos].op) is Map)


def _brief(acts: Any) -> tuple[Callable[[Values], None], ...] | None:
    """What happens in a round as mere calls; None if somebody must hear how far it is."""
    calls: list[Callable[[Values], None]] = []
    for act, frees, done, _ in acts:
        if done:
            return None
        calls.append(act)
        if frees:
            calls.append(_freeing(frees))
    return tuple(calls)


def _freeing(frees: Sequence[int]) -> Callable[[Values], None]:
    def free(values: Values) -> None:
        for x in frees:
            values[x] = None

    return free


def _cutter(parts: Sequence[tuple[int, Index]]) -> Callable[[Values], list[ND]]:
    """What takes the pieces that are sent out of the values."""
    if len(parts) == 1:
        ((pos, at),) = parts
        return lambda values: [values[pos][at]]
    return lambda values: [values[pos][at] for pos, at in parts]


def _step(learned: Prepared, bound: WorkerStep, nodes: Any) -> Callable[[Values], None]:
    """A step as a call."""
    if bound.nothing:

        def nothing(values: Values) -> None:
            for made, nd in nothing_of(learned.plan, bound, learned.blocks[0]).items():
                values[made] = nd

        return nothing
    assert isinstance(bound.runner, Runner)
    ((step, kernel, _),) = bound.runner.steps
    return bound_step(step, kernel, nodes)


class _Joining:
    """An exchange, as the worker that puts its result together runs it."""

    def __init__(self, learned: Prepared, move: Move, shown: _Shown) -> None:
        join, me = learned.join(move), learned.worker
        self.pos, self.target, self.frees = move.pos, move.target, move.frees
        self.empty = not join.targets
        self.dims = () if self.empty else join.targets[0][1]
        self.dtype, self.order = move.dtype, move.order
        self.reduce = move.exchange.reduces
        groups: dict[Any, int] = {}
        self.groups: list[Index] = []  # where contributions are reduced into
        pieces = []
        for p in join.pieces:
            if p.box not in groups:
                groups[p.box] = len(groups)
                self.groups.append(p.at)
            pieces.append((p.at, p.sender if p.sender != me else -1, p.crosses, p.src_index, groups[p.box]))
        self.pieces = tuple(pieces)
        self.ghosts, self.narrower = _ghosts(move.exchange, learned.blocks[0])
        self.foreign = tuple(p for p in pieces if p[1] >= 0)
        copied = self.reduce is not None or self.order is not None or len(pieces) != 1 or self.ghosts or self.narrower
        whole = not copied and self.dims and dims_of(join.pieces[0].box) == self.dims  # a part of no axes is a scalar
        if whole and move.target in shown.only_read:
            sender = pieces[0][1]
            self.seen = sender >= 0 or move.pos in shown.stays
        else:
            self.seen = False

    def bound(self) -> Callable[[Values, Waiting], int]:
        """The same as a call, with fewer words for what most exchanges are: two contributions, or copies."""
        if self.seen or self.empty or self.narrower is not None:
            return self
        if self.reduce is None:
            return self._copies() if self.ghosts is None else self._widens(*self.ghosts)
        return self._sums(self.reduce) if len(self.pieces) == 2 and len(self.groups) == 1 else self

    def _widens(self, low: int, high: int) -> Callable[[Values, Waiting], int]:
        pos, copies = self.pos, self._copies()

        def widens(values: Values, waiting: Waiting) -> int:
            return copies(values, waiting) if widened(values[pos], low, high) is None else self(values, waiting)

        return widens

    def _sums(self, reduce: Reduction) -> Callable[[Values, Waiting], int]:
        (_, first, one, here, _), (at, second, two, there, _) = self.pieces
        pos, target, frees, new = self.pos, self.target, self.frees, pool.maker(self.dims, self.dtype, self.order)
        probe, ufunc = new(), reduce.ufunc
        if ufunc is not None and probe[at].shape == probe.shape and (first < 0) is not (second < 0):
            sender, crosses, place = (second, two, here) if first < 0 else (first, one, there)

            def sum_of_two(values: Values, waiting: Waiting) -> int:
                mine, other, made = values[pos][place], waiting[sender].pop(0), new()
                if first < 0:
                    ufunc(mine, other, out=made)
                else:
                    ufunc(other, mine, out=made)
                values[target] = made
                for x in frees:
                    values[x] = None
                return other.nbytes if crosses else 0

            return sum_of_two

        def sums(values: Values, waiting: Waiting) -> int:
            source, made = values[pos], new()
            a = source[here] if first < 0 else waiting[first].pop(0)
            b = source[there] if second < 0 else waiting[second].pop(0)
            reduce.combine(a, b, made[at])
            values[target] = made
            for x in frees:
                values[x] = None
            return (a.nbytes if one and first >= 0 else 0) + (b.nbytes if two and second >= 0 else 0)

        return sums

    def _copies(self) -> Callable[[Values, Waiting], int]:
        mine = tuple((at, local) for at, sender, _, local, _ in self.pieces if sender < 0)
        theirs = tuple((at, sender, crosses) for at, sender, crosses, _, _ in self.foreign)
        pos, target, frees, new = self.pos, self.target, self.frees, pool.maker(self.dims, self.dtype, self.order)

        def copies(values: Values, waiting: Waiting) -> int:
            source, made, count = values[pos], new(), 0
            for at, local in mine:
                made[at] = source[local]
            for at, sender, crosses in theirs:
                data = made[at] = waiting[sender].pop(0)
                if crosses:
                    count += data.nbytes
            values[target] = made
            for x in frees:
                values[x] = None
            return count

        return copies

    def __call__(self, values: Values, waiting: Waiting = NOTHING) -> int:
        source, pieces, target = values[self.pos], self.pieces, None
        if self.seen:
            ((_, sender, crosses, local, _),) = pieces
            data = source[local] if sender < 0 else waiting[sender][0]
            if data.dtype == self.dtype and data.flags.c_contiguous:
                values[self.target] = data
                for x in self.frees:
                    values[x] = None
                if sender < 0:
                    return 0
                del waiting[sender][0]
                return data.nbytes if crosses else 0
        if self.narrower is not None:
            target, pieces = source[self.narrower], self.foreign
        elif self.ghosts is not None:
            target = widened(source, *self.ghosts)
            if target is not None:
                pieces = self.foreign
        if target is None and not self.empty:
            target = pool.empty(self.dims, self.dtype, self.order)
        count, reduce = 0, self.reduce
        parts: list[list[ND | None]] = [] if reduce is None else [[] for _ in self.groups]
        for at, sender, crosses, local, group in pieces:
            if sender < 0:
                data = source[local]
            else:
                data = waiting[sender].pop(0)
                if crosses:
                    count += data.nbytes
            if reduce is None:
                target[at] = data  # type: ignore[index]
            else:
                parts[group].append(data)
        if reduce is not None:
            for at, contributions in zip(self.groups, parts, strict=True):
                if len(contributions) == 2:  # a tree of two leaves
                    first, second = contributions
                    reduce.combine(first, second, target[at])  # type: ignore[index, arg-type]
                else:
                    reduce.combined(contributions, target[at])  # type: ignore[index]
        values[self.target] = target
        for x in self.frees:
            values[x] = None
        return count


def _ghosts(exchange: Exchange, block: int) -> tuple[tuple[int, int] | None, Index | None]:
    """Rows that a block gets before and after it; or the part of it that is left. (As pieces.py::halo_blocks.)"""
    src, dst = exchange.src, exchange.dst
    if not (isinstance(src, Shard) and isinstance(dst, Shard)) or (src.axis, src.cuts) != (dst.axis, dst.cuts):
        return None, None
    (first, last), (begin, end) = src.held(block), dst.held(block)
    low, high = first - begin, end - last
    if low <= 0 and high <= 0:
        return None, (slice(None),) * src.axis + (slice(-low, last - first + high),)
    return ((low, high) if src.axis == 0 and src.ghosts == (0, 0) else None), None
