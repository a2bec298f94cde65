"""What the array API standard has beyond NumPy. In: NumPy's arguments and the standard's. Out: Arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.api.dispatch import public, signature_of

_flip, _ravel = public(np.flip), public(np.ravel)
_sort, _argsort = public(np.sort), public(np.argsort)


def sort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Any:
    """Sorted along an axis (None: all elements), the least or the greatest first.

    >>> import tilewise as tw
    >>> tw.sort(tw.array([2, 1, 3]), descending=True)
    Array([3, 2, 1])
    """
    options = {} if stable is None else {"stable": stable}
    made = _sort(a, axis, kind, order, **options)
    return _flip(made, -1 if axis is None else axis) if descending else made


def argsort(
    a: Any, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None, descending: bool = False
) -> Any:
    """The positions that sort an axis (None: all elements), those of the least or of the greatest first.

    >>> import tilewise as tw
    >>> tw.argsort(tw.array([2, 1, 3, 3]), descending=True, stable=True)
    Array([2, 3, 0, 1])
    """
    options = {} if stable is None else {"stable": stable}
    if not descending:
        return _argsort(a, axis, kind, order, **options)
    if axis is None:
        a, axis = _ravel(a), -1
    turned = _flip(a, axis)  # twice: what is equal keeps its order
    return turned.shape[axis] - 1 - _flip(_argsort(turned, axis, kind, order, **options), axis)


def fftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """The frequencies of the elements of `fft`.

    >>> import tilewise as tw
    >>> tw.fft.fftfreq(4, dtype=tw.float32)
    Array([ 0.  ,  0.25, -0.5 , -0.25], dtype=float32)
    """
    return _in_dtype(_fftfreq(n, d, device), dtype)


def rfftfreq(n: int, d: float = 1.0, device: Any = None, *, dtype: Any = None) -> Any:
    """The frequencies of the elements of `rfft`.

    >>> import tilewise as tw
    >>> tw.fft.rfftfreq(4, dtype=tw.float32)
    Array([0.  , 0.25, 0.5 ], dtype=float32)
    """
    return _in_dtype(_rfftfreq(n, d, device), dtype)


_fftfreq, _rfftfreq = public(np.fft.fftfreq), public(np.fft.rfftfreq)


def _in_dtype(made: Any, dtype: Any) -> Any:
    return made if dtype is None else made.astype(dtype)


def _bounds_by_name() -> None:
    """NumPy's clip takes bounds in second and third place, or as `min` and `max`: the standard's names are these."""
    clip, called = public(np.clip), signature_of(np.clip)
    if called is not None and {"a_min", "a_max", "min", "max"} <= called.parameters.keys():
        old = dict(called.parameters)
        names = {"a_min": "min", "a_max": "max", "min": "a_min", "max": "a_max"}
        new = [p.replace(name=names.get(n, n)) for n, p in old.items()]
        clip.__signature__ = called.replace(parameters=new)  # type: ignore[attr-defined]


_bounds_by_name()
MADE = {f.__name__: f for f in (sort, argsort, fftfreq, rfftfreq)}
