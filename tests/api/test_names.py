"""Every NumPy name is there, and the array API standard 2025.12."""

from __future__ import annotations

import importlib
import inspect
import pickle
import subprocess
import sys
from contextlib import nullcontext

import numpy
import pytest

import tilewise as tw

NOT_OURS = {"core", "test", "testing"}  # removed from NumPy's interface, or its own tests

STANDARD = """
e inf nan pi newaxis asarray arange empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like
tril triu zeros zeros_like astype can_cast finfo iinfo isdtype result_type bool int8 int16 int32 int64 uint8 uint16
uint32 uint64 float32 float64 complex64 complex128 abs acos acosh add asin asinh atan atan2 atanh bitwise_and
bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh divide
equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p
log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter
not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc take
take_along_axis matmul matrix_transpose tensordot vecdot broadcast_arrays broadcast_to concat expand_dims flip
moveaxis permute_dims repeat reshape roll squeeze stack tile unstack argmax argmin count_nonzero nonzero searchsorted
where unique_all unique_counts unique_inverse unique_values isin argsort sort cumulative_prod cumulative_sum max mean
min prod std sum var all any diff __array_namespace_info__
""".split()
LINALG = """
cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose
outer pinv qr slogdet solve svd svdvals tensordot trace vecdot vector_norm
""".split()
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift".split()
METHODS = """
abs add and array_namespace bool complex dlpack dlpack_device eq float floordiv ge getitem gt index int invert le
lshift lt matmul mod mul ne neg or pos pow rshift setitem sub truediv xor iadd isub imul itruediv ifloordiv ipow
imatmul imod iand ior ixor ilshift irshift radd rsub rmul rtruediv rfloordiv rpow rmatmul rmod rand ror rxor rlshift
rrshift
""".split()


def test_every_numpy_name_is_there() -> None:
    names = {n for n in numpy.__all__ if not n.startswith("_")} - NOT_OURS  # others may add names (numexpr does)
    assert not names - set(dir(tw)) and not names - set(tw.__all__)
    assert not [n for n in names if not hasattr(tw, n)]
    for module in ("linalg", "fft", "random"):
        assert not set(getattr(numpy, module).__all__) - set(dir(getattr(tw, module)))
    assert tw.ndarray is tw.Array


def test_every_attribute_of_ndarrays_is_there() -> None:
    left_out = {
        "__array_struct__",
        "__array_finalize__",
        "__array_wrap__",
        "__buffer__",
        "__class_getitem__",
    }
    left_out |= {"setfield", "__setstate__"}
    assert {n for n in dir(numpy.ndarray) if not hasattr(tw.Array, n)} - left_out == set()


@pytest.mark.parametrize("names, module", [(STANDARD, tw), (LINALG, tw.linalg), (FFT, tw.fft)])
def test_names_of_the_standard(names: list[str], module: object) -> None:
    assert not [n for n in names if not hasattr(module, n)]


def test_array_object_of_the_standard() -> None:
    x = tw.arange(6.0).reshape(2, 3)
    assert not [m for m in METHODS if not hasattr(x, f"__{m}__")]
    assert not [a for a in ("dtype", "device", "mT", "ndim", "shape", "size", "T", "to_device") if not hasattr(x, a)]
    assert x.__array_namespace__() is tw and x.__array_namespace__(api_version="2025.12") is tw
    assert tw.__array_api_version__ == "2025.12"
    with pytest.raises(ValueError, match="1999"):
        x.__array_namespace__(api_version="1999.12")
    info = tw.__array_namespace_info__()
    assert info.default_device() == "cpu" and "float64" in info.dtypes() and info.capabilities()["boolean indexing"]
    assert x.to_device("cpu") is x and x.device == "cpu"


@pytest.mark.parametrize("version", [None, (0, 0), (0, 8), (1, 0)])
def test_dlpack_versions(version: tuple[int, int] | None) -> None:
    """Consumers of old versions know no read-only memory: they get a copy."""
    x = tw.arange(3.0)
    assert "dltensor" in repr(x.__dlpack__(max_version=version))
    with pytest.raises((ValueError, BufferError)) if version != (1, 0) else nullcontext():
        x.__dlpack__(max_version=version, copy=False)


def test_dlpack_both_ways() -> None:
    x = tw.arange(4.0)
    seen = numpy.from_dlpack(x)
    x[0] = 9.0
    assert seen.tolist() == [0.0, 1.0, 2.0, 3.0]
    theirs = numpy.arange(3.0)
    mine = tw.from_dlpack(theirs)
    theirs[0] = 7.0
    assert mine.tolist() == [0.0, 1.0, 2.0] and x.__dlpack_device__() == (1, 0)


def test_with_array_api_names_of_numpys_signatures() -> None:
    """Functions take the keywords the standard names."""
    x = tw.arange(6.0).reshape(2, 3)
    for call in (
        lambda: tw.sum(x, axis=0, dtype=tw.float64, keepdims=True),
        lambda: tw.std(x, axis=1, correction=1.0, keepdims=True),
        lambda: (
            tw.sort(x, axis=1, descending=False, stable=True)
            if "descending" in inspect.signature(numpy.sort).parameters
            else x
        ),
        lambda: tw.cumulative_sum(x, axis=0, include_initial=True),
        lambda: tw.reshape(x, (3, 2), copy=True),
        lambda: tw.asarray(x, dtype=tw.float32, copy=True, device="cpu"),
        lambda: tw.astype(x, tw.int64, copy=True),
        lambda: tw.clip(x, min=1, max=2),
        lambda: tw.linspace(0, 1, 5, endpoint=True, dtype=tw.float64),
        lambda: tw.eye(3, 4, k=1, dtype=tw.float32, device="cpu"),
        lambda: tw.full((2,), 3, dtype=tw.int8, device="cpu"),
        lambda: tw.take(x, tw.asarray([0, 1]), axis=1),
        lambda: tw.repeat(x, 2, axis=0),
        lambda: tw.isin(x, tw.asarray([1.0])),
        lambda: tw.vecdot(x, x, axis=-1),
        lambda: tw.linalg.vector_norm(x, axis=1, keepdims=True, ord=2),
        lambda: tw.linalg.cross(x, x, axis=1),
        lambda: tw.fft.fftfreq(4, d=0.5),
    ):
        assert type(call()) is tw.Array
    assert tw.isdtype(x.dtype, "real floating") and tw.result_type(x, tw.float32) == tw.float64
    assert tw.finfo(x.dtype).bits == 64 and tw.can_cast(tw.int8, tw.float64)
    assert [type(p) for p in tw.unique_all(x)] == [tw.Array] * 4


IMPORTS = """
from tilewise.linalg import norm; from tilewise.fft import fft2; from tilewise.random import default_rng
from tilewise.polynomial import Polynomial
from tilewise.polynomial.chebyshev import chebval
import tilewise.polynomial.polynomial as p; assert p.polyval(2.0, [0.0, 1.0]) == 2
import tilewise.polynomial.polyutils as u, numpy.polynomial.polyutils as n; assert u is n
import importlib, tilewise.polynomial as p; assert importlib.reload(p) is p
import tilewise.ma as ma, numpy.ma; assert ma is numpy.ma and numpy.ma.__spec__.name == "numpy.ma"
import tilewise.ma.core, numpy.ma.core; assert tilewise.ma.core is numpy.ma.core
from tilewise.typing import NDArray; from tilewise.exceptions import AxisError; from tilewise.dtypes import Int8DType
from tilewise.char import upper; from tilewise.strings import lower; from tilewise.rec import array
from tilewise.lib.stride_tricks import as_strided; from tilewise.lib.npyio import NpzFile
from tilewise.lib import recfunctions; recfunctions.append_fields
import tilewise.special, tilewise.emath, tilewise as tw; assert tw.special is tilewise.special
""".strip().splitlines()


def test_modules_can_be_imported_before_anything_else() -> None:
    """As in programs that import NumPy's by name; each of them in a namespace that has seen no other."""
    for line in IMPORTS:
        done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True)
        assert done.returncode == 0, (line, done.stderr)


def test_functions_of_modules_can_be_pickled() -> None:
    fields = importlib.import_module("tilewise.lib.recfunctions")
    poly = tw.polynomial
    for f in (poly.polynomial.polyval, poly.chebyshev.chebfit, tw.char.upper, tw.emath.sqrt, fields.join_by):
        assert pickle.loads(pickle.dumps(f)) is f
    for f in (tw.sum, tw.linalg.norm, tw.fft.fft, tw.lib.stride_tricks.as_strided):
        assert pickle.loads(pickle.dumps(f)) is f


@pytest.mark.parametrize("name", ["tilewise.nothing", "tilewise.lib.nothing", "tilewise.polynomial.nothing"])
def test_modules_that_there_are_not(name: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=name):
        importlib.import_module(name)


VARIADIC = {"broadcast_arrays", "meshgrid", "result_type"}


@pytest.mark.parametrize("name", [*STANDARD, *(f"linalg.{n}" for n in LINALG), *(f"fft.{n}" for n in FFT)])
def test_signatures_say_what_may_be_given(name: str) -> None:
    """As the standard's own tests ask for: no function hides what it takes behind *args."""
    module, _, last = name.rpartition(".")
    ours, theirs = (getattr(getattr(np, module) if module else np, last) for np in (tw, numpy))
    if not callable(ours) or isinstance(ours, type) or last == "__array_namespace_info__":
        return
    found = inspect.signature(ours).parameters
    if name not in VARIADIC:
        assert not any(p.kind is p.VAR_POSITIONAL for p in found.values()), found
    try:
        known = inspect.signature(theirs).parameters
    except ValueError:  # NumPy before 2.4 says it of few
        return
    assert known.keys() <= found.keys() | {"x", "x1", "x2", "a", "prototype", "shape"}
    positional = [p.name for p in known.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert [n for n in found if n in positional] == positional or name == "clip"


def test_signatures_of_what_the_standard_adds() -> None:
    assert list(inspect.signature(tw.clip).parameters)[:3] == ["a", "min", "max"]
    assert "descending" in inspect.signature(tw.sort).parameters
    assert tw.clip(tw.asarray([1, 5, 9]), min=2, max=6).tolist() == [2, 5, 6]
    assert tw.clip(tw.asarray([1, 5, 9]), 2, 6).tolist() == tw.clip(tw.asarray([1, 5, 9]), a_min=2, a_max=6).tolist()


@pytest.mark.parametrize("eager_bytes", [0, 1 << 20])
@pytest.mark.parametrize("axis", [0, 1, -1, None])
def test_descending(axis: int | None, eager_bytes: int) -> None:
    x = numpy.random.default_rng(2).integers(0, 4, (5, 7))
    flat, along = (x.ravel(), 0) if axis is None else (x, axis)
    with tw.config(eager_bytes=eager_bytes):
        found = numpy.asarray(tw.sort(tw.asarray(x), axis=axis, descending=True))
        places = numpy.asarray(tw.argsort(tw.asarray(x), axis=axis, descending=True, stable=True))
    numpy.testing.assert_array_equal(found, -numpy.sort(-flat, axis=along))
    numpy.testing.assert_array_equal(places, numpy.argsort(-flat, axis=along, stable=True))


def test_unique_values_are_sorted() -> None:
    """As sets NumPy's; NumPy leaves the order open (that of a hash table), and scikit-learn takes them for sorted."""
    given = [3, 1, 2, 5, 3, 9, 0], [3.5, 1, numpy.nan, numpy.nan], [[2, 1], [1, 0]], [], [True, False], ["b", "a"], 7
    for x in given:
        want = numpy.sort(numpy.unique_values(numpy.asarray(x)))
        for found in (tw.unique_values(x), tw.unique_values(tw.asarray(x)), numpy.unique_values(tw.asarray(x))):
            assert type(found) is tw.Array and found.dtype == want.dtype
            assert numpy.array_equal(numpy.asarray(found), want, equal_nan=want.dtype.kind == "f")
