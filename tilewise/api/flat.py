"""Elements one by one. In: Arrays. Out: x.flat, all of one in C order, also by index; np.nditer, of several at once."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from tilewise.api import views
from tilewise.api.dispatch import mutate
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.cell import LOCK, Outside
from tilewise.array.handle import Array, meta
from tilewise.array.interop.elsewhere import Elements, stays_elsewhere


class Flat:
    """x.flat: all elements in C order, readable, writable, iterable."""

    def __init__(self, x: Array) -> None:
        self.x = x
        self.at = 0
        self.elsewhere: Elements | None = None

    def __iter__(self) -> Flat:
        return self

    def __next__(self) -> Any:
        if self.at >= self.x.size:
            raise StopIteration
        self.at += 1
        return self._element(self.at - 1)

    def _element(self, at: int) -> Any:
        if self.elsewhere is None and stays_elsewhere(self.x):
            self.elsewhere = Elements(self.x)
        return (forcing.force(self.x).flat if self.elsewhere is None else self.elsewhere)[at]

    def __len__(self) -> int:
        return self.x.size

    def __getitem__(self, key: Any) -> Any:
        size = self.x.size
        if isinstance(key, int) and -size <= key < size:
            return self._element(key % size)
        return rec.wrap(forcing.fetch(self.x).flat[rec.unwrap(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        def flat(nd: Any, key: Any, value: Any) -> None:
            nd.flat[key] = value

        if self.x._fixed:
            flat(np.array(rec.unwrap(self.x)), rec.unwrap(key), rec.unwrap(value))  # of a number: nobody sees it
            return
        if isinstance(key, slice) and meta(self.x).flags.c_contiguous and rec.numeric(self.x.dtype):
            count = len(range(*key.indices(self.x.size)))
            if np.shape(value) in ((), (count,)):  # otherwise values are taken again and again
                if type(value) is not Array or value._fixed:
                    value = np.asarray(rec.unwrap(value), self.x.dtype)  # NumPy's cast, and its complaint
                self.x.reshape(-1)[key] = value
                return
        mutate(flat, 0, (self.x, key, value), {})

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return forcing.fetch(self.x).flatten()

    def copy(self) -> Array:
        """All elements in one new axis."""
        return views.flatten(self.x)

    @property
    def base(self) -> Array:
        """The array whose elements these are."""
        return self.x

    @property
    def index(self) -> int:
        """How many elements were given."""
        return self.at

    @property
    def coords(self) -> tuple[int, ...]:
        """Where in the array the next element is."""
        shape = self.x.shape
        past, rest = divmod(self.at, max(self.x.size, 1))
        found = [int(i) for i in np.unravel_index(rest, shape)] if self.x.size else [0] * len(shape)
        if past and found:
            found[0] = shape[0]
        return tuple(found)

    def _compared(name: str) -> Any:  # type: ignore[misc]  # called while the class is made
        def compare(self: Flat, other: Any) -> Any:
            return getattr(views.flatten(self.x), name)(views.flatten(other.x) if type(other) is Flat else other)

        return compare

    __eq__, __ne__, __lt__ = _compared("__eq__"), _compared("__ne__"), _compared("__lt__")
    __le__, __gt__, __ge__ = _compared("__le__"), _compared("__gt__"), _compared("__ge__")
    __hash__ = None  # type: ignore[assignment]
    del _compared


def set_flat(self: Array, value: Any) -> None:
    """x.flat = value."""
    if self._fixed:
        raise AttributeError("attribute 'flat' of 'numpy.generic' objects is not writable")
    Flat(self)[:] = value


WRITING = {"readwrite", "writeonly"}


def nditer(op: Any, flags: Any = None, op_flags: Any = None, *args: Any, **kwargs: Any) -> Any:
    """NumPy's iterator over several arrays; what it writes goes to the Arrays at once, and to no work recorded before.

    Nothing else should write to these Arrays while it does: a recorded write takes other memory.

    >>> import tilewise as tw
    >>> x = tw.arange(3)
    >>> with tw.nditer(x, op_flags=["readwrite"]) as it:
    ...     for v in it:
    ...         v[...] = 2 * v
    >>> x
    Array([0, 2, 4])
    """
    several = isinstance(op, list | tuple)
    operands = list(op) if several else [op]
    each = op_flags if op_flags and not isinstance(op_flags[0], str) else [op_flags or ()] * len(operands)
    with LOCK:
        plain = [rec.unwrap(x) for x in operands]
        for i, x in enumerate(operands):
            if type(x) is Array and not x._fixed and i < len(each) and WRITING & set(each[i]):
                writeable = meta(x).flags.writeable
                if writeable:
                    x._cell.own()
                plain[i] = meta(x).view()
                if writeable:
                    x._cell.exports = Outside()
                    x._cell.exports.writer = weakref.ref(plain[i])
        return np.nditer(plain if several else plain[0], flags, op_flags, *args, **kwargs)
