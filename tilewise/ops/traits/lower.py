"""Operators as loops. In: a node. Out: whether it is part of a kernel, ends one, or is a kernel of its own.

Operators register what they can be beside their class; the others are calls of NumPy.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

from tilewise.ir.node import Node, Op
from tilewise.kernel.loops import Kernel

Axes = tuple[int, ...]


class Loops(NamedTuple):
    """A kernel of its own: which operands it reads as arrays and which as numbers, and how it walks along them."""

    kernel: Kernel
    arrays: tuple[int, ...]
    numbers: tuple[int, ...] = ()
    space: int | None = None  # the operand whose shape is that of the loops (None: the result)
    letters: tuple[Axes, ...] | None = None  # per array: the loop of each of its axes
    blas: bool = False  # a product that BLAS may do instead


@functools.singledispatch
def in_body(op: Op, node: Node) -> bool:
    """Whether it can be part of a kernel's body, on registers."""
    return False


@functools.singledispatch
def accumulates(op: Op, node: Node) -> bool:
    """Whether it can end a kernel as an accumulator of what the body computes."""
    return False


@functools.singledispatch
def reduced_axes(op: Op, node: Node) -> Axes:
    """The axes of its first operand along which it accumulates."""
    return ()


@functools.singledispatch
def own_loops(op: Op, node: Node) -> Loops | None:
    """A kernel of its own; None where there is none, or NumPy is better."""
    return None
