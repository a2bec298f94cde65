"""A worker: owns blocks, runs steps on them, cuts and joins the pieces that cross. In: a plan. Out: blocks in its store.

The same class runs in one process (virtual) and in actors (Ray). It knows nothing of other workers but the pieces they
send. `received` counts the bytes of buffers that came from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.engine.run import Runner, compiled, interpreted
from tilewise.ir.scalar import UFUNCS
from tilewise.layout import Exchange, Layout, Mesh, Partial, Piece, Shard, held_box, place
from tilewise.plan.mesh import LocalNode, MeshPlan
from tilewise.plan.steps import Pass, Step, makes, reads
from tilewise.store import pool

ND = np.ndarray[Any, Any]
Parts = dict[int, ND]  # block -> array; -1 for values held once per worker


class Worker:
    """Blocks by key, and the plans under way."""

    def __init__(self, index: int, mesh: Mesh) -> None:
        self.index = index
        self.mesh = mesh
        self.store: dict[int, Parts] = {}
        self.plan: MeshPlan | None = None
        self.values: dict[int, Parts] = {}
        self.runners: dict[int, Runner] = {}
        self.native = True
        self.plans: dict[int, MeshPlan] = {}

    # -- the life of a plan ---------------------------------------------------------------------------------------

    def learn(self, number: int, plan: MeshPlan) -> None:
        """Keep a plan under a number."""
        self.plans[number] = plan

    def begin(self, number: int, leaves: Sequence[int | None], consts: Sequence[Any], native: bool) -> None:
        """Start a plan: leaves are keys in the store (None: still on the driver), consts its scalars."""
        plan = self.plan = self.plans[number]
        self.native = native
        self.values = {}
        for pos, key in zip(plan.leaves, leaves, strict=True):
            if key is not None:
                self.values[pos] = dict(self.store[key])
        for pos, value in zip(plan.consts, consts, strict=True):
            self.values[pos] = {-1: np.asarray(value)}
        if getattr(self, "bound", None) is not plan:
            self.bound = plan
            self.runners = {}

    def finish(self, keys: Sequence[int]) -> None:
        """Keep the plan's results under keys, and forget the rest."""
        assert self.plan is not None
        for pos, key in zip(self.plan.wanted, keys, strict=True):
            self.store[key] = self.values[pos]
        self.values = {}

    def drop(self, keys: Sequence[int]) -> None:
        """Forget stored values."""
        for k in keys:
            self.store.pop(k, None)

    # -- stages ---------------------------------------------------------------------------------------------------

    def run(self, first: int, last: int) -> None:
        """Run steps [first, last) on every block."""
        plan = self.plan
        assert plan is not None
        for i in range(first, last):
            step = plan.steps[i]
            runner = self.runners.get(i)
            if runner is None:
                runner = self.runners[i] = Runner([step], compiled if self.native else interpreted)
            if plan.blockwise(step):
                self._blocks(plan, step, runner)
            else:
                self._once(plan, step, runner)
            for x in step.frees:
                self.values.pop(x, None)

    def _once(self, plan: MeshPlan, step: Step, runner: Runner) -> None:
        block = self.mesh.blocks_of(self.index)[0]
        got = self._step(plan, step, runner, block, -1)
        for pos, value in got.items():
            self.values[pos] = {-1: value}

    def _blocks(self, plan: MeshPlan, step: Step, runner: Runner) -> None:
        sums: dict[int, ND] = {}
        for block in self.mesh.blocks_of(self.index):
            empty = self._empty(plan, step, block)
            for pos, value in ({} if empty else self._step(plan, step, runner, block, block)).items():
                layout = plan.layouts[pos]
                if isinstance(layout, Partial):
                    sums[pos] = UFUNCS[layout.op](sums[pos], value) if pos in sums else value
                else:
                    self.values.setdefault(pos, {})[block] = value
        for pos in makes(step):
            layout = plan.layouts[pos]
            if isinstance(layout, Partial):
                spec = plan.specs[pos]
                found = sums.get(pos)
                if found is None:
                    found = np.full(spec.shape, identity(layout.op, spec.dtype), spec.dtype)
                self.values[pos] = {-1: np.asarray(found)}

    def _empty(self, plan: MeshPlan, step: Step, block: int) -> bool:
        """Whether a block has nothing to contribute to a partial result."""
        if not any(isinstance(plan.layouts[p], Partial) for p in makes(step)):
            return False
        seen = (*reads(step), *((step.space,) if isinstance(step, Pass) else ()))
        return any(
            isinstance(lay := plan.layouts[p], Shard) and lay.owned(block)[0] == lay.owned(block)[1] for p in seen
        )

    def _step(self, plan: MeshPlan, step: Step, runner: Runner, block: int, at: int) -> dict[int, ND]:
        """Run one step for one block (at = -1: for the worker)."""
        values: list[Any] = [None] * len(plan.specs)
        for p in reads(step):
            parts = self.values[p]
            values[p] = parts[at] if at in parts else parts[-1]
        nodes = _View(plan, block)
        runner.run(nodes, values, free=False)
        return {p: values[p] for p in makes(step)}

    # -- exchanges ------------------------------------------------------------------------------------------------

    def cut(self, pos: int, exchange: Exchange, now: int | None) -> list[list[ND]]:
        """For every worker (and the driver, last): the pieces of value `pos` that go there.

        `now` names the intermediate value of a route of several exchanges.
        """
        source = self.values[pos if now is None else now]
        out: list[list[ND]] = [[] for _ in range(self.mesh.workers + 1)]
        for piece in exchange.pieces:
            if piece.src_worker == self.index and piece.dst_worker != self.index:
                out[piece.dst_worker].append(_piece(source, exchange.src, exchange.shape, self.mesh, piece))
        return out

    def join(
        self, pos: int, exchange: Exchange, target: int, dtype: Any, order: Any, arrived: Sequence[list[ND]]
    ) -> int:
        """Assemble the blocks of value `target` from pieces here and `arrived` (per worker, the driver last)."""
        source = self.values.get(pos, {})
        waiting = {w: list(pieces) for w, pieces in enumerate(arrived)}
        waiting[-1] = waiting.pop(self.mesh.workers)
        count = sum(p.nbytes for w, pieces in waiting.items() if place(w) != self.index for p in pieces)
        mine = [p for p in exchange.pieces if p.dst_worker == self.index]
        halo = self._halo(source, exchange)
        parts: Parts = {} if halo is None else halo
        if halo is None:
            for block in self._targets(exchange.dst):
                box = held_box(exchange.dst, exchange.shape, self.mesh, block=block) if block >= 0 else None
                dims = exchange.shape if box is None else tuple(hi - lo for lo, hi in box)
                parts[block] = pool.empty(dims, dtype, order)
        reduce = UFUNCS[exchange.src.op] if isinstance(exchange.src, Partial) else None
        begun: set[tuple[Any, ...]] = set()
        for piece in mine:
            if piece.src_worker == self.index:
                data = _piece(source, exchange.src, exchange.shape, self.mesh, piece)
                if halo is not None:
                    continue
            else:
                data = waiting[piece.src_worker].pop(0)
            block = -1 if piece.dst_block is None else piece.dst_block
            view = _window(parts[block], exchange.dst, exchange.shape, self.mesh, block, piece.box)
            if reduce is not None and (block, piece.box) in begun:
                reduce(view, data, out=view)
            else:
                view[...] = data
                begun.add((block, piece.box))
        self.values[target] = parts
        return count

    def _targets(self, layout: Layout) -> list[int]:
        return list(self.mesh.blocks_of(self.index)) if isinstance(layout, Shard) else [-1]

    def _halo(self, source: Parts, exchange: Exchange) -> Parts | None:
        """Blocks with room for ghosts around them: the same memory, seen wider."""
        src, dst = exchange.src, exchange.dst
        if not (isinstance(src, Shard) and isinstance(dst, Shard)) or (src.axis, src.cuts) != (dst.axis, dst.cuts):
            return None
        if src.axis != 0 or src.ghosts != (0, 0):
            return None
        out: Parts = {}
        for block in self.mesh.blocks_of(self.index):
            x = source[block]
            low = src.owned(block)[0] - dst.held(block)[0]
            high = dst.held(block)[1] - src.owned(block)[1]
            wide = _widened(x, low, high)
            if wide is None:
                return None
            out[block] = wide
        return out

    # -- talking to the driver ------------------------------------------------------------------------------------

    def take(self, key: int) -> Parts:
        """A stored value (for tests and gathering)."""
        return self.store[key]

    def cut_stored(self, key: int, exchange: Exchange) -> list[ND]:
        """Pieces of a stored value for the driver."""
        source = self.store[key]
        mine = [p for p in exchange.pieces if p.src_worker == self.index]
        return [_piece(source, exchange.src, exchange.shape, self.mesh, p) for p in mine]


class _View(Sequence[LocalNode]):  # type: ignore[type-arg]
    """The plan's nodes as a block sees them, made when asked for."""

    def __init__(self, plan: MeshPlan, block: int) -> None:
        self.plan = plan
        self.block = block

    def __len__(self) -> int:
        return len(self.plan.specs)

    def __getitem__(self, pos: Any) -> Any:
        return self.plan.local(pos, self.block)


def _widened(x: ND, low: int, high: int) -> ND | None:
    """x with rows before and after it from its own margins, if it has them."""
    if low == high == 0:
        return x
    base = x.base
    if not isinstance(base, np.ndarray) or base.ndim != x.ndim or base.shape[1:] != x.shape[1:] or not x.size:
        return None
    row = x.strides[0]
    offset = (x.__array_interface__["data"][0] - base.__array_interface__["data"][0]) // row
    if offset < low or offset + x.shape[0] + high > base.shape[0] or base.strides != x.strides:
        return None
    return base[offset - low : offset + x.shape[0] + high]


def _piece(parts: Parts, layout: Layout, shape: tuple[int, ...], mesh: Mesh, piece: Piece) -> ND:
    block = -1 if piece.src_block is None else piece.src_block
    return _window(parts[block], layout, shape, mesh, block, piece.box)


def _window(x: ND, layout: Layout, shape: tuple[int, ...], mesh: Mesh, block: int, box: Any) -> ND:
    """The part of a block that a box in global coordinates names."""
    if block < 0:
        return x[(*(slice(lo, hi) for lo, hi in box), ...)]
    held = held_box(layout, shape, mesh, block=block)
    return x[(*(slice(lo - a, hi - a) for (lo, hi), (a, _) in zip(box, held, strict=True)), ...)]


def identity(op: str, dtype: Any) -> Any:
    """What changes nothing under a reduction."""
    kind = np.dtype(dtype).kind
    if op in ("minimum", "maximum", "fmin", "fmax"):
        low = op in ("maximum", "fmax")
        if kind == "b":
            return not low
        if kind in "iu":
            info = np.iinfo(dtype)
            return info.min if low else info.max
        if op in ("fmin", "fmax"):
            return np.nan
        return -np.inf if low else np.inf
    return UFUNCS[op].identity

