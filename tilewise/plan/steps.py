"""The steps of a plan, as frozen values over node positions. What each does is in engine/run.py."""

from __future__ import annotations

from dataclasses import dataclass

from tilewise.kernel.loops import Kernel


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
class Pass:
    """Fused operators: one kernel over one iteration space.

    `outs` are the positions the kernel's outputs become. Where `writes[k]` is not None, output k goes straight into a
    window of that base (the Update at `outs[k]`), and `last_uses[k]` says that no later step reads the base.
    """

    kernel: Kernel
    inputs: tuple[int, ...]
    params: tuple[int, ...]
    outs: tuple[int, ...]
    space: int  # the position whose shape is the iteration space
    members: tuple[int, ...]  # positions of all nodes computed here
    writes: tuple[int | None, ...] = ()
    last_uses: tuple[bool, ...] = ()
    frees: tuple[int, ...] = ()


@dataclass(frozen=True)
class Exchange:
    """A value takes another layout, or is made by blocks that talk; the only step in which workers do."""

    pos: int
    input: int
    frees: tuple[int, ...] = ()
    more: tuple[int, ...] = ()  # further operands of what is made


Step = View | Call | Write | Pass | Exchange


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
        case Pass():
            return (*step.inputs, *step.params, *(w for w in step.writes if w is not None))


def makes(step: Step) -> tuple[int, ...]:
    """Positions a step defines."""
    return step.outs if isinstance(step, Pass) else (step.pos,)
