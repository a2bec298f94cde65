"""Work that several results need is done once, whoever asks first; and nobody can tell from the values."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import events
from tilewise.array.evaluation import here

N = 50


@pytest.fixture(autouse=True)
def recorded() -> Iterator[None]:
    with tw.config(eager_bytes=0, native=False):
        yield


@contextmanager
def steps() -> Iterator[list[str]]:
    """The names of the steps that run inside."""
    names: list[str] = []

    def listen(event: events.Event) -> None:
        if event.kind != "compile":
            names.append(event.name)

    events.listeners.append(listen)
    try:
        yield names
    finally:
        events.listeners.remove(listen)


def made() -> Any:
    return tw.array(np.arange(float(N)))


def scans(names: list[str]) -> int:
    return sum("accumulate" in n for n in names)


def test_a_dear_value_without_a_name_is_kept() -> None:
    total = made().cumsum()
    low, high = total - 1.0, total * 2.0
    del total
    with steps() as names:
        low.compute(), high.compute()
    assert scans(names) == 1
    want = np.arange(float(N)).cumsum()
    assert np.array_equal(low.compute(), want - 1.0) and np.array_equal(high.compute(), want * 2.0)


def test_it_is_found_behind_views() -> None:
    total = made().cumsum()
    part = total[3:]
    first, second = part + 1.0, part * 2.0
    del total, part
    with steps() as names:
        first.compute(), second.compute()
    assert scans(names) == 1


def test_elementwise_work_is_computed_again() -> None:
    double = made() * 2.0
    low, high = double - 1.0, double + 1.0
    del double
    with steps() as names:
        low.compute(), high.compute()
    assert names == ["multiply, subtract", "multiply, add"]


def test_a_result_is_read_by_what_hangs_on_it() -> None:
    total = made().cumsum()
    later = total * 2.0
    with steps() as names:
        total.compute(), later.compute()
    assert scans(names) == 1


def test_nothing_is_kept_that_nobody_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[int]] = []
    look = here._needed_elsewhere

    def spy(*args: Any) -> list[int]:
        found.append(look(*args))
        return found[-1]

    monkeypatch.setattr(here, "_needed_elsewhere", spy)
    total = made().cumsum()
    low, high = total - 1.0, total * 2.0
    del total, high
    low.compute()
    assert found == [[]]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.__setitem__(0, 100.0),
        lambda x: x.__setitem__(slice(2, 9), x[2:9] * 3.0),
        lambda x: x.__iadd__(1.0),
        lambda x: x.sort(),
        lambda x: np.add(x, 1.0, out=x),
    ],
    ids=["element", "part", "all", "sort", "out"],
)
@pytest.mark.parametrize("eager", [0, "2MiB"])
def test_later_writes_are_not_seen(write: Any, eager: Any) -> None:
    total = made().cumsum()
    later = total * 2.0
    want = np.arange(float(N)).cumsum()
    total.compute()
    with tw.config(eager_bytes=eager):
        write(total)
    write(want)
    assert np.array_equal(later.compute(), np.arange(float(N)).cumsum() * 2.0)
    assert np.array_equal(total.compute(), want)


def test_a_written_value_is_computed_in_the_pass_that_writes_it() -> None:
    x, out, want = made(), made(), np.arange(float(N))
    with steps() as names:
        for k in range(6):
            out[1:] += (0.5 + k) * x[1:]
        result = out.compute()
    assert len(names) == 1 and names[0].split(", ").count("update") == 6  # passes that share tiles
    for k in range(6):
        want[1:] += (0.5 + k) * np.arange(float(N))[1:]
    assert np.array_equal(result, want)


def test_what_is_written_to_a_whole_array_again_and_again_is_one_pass() -> None:
    x, out, want = made(), made(), np.arange(float(N))
    with steps() as names:
        for k in range(6):
            out += (0.5 + k) * x
        result = out.compute()
    assert names == [", ".join(["multiply, add"] * 6)]
    for k in range(6):
        want += (0.5 + k) * np.arange(float(N))
    assert np.array_equal(result, want)


def test_old_versions_die() -> None:
    """Arrays that read each other's last versions keep few of those before: as many as are evaluated together."""
    a, b = made(), made()
    want_a, want_b = np.arange(float(N)), np.arange(float(N))
    versions: list[weakref.ref[Any]] = []
    for _ in range(60):
        a[1:] -= 0.5 * (b[1:] - b[:-1])
        b[:-1] -= 0.7 * (a[1:] - a[:-1])
        want_a[1:] -= 0.5 * (want_b[1:] - want_b[:-1])
        want_b[:-1] -= 0.7 * (want_a[1:] - want_a[:-1])
        versions += [weakref.ref(c.node if c.buf is None else c.buf) for c in (a._cell, b._cell)]
    assert sum(v() is not None for v in versions) <= 40
    np.testing.assert_allclose(a.compute(), want_a)
    np.testing.assert_allclose(b.compute(), want_b)


def test_a_written_value_that_hangs_on_its_target() -> None:
    x, want = made(), np.arange(float(N))
    for k in range(6):
        x[1:] += (0.5 + k) * x[:-1]
        want[1:] += (0.5 + k) * want[:-1]
    assert np.array_equal(x.compute(), want)


def test_take_and_pad_give_c_order() -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    for axis in range(3):
        got = tw.take(tw.array(a), np.array([0, 1, 1, -1]), axis)
        want = np.take(a, np.array([0, 1, 1, -1]), axis)
        assert got.strides == want.strides and np.array_equal(got.compute(), want)
    got, want = tw.pad(tw.array(a), 1, mode="reflect"), np.pad(a, 1, mode="reflect")
    assert got.strides == want.strides and np.array_equal(got.compute(), want)
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 1 with size 3"):
        tw.take(tw.array(a), tw.array([0, 7]) + 0, 1).compute()


@pytest.mark.parametrize("dtype", ["int64", "uint8", "float64", "float32", "bool"])
def test_the_parts_of_divmod_share_a_pass(dtype: str) -> None:
    a = np.array([-7, -1, 0, 1, 7, 100, 3, 0]).astype(dtype)
    b = np.array([2, -2, 3, 0, 5, 7, 0, 0]).astype(dtype)
    with steps() as names, np.errstate(all="ignore"):
        got, want = tw.evaluate(*tw.divmod(tw.array(a), tw.array(b))), np.divmod(a, b)
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.compute().tobytes() == w.tobytes()
    if dtype != "bool":  # bytes are cast first
        assert names == ["floor_divide, remainder"]
