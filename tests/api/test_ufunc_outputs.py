"""`out=...` and `where=` of ufuncs: NumPy's types, complaints and warnings, done at once or recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw


class Named(np.ndarray):
    """A class of the user's."""


@pytest.fixture(params=[0, None], ids=["recorded", "at once"], autouse=True)
def _recorded(request: pytest.FixtureRequest) -> Any:
    with tw.config(eager_bytes=0, fallback="silent") if request.param == 0 else tw.config():
        yield


@pytest.mark.parametrize("one", [1, np.array(1), np.array(1).view(Named)], ids=["number", "array", "class"])
def test_ellipsis_asks_for_arrays(one: Any) -> None:
    ours = tw.asarray(one) if type(one) is np.ndarray else one
    kind = Named if type(one) is Named else tw.ndarray
    for result in (tw.add(ours, 2, out=...), tw.negative(ours, out=...), *tw.divmod(ours, 2, out=...)):
        assert type(result) is kind and result.shape == ()
    assert int(tw.add(ours, 2, out=...)) == 3
    assert isinstance(tw.add(1, 2), np.integer), "a number without it"


@pytest.mark.parametrize(
    "call",
    [
        lambda np: np.add(1, 2, ...),
        lambda np: np.add(np.arange(3), 2, ...),
        lambda np: np.negative(1, out=(...,)),
        lambda np: np.divmod(np.arange(3), 2, out=(np.empty(3), ...)),
        lambda np: np.vecdot(np.ones((2, 3)), np.ones((2, 3)), axis=[0]),
    ],
)
def test_complaints_are_numpys(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError) as theirs:
        call(np)
    with pytest.raises(TypeError) as ours:
        call(tw)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older ones do not warn")
def test_where_without_out_warns_at_the_users_line() -> None:
    a = tw.arange(7)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = tw.add(a, a, where=a % 2 == 0)
        assert [w.filename for w in said] == [__file__]
        with warnings.catch_warnings(record=True) as theirs:
            warnings.simplefilter("always")
            np.add(np.arange(7), 1, where=[True] * 7)
        assert str(said[0].message) == str(theirs[0].message) and said[0].category is theirs[0].category
        tw.add(a, a, where=a % 2 == 0, out=None)
        tw.add(a, a, where=True)
        tw.add(a, a, where=a > 2, out=tw.zeros(7, int))
    assert len(said) == 1
    assert np.asarray(result)[::2].tolist() == [0, 4, 8, 12]


def test_products_say_what_they_are() -> None:
    for name in ("matmul", "vecdot"):
        ours, theirs = getattr(tw, name), getattr(np, name)
        assert (ours.signature, ours.nin, ours.nout) == (theirs.signature, theirs.nin, theirs.nout)


def test_masks_of_other_classes_decide() -> None:
    class Mask:
        def __array_ufunc__(self, ufunc: Any, method: str, *args: Any, **kwargs: Any) -> Any:
            return ufunc.__name__, method, sorted(kwargs)

    assert tw.add(tw.arange(3), 1, where=Mask()) == ("add", "__call__", ["where"])  # and nobody warns


class Given:
    """An object of the user's that gives an Array, as with only the import changed."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return tw.arange(3.0)


class Struct:
    """One that describes its memory."""

    def __init__(self, array: Any) -> None:
        self.__array_struct__ = array.__array_struct__


def test_objects_that_give_or_describe_arrays() -> None:
    x = tw.arange(3.0)
    assert np.asarray(x.sum() * Given()).tolist() == [0.0, 3.0, 6.0]
    assert np.asarray(Given() + x.max()).tolist() == [2.0, 3.0, 4.0]
    with pytest.raises(ValueError, match="shape"):
        x.sum() * np.ones((2, 3)) + np.ones(7)
    assert np.asarray(tw.asarray(Struct(x)) + 1).tolist() == [1.0, 2.0, 3.0]
    assert np.asarray(tw.add(Struct(x * 2), 1)).tolist() == [1.0, 3.0, 5.0]
    assert not np.asarray(Struct(x)).flags.writeable


def test_vectorised_functions_give_the_class_of_their_argument() -> None:
    def more(x: Any) -> Any:
        return x + 1

    found = tw.vectorize(more)(np.arange(3).view(Named))
    assert type(found) is Named and found.tolist() == [1, 2, 3]
    assert type(tw.vectorize(more)(tw.arange(3))) is tw.ndarray


@pytest.mark.parametrize("zero", [np.float32(-0.0), np.float64(-0.0), np.complex128(complex(-0.0, -0.0))])
def test_sums_that_begin_with_negative_zero(zero: Any) -> None:
    for n in (0, 1, 5, 100):
        total = np.asarray(tw.sum(tw.asarray(np.full(n, zero)), initial=zero))
        assert total == 0 and np.signbit(total.real)
        assert not np.signbit(np.asarray(tw.sum(tw.asarray(np.full(n, zero)), initial=0.0)).real)
