"""Fourier transforms along one axis. In: a node, an axis, a length. Out: a node; its values are NumPy's own.

A transform needs a whole axis and nothing of the others: it may be cut along any axis but its own. One along the cut
axis so becomes a change of layout and a transform in place, the transpose method, and several are a chain of such.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh
from tilewise.ops.elementwise import walked
from tilewise.ops.traits.rule import LETTERS, Options, Rule, by_letters, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass

HALF = frozenset(("rfft", "ihfft"))  # of n real numbers in, n // 2 + 1 complex ones out
FFT_FLOPS = 20  # one level of a transform, per element: 5, at a quarter of the rate of a matrix product
DOUBLE = frozenset(("irfft", "hfft"))  # the other way round


@dataclass(frozen=True)
class Fft(Op):
    """np.fft.<kind> along an axis, of n points."""

    kind: str
    axis: int
    n: int
    norm: str | None
    name = "fft"

    def numpy(self, *arrays: Any) -> Any:
        return getattr(np.fft, self.kind)(arrays[0], self.n, self.axis, self.norm)

    def label(self) -> str:
        return f"{self.kind}[{self.axis}]"


def fft(node: Node, kind: str, axis: int, n: int | None, norm: str | None) -> Node:
    """A transform of n points (None: of all there are)."""
    if n is None:
        n = (node.shape[axis] - 1) * 2 if kind in DOUBLE else node.shape[axis]
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    length = n // 2 + 1 if kind in HALF else n
    shape = (*node.shape[:axis], length, *node.shape[axis + 1 :])
    return intern(Fft(kind, axis, n, norm), (node,), shape, _dtype(kind, node.dtype, norm), walked(node))


@functools.cache
def _dtype(kind: str, dtype: np.dtype[Any], norm: str | None) -> np.dtype[Any]:
    """The dtype of a transform, shown by NumPy on two points; or its complaint."""
    made: np.dtype[Any] = getattr(np.fft, kind)(np.zeros(2, dtype), norm=norm).dtype
    return made


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Fft)
def _(op: Fft, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    term = LETTERS[: node.ndim]
    yield from by_letters([term], term.replace(term[op.axis], LETTERS[-1]), node, have, mesh, pieces=True)


@work.register(Fft)
def _(op: Fft, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(flops=FFT_FLOPS * size * math.log2(max(op.n, 2)))
