"""Views of ndarrays: NumPy's strides and flags, on a snapshot of the memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw

VIEWS: dict[str, Callable[[Any, Any], Any]] = {
    "broadcast_to": lambda np, x: np.broadcast_to(x, (4, *x.shape)),
    "transpose": lambda np, x: np.transpose(x),
    "flip": lambda np, x: np.flip(x),
    "expand_dims": lambda np, x: np.expand_dims(x, 0),
    "ravel": lambda np, x: np.ravel(x),
    "rot90": lambda np, x: np.rot90(x),
    "windows": lambda np, x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=-1),
}


@pytest.mark.parametrize("shape", [(1, 2), (2, 3), (2, 1, 2), (200, 300)])
@pytest.mark.parametrize("name", VIEWS)
def test_strides_flags_and_values(name: str, shape: tuple[int, ...]) -> None:
    for x in (np.arange(np.prod(shape)).reshape(shape), np.asfortranarray(np.ones(shape)), np.zeros(shape, bool)):
        want, got = VIEWS[name](np, x), VIEWS[name](tw, x)
        assert type(got) is tw.ndarray
        assert (got.strides, got.flags.writeable) == (want.strides, want.flags.writeable)
        assert np.array_equal(np.asarray(got), want)


@pytest.mark.parametrize("name", VIEWS)
def test_they_show_a_snapshot(name: str) -> None:
    x = np.zeros((2, 3))
    got = VIEWS[name](tw, x)
    x[:] = 1
    assert not np.asarray(got).any()
    if got.flags.writeable:
        got[...] = 2
        assert (np.asarray(got) == 2).all() and (x == 1).all()


def test_one_element_of_a_number_that_is_masked() -> None:
    for np_ in (np, tw):
        number = np_.zeros(1, bool)[0]
        assert np_.broadcast_to(number[number == 0], (2, 1)).strides == (0, 0)


def test_what_numpy_gives_read_only_is_read_only() -> None:
    for see in (lambda np, x: np.diagonal(x), lambda np, x: np.imag(x), lambda np, x: np.broadcast_to(x, (2, 3, 3))):
        want, got = see(np, np.ones((3, 3))), see(tw, np.ones((3, 3)))
        assert got.flags.writeable == want.flags.writeable is False
        with pytest.raises(ValueError, match="read-only"):
            got[0] = 1
        assert np.array_equal(np.asarray(got), want) and (got + 1).shape == want.shape


@pytest.mark.parametrize("eager_bytes", [0, 100_000])
def test_repeated_values_of_an_ndarray_have_no_say_in_memory_order(eager_bytes: int) -> None:
    repeated, turned = np.broadcast_to(np.arange(3.0), (4, 3)), np.asfortranarray(np.ones((4, 3)))
    with tw.config(eager_bytes=eager_bytes):
        x = tw.asarray(repeated)
        assert (x.strides, x.flags.writeable) == (repeated.strides, False)
        assert tw.array(repeated).strides == np.array(repeated).strides
        for see in (
            lambda np, x: -np.asarray(x),
            lambda np, x: np.arange(3.0) + x,
            lambda np, x: np.add(np.asarray(turned), x),
            lambda np, x: np.asarray(x).T * 2,
        ):
            want = see(np, repeated)
            for got in (see(tw, x), see(tw, repeated)):
                assert got.strides == want.strides and np.array_equal(np.asarray(got), want)


def test_memory_that_others_write_to() -> None:
    """Shared memory, as NumPy has it: a program writes to it through the array, and sees what others write."""
    seen = []
    for np_ in (np, tw):
        memory = bytearray(np.arange(6.0).tobytes())
        for x in (np_.ndarray((3, 2), float, memory), np_.frombuffer(memory).reshape(3, 2)):
            assert isinstance(x, np_.ndarray) and x.flags.writeable
            x[1] = np_.array([7.0, 8.0])
            x += np_.ones(2)
            memory[:8] = np.array([5.0]).tobytes()
            seen.append([memory.hex(), np.asarray(x).tolist(), float((x * np_.arange(2)).sum()), float(np_.sum(x))])
            assert type(x[0, 0]) is np.float64 and isinstance(x * np_.ones(2), np_.ndarray)
            del x
        memory.append(0)  # nothing holds it
        fixed = np_.ndarray((2,), "<i2", b"abcd")
        assert not fixed.flags.writeable and fixed.tolist() == [25185, 25699]
        assert type(fixed) is np_.ndarray
    assert seen[:2] == seen[2:]


RECORDS = [
    np.dtype("i,O", align=True),
    np.dtype("i1,f8", align=True),
    np.dtype("i,O"),
    np.dtype({"names": ["a"], "formats": ["i4"], "offsets": [4], "itemsize": 12}),
    np.dtype([("a", "i4"), ("b", "f8", (2,))]),
]


@pytest.mark.parametrize("dtype", RECORDS, ids=str)
def test_records_keep_their_gaps(dtype: np.dtype[Any]) -> None:
    """Formats of buffers cannot say where some records have gaps or objects."""
    x = tw.asarray(np.zeros(3, dtype))
    for got in (np.asarray(x), np.array(x), x.compute()):
        assert got.dtype == dtype and got.dtype.isalignedstruct == dtype.isalignedstruct
