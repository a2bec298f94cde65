"""Pictures of plans: every operator has its box and its words, nothing overlaps, large programs stay readable."""

from itertools import combinations
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import tilewise as tw
from tilewise.layout import Grid, OnDriver, Partial, Replicate, Shard, even_cuts
from tilewise.observe.glyph import family, glyph
from tilewise.observe.levels import arrange
from tilewise.ops.const import Const

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def recorded():
    with tw.config(eager_bytes=0, flush=False):
        yield


def data(*shape: int) -> tw.Array:
    return tw.array(np.ones(shape))


def product() -> tw.Array:
    return data(200, 200) @ data(200, 200) @ data(200, 200)


def jacobi(turns: int = 1) -> tw.Array:
    a = data(64, 20)
    for _ in range(turns):
        b = a.copy()
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a = b
    return a


def standardised() -> tw.Array:
    x = data(4000, 8)
    return (x - x.mean(axis=0)) / x.std(axis=0)


def gradient(turns: int = 1) -> tw.Array:
    x, y, w = data(4000, 16), data(4000), data(16)
    for _ in range(turns):
        p = 1 / (1 + tw.exp(-(x @ w)))
        w = w - 0.1 * (x.T @ (p - y))
    return w


PROGRAMS = {"product": product, "jacobi": jacobi, "standardised": standardised, "gradient": gradient}


def boxes(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [g for g in root.iter(f"{SVG}g") if (g.get("class") or "").split(" ")[0] in ("node", "exchange")]


def words(box: ElementTree.Element) -> list[str]:
    return [t.text or "" for t in box.iter(f"{SVG}text")]


def frame(box: ElementTree.Element) -> tuple[float, float, float, float]:
    rect = box.find(f"{SVG}rect")
    assert rect is not None
    x, y, w, h = (float(rect.get(k) or 0) for k in ("x", "y", "width", "height"))
    return x, y, x + w, y + h


@pytest.mark.parametrize("mesh", [None, 4, (2, 2)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_box_for_every_node(name: str, mesh: Any) -> None:
    plan = tw.explain(PROGRAMS[name](), mesh=mesh)
    root = ElementTree.fromstring(plan.to_svg())
    drawn = boxes(root)
    nodes = [s for s in plan._specs if not isinstance(s.op, Const)]
    assert len(drawn) == len(nodes) + len(plan.gathered)
    texts = [words(b) for b in drawn]
    for s in nodes:
        if s.op.name != "move":
            name = "input" if s.leaf else s.op.label()[:29]
            size = "x".join(map(str, s.shape)) or "scalar"
            assert any(t[0].startswith(name) and t[1] == f"{size} {s.dtype}" for t in texts), s
    lines = [line for t in texts for line in t]
    for e in plan.exchanges:
        assert f"{e.kind} {e.bytes:,} B" in lines
    assert sum(g.get("class") == "stage" for g in root.iter(f"{SVG}g")) == len(plan.stages)
    thick = [p for p in root.iter(f"{SVG}path") if p.get("class") == "link" and p.get("stroke-width") == "3.5"]
    assert bool(thick) == (plan.network_bytes > 0)


@pytest.mark.parametrize("mesh", [None, 4, (2, 2)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_overlaps_and_no_text_is_clipped(name: str, mesh: Any) -> None:
    root = ElementTree.fromstring(tw.explain(PROGRAMS[name](), mesh=mesh).to_svg())
    drawn = boxes(root)
    frames = [frame(b) for b in drawn]
    for a, b in combinations(frames, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (a, b)
    for box, (left, top, right, bottom) in zip(drawn, frames, strict=True):
        for t in box.iter(f"{SVG}text"):
            x, y, size = (float(t.get(k) or 0) for k in ("x", "y", "font-size"))
            assert left < x and x + 0.6 * size * len(t.text or "") < right and top < y < bottom
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    assert max(f[2] for f in frames) < width and max(f[3] for f in frames) < height


def test_links_follow_the_data() -> None:
    """Every box but inputs has a link into it, and links begin and end at boxes."""
    root = ElementTree.fromstring(tw.explain(gradient(), workers=4).to_svg())
    drawn = boxes(root)
    frames = [frame(b) for b in drawn]
    ends = set()
    for path in root.iter(f"{SVG}path"):
        if path.get("class") == "link":
            places = (path.get("d") or "")[1:].replace("C", "").split()
            (x1, y1), (x2, y2) = map(float, places[:2]), map(float, places[-2:])
            (source,) = [k for k, f in enumerate(frames) if f[0] <= x1 <= f[2] and abs(f[3] - y1) < 0.11]
            (target,) = [k for k, f in enumerate(frames) if f[0] <= x2 <= f[2] and abs(f[1] - y2) < 0.11]
            assert frames[source][3] < frames[target][1]
            ends.add(target)
    assert {k for k, b in enumerate(drawn) if words(b)[0] != "input"} == ends


def test_it_is_written_where_asked(tmp_path: Path) -> None:
    plan = tw.explain(product(), workers=4)
    text = plan.to_svg(tmp_path / "plan.svg")
    assert (tmp_path / "plan.svg").read_text(encoding="utf-8") == text == plan.to_svg()


def test_a_larger_program_is_drawn_by_steps() -> None:
    plan = tw.explain(gradient(6), workers=4)
    root = ElementTree.fromstring(plan.to_svg())
    steps = sum(len(s.steps) for s in plan.stages) + len(plan.moved) + len(plan.gathered)
    assert len(boxes(root)) == steps + 3  # and the inputs
    assert any("drawn by steps" in (t.text or "") for t in root.iter(f"{SVG}text"))


def test_a_long_loop_is_drawn_once() -> None:
    plan = tw.explain(gradient(40), workers=4)
    root = ElementTree.fromstring(plan.to_svg())
    assert len(boxes(root)) < 15
    assert any("39 times" in line for b in boxes(root) for line in words(b))


def test_a_program_too_large_to_draw_says_what_is_left_out() -> None:
    x = data(100, 100)
    for _ in range(60):
        x = tw.exp(x[1:].T)  # no two are of one shape
    with tw.testing.random_layouts(3):
        root = ElementTree.fromstring(tw.explain(x, workers=4).to_svg())
    assert 40 < len(boxes(root)) <= 60
    assert any("are not drawn" in (t.text or "") for t in root.iter(f"{SVG}text"))


def test_words_are_escaped() -> None:
    plan = tw.explain(tw.ones((20, 20)) @ tw.ones((20, 20)), workers=2)
    text = plan.to_svg()
    assert "ab" in text and "->ab" not in text and "-&gt;ab" in text


def test_glyphs_show_the_tiling() -> None:
    rows, columns = Shard(0, even_cuts(8, 4)), Shard(1, even_cuts(8, 2))
    assert glyph(rows, (8, 8), 20, 20).count('stroke-width="1.2"/>') == 1 + 3  # the frame and three cuts
    assert glyph(Grid(rows, columns), (8, 8), 20, 20).count("<line") == 2 * (3 + 1)
    assert "tilewise-hatch" in glyph(Partial("add"), (8, 8), 20, 20)
    assert "<line" not in glyph(Replicate(), (8, 8), 20, 20)
    assert "stroke-dasharray" in glyph(OnDriver(), (8, 8), 20, 20)
    assert glyph(Shard(0, even_cuts(2000, 1000)), (2000, 8), 20, 20).count("<line") == 2 * 7  # no more than can be seen
    names = [
        family(x) for x in (rows, columns, Grid(rows, columns), Grid(rows, Replicate()), Grid(rows, Partial("add")))
    ]
    assert names == ["rows", "columns", "blocks", "rows", "partial"]
    assert (family(None), family(Shard(2, (0, 1)))) == ("one worker", "another axis")


def test_places_keep_their_distance_and_stripes_their_order() -> None:
    rng = np.random.default_rng(3)
    sizes = [(float(w), float(h)) for w, h in rng.integers(20, 200, (40, 2))]
    stripes = sorted(rng.integers(0, 4, 40).tolist())
    links = sorted({tuple(sorted(pair)) for pair in rng.integers(0, 40, (70, 2)).tolist() if pair[0] != pair[1]})
    placed = arrange(sizes, stripes, [(a, b) for a, b in links])
    edges = [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for (x, y), (w, h) in zip(placed.centres, sizes, strict=True)]
    for a, b in combinations(edges, 2):
        assert a[2] < b[0] or b[2] < a[0] or a[3] < b[1] or b[3] < a[1]
    for k, edge in enumerate(edges):
        top, bottom = placed.stripes[stripes[k]]
        assert top <= edge[1] + 1e-9 and edge[3] <= bottom + 1e-9
    for (a, b), path in zip(links, placed.paths, strict=True):
        assert path[0][1] == edges[a][3] and path[-1][1] == edges[b][1]
