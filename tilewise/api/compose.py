"""NumPy functions that NumPy itself writes in terms of others. In: their names. Out: recorders.

`np.diff`, `np.average`, `np.isclose`, `np.linspace` and many more are Python code over simpler functions. Run with
those simpler functions replaced by ours, the same code records a graph instead of computing: the formula, the dtypes
and the exceptions are NumPy's by construction. Where a test on values decides what to do, those values are computed;
where the code fails on Arrays, NumPy does it (see dispatch.attempt).
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy._core import _methods, shape_base
from numpy.lib import _function_base_impl as functions

from tilewise.api import create
from tilewise.api.dispatch import RECORDERS, implements, public
from tilewise.api.reductions import OTHERWISE
from tilewise.api.ufuncs import wrapped
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.handle import Array
from tilewise.array.schedule import policy

# Functions whose NumPy code records as it is.
NAMES = (
    "diff average trapezoid gradient cov corrcoef cross kron tril triu tile isclose allclose array_equal array_equiv "
    "nansum nanprod nanmean nanvar nanstd nan_to_num select ediff1d angle sinc trace rot90 "
    "linspace logspace geomspace append dstack meshgrid ptp diag cumulative_sum cumulative_prod "
    "take_along_axis apply_over_axes isneginf isposinf isreal iscomplex real imag fix resize median "
    "nanmin nanmax nancumsum nancumprod nanargmin nanargmax unwrap polyadd polysub polyval "
    "polyder polyint polyfit insert delete block fft.fftshift fft.ifftshift "
    "sort_complex trim_zeros asarray_chkfinite real_if_close ix_ "
    "unique_all unique_counts unique_inverse intersect1d setxor1d union1d "
    "linalg.norm linalg.vector_norm linalg.matrix_norm linalg.matrix_power linalg.multi_dot linalg.cross linalg.outer "
    "linalg.vecdot"
).split()
CREATORS = ("linspace", "logspace", "geomspace")  # no operand need be an Array

_STAND_INS: dict[Any, Any] = {
    getattr(np, n): getattr(create, n)
    for n in "zeros ones full empty zeros_like ones_like empty_like full_like arange array asarray asanyarray".split()
}


_CONCATENATE = shape_base._concatenate  # type: ignore[attr-defined]  # without NumPy's search for foreign arrays


def ours(value: Any) -> Any:
    """What stands for a value in NumPy's code: our function for NumPy's, a door to ours for NumPy's modules."""
    if isinstance(value, np.ufunc):
        return (
            wrapped(value.__name__) if value.signature is None and getattr(np, value.__name__, None) is value else value  # type: ignore[union-attr]
        )
    if isinstance(value, types.BuiltinMethodType) and isinstance(value.__self__, np.ufunc):
        ufunc: Any = value.__self__
        return _thawing(getattr(wrapped(ufunc.__name__), value.__name__))  # umr_sum = np.add.reduce
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "numpy":
        return Door(value)
    try:
        made = public(np.concatenate) if value is _CONCATENATE else _STAND_INS.get(value)
    except TypeError:  # not hashable
        return value
    if made is not None:
        return made
    name = getattr(value, "__name__", "_")
    if isinstance(value, types.FunctionType) and name.startswith("_") and value.__module__.startswith("numpy."):
        return _recorder(value)  # a helper of NumPy's
    public_name = callable(value) and value in (getattr(np, name, None), getattr(np.linalg, name, None))
    return _thawing(public(value)) if public_name and not isinstance(value, type) else value


def _thawing(func: Any) -> Any:
    """NumPy's code may write into what a reduction gave it, if an axis is left; ours may then be a number."""

    def function(*args: Any, **kwargs: Any) -> Any:
        result = func(*args, **kwargs)
        if type(result) is Array and result._fixed and not any(result is a for a in args):
            result._fixed = False
        return result

    return function


def _partition(a: Any, kth: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    """For recomposed code only: sorted is partitioned, whatever kth is."""
    return public(np.sort)(a, axis)


class _Converter:
    """For NumPy's `_array_converter`: what keeps classes of arrays, of which there is one."""

    def __init__(self, *given: Any) -> None:
        self.kinds = [a if type(a) in (int, float, complex) else create.asarray(a).dtype for a in given]
        self.given = [a if type(a) is Array else create.asarray(a) for a in given]

    def result_type(self, extra_dtype: Any = None, ensure_inexact: bool = False) -> Any:
        kinds = self.kinds if extra_dtype is None else [*self.kinds, extra_dtype]
        return np.result_type(*kinds, *([0.0] if ensure_inexact else ()))

    def as_arrays(self, subok: bool = True, pyscalars: str = "convert") -> tuple[Any, ...]:
        return tuple(self.given)

    def __getitem__(self, k: int) -> Any:
        return self.given[k]

    def __iter__(self) -> Any:
        return iter(self.given)

    def wrap(self, value: Any, /, to_scalar: Any = None) -> Any:
        return value


def _converted(*given: Any) -> Any:
    """The same, or NumPy's own of what is no Array."""
    kind = _Converter if any(type(a) is Array for a in given) else functions._array_converter  # type: ignore[attr-defined]
    return kind(*given)


class _Broadcast:
    """For NumPy's `broadcast`, of which only the shape is asked."""

    def __init__(self, *given: Any) -> None:
        self.shape = np.broadcast_shapes(*map(np.shape, given))
        self.ndim = len(self.shape)


_STAND_INS |= {functions._array_converter: _converted}  # type: ignore[attr-defined]
_STAND_INS |= {np.broadcast: _Broadcast}
_STAND_INS |= {np.partition: _partition, np.ndarray: Array | np.ndarray}  # code asks isinstance(x, ndarray)


class Door:
    """A NumPy module seen from recomposed code."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return ours(getattr(self._module, name))


def recomposed(func: Any) -> Callable[..., Any]:
    """NumPy's code of a function, over our functions.

    >>> import tilewise as tw
    >>> recomposed(np.diff)(tw.array([1, 4, 9]))
    Array([3, 5])
    """
    code = func.__wrapped__ if hasattr(func, "__wrapped__") else func
    names = {n: ours(v) for n, v in code.__globals__.items() if not n.startswith("__")}
    names["__builtins__"] = code.__globals__["__builtins__"]
    ready = types.FunctionType(code.__code__, names, code.__name__, code.__defaults__, code.__closure__)
    ready.__kwdefaults__ = code.__kwdefaults__
    return ready


# Functions that give arrays of no axes where most give numbers, and those that give what an attribute is.
ARRAYS = {np.select, np.tile, np.cov, np.resize, np.block}
AS_GIVEN = {np.real, np.imag, np.real_if_close}


def _recorder(func: Any) -> Callable[..., Any]:
    """As `recomposed`, made when it is first needed."""

    @functools.wraps(func, updated=())
    def recorder(*args: Any, **kwargs: Any) -> Any:
        result = rec.wrap(_made(func)(*args, **kwargs))
        if func in AS_GIVEN:
            return result
        if type(result) is Array and result.ndim == 0 and not any(result is a for a in args):
            result._fixed = func not in ARRAYS and not func.__name__.startswith("_")
        return result

    return recorder


_made = functools.cache(recomposed)

_f: Any
for _name in NAMES:
    _f = functools.reduce(getattr, _name.split("."), np)
    if _f not in RECORDERS and isinstance(getattr(_f, "__wrapped__", _f), types.FunctionType):
        implements(_f)(_recorder(_f))


_composed_ptp = RECORDERS[np.ptp]


@implements(np.ptp)
def _ptp(*args: Any, **kwargs: Any) -> Any:
    """Of zeros with both signs NumPy's greatest and least are the same one, ours may not be: no difference is -0.0.

    Of complex numbers ours are the same one, too; the differences of their parts may be -0.0.
    """
    made = _composed_ptp(*args, **kwargs)
    return made + 0 if type(made) is Array and made.dtype.kind == "f" else made


def _compared(composed: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy takes whatever happens while operands become arrays for a difference; so they are computed before."""

    @functools.wraps(composed, updated=())
    def compare(*args: Any, **kwargs: Any) -> Any:
        forcing.evaluate([x._cell for x in (*args, *kwargs.values()) if type(x) is Array])
        return composed(*args, **kwargs)

    return compare


for _f in (np.array_equal, np.array_equiv):
    implements(_f)(_compared(RECORDERS[_f]))


# Means and variances with options that reductions.py leaves: NumPy's own code for them.
for _f in (np.mean, np.var, np.std):
    OTHERWISE[_f] = _recorder(getattr(_methods, f"_{_f.__name__}"))


def _creator(func: Any) -> Any:
    """A function that makes an array: by NumPy if it is small, recorded otherwise."""

    @functools.wraps(func, assigned=("__name__", "__doc__", "__qualname__"), updated=())
    def maker(start: Any, stop: Any, num: Any = 50, *args: Any, **kwargs: Any) -> Any:
        arrays = [v for v in (start, stop) if type(v) is Array]
        small = not isinstance(num, int) or num * 8 < policy.eager_limit()
        if small and policy.small(arrays):
            return rec.at_once(func, (start, stop, num, *args), kwargs)
        return (
            public(func)(start, stop, num, *args, **kwargs)
            if arrays
            else _checked(func, start, stop, num, args, kwargs)
        )

    return maker


def _checked(func: Any, start: Any, stop: Any, num: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    func(start, stop, min(num, 2), *args, **kwargs)  # NumPy's complaints
    return RECORDERS[func](start, stop, num, *args, **kwargs)


MADE = {n: _creator(getattr(np, n)) for n in CREATORS}
