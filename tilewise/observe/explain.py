"""Plans for people. In: steps over nodes, layouts. Out: `Plan`, with its text and its numbers. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.cost.model import BYTE_UNITS, FIXED, TICKS, Machine, exchange_seconds, talk_cost
from tilewise.layout import Layout, Mesh, OnDriver, Replicate, describe, moves
from tilewise.ops.regroup import Traffic
from tilewise.plan.memory import held_bytes, peak_bytes
from tilewise.plan.mesh import MeshPlan, Spec
from tilewise.plan.steps import Call, Exchange, Pass, Step, View, Write, makes, reads
from tilewise.solver.check import check
from tilewise.solver.why import Alternative, alternatives, label

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
    >>> plan.optimal
    True
    """

    def __init__(
        self,
        steps: Sequence[Step],
        specs: Sequence[Spec],
        mesh: Mesh,
        layouts: Sequence[Layout] | None,
        plan: MeshPlan | None,
        results: Sequence[int],
        machine: Machine = FIXED,
        locate: Callable[[Any], int | None] | None = None,
    ) -> None:
        self._machine = machine
        self._choice = None if plan is None else plan.choice
        self._locate = locate
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
                said = plan.traffic(step)
                if said is not None:
                    self._talk(specs[step.pos], plan.layouts[step.input], plan.layouts[step.pos], said)
            else:
                run.append(self._row(step))
        if run:
            self.parts.append(Stage(tuple(run)))
        if layouts is not None:
            for pos in results:
                self._exchange(specs[pos], moves(layouts[pos], OnDriver(), specs[pos].shape, mesh))
        self.memory_bytes = peak_bytes(steps, specs, layouts, mesh, results)

    @property
    def optimal(self) -> bool:
        """Whether no choice of layouts is cheaper, as `certificate` proves (on one worker there is no choice)."""
        if self._layouts is None:
            return True
        return self._choice is not None and self._choice.solution.proved

    @property
    def cost(self) -> float | None:
        """What the layouts were chosen by: seconds of exchanges and work, operator by operator, or bytes that move."""
        return None if self._choice is None else self._in_units(self._choice.solution.cost)

    @property
    def bound(self) -> float | None:
        """No choice of layouts has a `cost` below this."""
        return None if self._choice is None else self._in_units(self._choice.solution.bound)

    @property
    def certificate(self) -> Any:
        """The proof of `bound`, for `verify`; None where layouts were not chosen by cost."""
        return None if self._choice is None else self._choice.solution.proof

    def verify(self) -> None:
        """Check the proof with a program that shares nothing with the solver; an error if it does not hold.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0):
        ...     tw.explain(tw.ones((100, 100)).sum(axis=0), workers=4).verify()
        """
        if self._choice is not None:
            s = self._choice.solution
            check(self._choice.model.problem, s.values, s.cost, s.bound, s.proof)

    def _in_units(self, cost: int) -> float:
        return cost / (BYTE_UNITS if self._machine.objective == "bytes" else TICKS)

    def why(self, x: Any) -> Why:
        """Why an array lies as it does: what every other layout of it would cost the whole program, and where.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0, objective="bytes"):
        ...     a = tw.ones((600, 20))
        ...     total = (a * 2).sum(axis=0)
        ...     plan = tw.explain(total, workers=4)
        >>> plan.why(total).rows[0].chosen
        True
        """
        if self._choice is None or self._locate is None:
            raise ValueError("there is nothing to choose on one worker; ask explain(..., workers=4)")
        model = self._choice.model
        position = self._locate(x)
        if position is None:
            raise ValueError("the array is not in this plan; explain it together with what it is used for")
        use = model.graph.at[position]
        if use.item not in model.choices:
            raise ValueError("the array is an input: it lies where it is, and is copied to where it is needed")
        rows = alternatives(model, self._choice.solution, use.item)
        return Why(label(model, use.item), rows, self._in_units, self._machine.objective)

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

    def _talk(self, spec: Spec, src: Layout, dst: Layout, said: Traffic) -> None:
        ends = describe(src), describe(dst)
        self.parts.append(ExchangeRow(said.name, _value(spec), *ends, said.bytes, _where(spec.site), not said.exact))
        self.seconds += talk_cost(said, self.mesh, self._machine.timed) / TICKS

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
        if self._layouts is not None:
            lines.append(self._proof())
        return "\n".join(lines)

    def _proof(self) -> str:
        if self._choice is None:
            return "Layouts were chosen at random (tw.testing.random_layouts)."
        if self.optimal:
            return "No choice of layouts is cheaper under this cost model (proved; .certificate, .verify())."
        gap = self._choice.solution.gap
        return f"No choice of layouts is more than {100 * gap:.2g} % cheaper under this cost model (proved)."

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        """For notebooks: the same table."""
        text = str(self).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return f"<pre>{text}</pre>"


@dataclass(frozen=True)
class Why:
    """The layouts an array could have, the cheapest first, and what the whole program costs with each."""

    value: str
    rows: Sequence[Alternative]
    units: Callable[[int], float]
    objective: str

    def __str__(self) -> str:
        lines = [f"{self.value}: what the whole program costs with it as"]
        best = self.rows[0].cost
        for row in self.rows:
            more = "" if row.cost == best else f"+{self._amount(row.cost - best)}"
            note = "chosen" if row.chosen else "as good" if row.cost == best else ""
            reasons = "; ".join(f"{what} (+{self._amount(cost)})" for what, cost in row.reasons[:2])
            lines.append(f"  {describe(row.layout):<40} {self._amount(row.cost):>16} {more:>16}  {note or reasons}")
        return "\n".join(lines)

    __repr__ = __str__

    def _amount(self, cost: int) -> str:
        amount = self.units(cost)
        return f"{amount:,.0f} bytes" if self.objective == "bytes" else f"{amount * 1e3:,.3f} ms"


def _count(n: int, what: str) -> str:
    many = what + ("es" if what.endswith("s") else "s")
    return f"{n} {what if n == 1 else many}"


def _value(spec: Spec) -> str:
    size = "x".join(map(str, spec.shape)) or "scalar"
    return f"{size} {spec.dtype}"


def _where(site: tuple[str, int] | None) -> str:
    return "" if site is None else f"{site[0].rsplit('/', 1)[-1]}:{site[1]}"
