"""Products of three in the cheaper order, with NumPy's infinities and NaNs."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.rewrite.support import everywhere, names, recorded, same
from tilewise.ops.linalg.chain import Chain

N = 120  # N ** 3 operations are more than the least that is looked at


def matrices(dtype: Any = float) -> Any:
    rng = np.random.default_rng(5)
    numbers = [rng.standard_normal(s) * 9 for s in ((N, N), (N, N), N, (N, 2), (2, N))]
    return [(np.abs(x) if dtype is np.uint8 else x).astype(dtype) for x in numbers]


def vector(np: Any, a: Any, b: Any, v: Any, w: Any, u: Any) -> Any:
    return a @ b @ v


def thin(np: Any, a: Any, b: Any, v: Any, w: Any, u: Any) -> Any:
    return np.dot(a @ b, w)


def before(np: Any, a: Any, b: Any, v: Any, w: Any, u: Any) -> Any:
    return v @ (a @ b)


def flat(np: Any, a: Any, b: Any, v: Any, w: Any, u: Any) -> Any:
    return u @ (a @ b)


PROGRAMS = [vector, thin, before, flat]


@pytest.mark.parametrize("program", PROGRAMS)
def test_fires(program: Any) -> None:
    with recorded():
        assert names(program(tw, *map(tw.array, matrices())))[-1] in ("(a @ b) @ c", "a @ (b @ c)")
        whole = names(program(tw, *map(tw.array, matrices(int))))
        assert len([x for x in whole if x.startswith(("matmul", "dot"))]) == 2
        with tw.config(exact=True):
            assert "@" not in names(program(tw, *map(tw.array, matrices())))[-1]


def test_stays() -> None:
    with recorded():
        a, b, v, _, u = map(tw.array, matrices())
        for y in (a @ (b @ v), (u @ a) @ b, a @ b @ a, a[:9] @ b[:, :9] @ v[:9]):
            assert not any("@" in x for x in names(y))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8])
def test_values(program: Any, dtype: Any) -> None:
    given = matrices(dtype)
    want = program(np, *given)
    for settings in ({}, {"rewrite": False}):
        with recorded(**settings):
            got = np.asarray(program(tw, *map(tw.array, given)))
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-2 if dtype == np.float32 else 1e-9, atol=1e-2)
    with recorded(), tw.session(engine="virtual", mesh=3):  # type: ignore[attr-defined]
        np.testing.assert_allclose(
            np.asarray(program(tw, *map(tw.array, given))), want, rtol=1e-2 if dtype == np.float32 else 1e-9, atol=1e-2
        )


@pytest.mark.parametrize("wild", [np.inf, -np.inf, np.nan, 1e300, 1e-300, 0.0])
@pytest.mark.parametrize("where", range(3))
@pytest.mark.parametrize("program", [vector, before])
def test_what_overflows_or_vanishes_on_the_way(wild: float, where: int, program: Any) -> None:
    """Some rows, or one matrix altogether, are not finite, too large or too small for the other order."""
    given = [abs(x) for x in matrices()]
    given[where][:3] = wild
    everywhere(program, *given, meshes=(None, 2))
    scales = np.roll([1e200, 1e-200, 1e-200], where)
    everywhere(program, *(x * s for x, s in zip(matrices(), [*scales, 1, 1], strict=True)), meshes=(None,))


def test_of_nothing() -> None:
    for right in (True, False):
        same(Chain(right).numpy(np.ones((3, 0)), np.ones((0, 2)), np.ones(2)), np.zeros(3))
