"""Running passes that share their tiles. In: a `Tiled`, arrays. Out: its results, with every tile in the caches once.

What a run needs is worked out once per geometry: along which dim to cut, how long tiles are, the native calls. Where
tiles bring nothing (little data, sums too large to have several of, nothing native) the passes run one by one. Other
lengths of tiles are tried (tuning.py) if every reduction is made in the same order whatever the length.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import field
from typing import Any

import numpy as np

from tilewise.backend.base import Each
from tilewise.backend.host.arrays import fresh
from tilewise.backend.llvm.call.compiled import compile
from tilewise.backend.llvm.compile.build import compiled_count
from tilewise.backend.llvm.tiles import tuning
from tilewise.backend.llvm.tiles.builder import Builder, TilePlan
from tilewise.backend.llvm.tiles.lengths import fitted, offered
from tilewise.backend.llvm.tiles.merging import Spread, added, merged, mirrored
from tilewise.backend.llvm.tiles.pivots import about_means, guesses
from tilewise.backend.llvm.tiles.recompute import formed
from tilewise.backend.llvm.tiles.tuning import Trials
from tilewise.backend.llvm.tiles.tuning_records import USUAL, class_of, record_of
from tilewise.backend.threads import get_threads
from tilewise.config import Settings, current
from tilewise.ir.reductions import by_name
from tilewise.records import dataclass
from tilewise.stage.cut_axis import replaces
from tilewise.stage.steps import Pass, Tiled, View, dead_after, makes
from tilewise.stage.tiles import Formed
from tilewise.store import pool
from tilewise.tuning import tuned

ND = np.ndarray[Any, Any]


@dataclass
class Group:
    """A `Tiled` bound to kernels, and what was worked out for the geometries met so far."""

    step: Tiled
    kernels: list[Any]

    def __post_init__(self) -> None:
        self.plans: dict[Any, Choice | None] = {}
        self.dead = dead_after(self.step)  # after each step, if they run one by one

    def run(self, nodes: Sequence[Any], values: list[Any], noted: set[Any], each: Each) -> None:
        """Tile by tile, or, where that does not pay, pass by pass."""
        settings = current()
        choice = choice_of(self.step, self, nodes, values, settings)
        run_chosen(choice, self.step, self, nodes, values, noted, each, settings)


@dataclass
class Choice:
    """One geometry: its usual plan, and those for other lengths of tiles (None: not possible)."""

    usual: TilePlan
    careful: TilePlan | None = None  # the plan without pivots, once those of the usual plan were too far off
    trials: Trials | None = None  # None: one length only
    others: dict[float, TilePlan | None] = field(default_factory=dict)

    @property
    def settled(self) -> TilePlan | None:
        """The plan that all further runs take; None while lengths are tried."""
        factor = USUAL if self.trials is None else self.trials.over
        return self.usual if factor == USUAL else None if factor is None else self.others.get(factor)


def run_chosen(
    choice: Choice | None,
    step: Tiled,
    group: Group,
    nodes: Sequence[Any],
    values: list[Any],
    noted: set[Any],
    each: Each,
    settings: Settings,
) -> None:
    """Run a group, once it is known what to do with arrays of these strides."""
    if choice is None or not _over_tiles(choice, step, group, nodes, values, settings):
        for inner, kernel, dead in zip(step.steps, group.kernels, group.dead, strict=True):
            each(inner, kernel, nodes, values, noted)
            for x in dead:
                values[x] = None
        return
    for k in choice.usual.after:
        each(step.steps[k], group.kernels[k], nodes, values, noted)


def _over_tiles(
    choice: Choice, step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], settings: Settings
) -> bool:
    """Run as chosen; False if pivots were too far off and tiles have no room for a plan without pivots."""
    if choice.trials is not None:
        _run_tuned(choice, choice.trials, step, group, nodes, values)
        return True
    if _run(choice.usual, step, nodes, values):
        return True
    if choice.careful is None:
        choice.careful = _careful(step, group, nodes, values, settings)
    return choice.careful is not None and _run(choice.careful, step, nodes, values)


def choice_of(step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], settings: Settings) -> Choice | None:
    """What a group does with arrays of these strides; None if its passes run one by one."""
    key = (
        settings.tile,
        settings.tune,
        get_threads(),
        *[(a.shape, a.strides) for x in step.inputs if isinstance(a := values[x], np.ndarray)],
        *[nodes[s.pos].op if isinstance(s, View) else nodes[makes(s)[0]].dims for s in step.steps],
        *[nodes[x].order for s in step.steps for x in makes(s)],  # a copy's does not follow from what it reads
        *[nodes[s.outs[0]].op for s in step.steps if isinstance(s, Pass) and replaces(s)],
        *[nodes[s.centre.count].op.value for s in step.steps if isinstance(s, Pass) and s.centre is not None],
    )
    try:
        return group.plans[key]
    except KeyError:
        if len(group.plans) >= tuned().tile_geometries:
            group.plans.clear()
        made = group.plans[key] = planned(step, group, nodes, values, settings)
        return made


def _run_tuned(
    choice: Choice, trials: Trials, step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any]
) -> None:
    """A run that may try another length of tiles."""
    turn, seconds, build_s = trials.begin(), None, 0.0
    try:
        plan: TilePlan | None = choice.usual
        if turn.factor != USUAL:
            if turn.factor not in choice.others:
                began = tuning.clock()
                choice.others[turn.factor] = _other(choice.usual, step, group, nodes, values, turn.factor)
                build_s = tuning.clock() - began
            plan = choice.others[turn.factor]
            if plan is None:
                plan, turn, build_s = choice.usual, trials.refuse(turn, build_s), 0.0
        assert plan is not None
        began = tuning.clock()
        _run(plan, step, nodes, values)
        seconds = tuning.clock() - began
    finally:
        trials.end(turn, seconds, build_s)


def _careful(step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], settings: Settings) -> TilePlan | None:
    """The plan of a geometry without pivots; None if there is too little scratch."""
    form = formed(step, nodes, settings.tile)
    assert form is not None
    return Builder(form, _kernels(form, group), values, form.cut, guess=False).plan()


def _run(plan: TilePlan, step: Tiled, nodes: Sequence[Any], values: list[Any]) -> bool:
    """Over all tiles; False, and no results, if pivots were too far off."""
    made: dict[int, ND] = {}
    sums: dict[int, ND] = {}
    for pos, op, shape in plan.sums:
        dtype = nodes[pos].dtype
        sums[pos] = pool.empty((plan.walk.chunks, *shape), dtype)
        sums[pos].fill(by_name(op).identity(dtype))
    own = {key: np.empty((plan.walk.tiles, *shape), dtype) for key, dtype, shape in plan.own}
    for pos in step.outs:
        if pos not in sums and pos not in own and pos not in plan.late:
            made[pos] = fresh(nodes[pos])
    guessed = {~p.totals[0]: guesses(values[p.value], p) for p in plan.pivots}
    found = {**{x: values[x] for x in step.inputs}, **made, **sums, **own, **guessed}
    arrays = [found[x] if isinstance(x, int) else x.of(found) for x in plan.given]
    with _one_thread_each() if plan.blas else nullcontext():
        plan.walk.run(arrays, values.__getitem__)
    whole = {pos: added(sums[pos], op) for pos, op, _ in plan.sums}
    whole |= {pos: mirrored(whole[pos]) for pos in plan.mirrored}
    for centre, squares, counts in plan.merges:
        spread = merged(own[centre.total], own[squares], own[~squares], counts)
        whole |= _summed((centre.total,), squares, centre.rest, spread)
    for p in plan.pivots:
        about = about_means(p, guessed[~p.totals[0]], own[p.squares], own[~p.squares])
        if about is None:
            return False
        whole |= _summed(p.totals, p.squares, p.rest, about)
    for pos, value in whole.items():
        out = made[pos] = fresh(nodes[pos])
        out[...] = value.reshape(out.shape)
    for pos in (*step.outs, *whole):
        if pos not in plan.late:
            values[pos] = made[pos]
    return True


def _summed(totals: tuple[int, ...], squares: int, rest: int | None, spread: Spread) -> dict[int, ND]:
    """Sums over tiles, by their positions."""
    found = dict.fromkeys(totals, spread.total)
    if rest is None:
        return {**found, squares: spread.rounded}
    about, off = spread.about_rounded_mean()
    return {**found, squares: about, rest: off}


def _one_thread_each() -> Any:
    """Tiles already run on all cores: BLAS starts no threads of its own."""
    return importlib.import_module("tilewise.backend.blas").one_thread()


def planned(step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], settings: Settings) -> Choice | None:
    """What a geometry needs; None if its passes are better run one by one."""
    form = formed(step, nodes, settings.tile)
    if form is None:
        return None
    cut, kernels = form.cut, _kernels(form, group)
    began, codes = tuning.clock(), compiled_count()
    plan = Builder(form, kernels, values, cut).plan()
    if plan is None or not cut.any_length:
        return None if plan is None else Choice(plan)
    fit = fitted(cut)
    if fit.tile != cut.tile:  # bits are those of the length that all machines share
        better = Builder(form, kernels, values, fit).plan()
        if better is None or not better.agrees(plan):
            return Choice(plan)
        plan = better
    if not settings.tune:
        return Choice(plan)
    record = record_of(class_of(settings.cache_dir, form.group, cut))
    build_s = tuning.clock() - began if compiled_count() == codes else tuned().trial_build_s
    return Choice(plan, trials=Trials(record, offered(cut), build_s))


def _kernels(form: Formed, group: Group) -> list[Any]:
    """The kernels of the steps of a group as it runs."""
    have = {id(s): kernel for s, kernel in zip(group.step.steps, group.kernels, strict=True)}
    return [compile(s.kernel) if isinstance(s, Pass) and id(s) not in have else have[id(s)] for s in form.group.steps]


def _other(
    usual: TilePlan, step: Tiled, group: Group, nodes: Sequence[Any], values: list[Any], factor: float
) -> TilePlan | None:
    """The plan for another length of tiles; None if there is none that gives the same bits."""
    form = formed(step, nodes)
    assert form is not None
    plan = Builder(form, _kernels(form, group), values, fitted(form.cut, factor)).plan()
    return plan if plan is not None and plan.agrees(usual) else None
