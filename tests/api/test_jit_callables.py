"""tw.jit of what is called like a function: partial functions are traced as what they hold, methods are called."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import types
import warnings
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewise as tw

X = np.linspace(0.0, 1.0, 1000)


@pytest.fixture(autouse=True, params=[0, 1 << 21], ids=["recorded", "default"])
def no_complaints(request: Any) -> Any:
    with tw.config(eager_bytes=request.param), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def decay(xp: Any, a: Any, b: Any, k: float = 2.0, *, shift: int = 1) -> Any:
    return xp.exp(-a) * b**k + shift


GAIN = 2.0


class Model(NamedTuple):
    w: float

    def gain(self, x: Any) -> Any:
        return x * GAIN

    def step(self, x: Any) -> Any:
        return self.gain(x) + self.w


class Scale:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def of(self, x: Any) -> Any:
        return x * self.factor


def test_partial_functions() -> None:
    first = tw.jit(functools.partial(decay, np, shift=4))
    second = tw.jit(functools.partial(functools.partial(decay, np), tw.asarray(X), k=3.0))
    x, y = tw.asarray(X), tw.full(1000, 2.0)
    for _ in range(4):
        np.testing.assert_allclose(first(x, y), np.exp(-X) * 4 + 4)
        np.testing.assert_allclose(second(y), np.exp(-X) * 8 + 1)
    assert first.traces == 1 and second.traces <= 2  # with and without its float as a parameter
    np.testing.assert_allclose(first(x, y, shift=5), np.exp(-X) * 4 + 5)
    np.testing.assert_allclose(first(x, b=y, k=1.0), np.exp(-X) * 2 + 4)
    np.testing.assert_allclose(second(y, k=1.0), np.exp(-X) * 2 + 1)


def test_an_array_that_a_partial_function_holds_may_change() -> None:
    held = tw.asarray(X.copy())
    f = tw.jit(functools.partial(decay, np, held))
    y = tw.full(1000, 2.0)
    before = np.asarray(f(y)).copy()
    held += 1.0
    np.testing.assert_allclose(f(y), (before - 1) * np.exp(-1.0) + 1)


def test_methods_of_objects() -> None:
    scale = Scale(3.0)
    f = tw.jit(scale.of)
    with tw.config(fallback="silent"):  # the object may change in any way
        np.testing.assert_allclose(f(tw.asarray(X)), 3 * X)
        scale.factor = 5.0
        np.testing.assert_allclose(f(tw.asarray(X)), 5 * X)


def test_what_methods_of_named_tuples_refer_to_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = Model(1.0), tw.ones(3)
    bound, unbound = tw.jit(model.step), tw.jit(Model.step)
    with tw.config(fallback="silent"):
        assert bound(x).tolist() == unbound(model, x).tolist() == [3, 3, 3]
        monkeypatch.setitem(globals(), "GAIN", 10.0)
        assert bound(x).tolist() == unbound(model, x).tolist() == [11, 11, 11]


def test_it_looks_like_what_it_wraps() -> None:
    part = functools.partial(decay, np, shift=4)
    f = tw.jit(part)
    assert inspect.signature(f) == inspect.signature(part) and f.__wrapped__ is part

    def plain(x: Any) -> Any:
        return x

    vars(plain)["bound"] = "mine"
    assert vars(tw.jit(plain))["bound"] == "mine"


def test_inside_of_another_function() -> None:
    inner = tw.jit(functools.partial(decay, np, shift=4))
    outer = tw.jit(lambda a: inner(a, a) - 4)
    with tw.config(fallback="silent"):  # what the inner one holds may change
        for _ in range(3):
            np.testing.assert_allclose(outer(tw.asarray(X)), np.exp(-X) * X**2)


@tw.jit
def doubled(x: Any) -> Any:
    return x * 2


def shifted(x: Any, by: float) -> Any:
    return x + by


def test_copies_and_pickles() -> None:
    """As of functions: by name. One that has no name of its own is made again."""
    for f, want in ((doubled, X * 2), (tw.jit(np.negative), -X), (tw.jit(functools.partial(shifted, by=0.5)), X + 0.5)):
        for again in (f, copy.copy(f), copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
            with tw.config(fallback="silent"):
                for _ in range(4):
                    np.testing.assert_array_equal(again(tw.asarray(X)), want)
    assert copy.copy(doubled) is doubled and pickle.loads(pickle.dumps(doubled)) is doubled


def test_what_is_no_function_of_python_is_called_as_it_is() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = tw.jit(functools.partial(np.add, 1.0))
        np.testing.assert_allclose(f(tw.asarray(X)), X + 1)


def test_modules_and_classes_decorate_every_function_of_their_own():
    module = types.ModuleType("a_module")
    exec("import os\ndef f(x): return x + 1\nclass C: pass\nnumber = 3\ng = os.path.join\n", vars(module))
    assert tw.jit(module) is module
    assert isinstance(module.f, tw.jit) and not isinstance(module.g, tw.jit) and module.number == 3
    np.testing.assert_array_equal(module.f(tw.ones(3)), [2, 2, 2])

    @tw.jit(strict=True)
    class Sums:
        def __init__(self, start):
            self.start = start

        @staticmethod
        def prefix(a):
            for i in range(1, len(a)):
                a[i] += a[i - 1]
            return a

        @classmethod
        def name(cls):
            return cls.__name__

        def of(self, a):
            return self.start + a

    assert type(Sums) is type and not isinstance(Sums.__init__, tw.jit) and Sums.prefix.strict
    np.testing.assert_array_equal(Sums.prefix(np.arange(4.0)), [0, 1, 3, 6])
    assert isinstance(vars(Sums)["of"], tw.jit)
