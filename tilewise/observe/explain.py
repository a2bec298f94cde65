"""Plans for people. In: steps over nodes, layouts. Out: `Plan`, with its text and its numbers. Runs nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any

from tilewise.cost.model import BYTE_UNITS, FIXED, TICKS, Rates
from tilewise.layout import Kind, Layout, Mesh, OnDriver, Replicate, Stored, describe, moves
from tilewise.observe import html, table
from tilewise.observe.alternatives import Why
from tilewise.observe.kernels import KernelText, kernels_of
from tilewise.observe.picture import Drawn, picture
from tilewise.observe.row_maker import RowMaker, sites_of
from tilewise.observe.rows import (
    ExchangeRow,
    Part,
    Site,
    Stage,
    StepRow,
    Totals,
    bytes_text,
    count_text,
    time_text,
    where_text,
)
from tilewise.observe.svg import draw
from tilewise.observe.whatif import Again, WhatIf, main_layouts, what_if
from tilewise.plan.blocks import Spec
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.memory import peak_bytes
from tilewise.plan.show import Kernels, dtype_text, local_text, mesh_text, size_text
from tilewise.plan.step_seconds import seen_bytes
from tilewise.solver.model.why import alternatives, label
from tilewise.solver.proof.check import check
from tilewise.stage.steps import Exchange, Step, Tiled, View, in_place, makes

MOVED_SHOWN = 5
_COUNTED = "; it is counted first, and the rest is planned by what it keeps"


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
        plan: Exchanges | None,
        results: Sequence[int],
        machine: Rates = FIXED,
        locate: Callable[[Any], int | None] | None = None,
        again: Again | None = None,
        budget: int | None = None,
        first: Sequence[Plan] = (),
        masks: Sequence[str] = (),
        stored: Sequence[int] = (),
        beside: int = 0,
        guessed: bool = False,
    ) -> None:
        self.passes: tuple[tuple[str, float], ...] = ()  # of the compiler, in order: names and seconds
        self.moved_before: dict[Site, int] = {}  # by line: bytes that have moved already, as recording needed values
        self.detail: str | None = None  # what `str` shows beside the table: "passes" or "steps"
        self._machine = machine
        self._plan = plan
        self._choice = None if plan is None else plan.choice
        self._given = 0 if plan is None else plan.given
        self._locate = locate
        self._again = again
        self._budget = budget
        self._steps = steps
        self._results = tuple(results)
        self.mesh = mesh
        self._specs = specs
        self._nodes = specs if plan is None else plan.nodes(plan.types.largest)  # as the largest block has them
        self._layouts = layouts
        self.guessed = guessed  # whether what a mask keeps is not known: what moves is a bound
        self._make = RowMaker(specs, self._nodes, mesh, layouts, machine, sites_of(specs), guessed)
        self.likely: Plan | None = None  # for what masks are expected to keep, where this is for the most they may
        self._first = first  # plans that count masks, which run before the rest is planned
        self._masks = masks  # what each mask is thought to keep
        self.parts: list[Part] = [part for plan in first for part in plan.parts]
        self.parts += [self._make.exchange(pos, moves(Stored(), Replicate(), specs[pos].shape, mesh)) for pos in stored]
        self.moved: dict[int, list[ExchangeRow]] = {}  # by the position of what an exchange makes
        self.gathered: list[tuple[int, ExchangeRow]] = []  # results, brought to the driver
        self._rows: list[StepRow | None] = []  # by step
        run: list[StepRow] = []
        for k, step in enumerate(steps):
            if isinstance(step, Exchange):
                if run:
                    self.parts.append(Stage(tuple(run)))
                    run = []
                assert plan is not None
                rows = [self._make.exchange(step.pos, e) for e in plan.routes[k]]
                traffic = plan.traffic(step)
                if traffic is not None:
                    rows.append(self._make.collective(step.pos, plan.layouts[step.input], traffic))
                self.moved[step.pos] = rows
                self.parts.extend(rows)
                self._rows.append(None)
            else:
                run.append(self._make.step(step))
                self._rows.append(run[-1])
        if run:
            self.parts.append(Stage(tuple(run)))
        if layouts is not None:
            for pos in results:
                row = self._make.exchange(pos, moves(layouts[pos], OnDriver(), specs[pos].shape, mesh))
                self.gathered.append((pos, row))
                self.parts.append(row)
        before: list[int] = [p.memory_bytes for p in first]
        ends = results if plan is None else plan.wanted
        peak = peak_bytes(steps, specs, layouts, mesh, ends, () if plan is None else plan.routes)
        self.beside_bytes = beside  # of values that workers hold and the plan does not read
        self.memory_bytes: int = max(*before, peak + beside, 0)

    def write_results(self, crossing: Callable[[Layout, tuple[int, ...], Any], int]) -> None:
        """Results are written to a store instead of brought here; `crossing` says how many bytes come here for it."""
        self.parts = [p for p in self.parts if not any(p is row for _, row in self.gathered)]
        self.gathered = []
        for pos in self._results:
            spec = self._specs[pos]
            layout = self._stored_from(pos)
            lies = "here" if layout is None else describe(layout)
            moved = 0 if layout is None else crossing(layout, spec.shape, spec.dtype)
            nbytes = prod(spec.shape) * spec.dtype.itemsize
            ends = self._make.value(pos), lies, describe(Stored())
            row = ExchangeRow("write", *ends, moved, 0.0, self._make.where(pos), written=nbytes)
            self.gathered.append((pos, row))
            self.parts.append(row)

    def _stored_from(self, pos: int) -> Layout | None:
        """How a result lies on workers when it is written; None: it is here, or written where it is made."""
        return None if self._layouts is None else self._layouts[pos]

    def write_known(self, shape: tuple[int, ...], dtype: Any) -> None:
        """An array that is here is written, too."""
        value = f"{size_text(shape)} {dtype_text(dtype)}"
        nbytes = prod(shape) * dtype.itemsize
        self.parts.append(ExchangeRow("write", value, "here", describe(Stored()), 0, 0.0, "", written=nbytes))

    @property
    def kernels(self) -> list[KernelText]:
        """The kernels of all passes, in the order they run: print one to see its loops; `.llvm()`, `.assembly()`."""
        before = [kernel for plan in self._first for kernel in plan.kernels]
        return before + kernels_of(self._steps, self._specs)

    def steps_text(self, kernels: Kernels | None = None) -> str:
        """Every step in a line: what it makes of what, frees, overwrites and exchanges.

        `kernels` names kernels, and lists their loops, across several plans.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0):
        ...     x = tw.array([1.0, 2.0, 3.0])
        ...     print(tw.explain(x * 2).steps_text())
        1 worker: 1 step, 1 pass, peak 48 bytes
             input    %0        3 float64
          1  pass K1  %2 <- %0  3 float64  multiply  frees %0
        result %2
        """
        names = kernels or Kernels()
        own = (
            local_text(self._steps, self._specs, self._results, names)
            if self._plan is None
            else mesh_text(self._plan, self._results, names)
        )
        return "\n\n".join([*(plan.steps_text(names) for plan in self._first), own])

    @property
    def seconds(self) -> float:
        """Predicted time: of what is exchanged, and of what is computed between exchanges."""
        return sum(p.seconds for p in self.parts)

    @property
    def exchange_seconds(self) -> float:
        """The part of `seconds` that exchanges take."""
        return sum(e.seconds for e in self.exchanges)

    @property
    def totals(self) -> Totals:
        """Bytes over all workers: read and written by operators, allocated for new values, sent between workers.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0):
        ...     x = tw.array([1.0, 2.0, 3.0])
        ...     plan = tw.explain(x * 2)
        >>> plan.totals
        Totals(read=24, written=24, allocated=24, sent=0)
        """
        before = [plan.totals for plan in self._first]
        read, written, allocated = (sum(getattr(t, k) for t in before) for k in ("read", "written", "allocated"))
        for step in self._steps:
            made = sum(self._make.all_bytes(x) for x in makes(step))
            if isinstance(step, Exchange):
                rows = self.moved[step.pos]
                allocated += 0 if all(r.kind == Kind.TRIM for r in rows) else made
            elif not isinstance(step, View):
                read += seen_bytes(step, self._specs, self._make.all_bytes, self._nodes)[0]
                written += made
                allocated += made - sum(self._make.all_bytes(x) for x in in_place(step))
        return Totals(read, written, allocated, self.network_bytes)

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
        if not self._steps:
            raise ValueError("there is nothing to compute: the values are known")
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
    def expected_bytes(self) -> int:
        """Of `network_bytes`, which may be a bound, what is expected to cross: of data that come as they may.

        >>> import numpy, tilewise as tw
        >>> with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4):
        ...     x = tw.asarray(numpy.arange(8000.0)).relayout(0)
        ...     plan = tw.explain(tw.sort(x))
        >>> plan.expected_bytes < plan.network_bytes
        True
        """
        rows = (self if self.likely is None else self.likely).exchanges
        return sum(e.bytes if e.expected is None else e.expected for e in rows)

    @property
    def layouts(self) -> tuple[tuple[str, Layout], ...]:
        """Operator and layout of every node."""
        return tuple(
            (s.op.label(), lay)
            for s, lay in zip(self._specs, self._layouts or [Replicate()] * len(self._specs), strict=True)
        )

    @property
    def read_bytes(self) -> int:
        """Bytes that workers read from sources, summed over workers: they do not cross between these."""
        return sum(e.read for e in self.exchanges)

    @property
    def written_bytes(self) -> int:
        """Bytes that are written to a store, if that was asked for (`explain(x, store=path)`).

        >>> import tilewise as tw
        >>> tw.explain(tw.ones((3, 4)) * 2, store="x.npy").written_bytes
        96
        """
        return sum(e.written for e in self.exchanges)

    def __str__(self) -> str:
        text = table.text(self._head(), self.parts)
        more = {"passes": lambda: table.passes_text(self.passes), "steps": self.steps_text}.get(self.detail or "")
        return text if more is None else f"{text}\n\n{more()}"

    __repr__ = __str__

    def _head(self) -> list[str]:
        """What is to be said of the whole plan."""
        passes = sum(len(s.passes) for s in self.stages)
        who = "1 worker" if self.mesh.workers == 1 else f"{self.mesh} workers"
        if self.mesh.blocks > 1:
            who += f" of {self.mesh.blocks} blocks"
        counts = ((len(self.stages), "stage"), (passes, "pass"), (len(self.exchanges), "exchange"))
        t = self.totals
        read = f"{self.read_bytes:,} are read from sources, " if self.read_bytes else ""
        read += f"{self.written_bytes:,} are written to a store, " if self.written_bytes else ""
        kept = [f"A mask keeps {m}{_COUNTED if self._first else ''}." for m in self._masks]
        if self.expected_bytes < self.network_bytes or self.likely is not None:
            kept.append(f"{self.expected_bytes:,} bytes are expected to cross; shown is what may cross at most.")
        return [
            f"Plan for {who}: {', '.join(count_text(n, what) for n, what in counts)}",
            f"{self.network_bytes:,} bytes cross between workers, {read}"
            f"peak {bytes_text(self.memory_bytes)} per worker, "
            f"predicted {time_text(self.seconds)} (exchanges {time_text(self.exchange_seconds)})",
            table.sum_text(t.read, t.written, t.allocated, t.sent),
            self.proof,
            *kept,
            *self._moved_text(),
        ]

    def _moved_text(self) -> list[str]:
        """What has moved before this plan, as the program needed values while it was recorded."""
        if not self.moved_before:
            return []
        rows = sorted(self.moved_before.items(), key=lambda row: -row[1])
        lines = [f"{n:,} by {where_text([where])}" for where, n in rows[:MOVED_SHOWN]]
        more = [f"{len(rows) - MOVED_SHOWN} more lines"] if len(rows) > MOVED_SHOWN else []
        total = sum(self.moved_before.values())
        return [f"{total:,} bytes have crossed already, for values that recording needed: {', '.join(lines + more)}."]

    def _drawn(self) -> Drawn:
        own = self.parts[sum(len(plan.parts) for plan in self._first) :]
        return Drawn(self._specs, self._layouts, self._steps, self._rows, self.moved, self.gathered, self._results, own)

    @property
    def main_layouts(self) -> str:
        """The layouts that most bytes are in."""
        if self._layouts is None or self.mesh.workers == 1:
            return "whole"
        single = [s for step in self._steps for s in (step.steps if isinstance(step, Tiled) else (step,))]
        seen = {s.pos for s in single if isinstance(s, View)}
        pairs = enumerate(zip(self._specs, self._layouts, strict=True))
        return main_layouts([(lay, prod(s.shape) * s.dtype.itemsize) for i, (s, lay) in pairs if i not in seen])

    @property
    def proof(self) -> str:
        """How good the layouts are, in a sentence or two."""
        if not self._steps:
            return "There is nothing to compute: the values are known."
        if self._layouts is None:
            return "One worker: there are no layouts to choose."
        if self._choice is None:
            return "Layouts were chosen at random (tw.testing.random_layouts)."
        solution = self._choice.solution
        said = f"Layouts chosen by {self._machine.objective}: "
        if self.optimal:
            said += "no choice is cheaper under this cost model (proved; .certificate, .verify())."
        else:
            said += f"no choice is more than {100 * solution.gap:.2g} % cheaper under this cost model (proved)."
        if self._given:
            said += f"\nSums take routes with fewer bytes, for {100 * self._given / solution.cost:.1g} % more time."
        return said

    def _repr_html_(self) -> str:
        """For notebooks: the table and the picture."""
        return html.page(self._head(), self.parts, self.to_svg())

    def to_svg(self, path: str | PathLike[str] | None = None) -> str:
        """A picture of the tiled program as SVG text, written to a file if a path is given.

        A box is an operator or an input, its colour and the small drawing in it its layout; a rounded box on a thick
        arrow is an exchange; a band is a stage. Large programs are drawn by steps, very large ones by stages.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0):
        ...     plan = tw.explain(tw.ones((4000, 1000)).sum(axis=0), workers=4)
        >>> plan.to_svg().startswith("<svg ")
        True
        """
        text = draw(picture(self._drawn()))
        if path is not None:
            Path(path).write_text(text, encoding="utf-8")
        return text

    def what_if(self, workers: int | Sequence[int | tuple[int, ...]] = (1, 4, 16, 64, 256, 1024)) -> WhatIf:
        """The same program on other numbers of workers (or grids, as tuples), in one table. Nothing is run.

        >>> import tilewise as tw
        >>> with tw.config(eager_bytes=0):
        ...     table = tw.explain(tw.ones((4000, 4000)).sum()).what_if(workers=(1, 16, (4, 4)))
        >>> [row.mesh.workers for row in table.rows]
        [1, 16, 16]
        >>> table.rows[0].speedup
        1.0
        """
        if isinstance(workers, int):
            workers = (workers,)
        if self._again is None:
            raise ValueError("this plan does not know its program; ask the one that explain(...) gives")
        return what_if(self._again, workers, self._budget)
