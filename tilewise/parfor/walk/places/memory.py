"""Where arrays and containers lie. In: objects known at loop entry. Out: `Obj` and `View`, equal where memory is.

An array known at entry is described in the coordinates of the array that owns its memory: views made before the loop
(slices, transposes, reshapes of rows) are regions of it. Where that cannot be done, or where memory is shared in other
ways, all views of the owner are told apart by address.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import Expr, Index, constant, floor_divide, gather, scale
from tilewise.parfor.walk.mapped import file_bytes
from tilewise.parfor.walk.values import Axis, Obj, View

Array = np.ndarray[Any, Any]


class Memory:
    """All objects that the walk has met.

    `not_constant`: ids of objects whose values at entry must not be used, (id, key) of single cells, and
    ("length", id) of lists that grow.
    """

    def __init__(self, not_constant: frozenset[Any] = frozenset()) -> None:
        self.not_constant = not_constant
        self.known: dict[int, Obj] = {}
        self.alive: list[Any] = []  # ids stay unique
        self.sorted_tables: dict[int, Any] = {}  # of labels (groups.py)
        self.count = 1
        self.unit = 0  # a divisor of all addresses and strides of flat memory

    def _new(self, name: str, born: frozenset[Index], **more: Any) -> Obj:
        self.count += 1
        return Obj(self.count, name, born, **more)

    def fresh(self, name: str, born: frozenset[Index], array: bool = False, shape: Sequence[Any] | None = None) -> Obj:
        """Something made inside the loop."""
        return self._new(name, born, array=array, shape=None if shape is None else tuple(shape))

    def container(self, value: Any, name: str) -> Obj:
        """A list, dict or instance that is there at entry."""
        if id(value) not in self.known:
            self.alive.append(value)
            self.known[id(value)] = self._new(name, frozenset(), key=id(value), value=value)
        return self.known[id(value)]

    def constant(self, obj: Obj, at_once: bool = True, at: str | None = None) -> bool:
        """Whether the values at entry may be used, or the one at a key; that they were is noted (`at_once`: now)."""
        if obj.key == 0 or obj.key in self.not_constant or (obj.key, at) in self.not_constant:
            return False
        if at is None:
            obj.read_as_data = True
        else:
            obj.read_at.add(at)
        obj.evaluated |= at_once
        return True

    def owner(self, array: Array, name: str) -> Obj:
        """The memory that an array is a part of."""
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        found = self.known.get(id(root))
        if found is not None:
            return found
        self.alive.append(root)
        address = root.__array_interface__["data"][0]
        obj = self._new(
            name,
            frozenset(),
            array=True,
            shape=root.shape,
            strides=root.strides,
            itemsize=root.itemsize,
            address=address,
            key=id(root),
            mapped=file_bytes(root),
        )
        low, high = np.lib.array_utils.byte_bounds(root)
        for other in self.known.values():
            other_root = next((a for a in self.alive if id(a) == other.key and isinstance(a, np.ndarray)), None)
            if other_root is None or not root.size or not other_root.size:
                continue
            start, stop = np.lib.array_utils.byte_bounds(other_root)
            if start < high and low < stop:  # two owners of the same bytes, by way of another library
                obj.flat = other.flat = True
                self._measure(other_root)
        if not (root.flags.c_contiguous or root.flags.f_contiguous):
            obj.flat = True
        if obj.flat:
            self._measure(root)
        self.known[id(root)] = obj
        return obj

    def _measure(self, array: Array) -> None:
        address = array.__array_interface__["data"][0]
        self.unit = math.gcd(self.unit, address, array.itemsize, *array.strides)

    def view(self, array: Array, name: str) -> View:
        """An array known at entry as a region of what owns its memory."""
        obj = self.owner(array, name)
        address = array.__array_interface__["data"][0]
        places = None if obj.flat else _places(array, address - obj.address, obj)
        if places is None:
            if not obj.flat:
                obj.flat = True
                self._measure(next(a for a in self.alive if id(a) == obj.key))
            self._measure(array)
            axes = tuple(Axis(0, s, constant(n)) for n, s in zip(array.shape, array.strides, strict=True))
            return View(obj, constant(obj.code), (constant(address),), axes, array.itemsize, flat=True, name=name)
        offsets, dims = places
        strides = obj.strides
        axes = tuple(
            Axis(d, 0 if d is None else s // strides[d], constant(n))
            for n, s, d in zip(array.shape, array.strides, dims, strict=True)
        )
        return View(obj, constant(obj.code), tuple(map(constant, offsets)), axes, array.itemsize, name=name)

    def family(self, views: Sequence[View], at: Expr) -> View | None:
        """`views[at]` as one view, where they are alike but for their places."""
        first = views[0]
        shapes = {(len(v.dims), tuple((a.dim, a.slope) for a in v.axes), v.itemsize) for v in views}
        if len(shapes) > 1 or any(v.obj.flat for v in views):
            return None

        def chosen(values: list[int]) -> Expr:
            return constant(values[0]) if len(set(values)) == 1 else gather(np.array(values, dtype=np.int64), [at])

        ident = chosen([v.obj.code for v in views])
        dims = tuple(chosen([v.dims[d].const for v in views]) for d in range(len(first.dims)))
        axes = tuple(
            Axis(a.dim, a.slope, chosen([v.axes[n].length.const for v in views]))  # type: ignore[union-attr]
            for n, a in enumerate(first.axes)
        )
        return View(
            first.obj, ident, dims, axes, first.itemsize, False, tuple(v.obj for v in views[1:]), name=first.name
        )

    def cell(self, view: View, at: Sequence[Expr]) -> tuple[Any, tuple[Expr, ...], int]:
        """The key of a coordinate system, coordinates in it, and how many cells of it one element has."""
        if not any(o.flat for o in (view.obj, *view.others)):
            return ("memory", len(at)), (view.ident, *at), 1
        if view.others:
            raise ValueError("arrays of a list that share memory in several shapes")
        unit = self.unit or 1
        total = at[0] if view.flat else constant(view.obj.address)
        if not view.flat:
            for expr, stride in zip(at, view.obj.strides, strict=True):
                total = total + scale(expr, stride)
        return "flat", (floor_divide(total, constant(unit)),), max(view.itemsize // unit, 1)


def _places(array: Array, offset: int, obj: Obj) -> tuple[list[int], list[int | None]] | None:
    """Where a view begins in its owner, and along which dimension of the owner each of its axes moves."""
    assert obj.shape is not None
    strides, shape = obj.strides, obj.shape
    if array.itemsize != obj.itemsize or any(s <= 0 for s, n in zip(strides, shape, strict=True) if n > 1):
        return None
    if array.size == 0:
        return [0] * len(shape), [None] * array.ndim
    order = sorted((d for d in range(len(shape))), key=lambda d: -strides[d])
    begin, rest = [0] * len(shape), offset
    for d in order:
        if shape[d] > 1:
            begin[d], rest = divmod(rest, strides[d])
    if rest or any(not 0 <= b < n for b, n in zip(begin, shape, strict=True)):
        return None
    low, high = list(begin), list(begin)
    dims: list[int | None] = []
    for n, stride in zip(array.shape, array.strides, strict=True):
        if n == 1 or stride == 0:
            dims.append(None)
            continue
        fits = [d for d in order if shape[d] > 1 and stride % strides[d] == 0]
        if not fits:
            return None
        d = fits[0]
        far = stride // strides[d] * (n - 1)
        low[d], high[d] = low[d] + min(far, 0), high[d] + max(far, 0)
        dims.append(d)
    if any(lo < 0 or hi >= n for lo, hi, n in zip(low, high, shape, strict=True)):
        return None
    return begin, dims
