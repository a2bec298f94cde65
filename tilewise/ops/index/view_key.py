"""Keys into views. In: a view, a key with index arrays. Out: a key into what it is a view of, with its index arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.ir.node import Node
from tilewise.ops.const import const
from tilewise.ops.elementwise import apply, cast
from tilewise.ops.index.key import FULL_AXIS
from tilewise.ops.views import Axis, Window, walks

KeyInBase = tuple[tuple[Any, ...], list[Node]]


def key_in_base(window: Window, spec: Sequence[Any], arrays: Sequence[Node]) -> KeyInBase | None:
    """A key with index arrays into a view as one into its base, of which no part has to be made then.

    For views that are slices along the axes that are indexed, and whole along the others; None for others.
    """
    found = None if window.dtype != window.base_dtype else walks(window)
    if found is None or len(spec) > len(window.shape) or any(p is None or p is Ellipsis for p in spec):
        return None
    axes, dims = found[0], window.base_shape
    if [a.base for a in axes] != list(range(len(dims))) or any(n.dtype == np.bool_ for n in arrays):
        return None
    full = [*spec, *[FULL_AXIS] * (len(axes) - len(spec))]
    moved = list(arrays)
    for k, (part, axis) in enumerate(zip(full, axes, strict=True)):
        if isinstance(part, int):
            full[k] = axis.start + axis.step * (part % axis.length)
        elif part[0] == "s":
            whole = (axis.start, axis.step, axis.length) == (0, 1, dims[k])
            if not whole or range(dims[k])[slice(*part[1:])] != range(dims[k]):
                return None
        else:
            moved[part[1]] = _along(moved[part[1]], axis, dims[k])
    return tuple(full), moved


def _along(index: Node, axis: Axis, length: int) -> Node:
    """Indices into a slice as indices into the axis; those out of its range are out of the axis's, too."""
    d, unsigned = np.dtype(np.intp), np.dtype(np.uintp)  # of which negative numbers are the greatest
    i = cast(index, d)

    def by(name: str, n: int, x: Node) -> Node:
        return x if n == (name == "multiply") else apply(name, (x, const(np.intp(n))), (d, d, d))

    below = apply("less", (i, const(np.intp(0))), (d, d, np.dtype(bool)))
    i = apply("where", (below, by("add", axis.length, i), i), (np.dtype(bool), d, d, d))
    moved = by("add", axis.start, by("multiply", axis.step, i))
    inside = apply("less", (cast(i, unsigned), const(unsigned.type(axis.length))), (unsigned, unsigned, np.dtype(bool)))
    return apply("where", (inside, moved, const(np.intp(length))), (np.dtype(bool), d, d, d))
