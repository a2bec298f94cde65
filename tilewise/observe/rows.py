"""A plan's parts as a person reads them: steps, exchanges, stages, totals. Values only (see explain.py)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from tilewise.plan.show import size_text
from tilewise.records import dataclass

Site = tuple[str, int]


@dataclass(frozen=True)
class StepRow:
    """One step. Bytes are those of the worker that has most."""

    kind: str
    operators: tuple[str, ...]
    shape: tuple[int, ...]  # what is gone over
    result: tuple[int, ...]
    dtype: str
    layout: str
    bytes_read: int
    bytes_written: int
    seconds: float
    where: str
    kernel: Any = None
    tiles: str = ""  # how a pass of several kernels is cut, in words

    @property
    def value(self) -> str:
        """Shape and dtype."""
        way = "" if self.result == self.shape else f" -> {size_text(self.result)}"
        return f"{size_text(self.shape)}{way} {self.dtype}"

    @property
    def signature(self) -> Any:
        """What makes two steps alike to a reader."""
        return self.kind, self.operators, self.shape, self.dtype, self.layout


@dataclass(frozen=True)
class ExchangeRow:
    """One exchange: what kind, of which value, how many bytes cross, over all workers."""

    kind: str
    value: str
    source: str
    target: str
    bytes: int
    seconds: float
    where: str
    bound: bool = False  # the bytes are an upper bound (they depend on data)
    read: int = 0  # bytes that workers read from a store; they do not cross
    written: int = 0  # bytes that are written to a store, by workers and by the driver
    expected: int | None = None  # bytes of data that come as they may, where that is less than the bound

    @property
    def moved(self) -> str:
        """Bytes that cross, are read or are written, as text."""
        return f"{'at most ' if self.bound else ''}{self.read or self.written or self.bytes:,}"

    @property
    def signature(self) -> Any:
        """What makes two exchanges alike to a reader."""
        return self.kind, self.value, self.source, self.target, self.bytes, self.read, self.written


@dataclass(frozen=True)
class Stage:
    """Steps that need no communication."""

    steps: tuple[StepRow, ...]

    @property
    def passes(self) -> tuple[StepRow, ...]:
        """The fused steps."""
        return tuple(s for s in self.steps if s.kind == "pass")

    @property
    def seconds(self) -> float:
        """Predicted time."""
        return sum(s.seconds for s in self.steps)

    @property
    def signature(self) -> Any:
        """What makes two stages alike to a reader."""
        return tuple(s.signature for s in self.steps)


Part = Stage | ExchangeRow


@dataclass(frozen=True)
class Totals:
    """Bytes over all workers: read and written by operators, allocated for new values, sent between workers."""

    read: int
    written: int
    allocated: int
    sent: int


def names_text(names: Sequence[str], width: int) -> str:
    """Operators in at most so many characters; what repeats is counted, what does not fit is.

    >>> names_text(["add", "add", "add", "exp"], 40)
    'add x3, exp'
    >>> names_text(["subtract", "square", "exp", "divide"], 24)
    'subtract, square, 2 more'
    """
    runs = [(name, len(list(run))) for name, run in groupby(names)]
    words = [name if n == 1 else f"{name} x{n}" for name, n in runs]
    text = ", ".join(words)
    for kept in range(len(words) - 1, 0, -1):
        if len(text) <= width:
            break
        text = ", ".join([*words[:kept], f"{sum(n for _, n in runs[kept:])} more"])
    return text if len(text) <= width else text[: width - 1] + "…"


def where_text(sites: Sequence[Site | None]) -> str:
    """The user's line, or the lines from first to last of one file.

    >>> where_text([("/home/me/fit.py", 7), None, ("/home/me/fit.py", 9)])
    'fit.py:7-9'
    """
    known = [s for s in sites if s is not None]
    if not known:
        return ""
    lines = [line for file, line in known if file == known[0][0]]
    first, last = min(lines), max(lines)
    return f"{known[0][0].rsplit('/', 1)[-1]}:{first}" + (f"-{last}" if last > first else "")


def count_text(n: int, what: str) -> str:
    """
    >>> count_text(1, "stage"), count_text(2, "pass")
    ('1 stage', '2 passes')
    """
    many = what + ("es" if what.endswith("s") else "s")
    return f"{n:,} {what if n == 1 else many}"


def bytes_text(n: float) -> str:
    """
    >>> bytes_text(512), bytes_text(3 << 20)
    ('512 B', '3.00 MiB')
    """
    unit = "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB", "PiB"):
        if n < 1024 or unit == "PiB":
            break
        n /= 1024
    return f"{n:,.0f} B" if unit == "B" else f"{n:,.2f} {unit}"


def time_text(seconds: float) -> str:
    """
    >>> time_text(0.0015)
    '1.500 ms'
    """
    return f"{seconds * 1e3:,.3f} ms"
