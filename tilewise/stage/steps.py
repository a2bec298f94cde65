"""The steps of a plan, as frozen values over node positions. What each does is in backend/host/steps.py."""

from __future__ import annotations

from functools import cached_property

from tilewise.kernel.loops import Kernel
from tilewise.ops.join import Broadcast
from tilewise.ops.move import Pin
from tilewise.ops.reshape import Reshape
from tilewise.records import dataclass

ALIASES = (Reshape, Broadcast, Pin)  # operators of calls whose NumPy functions give views where they can


@dataclass(frozen=True)
class View:
    """A window onto another value; moves nothing."""

    pos: int
    input: int
    frees: tuple[int, ...] = ()


@dataclass(frozen=True)
class Call:
    """One operator by its NumPy meaning."""

    pos: int
    inputs: tuple[int, ...]
    frees: tuple[int, ...] = ()


@dataclass(frozen=True)
class Write:
    """A part of `base` replaced: in place if nobody needs the old value, else in a copy."""

    pos: int
    base: int
    inputs: tuple[int, ...]
    last_use: bool  # no later step reads the base
    frees: tuple[int, ...] = ()


@dataclass(frozen=True)
class Centre:
    """What a sum of squared deviations is about: positions of the mean, of the sum it is made of and of their ratio.

    `off` is the number of the deviation among the values of the kernel, `rest` the position of the sum of deviations
    that the pass makes besides (None: it makes none).
    """

    mean: int
    total: int
    count: int
    off: int
    rest: int | None = None


@dataclass(frozen=True)
class LoopParams:
    """How the params of a kernel with a loop follow from those of its pass: some, the number of iterations, tables."""

    numbers: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]
    count: int


@dataclass(frozen=True)
class Pass:
    """Fused operators: one kernel over one iteration space.

    `outs` are the positions the kernel's outputs become. Where `writes[k]` is not None, output k goes straight into a
    window of that base (the Update at `outs[k]`), and `last_uses[k]` says that no later step reads the base.
    """

    kernel: Kernel
    inputs: tuple[int, ...]
    params: tuple[int, ...]
    outs: tuple[int, ...]
    space: int  # the position whose shape is the iteration space (with `letters`: of the result, which lacks some)
    members: tuple[int, ...]  # positions of all nodes computed here
    writes: tuple[int | None, ...] = ()
    last_uses: tuple[bool, ...] = ()
    frees: tuple[int, ...] = ()
    letters: tuple[tuple[int, ...], ...] | None = None  # a contraction: the dims of the space that each input walks
    blas: bool = False  # a product of matrices: BLAS does it, tile by tile or as a whole
    iterations: LoopParams | None = None  # of a kernel that runs a loop of the user's
    fused: bool = False  # made of a graph's elementwise operators, not of one operator with a pass of its own
    centre: Centre | None = None  # of a sum of squared deviations that tiles may take each about its own mean

    @cached_property
    def plain(self) -> bool:
        """Whether all that it makes is new and has the shape of the space, and its operands are as they are."""
        new = all(w is None for w in self.writes) and all(o.stored for o in self.kernel.outputs)
        return new and self.letters is None and self.iterations is None and not self.blas


@dataclass(frozen=True)
class Tiled:
    """Passes that share their tiles: each tile goes through all of them while it is in the caches.

    `steps` in order, views of what they make among them; run one after the other over whole arrays they give the same.
    A call makes a mean that tiles take each of its own part (`Pass.centre`).
    `outs` are the positions that are needed outside; `sources` say for each input what it is a view of (else itself).
    """

    steps: tuple[Pass | View | Call, ...]
    inputs: tuple[int, ...]
    outs: tuple[int, ...]
    sources: tuple[int, ...] = ()
    frees: tuple[int, ...] = ()


@dataclass(frozen=True)
class Exchange:
    """A value takes another layout, or is made by a collective; the only step in which data moves between workers."""

    pos: int
    input: int
    frees: tuple[int, ...] = ()
    more: tuple[int, ...] = ()  # further operands of what is made


Step = View | Call | Write | Pass | Tiled | Exchange


@dataclass(frozen=True)
class Stage:
    """Steps that need no communication: what a backend binds. `given` and `results` are positions."""

    steps: tuple[Step, ...]
    given: tuple[int, ...]
    results: tuple[int, ...]


def reads(step: Step) -> tuple[int, ...]:
    """Positions a step reads."""
    match step:
        case View():
            return (step.input,)
        case Exchange():
            return (step.input, *step.more)
        case Call():
            return step.inputs
        case Write():
            return (step.base, *step.inputs)
        case Tiled():
            return step.inputs
        case Pass():
            return (*step.inputs, *step.params, *(w for w in step.writes if w is not None))


def makes(step: Step) -> tuple[int, ...]:
    """Positions a step defines."""
    return step.outs if isinstance(step, Pass | Tiled) else (step.pos,)


def in_place(step: Step) -> tuple[int, ...]:
    """Positions that a step usually defines in memory that exists already."""
    if isinstance(step, Write):
        return (step.pos,) if step.last_use else ()
    if isinstance(step, Pass):
        bases = zip(step.outs, step.writes, step.last_uses, strict=False)
        return tuple(out for out, base, last in bases if base is not None and last)
    return ()


def members(step: Step) -> tuple[int, ...]:
    """Positions of all nodes that a step computes, stored or not."""
    match step:
        case Tiled():
            return tuple(dict.fromkeys(m for s in step.steps for m in members(s)))
        case Pass():
            return (*step.members, *(o for o in step.outs if o not in step.members))
        case _:
            return (step.pos,)


def dead_after(group: Tiled) -> list[list[int]]:
    """What has no later reader after each step of a group, if they run one by one."""
    last = {x: k for k, s in enumerate(group.steps) for x in (*makes(s), *reads(s))}
    inner = {x for s in group.steps for x in makes(s)}.difference(group.outs)
    return [[x for x in inner if last[x] == k] for k in range(len(group.steps))]


def passes(step: Step) -> tuple[Pass, ...]:
    """The passes of a step."""
    if isinstance(step, Tiled):
        return tuple(s for s in step.steps if isinstance(s, Pass))
    return (step,) if isinstance(step, Pass) else ()
