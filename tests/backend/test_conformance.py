"""What every backend must do: the rows of programs.py by bind and run, compared with NumPy; buffers and copies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.backend.programs import LONG, ROWS, SMALL, Lowered, kinds, lowered
from tests.backend.toy import Toy
from tilewise import backend
from tilewise.backend.base import Backend, Facts, Geometry
from tilewise.ir.buffer import CSR, DENSE, Buffer
from tilewise.stage.cut_axis import space_of
from tilewise.stage.steps import Stage, Tiled, passes


@pytest.fixture(params=["llvm", "reference", "toy"])
def device(request: pytest.FixtureRequest) -> Iterator[Backend]:
    yield Toy() if request.param == "toy" else backend.named(request.param)


def run(device: Backend, low: Lowered) -> np.ndarray[Any, Any]:
    """The result of a program with one."""
    binding = device.bind(low.stage, low.geometry)
    made = device.run(binding, {x: device.copy_in(a) for x, a in low.given.items()})
    (pos,) = low.stage.results
    return device.copy_out(made[pos])


def check(got: np.ndarray[Any, Any], want: Any) -> None:
    want = np.asarray(want)
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    tolerance = 1e-5 if want.dtype == np.float32 else 1e-12
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 100)


@pytest.mark.parametrize("name", ROWS)
def test_stages_give_what_numpy_does(device: Backend, name: str) -> None:
    program, arrays, made_of = ROWS[name]
    low = lowered(program, arrays)
    assert made_of <= kinds(low.stage), "the row tests something else than it says"
    before = {x: a.copy() for x, a in low.given.items()}
    check(run(device, low), program(np, *arrays))
    for x, a in low.given.items():
        assert np.array_equal(a, before[x]), "an input was overwritten"


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("tiles")])
def test_rows_of_tiles_have_tiles_in_native_code(name: str) -> None:
    program, arrays, _ = ROWS[name]
    low = lowered(program, arrays)
    groups = [s for s in low.stage.steps if isinstance(s, Tiled)]
    assert groups and all(backend.named("llvm").tiling(s, low.geometry.nodes) is not None for s in groups)


def test_a_binding_runs_again_and_results_feed_the_next_run(device: Backend) -> None:
    low = lowered(lambda np, x: x * 2 + 1, [LONG])
    (pos,) = low.stage.results
    (leaf,) = (x for x, a in low.given.items() if a.ndim)
    binding = device.bind(low.stage, low.geometry)
    buffers = {x: device.copy_in(a) for x, a in low.given.items()}
    first = buffers[leaf]
    for _ in range(4):  # nobody waits in between
        buffers[leaf] = device.run(binding, buffers)[pos]
    check(device.copy_out(buffers[leaf]), LONG * 16 + 15)
    check(device.copy_out(first), LONG)


class Sized:
    """A node of which only types and sizes are known, as of a plan that serves many graphs."""

    value = None

    def __init__(self, node: Any) -> None:
        self._node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


@pytest.mark.parametrize("known", [True, False])
def test_updates_leave_what_is_given_alone(device: Backend, known: bool) -> None:
    def program(np: Any, x: Any) -> Any:
        x[3:9] = x[3:9] * 7.0
        return x

    low = lowered(program, [LONG])
    want = program(np, LONG.copy())
    nodes = low.geometry.nodes if known else [Sized(n) for n in low.geometry.nodes]
    binding = device.bind(low.stage, Geometry(nodes))
    buffers = {x: device.copy_in(a) for x, a in low.given.items()}
    for _ in range(2):
        (made,) = device.run(binding, buffers).values()
        check(device.copy_out(made), want)
    for x, a in low.given.items():
        check(device.copy_out(buffers[x]), a)


@pytest.mark.parametrize(
    "array", [SMALL, np.asfortranarray(SMALL), SMALL[::2, ::-1], np.float64(3.5), np.empty((0, 2))]
)
def test_copies_are_copies(device: Backend, array: Any) -> None:
    array = np.array(array, order="K")
    want = array.copy()
    buffer = device.copy_in(array)
    assert (buffer.device, buffer.format, len(buffer.parts)) == (device.device, DENSE, 1)
    array[...] = 0
    first = device.copy_out(buffer)
    check(first, want)
    first[...] = 1
    check(device.copy_out(buffer), want)


@pytest.mark.parametrize("order", [None, (1, 0)])
def test_empty_has_its_shape_and_order(device: Backend, order: tuple[int, ...] | None) -> None:
    out = device.copy_out(device.empty((3, 4), np.dtype("f4"), order))
    assert (out.shape, out.dtype) == ((3, 4), np.float32)
    assert out.flags.f_contiguous if order else out.flags.c_contiguous


def test_failures_reach_who_waits(device: Backend) -> None:
    def program(np: Any, x: Any, k: Any) -> Any:
        return x[k] * 2

    keys = np.array([0, 3, 1])
    low = lowered(program, [LONG, keys])
    check(run(device, low), LONG[keys] * 2)
    (at,) = (x for x, a in low.given.items() if a.dtype == keys.dtype)
    with pytest.raises(IndexError):
        run(device, low._replace(given={**low.given, at: keys + len(LONG)}))
    check(run(device, low), LONG[keys] * 2)


def test_facts_and_what_is_supported(device: Backend) -> None:
    assert isinstance(device.facts, Facts)
    assert all(n > 0 for n in vars(device.facts).values())
    for program, arrays, _ in ROWS.values():
        stage = lowered(program, arrays).stage
        assert all(device.supports(p.kernel) for s in stage.steps for p in passes(s)), (
            "a plan asks for no other kernels"
        )


@pytest.mark.parametrize("name", [name for name in ROWS if name != "nothing"])
def test_listings_say_something(device: Backend, name: str) -> None:
    low = lowered(*ROWS[name][:2])
    for p in (p for s in low.stage.steps for p in passes(s)):
        assert device.listing(p.kernel, space_of(p, low.geometry.nodes)).ir


def test_the_toy_completes_late_and_copies_only_when_told() -> None:
    toy = Toy()
    low = lowered(lambda np, x: (x * 2).sum(0), [SMALL])
    buffers = {x: toy.copy_in(a) for x, a in low.given.items()}
    toy.held.clear()
    (made,) = toy.run(toy.bind(low.stage, low.geometry), buffers).values()
    assert made.ready is not None and not made.ready.done()
    toy.held.set()
    check(toy.copy_out(made), (SMALL * 2).sum(0))
    assert toy.copies == len(buffers) + 1
    with pytest.raises(TypeError, match="cannot be looked into"):
        np.asarray(made.parts[0])


def test_a_buffer_has_the_parts_of_its_format() -> None:
    rows = tuple(np.arange(3) for _ in range(3))
    assert Buffer("host", CSR, rows).wait() is rows
    with pytest.raises(ValueError, match="csr data has 3 parts, got 1"):
        Buffer("host", CSR, (rows[0],))


def test_backends_are_named_and_can_be_added() -> None:
    assert backend.host_backend(native=True) is backend.named("llvm")
    assert backend.host_backend(native=False) is backend.named("reference")
    toy = Toy()
    backend.register(toy)
    try:
        assert backend.named("toy") is toy
    finally:
        backend._opened.pop("toy")
    with pytest.raises(KeyError):
        backend.named("toy")


def test_an_empty_stage_hands_on_what_it_is_given(device: Backend) -> None:
    low = lowered(lambda np, x: x * 2, [LONG])
    (leaf,) = (x for x, a in low.given.items() if a.ndim)
    binding = device.bind(Stage((), (leaf,), (leaf,)), Geometry(low.geometry.nodes))
    (out,) = device.run(binding, {leaf: device.copy_in(LONG)}).values()
    check(device.copy_out(out), LONG)
