"""Fourier transforms. In: NumPy's arguments of the functions in np.fft. Out: Arrays.

Transforms over several axes are chains over one axis each, in NumPy's order. (fftshift and ifftshift are rolls: see
compose.py.)
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from tilewise.api.dispatch import Recorder, implements
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.ops import fft as ops


def _chain(a: Any, kinds: Sequence[str], axes: Sequence[Any], lengths: Sequence[Any], norm: Any) -> Array:
    """Transforms one after the other."""
    shape = a.shape  # a transform needs the lengths
    node = rec.as_node(a)
    for kind, axis, n in zip(kinds, axes, lengths, strict=True):
        points = None if n is None else operator.index(n)
        node = ops.fft(node, kind, normalize_axis_index(axis, len(shape)), points, norm)
    return rec.record(node)


def _along_one(kind: str) -> Recorder:
    def recorder(a: Any, n: Any = None, axis: Any = -1, norm: Any = None, out: None = None) -> Any:
        return _chain(a, (kind,), (axis,), (n,), norm)

    return recorder


for _kind in "fft ifft rfft irfft hfft ihfft".split():
    implements(getattr(np.fft, _kind))(_along_one(_kind))


def _along_several(kind: str, usual: Any) -> Recorder:
    """`kind` is the transform along the last axis; the others are complex ones in the same direction.

    They come before it if the result is real, and after it, the last axis first, otherwise.
    """

    def recorder(a: Any, s: Any = None, axes: Any = usual, norm: Any = None, out: None = None) -> Any:
        if s is not None and (axes is None or len(s) != len(axes) or any(n is None for n in s)):
            return NotImplemented  # NumPy complains, or announces that this will go
        axes = range(-a.ndim, 0) if axes is None else axes
        if not len(axes):
            return NotImplemented
        lengths = [a.shape[x] for x in axes]
        if s is not None:
            lengths = [own if n == -1 else n for n, own in zip(s, lengths, strict=True)]
        elif kind == "irfft":
            lengths[-1] = (lengths[-1] - 1) * 2
        order = list(range(len(axes)))
        if kind != "irfft":
            order.reverse()
        plain = "ifft" if kind.startswith("i") else "fft"
        kinds = [kind if k == len(axes) - 1 else plain for k in order]
        return _chain(a, kinds, [axes[k] for k in order], [lengths[k] for k in order], norm)

    return recorder


for _kind in "fft ifft rfft irfft".split():
    implements(getattr(np.fft, f"{_kind}n"))(_along_several(_kind, None))
    implements(getattr(np.fft, f"{_kind}2"))(_along_several(_kind, (-2, -1)))
