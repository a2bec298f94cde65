"""NumPy's methods and properties on Arrays, as rows of a table. In: the functions of the namespace. Out: methods."""

from __future__ import annotations

import gc
import sys
from inspect import isclass
from math import prod
from operator import index
from typing import Any

import numpy as np

from tilewise.api import create, views
from tilewise.api.dispatch import call, implements, mutate, of_one
from tilewise.api.flat import Flat, set_flat
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import strict_errors
from tilewise.array.assign import assign, check_writable
from tilewise.array.cell import LOCK, private_copy
from tilewise.array.handle import Array, from_buffer, meta, node_of, on_cell, own_view
from tilewise.array.interop.float_warnings import real_part
from tilewise.array.number import GIVEN
from tilewise.array.parts import only_handle
from tilewise.array.schedule import policy
from tilewise.array.session import cluster_here
from tilewise.config import LEAST, current
from tilewise.errors import LayoutError, message
from tilewise.ops.elementwise import cast
from tilewise.ops.join import copy as copy_node
from tilewise.ops.move import Pin, pin

_SIMPLE = frozenset((int, float, bool, type(None)))


def _simple(values: Any) -> bool:
    """Whether arguments are plain numbers (axes, options), so that nothing hides in them."""
    for v in values:  # noqa: SIM110 (a generator costs more)
        if type(v) not in _SIMPLE and (type(v) is not tuple or not _simple(v)):
            return False
    return True


def _function(func: Any) -> Any:
    """A method that is NumPy's function with self first."""
    quick = getattr(np.ndarray, func.__name__, func)

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        cell = self._cell
        if cell.node is None and self._gen == cell.gen and not self._fixed:
            nd: Any = self._nd
            if (
                (nd.nbytes < LEAST.eager_bytes or nd.nbytes < current().eager_bytes)
                and (not args or _simple(args))
                and (not kwargs or _simple(kwargs.values()))
            ):
                r = quick(nd, *args, **kwargs) if args or kwargs else quick(nd)
                kind = GIVEN.get(type(r))
                return rec.wrap(r, (self,)) if kind is None else kind(r)
        return call(func, (self, *args), kwargs) if args or kwargs else of_one(func, self)

    method.__name__ = func.__name__
    method.__doc__ = func.__doc__
    return method


for _name in (
    "all any argmax argmin argsort argpartition cumprod cumsum diagonal dot max mean min nonzero prod "
    "ravel repeat round searchsorted squeeze std sum swapaxes take trace var"
).split():
    setattr(Array, _name, _function(getattr(np, _name)))

_clip = _function(np.clip)


def clip(self: Array, min: Any = None, max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    """Elements limited to a range: the method needs no second bound, NumPy's function does."""
    return _clip(self, min, max, **kwargs) if out is None else _clip(self, min, max, out=out, **kwargs)


def choose(self: Array, *choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """Elements of the array that an index names: the method takes them one by one, NumPy's function in a list."""
    return call(np.choose, (self, choices[0] if len(choices) == 1 else choices), {"out": out, "mode": mode})


def transpose(self: Array, *axes: Any) -> Array:
    """Axes permuted (a view)."""
    if not axes:
        return turned(self)
    return views.arranged(self, lambda nd: nd.transpose(*rec.unwrap(axes)))


def reshape(self: Array, *shape: Any, order: str = "C", copy: bool | None = None) -> Any:
    """The same elements in another shape."""
    cell = self._cell
    if (
        cell.node is None
        and self._gen == cell.gen
        and not self._fixed
        and order == "C"
        and copy is None
        and _simple(shape)
    ):
        nd: Any = self._nd
        if nd.nbytes < LEAST.eager_bytes or nd.nbytes < current().eager_bytes:
            made = nd.reshape(*shape)
            base = made.base
            if base is nd or (base is nd.base and base is not None):
                return on_cell(cell, made)
            return rec.wrap(made, (self,))
    return views.reshape(self, shape[0] if len(shape) == 1 else shape, order, copy=copy)


def copy(self: Array, order: str = "C") -> Array:
    """A copy with memory of its own."""
    cell = self._cell
    if cell.node is None and self._gen == cell.gen and not self._fixed:
        nd: Any = self._nd
        if nd.nbytes < current().eager_bytes:
            return from_buffer(nd.copy(order))
    x = views.copy_of(self, order)
    if self._fixed:
        x._fixed = True
    return x


def astype(
    self: Any, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Array:
    """The same values in another dtype."""
    cell = self._cell
    if (
        cell.node is None
        and self._gen == cell.gen
        and not self._fixed
        and order == "K"
        and casting == "unsafe"
        and copy
    ):
        nd = self._nd
        if nd.nbytes < current().eager_bytes and nd.dtype.kind != "c":
            return from_buffer(nd.astype(dtype))
    d = rec.dtype_of(dtype)
    if d == self.dtype and not copy and order == "K":
        return self  # type: ignore[no-any-return]
    by_value = casting == "same_value"  # only the values tell whether it can be done
    if not by_value and not np.can_cast(self.dtype, d, casting):  # type: ignore[arg-type]  # any str: NumPy complains
        raise TypeError(f"Cannot cast array data from {self.dtype!r} to {d!r} according to the rule '{casting}'")
    complex_lost = self.dtype.kind == "c" and d.kind not in "cb"
    if (
        policy.small((self,))
        or not rec.numeric(self.dtype, d)
        or complex_lost
        or order != "K"
        or by_value
        or strict_errors()
    ):
        how: Any = {"order": order, "casting": casting if by_value else "unsafe", "copy": True}
        nd = (real_part(forcing.fetch(self), d) if complex_lost else forcing.fetch(self)).astype(d, **how)
        return from_buffer(nd) if not self._fixed else rec.wrap(nd[()])
    node = node_of(self)
    return rec.record(cast(node, d) if d != node.dtype else copy_node(node, node.order), fixed=self._fixed)


@implements(np.astype, view=True)
def _astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    return astype(x, dtype, copy=copy)


def fill(self: Array, value: Any) -> None:
    """One value everywhere."""
    if self._fixed:
        _as_scalar(self, "fill", value)
    elif not rec.numeric(self.dtype):
        check_writable(self)
        with LOCK:
            forcing.force(self)
            self._cell.own()
            meta(self).fill(rec.elements(value, True))  # to arrays of objects, lists are values like others
    elif np.ndim(value):
        np.zeros(1, self.dtype).fill(rec.unwrap(value))  # NumPy's complaint
        assign(self, value)
    else:
        assign(self, value)


def _as_scalar(self: Array, name: str, *args: Any, **kwargs: Any) -> Any:
    """A method that changes arrays, on a number: as of NumPy's scalars, which it leaves as they are."""
    return rec.wrap(getattr(rec.unwrap(self), name)(*rec.unwrap(args), **rec.unwrap(kwargs)))


def sort(self: Array, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    """Sort in place."""
    assign(
        self,
        call(
            np.sort,
            (self, axis),
            {k: v for k, v in (("kind", kind), ("order", order), ("stable", stable)) if v is not None},
        ),
    )


def _in_place(name: str) -> Any:
    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        if self._fixed:
            return _as_scalar(self, name, *args, **kwargs)
        return mutate(getattr(np.ndarray, name), 0, (self, *args), kwargs)

    return method


def _now(name: str) -> Any:
    """A method that NumPy does on the computed array."""

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return rec.wrap(getattr(forcing.fetch(self), name)(*rec.unwrap(args), **rec.unwrap(kwargs)), [self])

    return method


def byteswap(self: Array, inplace: Any = False) -> Any:
    """The bytes of every element turned round, perhaps in place."""
    if not inplace or self._fixed:
        return _now("byteswap")(self, inplace)
    _in_place("byteswap")(self, True)
    return self


def compress(self: Array, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """The slices where a condition holds."""
    return call(np.compress, (condition, self, axis), {} if out is None else {"out": out})


def delete(self: Array, key: Any) -> None:
    """Elements cannot be deleted."""
    raise ValueError("cannot delete array elements")


def _number_attribute(name: str) -> property:
    """What NumPy's scalars have beyond arrays (`is_integer`, `bit_count`, …), for arrays that are numbers."""

    def attribute(self: Array) -> Any:
        if self._fixed:
            return getattr(forcing.force(self)[()], name)
        raise AttributeError(f"'Array' object has no attribute {name!r}")

    return property(attribute)


def rounded(self: Array, ndigits: Any = None) -> Any:
    """round(x) of a number."""
    if not self._fixed:
        raise TypeError("type Array doesn't define __round__ method")
    return rec.wrap(round(forcing.force(self)[()], ndigits))  # type: ignore[call-overload]


def view(self: Array, dtype: Any = None, type: Any = None) -> Any:
    """Another handle on the same memory, or the memory seen as another dtype."""
    nd = meta(self)
    for given in (dtype, type):
        if isclass(given) and issubclass(given, np.ndarray) and given is not np.ndarray:
            own = private_copy(forcing.fetch(self))  # for a class with ways of its own: NumPy's, at once
            return own.view(given) if dtype is given or dtype is None else own.view(dtype, given)
    if dtype is Array or dtype is np.ndarray:
        dtype = None
    if self._fixed and dtype is None:
        return self
    return views.on_cell(self._cell, nd.view() if dtype is None else nd.view(dtype))  # type: ignore[attr-defined]


def conjugate(self: Array, *args: Any, **kwargs: Any) -> Any:
    """Complex conjugate."""
    if self.dtype.kind in "biuf" and not args and not kwargs:
        return self
    return np.conjugate(self, *args, **kwargs)


def real(self: Array) -> Array:
    """The real part (a view)."""
    nd = meta(self)
    return self if nd.dtype.kind != "c" else views.shown(self, nd.real)


def imag(self: Array) -> Array:
    """The imaginary part (a view); zeros of real arrays."""
    nd = meta(self)
    if nd.dtype.kind == "c":
        return views.shown(self, nd.imag)
    zeros = create.zeros(self.shape, self.dtype, order="F" if nd.flags.fnc else "C")
    meta(zeros).flags.writeable = False
    return zeros[()] if self._fixed else zeros


def _set(part: Any) -> Any:
    def setter(self: Array, value: Any) -> None:
        if self._fixed:
            raise AttributeError(f"attribute '{part.__name__}' of 'numpy.generic' objects is not writable")
        if part is imag and self.dtype.kind != "c":
            raise TypeError("array does not have imaginary part to set")
        # As an array: its cast is unsafe, where a number's would complain.
        array = type(value) is Array and not value._fixed
        assign(part(self), value if array else np.asarray(rec.unwrap(value)))

    return setter


def resize(self: Array, *shape: Any, refcheck: bool = True) -> None:
    """Change shape and size in place."""
    if self._fixed:
        _as_scalar(self, "resize", *shape)
        return
    asked = shape[0] if len(shape) == 1 else shape
    index(refcheck)  # a TypeError of what is no number
    if asked is None or shape == ():
        return
    dims = tuple(map(index, asked)) if np.iterable(asked) else (index(asked),)
    nd = forcing.force(self)
    if not nd.flags.forc:
        raise ValueError("resize only works on single-segment arrays")
    if min(dims, default=0) < 0:
        raise ValueError("negative dimensions not allowed")
    order: Any = "F" if nd.flags.fnc else "C"
    if prod(dims) == nd.size:
        self._nd = nd.reshape(dims, order=order)
        return
    if self.base is not None:
        raise ValueError("cannot resize this array: it does not own its data")
    if refcheck and not only_handle(self):
        text = "cannot resize an array that references or is referenced\nby another array in this way."
        raise ValueError(f"{text}\nUse the np.resize function or refcheck=False.")
    flat = np.zeros(prod(dims), nd.dtype)
    least = min(flat.size, nd.size)
    flat[:least] = nd.ravel(order=order)[:least]
    self._cell.become(flat.reshape(dims, order=order))
    self._nd = None


def namespace(self: Array, *, api_version: str | None = None) -> Any:
    """The array API's way to find our functions."""
    if api_version is not None and api_version not in ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12"):
        raise ValueError(f"Version {api_version!r} of the array API standard is not supported.")
    return sys.modules["tilewise"]


def to_device(self: Array, device: Any, /, *, stream: Any = None) -> Array:
    """Only "cpu"."""
    if device != "cpu" or stream is not None:
        raise ValueError(f"Unsupported device: {device!r}. Only 'cpu' is there.")
    return self


def dlpack(self: Array, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None) -> Any:
    """Hand the memory to another library: shared read-only where it understands that, else as a copy."""
    nd = np.asarray(self)
    # Before version 1 of DLPack nothing says that memory is read-only.
    if copy or (copy is None and (max_version is None or max_version[0] < 1)):
        nd = nd.copy()
        return nd.__dlpack__(max_version=max_version, dl_device=dl_device)
    return nd.__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)


def dlpack_device(self: Array) -> Any:
    """The CPU."""
    return (1, 0)


def setflags(self: Array, write: Any = None, align: Any = None, uic: Any = None) -> None:
    """Forbid (or allow again) writing through this handle."""
    own_view(self).setflags(write=write, align=align, uic=uic)


for _name, _method in {
    "transpose": transpose, "reshape": reshape, "copy": copy, "astype": astype, "fill": fill, "sort": sort,
    "view": view, "conj": conjugate, "conjugate": conjugate, "resize": resize, "flatten": views.flatten,
    "setflags": setflags, "clip": clip, "choose": choose,
    "__array_namespace__": namespace, "to_device": to_device, "__dlpack__": dlpack, "__dlpack_device__": dlpack_device,
    "put": _in_place("put"), "partition": _in_place("partition"), "byteswap": byteswap,
    "tolist": _now("tolist"), "tobytes": _now("tobytes"), "tofile": _now("tofile"), "dump": _now("dump"),
    "dumps": _now("dumps"), "getfield": _now("getfield"), "compress": compress, "__delitem__": delete,
    "__round__": rounded,
}.items():  # fmt: skip
    setattr(Array, _name, _method)

# One property each, no __getattr__: a class that has one loses CPython's quick reading of slots (four times slower).
for _kind in (np.float64, np.int64, np.bool_, np.complex128, np.longdouble):
    for _name in dir(_kind):
        if not _name.startswith("_") and not hasattr(np.ndarray, _name) and not hasattr(Array, _name):
            setattr(Array, _name, _number_attribute(_name))


def base(self: Array) -> Array | None:
    """The array whose memory a view shows: the user's own handle of it, so that `y.base is x`; None of what is no view.

    Cells do not know their handles (a reference more for every operator); the garbage collector does.
    """
    cell, shown = self._cell, meta(self)
    if shown.base is None or shown is (whole := cell.meta()):
        return None
    handles = [x for x in gc.get_referrers(cell) if type(x) is Array and x._cell is cell and meta(x) is whole]
    return handles[0] if handles else on_cell(cell, whole)


def turned(self: Array) -> Array:
    """Axes reversed (a view)."""
    cell = self._cell
    if cell.node is None and self._gen == cell.gen and not self._fixed:
        return on_cell(cell, self._nd.T)  # type: ignore[union-attr]
    return views.arranged(self, lambda nd: nd.T)


Array.T = property(turned)
Array.mT = property(lambda self: views.arranged(self, lambda nd: nd.mT))
Array.real = property(real, _set(real))
Array.imag = property(imag, _set(imag))
Array.flat = property(Flat, set_flat)
Array.base = property(base)
Array.data = property(lambda self: np.asarray(self).data)
Array.ctypes = property(lambda self: np.asarray(self).ctypes)


def layout(self: Array) -> Any:
    """How the array lies on the workers of its session; None while it is pending, or if it is here."""
    node = self._cell.node
    return getattr(node.value, "layout", None) if node is not None else None


Array.layout = property(layout)


def relayout(self: Array, *axes: Any, rows: int | None = None, columns: int | None = None) -> Array:
    """The same value in a layout of your choice; the solver works around it. Here, what is known is returned as it is.

    One axis cuts it over all workers, None keeps it whole on each; two (on a mesh with two directions) cut it over the
    rows and the columns of workers. `rows=4` and `columns=2` say also how many parts you expect.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0), tw.session(engine="virtual", mesh=(2, 2)):
    ...     x = tw.evaluate(tw.ones((4, 6)).relayout(0, 1))
    ...     x.layout.down.axis, x.layout.across.axis
    (0, 1)
    """
    given, parts = _directions(self, axes, rows, columns)
    cluster, _ = cluster_here(current().blocks)
    if cluster is not None:
        Pin(given, parts).layout(meta(self).shape, cluster.mesh)  # an error if there is none, at the user's line
    elif self._cell.node is None and meta(self).nbytes < current().eager_bytes:
        return self
    return rec.record(pin(node_of(self), given, parts))


def _directions(
    x: Array, axes: tuple[Any, ...], rows: int | None, columns: int | None
) -> tuple[tuple[int | None, ...], tuple[int | None, ...]]:
    """Axes and parts of a layout, checked as far as that needs no mesh."""
    by_name: list[tuple[Any, int | None]] = [(axis, n) for axis, n in ((0, rows), (1, columns)) if n is not None]
    if bool(axes) == bool(by_name) or len(axes) > 2:
        raise LayoutError(message("relayout takes one axis or two", got=f"{axes}", cure="x.relayout(0), or rows=4"))
    pairs = by_name or [(_AXES.get(a, a), None) if isinstance(a, str) else (a, None) for a in axes]
    ndim = meta(x).ndim
    out: list[int | None] = []
    for axis, _ in pairs:
        if axis is not None and (isinstance(axis, bool) or not isinstance(axis, int | np.integer)):
            raise LayoutError(message("an axis is a number, None, 'rows' or 'columns'", got=repr(axis)))
        if axis is not None and not -ndim <= axis < ndim:
            raise np.exceptions.AxisError(int(axis), ndim)
        out.append(None if axis is None else int(axis) % ndim)
    if len(out) == 2 and out[0] is not None and out[0] == out[1]:
        raise LayoutError(
            message(
                f"axis {out[0]} cannot be cut in both directions", cure=f"x.relayout({out[0]}) cuts it over all workers"
            )
        )
    return tuple(out), tuple(n for _, n in pairs)


_AXES: dict[str, Any] = {"rows": 0, "columns": 1, "replicated": None}
Array.relayout = relayout
