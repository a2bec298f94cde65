"""Plans for people. In: steps over nodes, layouts. Out: `Plan`, with its text and its numbers. Runs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.cost.model import FIXED, Machine, exchange_seconds
from tilewise.layout import Layout, Mesh, OnDriver, Replicate, describe, moves
from tilewise.plan.memory import held_bytes, peak_bytes
from tilewise.plan.mesh import MeshPlan, Spec
from tilewise.plan.steps import Call, Exchange, Pass, Step, View, Write, makes, reads

MIB = 1 << 20


@dataclass(frozen=True)
class StepRow:
    """One step as a person reads it."""

    kind: str
    operators: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    layout: str
    bytes_read: int
    bytes_written: int
    where: str
    kernel: Any = None

    def __str__(self) -> str:
        names = ", ".join(self.operators)
        names = names if len(names) <= 60 else f"{len(self.operators)} operators: {names[:44]}…"
        size = "x".join(map(str, self.shape)) or "scalar"
        return f"  {self.kind:<6} {names:<62} {size + ' ' + self.dtype:<24} {self.layout:<16} {self.where}"


@dataclass(frozen=True)
class ExchangeRow:
    """One exchange: what kind, of which value, how many bytes cross."""

    kind: str
    value: str
    source: str
    target: str
    bytes: int
    where: str
    bound: bool = False  # the bytes are an upper bound (they depend on data)

    def __str__(self) -> str:
        most = "at most " if self.bound else ""
        way = f"{self.source} -> {self.target}"
        return f"  {self.kind:<18} {self.value:<26} {way:<54} {most + format(self.bytes, ','):>14} bytes  {self.where}"


@dataclass(frozen=True)
class Stage:
    """Steps that need no communication."""

    steps: tuple[StepRow, ...]

    @property
    def passes(self) -> tuple[StepRow, ...]:
        """The fused steps."""
        return tuple(s for s in self.steps if s.kind == "pass")


class Plan:
    """What evaluating some arrays would do, and what it would cost. `str(plan)` is a table.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0):
    ...     x = tw.arange(1000.0)
    ...     plan = tw.explain((x * x).sum(), workers=4)
    >>> plan.network_bytes > 0
    True
    """

    optimal = False  # layouts are chosen node by node; nothing is proved about them
    bound: float | None = None
    certificate: Any = None

    def __init__(
        self,
        steps: Sequence[Step],
        specs: Sequence[Spec],
        mesh: Mesh,
        layouts: Sequence[Layout] | None,
        plan: MeshPlan | None,
        results: Sequence[int],
        machine: Machine = FIXED,
    ) -> None:
        self._machine = machine
        self.mesh = mesh
        self._specs = specs
        self._layouts = layouts
        self.parts: list[Stage | ExchangeRow] = []
        run: list[StepRow] = []
        self.seconds = 0.0
        for k, step in enumerate(steps):
            if isinstance(step, Exchange):
                if run:
                    self.parts.append(Stage(tuple(run)))
                    run = []
                assert plan is not None
                for e in plan.routes[k]:
                    self._exchange(specs[step.pos], e)
                if plan.sorts(step):
                    self._sort(specs[step.pos], plan.step_bytes(k))
            else:
                run.append(self._row(step))
        if run:
            self.parts.append(Stage(tuple(run)))
        if layouts is not None:
            for pos in results:
                self._exchange(specs[pos], moves(layouts[pos], OnDriver(), specs[pos].shape, mesh))
        self.memory_bytes = peak_bytes(steps, specs, layouts, mesh, results)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Groups of steps between exchanges."""
        return tuple(p for p in self.parts if isinstance(p, Stage))

    @property
    def exchanges(self) -> tuple[ExchangeRow, ...]:
        """Everything that moves, scatter of inputs and gather of results included."""
        return tuple(p for p in self.parts if isinstance(p, ExchangeRow))

    @property
    def network_bytes(self) -> int:
        """Bytes that cross between workers, summed over workers."""
        return sum(e.bytes for e in self.exchanges)

    @property
    def layouts(self) -> tuple[tuple[str, Layout], ...]:
        """Operator and layout of every node."""
        return tuple(
            (s.op.label(), lay)
            for s, lay in zip(self._specs, self._layouts or [Replicate()] * len(self._specs), strict=True)
        )

    def _exchange(self, spec: Spec, e: Any) -> None:
        moved = e.bytes(spec.dtype.itemsize)
        self.parts.append(
            ExchangeRow(str(e.kind), _value(spec), describe(e.src), describe(e.dst), moved, _where(spec.site))
        )
        self.seconds += exchange_seconds(e.src, e.dst, e.shape, self.mesh, spec.dtype.itemsize, self._machine)

    def _sort(self, spec: Spec, most: int) -> None:
        row = ExchangeRow("sample sort", _value(spec), "sorted blocks", "sorted", most, _where(spec.site), bound=True)
        self.parts.append(row)
        self.seconds += 4 * self._machine.latency + most / self.mesh.workers / self._machine.network_rate

    def _row(self, step: Step) -> StepRow:
        specs = self._specs
        made = makes(step)
        first = specs[made[0]]
        layout = describe(self._layouts[made[0]]) if self._layouts is not None else "here"
        if isinstance(step, Pass):
            ops = tuple(specs[m].op.label() for m in (*step.members, *(o for o in made if o not in step.members)))
            read, written = sum(self._bytes(x) for x in step.inputs), sum(self._bytes(x) for x in made)
            self.seconds += (read + written) / self._machine.memory_rate
            space = specs[step.space]
            return StepRow(
                "pass", ops, space.shape, str(space.dtype), layout, read, written, _where(first.site), step.kernel
            )
        kind = {View: "view", Call: "numpy", Write: "write"}[type(step)]
        read = 0 if kind == "view" else sum(self._bytes(x) for x in reads(step))
        written = 0 if kind == "view" else sum(self._bytes(x) for x in made)
        self.seconds += (read + written) / self._machine.memory_rate
        return StepRow(
            kind, (first.op.label(),), first.shape, str(first.dtype), layout, read, written, _where(first.site)
        )

    def _bytes(self, pos: int) -> int:
        return held_bytes(self._specs[pos], None if self._layouts is None else self._layouts[pos], self.mesh)

    def __str__(self) -> str:
        passes = sum(len(s.passes) for s in self.stages)
        who = "1 worker" if self.mesh.workers == 1 else f"{self.mesh} workers"
        if self.mesh.blocks > 1:
            who += f" of {self.mesh.blocks} blocks"
        lines = [
            f"Plan for {who}: {_count(len(self.stages), 'stage')}, {_count(passes, 'pass')}, "
            f"{_count(len(self.exchanges), 'exchange')}",
            f"{self.network_bytes:,} bytes cross between workers, peak {self.memory_bytes / MIB:,.2f} MiB per worker, "
            f"predicted {self.seconds * 1e3:,.3f} ms",
        ]
        number = 0
        for part in self.parts:
            if isinstance(part, Stage):
                number += 1
                lines.append(f"stage {number}")
                lines.extend(str(s) for s in part.steps)
            else:
                lines.append("exchange" + str(part)[1:])
        if self.mesh.workers > 1:
            lines.append("Layouts were chosen step by step; this plan is not proved to be the cheapest.")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """For notebooks: the same table."""
        text = str(self).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<pre>{text}</pre>"


def _count(n: int, what: str) -> str:
    many = what + ("es" if what.endswith("s") else "s")
    return f"{n} {what if n == 1 else many}"


def _value(spec: Spec) -> str:
    size = "x".join(map(str, spec.shape)) or "scalar"
    return f"{size} {spec.dtype}"


def _where(site: tuple[str, int] | None) -> str:
    return "" if site is None else f"{site[0].rsplit('/', 1)[-1]}:{site[1]}"
