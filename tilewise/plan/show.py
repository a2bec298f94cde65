"""Plans as text, a line per step. In: steps with the types of their values, or Exchanges. Out: text for people.

A value is named by its position in the graph (%7), a constant by its number, a kernel by its place among those shown so
far (K2; `Kernels` lists their loops). Nothing in the text depends on this machine: of tiles whose length the caches
decide, the length is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from tilewise.backend import host_backend
from tilewise.config import current
from tilewise.kernel import show
from tilewise.kernel.loops import Kernel
from tilewise.layout import Layout, Mesh, OnDriver, describe, moves
from tilewise.ops.const import Const
from tilewise.plan.blocks import Spec
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.memory import peak_bytes
from tilewise.records import dataclass
from tilewise.stage.cut_axis import MEAN, centred, space_of
from tilewise.stage.steps import Call, Exchange, Pass, Step, Tiled, View, Write, makes, passes, reads
from tilewise.stage.tiles import Formed

LETTERS = show.LETTERS


class Kernels:
    """Names for kernels, in the order in which they are first met: equal ones of several plans have one name.

    >>> from tilewise.kernel.loops import Output
    >>> kernels = Kernels()
    >>> kernels.name(Kernel(("float64",), (), (), (Output(0, "add"),), (True,)))
    'K1'
    >>> print(kernels.text())
    K1
    for i:
        a = read float64
        out0[] = add over i of a
    """

    def __init__(self) -> None:
        self._names: dict[Kernel, str] = {}

    def name(self, kernel: Kernel) -> str:
        """The name of a kernel."""
        return self._names.setdefault(kernel, f"K{len(self._names) + 1}")

    def text(self) -> str:
        """The loops of all kernels named so far."""
        return "\n\n".join(f"{name}\n{show.text(kernel)}" for kernel, name in self._names.items())


@dataclass
class _Row:
    """A line: cells that stand below each other, and notes behind them."""

    number: str
    kind: str
    values: str = ""
    type: str = ""
    layout: str = ""
    operators: str = ""
    notes: list[str] = field(default_factory=list)


def local_text(steps: Sequence[Step], specs: Sequence[Spec], results: Sequence[int], kernels: Kernels) -> str:
    """The plan of one worker."""
    writer = _Writer(specs, None, specs, kernels)
    for step in steps:
        writer.step(step)
    peak = peak_bytes(steps, specs, None, Mesh(1), results)
    head = f"1 worker: {_counts(steps)}, peak {peak:,} bytes"
    return "\n".join([head, *writer.lines(), f"result {_names(results)}"])


def mesh_text(plan: Exchanges, results: Sequence[int], kernels: Kernels) -> str:
    """The plan of every worker of a mesh, stage by stage, and what they exchange."""
    writer = _Writer(plan.specs, plan.layouts, plan.nodes(plan.types.largest), kernels)
    stages = 0
    for start, stop in plan.ranges():
        if isinstance(plan.steps[start], Exchange):
            writer.exchange(plan, start)
            continue
        stages += 1
        writer.title(f"stage {stages}")
        for step in plan.steps[start:stop]:
            writer.step(step)
    moved = f"{plan.network_bytes:,} bytes exchanged"
    if plan.bounded_bytes:
        moved += f" (of which {plan.bounded_bytes:,} are a bound)"
    peak = peak_bytes(plan.steps, plan.specs, plan.layouts, plan.mesh, plan.wanted, plan.routes)
    exchanges = sum(isinstance(s, Exchange) for s in plan.steps)
    counts = f"{_count(stages, 'stage')}, {_counts(plan.steps)}, {_count(exchanges, 'exchange')}"
    head = f"{plan.mesh} workers: {counts}, {moved}, peak {peak:,} bytes per worker"
    return "\n".join([head, *writer.lines(), *(_result(plan, pos) for pos in results)])


def _result(plan: Exchanges, pos: int) -> str:
    spec, layout = plan.specs[pos], plan.layouts[pos]
    cost = moves(layout, OnDriver(), spec.shape, plan.mesh).bytes(spec.dtype.itemsize)
    return f"result %{pos} {describe(layout)}, {cost:,} bytes to the driver"


class _Writer:
    """Collects rows. `blocks` are the values as a worker has them, by which groups are cut into tiles."""

    def __init__(
        self, specs: Sequence[Spec], layouts: Sequence[Layout] | None, blocks: Sequence[Any], kernels: Kernels
    ) -> None:
        self.specs, self.layouts, self.blocks, self.kernels = specs, layouts, blocks, kernels
        self.rows: list[_Row | str] = []
        self.count = 0
        for pos, spec in enumerate(specs):
            if spec.leaf:
                self.rows.append(_Row("", "input", f"%{pos}", _type(spec), self._lies([pos])))

    def title(self, text: str) -> None:
        self.rows.append(text)

    def lines(self) -> list[str]:
        """All rows, their cells below each other."""
        cells = [[r.number, r.kind, r.values, r.type, r.layout, r.operators] for r in self.rows if isinstance(r, _Row)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rest = iter(cells)
        out = []
        for row in self.rows:
            if isinstance(row, str):
                out.append(row)
                continue
            padded = [c.ljust(w) for c, w in zip(next(rest), widths, strict=True) if w]
            out.append("  ".join(["", *padded, "; ".join(row.notes)]).rstrip())
        return out

    def step(self, step: Step) -> None:
        """A step that needs no communication; of a group, its own steps below it."""
        self.count += 1
        if not isinstance(step, Tiled):
            self.rows.append(self._row(str(self.count), step, self.specs))
            return
        form = host_backend(current().native).formed(step, self.blocks)
        own = step if form is None else form.group
        nodes: Sequence[Any] = self.specs if form is None else [*self.specs, *form.nodes[len(self.specs) :]]
        row = _Row(str(self.count), "tiled", self._values(step), self._types(step.outs, nodes), self._lies(step.outs))
        row.notes = _freed(step.frees)
        cut = ["not cut at these sizes: the passes run one after the other"] if form is None else _cut_notes(form)
        self.rows += [row, f"       {'; '.join(cut)}"]
        for k, (pos, op) in enumerate(form.shown if form else ()):
            at = len(self.specs) + k
            self.rows.append(_Row("", "view", f"%{at} <- %{pos}", _type(nodes[at]), "", op.label()))
        for k, inner in enumerate(own.steps):
            self.rows.append(self._row(f"{self.count}.{k + 1}", inner, nodes))

    def exchange(self, plan: Exchanges, index: int) -> None:
        """What moves in a step, in one line per exchange on the way."""
        step = plan.steps[index]
        assert isinstance(step, Exchange)
        self.count += 1
        traffic, itemsize = plan.traffic(step), plan.specs[step.pos].dtype.itemsize
        ways = [(str(e.kind), describe(e.src), describe(e.dst), f"{e.bytes(itemsize):,}") for e in plan.routes[index]]
        if traffic is not None:
            ends = describe(plan.layouts[step.input]), describe(plan.layouts[step.pos])
            ways.append((traffic.name, *ends, f"{traffic.bytes:,}" if traffic.exact else f"at most {traffic.bytes:,}"))
        assert ways, "an exchange has at least one way"
        for k, (kind, src, dst, size) in enumerate(ways):
            frees = _freed(step.frees) if k == len(ways) - 1 else []
            number = str(self.count) if k == 0 else ""
            row = _Row(number, "exchange", self._values(step), _type(plan.specs[step.pos]), f"{src} -> {dst}", kind)
            row.notes = [f"{size} bytes", *frees]
            self.rows.append(row)

    def _row(self, number: str, step: Step, nodes: Sequence[Any]) -> _Row:
        made = makes(step)
        row = _Row(number, _kind(step), self._values(step), self._types(made, nodes), self._lies(made))
        match step:
            case Pass():
                self._describe(step, row, nodes)
            case Write():
                row.notes.append(_written(step.pos, step.base, step.last_use))
                row.operators = self._labels(made)
            case _:
                row.operators = self._labels(made)
        row.notes += _freed(step.frees)
        return row

    def _describe(self, step: Pass, row: _Row, nodes: Sequence[Any]) -> None:
        row.kind += f" {self.kernels.name(step.kernel)}"
        row.operators = self._labels((*step.members, *(o for o in step.outs if o not in step.members)))
        space = space_of(step, nodes)
        if any(nodes[o].dims != space for o in step.outs):
            row.type = f"{size_text(space)} -> {row.type}"
        if self.layouts is not None and step.space not in step.outs:
            row.layout = " -> ".join(dict.fromkeys((self._lies([step.space]), row.layout)))
        if step.letters is not None:
            row.notes.append("reads " + ", ".join("".join(LETTERS[d] for d in term) or "one" for term in step.letters))
        if step.blas:
            row.notes.append("matrix product")
        if step.iterations is not None:
            row.notes.append(f"rolled, {step.iterations.count} iterations")
        if step.centre is not None:
            row.notes.append(f"squares about %{step.centre.mean}")
        bases = zip(step.outs, step.writes, step.last_uses, strict=False)
        row.notes += [_written(out, base, last) for out, base, last in bases if base is not None]

    def _values(self, step: Step) -> str:
        return f"{_names(makes(step))} <- {' '.join(map(self._operand, dict.fromkeys(reads(step)))) or 'nothing'}"

    def _operand(self, pos: int) -> str:
        if pos < len(self.specs) and type(self.specs[pos].op) is Const and not self.specs[pos].leaf:
            return self.specs[pos].op.label()
        return f"%{pos}"

    def _types(self, made: Sequence[int], nodes: Sequence[Any]) -> str:
        return ", ".join(dict.fromkeys(_type(nodes[pos]) for pos in made))

    def _labels(self, members: Iterable[int]) -> str:
        """Operators, each kind once."""
        counted = Counter(self.specs[m].op.label() for m in members)
        return ", ".join(name if n == 1 else f"{name} x{n}" for name, n in counted.items())

    def _lies(self, made: Iterable[int]) -> str:
        if self.layouts is None:
            return ""
        return ", ".join(dict.fromkeys(describe(self.layouts[pos]) for pos in made if pos < len(self.layouts)))


def _kind(step: Step) -> str:
    return {View: "view", Call: "call", Write: "write", Pass: "pass", Exchange: "exchange"}[type(step)]


def _cut_notes(form: Formed) -> list[str]:
    """How a group is cut into tiles, as far as no cache decides it."""
    cut = form.cut
    axes = " ".join(f"%{pos}[{axis}]" for pos, axis in sorted(cut.way.cut))
    length = "tiles as the caches like" if cut.any_length else f"tiles of {cut.tile:,} in {_count(cut.chunks, 'chunk')}"
    notes = [f"{_count(len(passes(form.group)), 'pass')} on each tile", f"{cut.way.length:,} slices of {axes}", length]
    sums = sorted(pos for pos, at in cut.way.at.items() if isinstance(at, str) and at != MEAN)
    if sums:
        notes.append(f"reduced over tiles: {_names(sums)}")
    own = [s.outs[0] for s in centred(form.group, cut.way)]
    if own:
        notes.append(f"each tile about its own mean: {_names(own)}")
    return [*notes, f"halo {cut.halo}"] if cut.halo else notes


def _written(out: int, base: int, last: bool) -> str:
    return f"%{out} in place of %{base}" if last else f"%{out} in a copy of %{base}"


def _freed(frees: Sequence[int]) -> list[str]:
    return [f"frees {_names(frees)}"] if frees else []


def _names(positions: Iterable[int]) -> str:
    return " ".join(f"%{pos}" for pos in positions)


def size_text(shape: Sequence[int]) -> str:
    """A shape in short.

    >>> size_text((4, 3)), size_text(())
    ('4x3', 'scalar')
    """
    return "x".join(map(str, shape)) or "scalar"


def dtype_text(dtype: np.dtype[Any]) -> str:
    """A dtype in short; of contributions with several components, those of the components.

    >>> dtype_text(np.dtype([("value", "f8"), ("position", "i8")]))
    '(float64, int64)'
    """
    return str(dtype) if dtype.names is None else f"({', '.join(str(dtype[name]) for name in dtype.names)})"


def _type(node: Any) -> str:
    return f"{size_text(node.dims)} {dtype_text(node.dtype)}"


def _counts(steps: Sequence[Step]) -> str:
    alone = [s for s in steps if not isinstance(s, Exchange)]
    return f"{_count(len(alone), 'step')}, {_count(sum(len(passes(s)) for s in alone), 'pass')}"


def _count(n: int, what: str) -> str:
    return f"{n:,} {what if n == 1 else what + ('es' if what.endswith('s') else 's')}"
