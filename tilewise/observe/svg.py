"""A picture as SVG text. In: boxes, links, bands. Out: one self-contained document without scripts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from tilewise.layout import Layout, OnDriver, Partial, Replicate, Shard, Stored, even_cuts, grid_layout
from tilewise.observe.glyph import COLOURS, SIZE, family, glyph
from tilewise.observe.levels import Arranged, Point, arrange
from tilewise.observe.picture import Box, Picture

FONT = "'DejaVu Sans Mono', ui-monospace, Menlo, Consolas, monospace"
NAME, SMALL = 12.0, 10.5  # sizes of letters
LETTER = 0.61  # the width of a letter, by its size: in fixed-width fonts it is known
PAD = 8.0
MARGIN = 14.0
BAND_NAME = 108.0  # the column in which stages are named
CROSSES = "#c0392b"  # what workers send

LEGEND: tuple[tuple[str, Layout | None, tuple[int, ...]], ...] = (
    ("rows", Shard(0, even_cuts(4, 4)), (4, 4)),
    ("columns", Shard(1, even_cuts(4, 4)), (4, 4)),
    ("blocks", grid_layout(Shard(0, even_cuts(2, 2)), Shard(1, even_cuts(2, 2))), (4, 4)),
    ("another axis", Shard(2, even_cuts(4, 4)), (4, 4)),
    ("partial", Partial("add"), (4, 4)),
    ("replicated", Replicate(), (4, 4)),
    ("on the driver", OnDriver(), (4, 4)),
    ("in a store", Stored(), (4, 4)),
    ("one worker", None, (4, 4)),
)


def draw(pic: Picture) -> str:
    """The whole picture."""
    sizes = [_size(b) for b in pic.boxes]
    places = arrange(sizes, [b.stripe for b in pic.boxes], pic.links)
    left = MARGIN + (BAND_NAME if pic.bands else 0.0)
    legend = list(_legend(pic))
    width = max(left + places.width, MARGIN + sum(w for w, _ in legend)) + 2 * MARGIN
    top = MARGIN + (16.0 if pic.note else 0.0)
    height = top + places.height + SIZE + 3 * MARGIN
    body = [
        *_note(pic),
        f'<g transform="translate(0 {top:g})">',
        *_bands(pic, places, width),
        f'<g transform="translate({left:g} 0)">',
        *(_link(pic, k, path) for k, path in enumerate(places.paths)),
        *(_box(b, centre, size) for b, centre, size in zip(pic.boxes, places.centres, sizes, strict=True)),
        "</g></g>",
        *_legend_row(legend, top + places.height + MARGIN),
    ]
    frame = f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {frame} font-family="{FONT}">'
    return "\n".join([head, DEFINITIONS, '<rect width="100%" height="100%" fill="#ffffff"/>', *body, "</svg>"])


DEFINITIONS = f"""<defs>
<pattern id="tilewise-hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="2.2" height="6" fill="{COLOURS["partial"][1]}"/></pattern>
<marker id="tilewise-thin" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
 markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="#7b8594"/></marker>
<marker id="tilewise-thick" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="13" markerHeight="13"
 markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="{CROSSES}"/></marker>
</defs>"""


def _text_width(text: str, size: float) -> float:
    return len(text) * LETTER * size


def _size(b: Box) -> Point:
    words = max(_text_width(line, NAME if k == 0 else SMALL) for k, line in enumerate(b.lines))
    drawn = SIZE + PAD if b.shape is not None else 0.0
    height = max(SIZE + 8 if b.shape is not None else 0.0, NAME + (len(b.lines) - 1) * (SMALL + 3.5)) + 2 * PAD
    return words + drawn + 2 * PAD + (12 if b.exchange else 4), height


def _box(b: Box, centre: Point, size: Point) -> str:
    (x, y), (w, h) = centre, size
    fill, line = COLOURS[family(b.layout)]
    stroke, look, kind = 1.2, 'rx="4"', "node"
    if b.exchange:
        line, kind = ("#9aa3af", "exchange free") if b.free else (CROSSES, "exchange")
        fill, stroke, look = "#ffffff", 1.2 if b.free else 2.0, f'rx="{h / 2:g}"'
        if b.free:
            look += ' stroke-dasharray="4 3"'
    if b.result:
        stroke = 3.0
    place = f'x="{x - w / 2:g}" y="{y - h / 2:g}" width="{w:g}" height="{h:g}"'
    out = [f'<g class="{kind}"><title>{escape(b.title or b.lines[0])}</title>']
    out.append(f'<rect {place} {look} fill="{fill}" stroke="{line}" stroke-width="{stroke:g}"/>')
    start = x - w / 2 + PAD
    if b.shape is not None:
        start += 3 if b.exchange else 0  # round ends
        out.append(glyph(b.layout, b.shape, start + SIZE / 2, y + 1))
        start += SIZE + PAD
    baseline = y - (NAME + (len(b.lines) - 1) * (SMALL + 3.5)) / 2 + NAME - 2
    for k, words in enumerate(b.lines):
        style = f'font-size="{NAME:g}" font-weight="bold"' if k == 0 else f'font-size="{SMALL:g}" fill="#3d4653"'
        out.append(f'<text x="{start + 2:g}" y="{baseline + k * (SMALL + 3.5):g}" {style}>{escape(words)}</text>')
    return "".join([*out, "</g>"])


def _link(pic: Picture, k: int, path: Sequence[Point]) -> str:
    target = pic.boxes[pic.links[k][1]]
    thick = target.exchange and not target.free
    d = [f"M{path[0][0]:.1f} {path[0][1]:.1f}"]
    for (x1, y1), (x2, y2) in pairwise(path):
        bend = (y2 - y1) / 2
        d.append(f"C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}")
    look = f'stroke="{CROSSES}" stroke-width="3.5" stroke-opacity="0.8"' if thick else 'stroke="#7b8594"'
    name = "thick" if thick else "thin"
    return f'<path class="link" d="{" ".join(d)}" fill="none" {look} marker-end="url(#tilewise-{name})"/>'


def _bands(pic: Picture, places: Arranged, width: float) -> Iterator[str]:
    for stripe, words in pic.bands.items():
        if stripe not in places.stripes:
            continue
        top, bottom = places.stripes[stripe]
        frame = f'x="{MARGIN / 2:g}" y="{top - 12:g}" width="{width - MARGIN:g}" height="{bottom - top + 24:g}"'
        yield f'<g class="stage"><rect {frame} rx="6" fill="#f6f7f9" stroke="#dde1e7"/>'
        for k, line in enumerate(words):
            style = 'font-size="12" font-weight="bold"' if k == 0 else 'font-size="10.5" fill="#5a6472"'
            yield f'<text x="{MARGIN + 2:g}" y="{top + 8 + 15 * k:g}" {style}>{escape(line)}</text>'
        yield "</g>"


def _note(pic: Picture) -> Iterator[str]:
    if pic.note:
        yield f'<text x="{MARGIN:g}" y="{MARGIN + 6:g}" font-size="11" fill="#5a6472">{escape(pic.note)}</text>'


def _legend(pic: Picture) -> Iterator[tuple[float, str]]:
    """Width and elements of each entry, for what is in the picture."""
    present = {family(b.layout) for b in pic.boxes if b.shape is not None}
    for name, layout, shape in LEGEND:
        if name in present:
            words = f'<text x="{SIZE + 10}" y="{SIZE / 2 + 4:g}" font-size="11">{name}</text>'
            yield SIZE + 32 + _text_width(name, 11), glyph(layout, shape, SIZE / 2, SIZE / 2) + words
    if any(b.exchange for b in pic.boxes):
        mark = f'<line x1="0" y1="17" x2="34" y2="17" stroke="{CROSSES}" stroke-width="3.5" stroke-opacity="0.8"/>'
        words = f'<text x="{SIZE + 10}" y="{SIZE / 2 + 4:g}" font-size="11">crosses between workers</text>'
        yield SIZE + 32 + _text_width("crosses between workers", 11), mark + words


def _legend_row(entries: Sequence[tuple[float, str]], y: float) -> Iterator[str]:
    x = MARGIN
    yield '<g class="legend">'
    for width, elements in entries:
        yield f'<g transform="translate({x:g} {y:g})">{elements}</g>'
        x += width
    yield "</g>"
