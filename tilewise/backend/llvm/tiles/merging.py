"""Merging the sums of tiles. In: one sum per tile or chunk. Out: the sum of all, in a fixed order.

Squared deviations are about the mean of each tile. Those of all follow by Chan's identity: the squares within tiles,
and those of the tiles' means about the mean of all, as many times as a tile has elements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.ir.reductions import by_name
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.ops.moments import about_mean
from tilewise.records import dataclass
from tilewise.stage.steps import Pass
from tilewise.tuning import Tuning, follow

_in_place_bytes: int  # kept by `_adopt`

ND = np.ndarray[Any, Any]


def added(parts: ND, op: str) -> ND:
    """The parts combined pairwise, in a fixed order; they are used up."""
    ufunc = by_name(op).ufunc
    assert ufunc is not None
    with np.errstate(all="ignore"):
        while len(parts) > 1 and parts[0].nbytes >= _in_place_bytes:
            half, odd = divmod(len(parts), 2)
            for i in range(half):
                ufunc(parts[2 * i], parts[2 * i + 1], out=parts[i])
            if odd:
                parts[half] = parts[-1]
            parts = parts[: half + odd]
        while len(parts) > 1:
            half = len(parts) // 2
            rest = parts[2 * half :]
            parts = np.concatenate([ufunc(parts[: 2 * half : 2], parts[1 : 2 * half : 2]), rest])
    first: ND = parts[0]
    return first


def mirrored(lower: ND) -> ND:
    """The symmetric matrix of which only the part below the diagonal is there."""
    return np.where(np.tri(len(lower), dtype=bool), lower, lower.T)


def about_own_mean(step: Pass) -> Pass:
    """A sum of squared deviations as tiles take it: the mean is an array, and deviations are summed, too.

    They would add up to zero, if the mean were not rounded: their sum says by how much it is off.
    """
    kernel, centre = step.kernel, step.centre
    assert centre is not None
    outputs = kernel.outputs if centre.rest is not None else (*kernel.outputs, Output(centre.off, "add"))
    if centre.mean in step.inputs:
        return replace(step, kernel=replace(kernel, outputs=outputs))
    n, p = len(kernel.inputs), step.params.index(centre.mean)
    new = [*range(n), *(n + 1 + j - (j > p) for j in range(len(kernel.params)))]
    new[n + p] = n
    new += range(len(new), len(new) + len(kernel.body))
    moved = Kernel(
        (*kernel.inputs, kernel.params[p]),
        (*kernel.params[:p], *kernel.params[p + 1 :]),
        tuple(Instr(i.fn, tuple(new[a] for a in i.args), i.dtype) for i in kernel.body),
        tuple(replace(o, value=new[o.value]) for o in outputs),
        kernel.reduced,
    )
    params = (*step.params[:p], *step.params[p + 1 :])
    return replace(step, kernel=moved, inputs=(*step.inputs, centre.mean), params=params)


@dataclass(frozen=True)
class Spread:
    """Sums, flat, in their dtype; in float64 the squared deviations from their means."""

    total: ND
    squares: ND
    near: ND  # numbers near the means
    off: ND  # sums of the plain deviations from these
    number: int  # of terms of each sum

    @property
    def rounded(self) -> ND:
        """The squared deviations from the means."""
        return self.squares.astype(self.total.dtype)

    def about_rounded_mean(self) -> tuple[ND, ND]:
        """The squared deviations from the rounded means (the rounded sums, divided by their number), and the plain."""
        dtype, number = self.total.dtype, self.number
        with np.errstate(all="ignore"):
            mean = (self.total / dtype.type(number)).astype(np.float64)  # as the step that makes it
            rest = self.off + np.where(self.near == mean, 0, number * (self.near - mean))  # infinite means are equal
            moved = self.squares + rest * (rest / number)
            if (over := np.isinf(self.squares)).any():
                moved = np.where(over, self.squares, moved)
            return moved.astype(dtype), rest.astype(dtype)


def merged(totals: ND, squares: ND, rests: ND, counts: ND) -> Spread:
    """The sum and the squared deviations from the mean of all tiles (their first axis), flat.

    In: for each tile its sum, the sums of its squared and plain deviations from the rounded mean, and its count.
    """
    dtype = totals.dtype
    number = int(counts.sum())
    sums, squares, rests = (rows_of(x) for x in (totals, squares, rests))  # NumPy adds along rows pairwise
    with np.errstate(all="ignore"):
        total = sums.sum(-1, np.float64)
        rest = rests / counts
        within = about_mean(squares, rests * rest, dtype)
        off = sums / counts.astype(dtype) - (total / number)[:, None] + rest  # the bits of the means that tiles took
        share = off * counts
        moment, shift = (share * off).sum(-1), share.sum(-1)
        spread = within.sum(-1) + about_mean(moment, shift * (shift / number), dtype)
        if not np.isfinite(spread).all():  # what overflows is infinite, if there was no NaN or infinity before
            overflown = np.isnan(spread) & ~np.isnan(squares.sum(-1)) & ~np.isnan(total)
            spread[overflown] = np.inf
            shift = np.where(np.isinf(total) & ~np.isnan(squares.sum(-1)), -total, shift)
        return Spread(total.astype(dtype), spread, total / number, shift, number)


def rows_of(parts: ND) -> ND:
    """A row for each sum, with what each tile adds to it."""
    return np.ascontiguousarray(parts.reshape(len(parts), -1).T)


def _adopt(tuning: Tuning) -> None:
    """Keep the figures that are needed often."""
    global _in_place_bytes
    _in_place_bytes = tuning.merge_in_place_bytes


follow(_adopt)
