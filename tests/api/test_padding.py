"""np.pad: NumPy's values, memory order and complaints, for known and pending arrays, here and on meshes."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw

MODES = ("constant", "edge", "reflect", "symmetric", "wrap")
WIDTHS: tuple[Any, ...] = (1, (0, 3), (3, 1), 9)
RNG = np.random.default_rng(5)


def options(mode: str, ndim: int) -> list[dict[str, Any]]:
    if mode != "constant":
        return [{}]
    pairs = tuple((2 * i, 2 * i + 1) for i in range(ndim))
    return [{}, {"constant_values": 5}, {"constant_values": (1, 2)}, {"constant_values": pairs}]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(5,), (1,), (4, 6), (3, 4, 5), (2, 3, 2, 2)])
@pytest.mark.parametrize("pending", [False, True])
def test_values_and_order(mode: str, shape: tuple[int, ...], pending: bool) -> None:
    for x in (RNG.random(shape), np.asfortranarray(RNG.integers(0, 9, shape))):
        for width in (*WIDTHS, tuple((i, 2) for i in range(len(shape)))):
            for more in options(mode, len(shape)):
                want = np.pad(x, width, mode, **more)
                with tw.config(eager_bytes=0, fallback="error"):
                    given = tw.asarray(x)
                    got = np.asarray(tw.pad(given + 0 if pending else given, width, mode, **more))
                assert got.dtype == want.dtype and np.array_equal(got, want), (width, more)
                assert got.flags.fnc == want.flags.fnc


@pytest.mark.parametrize("mesh", [2, 3, (2, 2)])
@pytest.mark.parametrize("mode", MODES)
def test_on_meshes(mesh: Any, mode: str) -> None:
    x = RNG.random((20, 13))
    with tw.config(eager_bytes=0), tw.session(engine="virtual", mesh=mesh):
        padded = tw.pad(tw.asarray(x) * 2, ((2, 1), (0, 3)), mode)
        got = (padded[:-2] + padded[2:]).compute()
    want = np.pad(x * 2, ((2, 1), (0, 3)), mode)
    assert np.array_equal(got, want[:-2] + want[2:])


def test_an_array_is_written_once() -> None:
    with tw.config(eager_bytes=0):
        x = tw.asarray(RNG.random((50, 40)))
        steps = [s for stage in tw.explain(tw.pad(x, 1, "edge")).stages for s in stage.steps]
    assert not {"gather", "concatenate"} & {o for s in steps for o in s.operators}


def test_complaints_are_numpys() -> None:
    for args in ((-1,), (1, "nope"), (1.5,), ((1, 2, 3),)):
        with pytest.raises((ValueError, TypeError)) as want:
            np.pad(np.ones((3, 4)), *args)
        with tw.config(eager_bytes=0, fallback="silent"), pytest.raises(want.type, match=str(want.value)[:20]):
            tw.pad(tw.ones((3, 4)), *args)


@pytest.mark.parametrize("mesh", [{"workers": 2}, {"mesh": (2, 2)}], ids=str)
def test_what_numpy_pads_of_views_on_workers_lies_as_numpys(mesh: Any) -> None:
    def program(np: Any) -> Any:
        x = np.ones((7, 6, 4), "bool", order="F")
        return np.pad(x[::-2, :-3, :-1], 2, constant_values=2)  # a value of another kind: NumPy's own code

    with tw.config(eager_bytes=0, fallback="silent"), tw.session(engine="virtual", **mesh):
        found = program(tw)
        assert found.strides == program(np).strides == (49, 7, 1)
        assert np.array_equal(found, program(np))
