"""tw.jit: what results are. Of ndarrays ndarrays and NumPy's numbers, wherever in containers they are; else Arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import tilewise as tw

WEIGHTS = tw.asarray(np.arange(4.0))


class Pair(NamedTuple):
    left: Any
    right: Any


def described(value: Any) -> Any:
    """A result with the classes and dtypes of all that is in it."""
    if isinstance(value, dict):
        return type(value), [(key, described(v)) for key, v in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [described(v) for v in value]
    if isinstance(value, np.ndarray | np.generic | tw.Array):
        return type(value), value.dtype, value.shape, repr(value.tolist())
    return type(value), value


def moments(x: Any) -> Any:
    return {"mean": x.mean(), "z": x - x.mean()}


def in_list(x: Any) -> Any:
    return x.sum(), [x[0]]


def comprehended(x: Any) -> Any:
    return [x[i] for i in range(3)]


def deep(x: Any) -> Any:
    return Pair(x.max(), [x + 1, {"least": x.min(), 2: ({"none": None}, [])}])


def mixed(x: Any) -> Any:
    return {"n": len(x), "shape": x.shape, "half": x / 2, "positive": x > 0, "text": "a", "any": x.any()}


def alone(x: Any) -> Any:
    return x * 2


def number(x: Any) -> Any:
    return x.sum()


def nested_in_dict(x: Any) -> Any:
    return {"parts": {k: x * k for k in (1, 2)}, "rest": ((x.std(),), [])}


def whole(x: Any) -> Any:
    return {"cumulated": np.cumsum(x), "where": np.where(x > 1, x, 0), "along": [x.sum(axis=0), x.sum(keepdims=True)]}


FUNCTIONS = (moments, in_list, comprehended, deep, mixed, alone, number, nested_in_dict, whole)
ARRAYS: dict[str, Callable[[], Any]] = {
    "float64": lambda: np.arange(4.0) - 1,
    "float32": lambda: np.arange(4, dtype="f4"),
    "int64": lambda: np.arange(4) - 1,
    "complex": lambda: np.arange(4) + 1j,
    "bool": lambda: np.array([True, False, True, True]),
    "no axes": lambda: np.array(2.5),
    "empty": lambda: np.array([]),
    "gaps": lambda: np.arange(8.0)[::2],
    "rows": lambda: np.arange(12.0).reshape(4, 3),
    "large": lambda: np.linspace(0.0, 1.0, 300_001),
}


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of empty arrays
def test_results_are_those_of_numpy(f: Callable[..., Any], mode: str) -> None:
    g = tw.jit(f)
    for make in ARRAYS.values():
        if make().dtype == bool and f is moments:
            continue  # NumPy cannot subtract them
        for _ in range(3):
            compare(f, g, make)


def compare(f: Callable[..., Any], g: Callable[..., Any], make: Callable[[], Any]) -> None:
    """Call both on an array: classes, dtypes and errors are equal, values are close (sums are in another order)."""
    x = make()
    try:
        want = f(x)
    except (IndexError, TypeError, ValueError) as error:
        with pytest.raises(type(error)):
            g(x)
        return
    got = g(x)
    if x.size < 100:
        assert described(got) == described(want)
    else:
        close(got, want)


def close(got: Any, want: Any) -> None:
    """The same classes, and almost the same values."""
    assert type(got) is type(want)
    if isinstance(want, dict):
        assert list(got) == list(want)
        got, want = list(got.values()), list(want.values())
    if isinstance(want, list | tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            close(a, b)
    elif isinstance(want, np.ndarray | np.generic):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-12)
    else:
        assert got == want


def test_one_trace_makes_all_results(mode: str) -> None:
    f = tw.jit(nested_in_dict)
    for k in range(4):
        f(np.arange(4.0) + k)
    assert f.traces == (0 if mode == "numpy" else 1)


def test_arguments_are_returned_as_they_are(mode: str) -> None:
    f = tw.jit(lambda x, y: {"x": x, "rest": [y, (x, y + 1)]})
    for _ in range(3):
        x, y = np.arange(3.0), np.ones(3)
        got = f(x, y)
        assert got["x"] is x and got["rest"][0] is y and got["rest"][1][0] is x
        assert type(got["rest"][1][1]) is np.ndarray


def test_results_are_the_callers_own(mode: str) -> None:
    f = tw.jit(lambda x: {"same": x + 0, "more": [x + 1]})
    x = np.arange(3.0)
    for _ in range(4):
        got, other = f(x), f(x)
        got["same"][:] = got["more"][0][:] = -1.0
        assert (
            x.tolist() == [0, 1, 2] and other["same"].tolist() == [0, 1, 2] and other["more"][0].tolist() == [1, 2, 3]
        )


def test_results_of_arrays_are_arrays(mode: str) -> None:
    x = np.arange(4.0)
    programs: Sequence[tuple[Callable[..., Any], tuple[Any, ...]]] = (
        (lambda x: [x * 2], (tw.asarray(x),)),
        (lambda x, y: [x * y], (x, tw.asarray(x))),
        (lambda x: [x * WEIGHTS], (x,)),
        (lambda x: [tw.sin(x)], (x,)),
        (lambda xp, x: [xp.sin(x)], (tw, x)),
        (lambda f, x: [f(x)], (tw.sin, x)),
        (lambda n: [tw.ones(n) * 2], (3,)),
    )
    for f, args in programs:
        g = tw.jit(f)
        assert [type(g(*args)[0]) for _ in range(3)] == [tw.Array] * 3
    g = tw.jit(lambda xp, x: [xp.sin(x)])
    assert type(g(tw, x)[0]) is tw.Array and type(g(np, x)[0]) is np.ndarray


def test_functions_that_call_each_other(mode: str) -> None:
    inner = tw.jit(moments)

    def outer(x: Any) -> Any:
        return [inner(x)["mean"], x - inner(x)["mean"]]

    g = tw.jit(outer)
    for _ in range(3):
        got = g(np.arange(4.0))
        assert [type(v) for v in got] == [np.float64, np.ndarray] and got[0] == 1.5


def test_methods(mode: str) -> None:
    class Scale:
        by = 2.0

        @tw.jit
        def scaled(self, x: Any) -> Any:
            return {"x": x * self.by, "sum": x.sum()}

        @staticmethod
        @tw.jit
        def shifted(x: Any) -> Any:
            return [x + 1, x.max()]

    model, x = Scale(), np.arange(3.0)
    for _ in range(3):
        assert described(model.scaled(x)) == described({"x": x * 2.0, "sum": x.sum()})
        assert described(Scale.shifted(x)) == described([x + 1, x.max()])


def test_what_is_not_replayed_is_what_python_gives(mode: str) -> None:
    def written(x: Any) -> Any:
        x += 1
        return {"x": x, "rest": x[1:]}

    for f in (written, lambda x: [x[1:], x.T], lambda x: {x.max(), x.min()}, lambda x: list(v * 2 for v in x)):
        g = tw.jit(f)
        for _ in range(3):
            x, y = np.arange(4.0), np.arange(4.0)
            got, want = g(x), f(y)
            assert repr(got) == repr(want) and x.tolist() == y.tolist()
            if f is written:
                assert got["x"] is x and np.shares_memory(got["rest"], x)
    lazy = tw.jit(lambda x: (v * 2 for v in x))(np.arange(3.0))
    assert [type(v) for v in lazy] == [np.float64] * 3


@pytest.mark.parametrize(
    "session", [{"engine": "virtual", "workers": 2}, {"memory": 256 << 20}], ids=["mesh", "memory"]
)
def test_in_sessions(session: dict[str, Any]) -> None:
    g = tw.jit(deep)
    with tw.session(**session):
        for x in (np.arange(4.0), np.arange(400_000.0)):
            for _ in range(2):
                close(g(x), deep(x))
