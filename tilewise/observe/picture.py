"""What a picture of a plan shows. In: a plan's nodes, layouts, steps. Out: boxes, links and bands (svg.py draws them).

Up to `MOST` operators are drawn one by one; of more, steps; of more steps, stages, those that repeat once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import accumulate

import numpy as np

from tilewise.ir.node import Leaf
from tilewise.layout import Layout, OnDriver, describe
from tilewise.observe.fold import fold
from tilewise.observe.rows import (
    ExchangeRow,
    Part,
    Stage,
    StepRow,
    count_text,
    names_text,
    time_text,
)
from tilewise.ops.const import Const
from tilewise.plan.blocks import Spec
from tilewise.plan.show import dtype_text, size_text
from tilewise.records import dataclass
from tilewise.stage.steps import Exchange, Pass, Step, Tiled, makes, members, reads

MOST = 60  # boxes
LABEL = 30  # characters of a box's first line


@dataclass(frozen=True)
class Drawn:
    """All of a plan that is drawn. `layouts` is None on one worker."""

    specs: Sequence[Spec]
    layouts: Sequence[Layout] | None
    steps: Sequence[Step]
    rows: Sequence[StepRow | None]  # by step; None for exchanges
    moved: Mapping[int, Sequence[ExchangeRow]]
    gathered: Sequence[tuple[int, ExchangeRow]]
    results: Sequence[int]
    parts: Sequence[Part]

    def layout(self, pos: int) -> Layout | None:
        return None if self.layouts is None else self.layouts[pos]


@dataclass(frozen=True)
class Box:
    """An operator, an input, a step or a stage; or, on a link, an exchange. The first line is its name."""

    lines: tuple[str, ...]
    stripe: int
    layout: Layout | None = None
    shape: tuple[int, ...] | None = None  # None: nothing is drawn of it
    exchange: bool = False
    free: bool = False  # an exchange that sends nothing
    result: bool = False
    title: str = ""


@dataclass
class Picture:
    """Boxes in an order in which they can be made, links between them, and the names of stripes that are stages."""

    boxes: list[Box] = field(default_factory=list)
    links: list[tuple[int, int]] = field(default_factory=list)
    bands: dict[int, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""

    def add(self, box: Box, sources: Sequence[int] = ()) -> int:
        """A box, and links to it."""
        self.boxes.append(box)
        self.links += [(s, len(self.boxes) - 1) for s in dict.fromkeys(sources)]
        return len(self.boxes) - 1


def picture(t: Drawn) -> Picture:
    """The picture with as much in it as can be read."""
    shown = sum(not isinstance(s.op, Const) for s in t.specs) + len(t.gathered)
    if shown <= MOST:
        return _by_node(t)
    leaves = sum(s.leaf for s in t.specs)
    if len(t.steps) + leaves + len(t.gathered) <= MOST:
        return _by_step(t)
    return _by_stage(t)


def _stripes(steps: Sequence[Step]) -> list[int]:
    """Of every step: odd numbers are stages, even ones the space for exchanges before, between and after them."""
    out: list[int] = []
    now = 0
    for step in steps:
        if isinstance(step, Exchange) == (now % 2 == 1):
            now += 1
        out.append(now)
    return out


def _bands(t: Drawn) -> dict[int, tuple[str, ...]]:
    stages = [p for p in t.parts if isinstance(p, Stage)]
    return {2 * k + 1: (f"stage {k + 1}", *_about(s)) for k, s in enumerate(stages)}


def _about(stage: Stage) -> tuple[str, ...]:
    passes = len(stage.passes)
    return count_text(passes or len(stage.steps), "pass" if passes else "step"), time_text(stage.seconds)


def _by_node(t: Drawn) -> Picture:
    stripes, kinds = _where_made(t)
    pic = Picture(bands=_bands(t))
    at: dict[int, int] = {}
    for pos in sorted((p for p, s in enumerate(t.specs) if not isinstance(s.op, Const)), key=lambda p: (stripes[p], p)):
        spec = t.specs[pos]
        sources = [at[x] for x in spec.inputs if x in at]
        if pos in t.moved:
            at[pos] = pic.add(_exchange(t.moved[pos], stripes[pos], t.layout(pos), spec.shape), sources)
            continue
        name = "input" if isinstance(spec.op, Leaf) else _name(t, spec)
        layout = t.layout(pos)
        third = [] if layout is None else [describe(layout)]
        lines = (
            _cut(name),
            f"{size_text(spec.shape)} {dtype_text(spec.dtype)}",
            " · ".join([*third, *kinds.get(pos, ())]),
        )
        where = "" if spec.site is None else f" at {spec.site[0].rsplit('/', 1)[-1]}:{spec.site[1]}"
        box = Box(
            tuple(line for line in lines if line),
            stripes[pos],
            layout,
            spec.shape,
            result=pos in t.results,
            title=f"{name}{where}",
        )
        at[pos] = pic.add(box, sources)
    _gathers(pic, t, at)
    return pic


def _where_made(t: Drawn) -> tuple[dict[int, int], dict[int, tuple[str, ...]]]:
    """The stripe of every node, and the step that makes it, in a word."""
    stripes: dict[int, int] = {}
    kinds: dict[int, tuple[str, ...]] = {}
    passes = 0
    for step, stripe, row in zip(t.steps, _stripes(t.steps), t.rows, strict=True):
        passed = isinstance(step, Pass | Tiled)
        passes += passed
        for m in members(step):
            stripes.setdefault(m, stripe)
            if row is not None:
                kinds.setdefault(m, (f"pass {passes}" if passed else row.kind,))
    for pos in reversed(range(len(t.specs))):  # what no step makes stands before what first uses it
        for x in t.specs[pos].inputs:
            if pos in stripes and not _made(x, t):
                stripes[x] = min(stripes.get(x, stripes[pos]), stripes[pos] // 2 * 2)
    return {pos: stripes.get(pos, 0) for pos in range(len(t.specs))}, kinds


def _made(pos: int, t: Drawn) -> bool:
    return not (t.specs[pos].leaf or isinstance(t.specs[pos].op, Const))


def _by_step(t: Drawn) -> Picture:
    pic = Picture(bands=_bands(t), note=f"{len(t.specs):,} operators, drawn by steps")
    at: dict[int, int] = {}
    order = _stripes(t.steps)
    before: dict[int, int] = {}
    for step, stripe in zip(t.steps, order, strict=True):
        for x in reads(step):
            before.setdefault(x, stripe // 2 * 2)
    todo = sorted((stripe, x) for x, stripe in before.items() if t.specs[x].leaf)
    for step, stripe, row in zip(t.steps, order, t.rows, strict=True):
        while todo and todo[0][0] <= stripe:
            when, x = todo.pop(0)
            words = ("input", f"{size_text(t.specs[x].shape)} {dtype_text(t.specs[x].dtype)}")
            at[x] = pic.add(Box(words, when, t.layout(x), t.specs[x].shape))
        sources = [at[x] for x in reads(step) if x in at]
        made = makes(step)
        spec = t.specs[made[0]]
        if row is None:
            new = pic.add(_exchange(t.moved[made[0]], stripe, t.layout(made[0]), spec.shape), sources)
        else:
            lines = (names_text(row.operators, LABEL), row.value, f"{row.layout} · {row.kind}")
            result = any(m in t.results for m in made)
            names = f"{', '.join(row.operators)} {row.where}"
            new = pic.add(Box(lines, stripe, t.layout(made[0]), spec.shape, result=result, title=names), sources)
        at.update(dict.fromkeys(made, new))
    _gathers(pic, t, at)
    return pic


def _by_stage(t: Drawn) -> Picture:
    """One stage under the other; runs of parts that repeat are drawn once, and counted."""
    pic = Picture(note=f"{len(t.specs):,} operators, drawn by stages")
    runs = fold([p.signature for p in t.parts])
    fits = sum(total <= MOST for total in accumulate(r.length for r in runs))
    if fits < len(runs):
        left = sum(r.length * r.times for r in runs[fits:])
        runs = runs[:fits]
        pic.note += f"; {left:,} more stages and exchanges are not drawn"
    for run in runs:
        times = () if run.times == 1 else (f"{run.times:,} times",)
        for k in range(run.start, run.start + run.length):
            part, above = t.parts[k], [len(pic.boxes) - 1] if pic.boxes else []
            if isinstance(part, Stage):
                number = sum(isinstance(p, Stage) for p in t.parts[: k + 1])
                steps = [names_text(part.steps[r.start].operators, 2 * LABEL) for r in fold(_names(part))]
                lines = (" · ".join([f"stage {number}", *_about(part), *times]), *steps[:6])
                pic.add(Box(lines, 0, title=f"{len(part.steps):,} steps"), above)
            else:
                pic.add(_exchange([part], 0, None, None, *times), above)
    return pic


def _names(stage: Stage) -> list[tuple[str, ...]]:
    return [s.operators for s in stage.steps]


def _gathers(pic: Picture, t: Drawn, at: Mapping[int, int]) -> None:
    stripe = max((b.stripe for b in pic.boxes), default=0) // 2 * 2 + 2
    for pos, row in t.gathered:
        pic.add(_exchange([row], stripe, OnDriver(), t.specs[pos].shape), [at[pos]] if pos in at else [])


def _exchange(
    rows: Sequence[ExchangeRow],
    stripe: int,
    layout: Layout | None,
    shape: tuple[int, ...] | None,
    more: str = "",
) -> Box:
    lines = [f"{r.kind} {r.moved} B" for r in rows]
    way = f"to {rows[-1].target}".replace("to on ", "to ")
    title = "; ".join(f"{r.kind}: {r.value}, {r.source} to {r.target}, {time_text(r.seconds)}" for r in rows)
    lines += [f"{way} · {more}" if more else way]
    return Box(tuple(lines), stripe, layout, shape, exchange=True, free=not any(r.bytes for r in rows), title=title)


def _name(t: Drawn, spec: Spec) -> str:
    """The operator, with the numbers among its operands."""
    values = [op.value if isinstance(op := t.specs[x].op, Const) else None for x in spec.inputs]
    if all(v is None for v in values):
        return spec.op.label()
    return f"{spec.op.label()}({', '.join('·' if v is None else _number(v) for v in values)})"


def _number(value: np.generic) -> str:
    text = str(value)
    return f"{float(text):.4g}" if value.dtype.kind == "f" and len(text) > 8 else text


def _cut(text: str) -> str:
    return text if len(text) <= LABEL else text[: LABEL - 1] + "…"
