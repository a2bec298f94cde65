"""Functions of matrices. In: nodes. Out: nodes; their values are NumPy's own, and Cholesky's factor comes in blocks.

The letters say what a mesh may cut: stacks of matrices along their leading axes, right-hand sides along their columns.
The matrices themselves are not cut: every worker has them, and does the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.ops.const import const
from tilewise.ops.contract import LETTERS, matmul
from tilewise.ops.create import full
from tilewise.ops.elementwise import apply, cast
from tilewise.ops.join import concat
from tilewise.ops.views import Arrange, Cut

Options = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Linalg(Op):
    """np.linalg.<fn>. Of its letters, those that operands and result share may be cut."""

    fn: str
    letters: str
    options: Options = ()
    name = "linalg"

    def numpy(self, *arrays: Any) -> Any:
        return getattr(np.linalg, self.fn)(*arrays, **dict(self.options))

    def label(self) -> str:
        return self.fn


@dataclass(frozen=True)
class Packed(Linalg):
    """All results of a function of several, one after the other along the last axis."""

    name = "packed"

    def numpy(self, *arrays: Any) -> Any:
        lead = arrays[0].shape[:-2]
        parts = super().numpy(*arrays)
        return np.concatenate([np.reshape(x, (*lead, math.prod(x.shape[len(lead) :]))) for x in parts], axis=-1)


def of_matrix(
    fn: str, x: Node, tail: tuple[int, ...], dtype: np.dtype[Any], options: Options = (), packed: bool = False
) -> Node:
    """A function of a matrix, or of each of a stack; `tail` is the shape of what it gives for one."""
    lead = LETTERS[: x.ndim - 2]
    letters = f"{lead}YZ->{lead}{'XWV'[: len(tail)]}"
    op = (Packed if packed else Linalg)(fn, letters, options)
    return intern(op, (x,), (*x.shape[:-2], *tail), dtype)


def solve(a: Node, b: Node, dtype: np.dtype[Any]) -> Node:
    """The solution of a x = b; the caller has checked the shapes. A vector is one right-hand side."""
    if b.ndim == 1:
        lead = LETTERS[: a.ndim - 2]
        return intern(Linalg("solve", f"{lead}YZ,Z->{lead}X"), (a, b), a.shape[:-1], dtype)
    shape = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    lead = LETTERS[: len(shape)]
    la, lb = lead[len(shape) - (a.ndim - 2) :], lead[len(shape) - (b.ndim - 2) :]
    return intern(Linalg("solve", f"{la}YZ,{lb}ZW->{lead}XW"), (a, b), (*shape, *b.shape[-2:]), dtype)


# -- Cholesky in blocks --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Panel(Op):
    """The rows of Cholesky's factor below a diagonal block: x such that x @ l.conj().T is the given panel."""

    letters = "YZ,aZ->aX"
    name = "panel"

    def numpy(self, *arrays: Any) -> Any:
        l, panel = arrays  # noqa: E741
        return np.linalg.solve(l.conj(), panel.T).T


def cholesky(x: Node, dtype: np.dtype[Any], cuts: tuple[int, ...]) -> Iterator[Node]:
    """The lower factor of one matrix, from the left to the right, a block of columns at a time. All nodes, in order.

    Diagonal blocks are factored everywhere; the panels below them and the rest of the matrix may be cut.
    """
    rest = cast(x, dtype)
    columns: list[Node] = []
    n = x.shape[0]
    for low, high in zip(cuts, cuts[1:], strict=False):
        width = high - low
        diagonal = of_matrix("cholesky", _part(rest, 0, width, width), (width, width), dtype)
        yield diagonal
        parts = [diagonal]
        if low:
            parts.insert(0, full((low, width), const(dtype.type(0))))
        if high < n:
            below = _part(rest, width, n - low, width)
            panel = intern(Panel(), (diagonal, below), below.shape, dtype)
            yield panel
            parts.append(panel)
            update = matmul(panel, _adjoint(panel), dtype)
            rest = apply("subtract", (_corner(rest, width), update), (dtype,) * 3)
        columns.append(concat(tuple(parts), 0, dtype))
    yield concat(tuple(columns), 1, dtype)


def _part(x: Node, low: int, high: int, width: int) -> Node:
    """Rows [low, high) of the first columns."""
    return intern(Cut((low, 0), (1, 1), (high - low, width)), (x,), (high - low, width), x.dtype)


def _corner(x: Node, start: int) -> Node:
    """What is right of and below the first rows and columns."""
    dims = (x.shape[0] - start, x.shape[1] - start)
    return intern(Cut((start, start), (1, 1), dims), (x,), dims, x.dtype)


def _adjoint(x: Node) -> Node:
    plain = apply("conjugate", (x,), (x.dtype,) * 2) if x.dtype.kind == "c" else x
    shape = (x.shape[1], x.shape[0])
    return intern(Arrange((1, 0), shape), (plain,), shape, x.dtype)
