"""A plan as text. In: what a plan says of itself, its stages and exchanges. Out: lines that line up.

No line is longer than `WIDTH`: operators are counted where they do not fit, parts that repeat are shown once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from tilewise.observe.fold import fold
from tilewise.observe.rows import ExchangeRow, Part, Stage, StepRow, bytes_text, names_text, time_text
from tilewise.records import dataclass

WIDTH = 130
NARROWEST = 20  # of a column that gives way
MOST = 80  # parts shown, and steps of a stage; of more, the first and the last

STEP_HEAD: tuple[str, ...] = ("operators", "shape", "layout", "reads", "writes", "time", "line")
EXCHANGE_HEAD: tuple[str, ...] = ("value", "from -> to", "bytes", "time", "line")
RIGHT = frozenset({"reads", "writes", "time", "bytes"})  # columns of numbers


@dataclass(frozen=True)
class Row:
    """The kind of a step or exchange and its cells, or one remark; `names` are the operators, to be shortened."""

    cells: tuple[str, ...]
    names: tuple[str, ...] = ()


Block = tuple[str, tuple[str, ...], list[Row]]  # name, heads of columns, rows


def text(head: Sequence[str], parts: Sequence[Part]) -> str:
    """The whole table."""
    found = list(blocks(parts))
    sizes: dict[tuple[str, ...], list[int]] = {}
    for heads in (STEP_HEAD, EXCHANGE_HEAD):
        sizes[heads] = _widths(heads, [b for b in found if b[1] == heads])
    lines = list(head)
    named: set[tuple[str, ...]] = set()
    for name, heads, rows in found:
        widths = sizes.get(heads, [])
        lines.append(name if not heads or heads in named else _line(Row((name, *heads)), heads, widths))
        named.add(heads)
        for row in rows:
            kind = "  " + row.cells[0]
            lines.append(_line(Row((kind, *row.cells[1:]), row.names), heads, widths) if len(row.cells) > 1 else kind)
    return "\n".join(lines)


def blocks(parts: Sequence[Part]) -> Iterator[Block]:
    """Stages, and exchanges that follow one another, with their rows; a block without heads is a remark."""
    number = 0
    waiting: list[Row] = []
    for index, remark in _shown([p.signature for p in parts], "part"):
        part = parts[index] if index is not None else None
        if isinstance(part, ExchangeRow):
            waiting.append(_exchange_row(part))
            continue
        if waiting:
            yield "exchange", EXCHANGE_HEAD, waiting
            waiting = []
        if isinstance(part, Stage):
            assert index is not None
            number = sum(isinstance(p, Stage) for p in parts[: index + 1])
            yield f"stage {number}", STEP_HEAD, _step_rows(part)
        else:
            yield remark, (), []
    if waiting:
        yield "exchange", EXCHANGE_HEAD, waiting


def _step_rows(stage: Stage) -> list[Row]:
    shown = _shown([s.signature for s in stage.steps], "step")
    out: list[Row] = []
    for k, remark in shown:
        out.append(Row((remark,)) if k is None else _step_row(stage.steps[k]))
        if k is not None and stage.steps[k].tiles:
            out.append(Row((f"       {stage.steps[k].tiles}",)))
    return out


def _shown(signatures: Sequence[Hashable], what: str) -> Iterator[tuple[int | None, str]]:
    """Which of some things to show, and remarks on those that are left out."""
    out: list[tuple[int | None, str]] = []
    for run in fold(signatures):
        once = [(k, "") for k in range(run.start, run.start + run.length)]
        if run.length * (run.times - 1) < 3:  # a remark would not be shorter
            out += [(k, "") for k in range(run.start, run.start + run.length * run.times)]
        else:
            above = f"the {what} above" if run.length == 1 else f"the {run.length} {what}s above"
            out += [*once, (None, f"… {above} {run.times - 1:,} more times")]
    if len(out) > MOST:
        left = sum(k is not None for k, _ in out[MOST * 3 // 4 : -MOST // 4])
        out[MOST * 3 // 4 : -MOST // 4] = [(None, f"… {left:,} more …")]
    yield from out


def _step_row(s: StepRow) -> Row:
    numbers = ("", "", "") if s.kind == "view" else (f"{s.bytes_read:,}", f"{s.bytes_written:,}", time_text(s.seconds))
    return Row((s.kind, names_text(s.operators, WIDTH), s.value, s.layout, *numbers, s.where), s.operators)


def _exchange_row(e: ExchangeRow) -> Row:
    return Row((e.kind, e.value, f"{e.source} -> {e.target}", e.moved, time_text(e.seconds), e.where))


def _widths(heads: tuple[str, ...], found: Sequence[Block]) -> list[int]:
    """Columns as wide as what is in them; the one of words gives way where a line would be too long."""
    rows = [("  " + r.cells[0], *r.cells[1:]) for _, _, block in found for r in block if len(r.cells) > 1]
    names = [(name, *heads) for name, _, _ in found]
    widths = [max(map(len, column)) for column in zip(*rows, *names, strict=True)] if names else []
    for column in _yielding(heads):
        over = sum(widths) + 2 * (len(widths) - 1) - WIDTH
        if widths and over > 0:
            widths[column] = max(widths[column] - over, NARROWEST)
    return widths


def _yielding(heads: tuple[str, ...]) -> tuple[int, ...]:
    """The columns that may be cut, the first first."""
    names = ("operators", "layout", "shape", "line") if heads == STEP_HEAD else ("from -> to", "value", "line")
    return tuple(heads.index(n) + 1 for n in names)


def _line(row: Row, heads: tuple[str, ...], widths: Sequence[int]) -> str:
    out = [row.cells[0].ljust(widths[0])]
    for cell, head, width in zip(row.cells[1:], heads, widths[1:], strict=True):
        if len(cell) > width:
            cell = names_text(row.names, width) if head == "operators" else cell[: width - 1] + "…"
        out.append(cell.rjust(width) if head in RIGHT else cell.ljust(width))
    return "  ".join(out).rstrip()


def sum_text(read: int, written: int, allocated: int, sent: int) -> str:
    """Kasen's quantities in a line."""
    words = (("read", read), ("write", written), ("allocate", allocated), ("send", sent))
    return "All workers together " + ", ".join(f"{word} {bytes_text(n)}" for word, n in words) + "."


def passes_text(passes: Sequence[tuple[str, float]]) -> str:
    """The compiler's passes, a line for each with its time (of plans that were found again: when they were made).

    >>> print(passes_text([("fuse", 0.0012), ("tile", 0.0003)]))
    pass                ms
    fuse             1.200
    tile             0.300
    all              1.500
    """
    rows = [*passes, ("all", sum(seconds for _, seconds in passes))]
    return "\n".join([f"{'pass':12} {'ms':>9}", *(f"{name:12} {seconds * 1e3:9.3f}" for name, seconds in rows)])
