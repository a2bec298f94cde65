"""A layout as a small drawing and a colour. In: layout, shape. Out: SVG elements; the family it belongs to."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.layout import Grid, Layout, OnDriver, Outside, Partial, Replicate, Shard, Stored, reduction, shards

SIZE = 34  # of the drawing, in pixels
SHOWN = 8  # blocks drawn along an axis; more are drawn as so many

# family: (fill of a box, line and drawing)
COLOURS = {
    "rows": ("#e3eefb", "#2f6fb5"),
    "columns": ("#e4f4e6", "#2e8b47"),
    "blocks": ("#efe6fa", "#7a4bb8"),
    "another axis": ("#dff3f2", "#1d8583"),
    "partial": ("#fdeeda", "#c87410"),
    "replicated": ("#ededee", "#6b6f76"),
    "on the driver": ("#fffdf0", "#9a8a3a"),
    "in a store": ("#f7efe6", "#8a5a2b"),
    "one worker": ("#f2f5f8", "#51617a"),
}


def family(layout: Layout | None) -> str:
    """The kind of layout, for colours and the legend."""
    if layout is None:
        return "one worker"
    if isinstance(layout, OnDriver):
        return "on the driver"
    if isinstance(layout, Stored):
        return "in a store"
    if reduction(layout) is not None:
        return "partial"
    cut = shards(layout)
    if len(cut) == 2:
        return "blocks"
    if not cut:
        return "replicated"
    return {0: "rows", 1: "columns"}.get(cut[0].axis, "another axis")


def extent(shape: tuple[int, ...]) -> tuple[float, float]:
    """Width and height of the drawing: a number is a dot, a vector a bar, a matrix as its sides are."""
    if len(shape) == 0:
        return 12, 12
    if len(shape) == 1:
        return 12, SIZE
    rows, columns = max(shape[0], 1), max(shape[1], 1)
    if rows > 3 * columns:
        return 22, SIZE
    if columns > 3 * rows:
        return SIZE, 22
    return SIZE, SIZE


def glyph(layout: Layout | None, shape: tuple[int, ...], x: float, y: float) -> str:
    """The array as a rectangle centred at (x, y), cut as the layout cuts it."""
    return "".join(_elements(layout, shape, x, y))


def _elements(layout: Layout | None, shape: tuple[int, ...], x: float, y: float) -> Iterator[str]:
    width, height = extent(shape)
    left, top = x - width / 2, y - height / 2
    line = COLOURS[family(layout)][1]
    parts = (layout.down, layout.across) if isinstance(layout, Grid) else (layout,)
    if any(isinstance(p, Replicate | Partial) for p in parts):  # more than one sheet of it
        yield _rect(left + 3, top - 3, width, height, "#ffffff", line, 0.8)
    if isinstance(layout, Outside):
        yield _rect(left, top, width, height, "#ffffff", line, 1.2, ' stroke-dasharray="3 2"')
        return
    yield _rect(left, top, width, height, "#ffffff", line, 1.2)
    yield _rect(left, top, width, height, line, "none", 0, ' opacity="0.4"')
    if any(isinstance(p, Partial) for p in parts):
        yield _rect(left, top, width, height, "url(#tilewise-hatch)", "none", 0)
    for p in parts:
        if isinstance(p, Shard):
            yield from _cuts(p, left, top, width, height, line)


def _cuts(p: Shard, left: float, top: float, width: float, height: float, line: str) -> Iterator[str]:
    blocks, total = len(p.cuts) - 1, p.cuts[-1]
    if blocks <= SHOWN and total:
        places = [c / total for c in p.cuts[1:-1]]
    else:
        places = [k / min(blocks, SHOWN) for k in range(1, min(blocks, SHOWN))]
    for share in places:
        if p.axis == 0:
            ends = (left, top + share * height, left + width, top + share * height)
        elif p.axis == 1:
            ends = (left + share * width, top, left + share * width, top + height)
        else:  # cut across the page
            ends = (left + share * width, top, left, top + share * height)
        yield _line(*ends, "#ffffff", 3.2 if p.ghosts == (0, 0) else 5.0)
        yield _line(*ends, line, 1.2, ' stroke-dasharray="2 1.5"' if p.ghosts != (0, 0) else "")


def _rect(x: float, y: float, w: float, h: float, fill: str, line: str, stroke: float, more: str = "") -> str:
    place = f'x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}"'
    return f'<rect {place} fill="{fill}" stroke="{line}" stroke-width="{stroke:g}"{more}/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, stroke: float, more: str = "") -> str:
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{stroke:g}"{more}/>'
