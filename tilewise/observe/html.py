"""A plan for notebooks. In: what a plan says of itself, its parts, its picture. Out: HTML without scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tilewise.observe.rows import Part
from tilewise.observe.table import RIGHT, blocks

CELL = "padding:2px 8px;border:0;white-space:nowrap;"
LEFT_STYLE, RIGHT_STYLE = CELL + "text-align:left", CELL + "text-align:right"
TABLE = "border-collapse:collapse;font:12px ui-monospace,Menlo,Consolas,monospace;margin:6px 0"


def page(head: Sequence[str], parts: Sequence[Part], svg: str) -> str:
    """The head, one table of stages and exchanges, and the picture folded away below it."""
    rows = []
    for name, heads, cells in blocks(parts):
        wide = " colspan='8'" if not heads else ""
        titles = "".join(f"<th style='{_style(h)}'>{escape(h)}</th>" for h in _spread(heads, heads))
        rows.append(f"<tr style='background:#eef1f5'><th{wide} style='{LEFT_STYLE}'>{escape(name)}</th>{titles}</tr>")
        for row in (r.cells for r in cells):
            if len(row) == 1:
                rows.append(f"<tr><td colspan='8' style='{LEFT_STYLE}'>{escape(row[0])}</td></tr>")
                continue
            body = zip(_spread(heads, heads), _spread(row[1:], heads), strict=True)
            rest = "".join(f"<td style='{_style(h)}'>{escape(c)}</td>" for h, c in body)
            rows.append(f"<tr><td style='{LEFT_STYLE}'>{escape(row[0])}</td>{rest}</tr>")
    words = "<br>".join(escape(line) for line in head)
    grid = "\n".join(rows)
    return (
        f"<div>{words}\n<table style='{TABLE}'>\n{grid}\n</table>\n"
        f"<details open><summary>Picture</summary>\n{svg}\n</details></div>"
    )


def _spread(cells: Sequence[str], heads: tuple[str, ...]) -> Sequence[str]:
    """Cells of an exchange under the columns of a stage: its bytes are neither read nor written, but cross."""
    return cells if len(heads) != 5 else (cells[0], "", cells[1], "", *cells[2:])


def _style(head: str) -> str:
    return RIGHT_STYLE if head in RIGHT else LEFT_STYLE
