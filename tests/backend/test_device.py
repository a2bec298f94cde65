"""Whole programs on a device whose memory cannot be looked into: by `tw.config(backend=...)`, on every engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.backend.programs import ROWS
from tests.backend.toy import Toy
from tilewise import backend, compiler
from tilewise.errors import ConfigError

SESSIONS = [None, {"workers": 1}, {"workers": 3}, {"mesh": (2, 2)}]


@pytest.fixture(scope="module")
def device() -> Iterator[Toy]:
    toy = Toy()
    backend.register(toy)
    yield toy
    del backend._opened["toy"]


@pytest.fixture
def toy(device: Toy) -> Iterator[Toy]:
    device.copies = 0
    with tw.config(eager_bytes=0, backend="toy"):
        yield device


def check(got: Any, want: Any) -> None:
    want, got = np.asarray(want), np.asarray(got)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    tolerance = 1e-5 if want.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 100)


@pytest.mark.parametrize("session", SESSIONS, ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_programs_give_what_numpy_does(toy: Toy, name: str, session: dict[str, Any] | None) -> None:
    program, arrays, _ = ROWS[name]
    if session is None:
        check(program(tw, *[tw.asarray(a) for a in arrays]), program(np, *arrays))
    else:
        with tw.session(engine="virtual", **session):
            check(program(tw, *[tw.asarray(a) for a in arrays]), program(np, *arrays))
    assert toy.copies or name == "nothing"


def test_only_what_is_given_and_asked_for_is_copied(toy: Toy) -> None:
    x = tw.asarray(np.arange(1000.0))
    total = (np.exp(-x) * x + 1).sum()
    float(total)
    assert toy.copies == 2  # the array in, the sum out


@pytest.mark.parametrize("name", ROWS)
def test_steps_without_code_run_here(toy: Toy, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    program, arrays, _ = ROWS[name]
    monkeypatch.setattr(toy, "supports", lambda kernel: not kernel.reduced or not any(kernel.reduced))
    compiler.forget_plans()
    check(program(tw, *[tw.asarray(a) for a in arrays]), program(np, *arrays))


def test_a_plan_serves_other_data_and_sizes(toy: Toy) -> None:
    bound = []
    bind = toy.bind
    toy.bind = lambda stage, geometry: bound.append(1) or bind(stage, geometry)  # type: ignore[method-assign, func-returns-value]
    for n in (10, 10, 20, 10):
        a = np.arange(float(n)) + len(bound)
        check(tw.asarray(a) * 3 + n, a * 3 + n)
    assert len(bound) == 2, "once for each size"


def test_updates_loops_and_masks(toy: Toy) -> None:
    def program(xp: Any, a: Any) -> Any:
        for _ in range(3):
            a[1:-1] = (a[:-2] + a[2:]) / 2
        a[a > 3] *= 0.5
        return a[a < 2.9]

    start = np.arange(40.0)
    own = tw.asarray(start.copy())
    check(program(tw, own), program(np, start.copy()))


def test_jitted_functions_run_there(toy: Toy) -> None:
    @tw.jit
    def f(x: Any, k: float) -> Any:
        return np.sqrt(x) * k

    for k in (1.0, 2.0, 3.0):
        before = toy.copies
        check(f(tw.asarray(np.arange(9.0)), k), np.sqrt(np.arange(9.0)) * k)
        assert toy.copies > before


def test_failures_are_raised_and_leave_arrays_as_they_were(toy: Toy) -> None:
    x = tw.asarray(np.arange(5.0))

    def refuse(tile: Any) -> Any:
        if len(tile) == 5:  # not while it is tried out
            raise LookupError("not this tile")
        return tile

    bad = tw.map_tiles(refuse, x * 2, dtype=float)
    with pytest.raises(LookupError, match="not this tile"):
        np.asarray(bad + 1)
    check(x * 2, np.arange(5.0) * 2)


def test_a_backend_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"there is no backend 'tpu'.*Backends are llvm, reference"):
        tw.config(backend="tpu")
