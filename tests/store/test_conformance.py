"""What every Source, Sink and BlockStore does, the toys of the tests included. A new one is one row in a table."""

from __future__ import annotations

import multiprocessing
import os
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import fsspec
import numpy as np
import pytest

import tilewise as tw
from tests.store import stored
from tests.store.toys import Boxes, Grown, elements, read_pickled
from tilewise.errors import MemoryBudgetError
from tilewise.layout import box_size
from tilewise.store.arrays import ArraySink, ArraySource
from tilewise.store.base import BlockError, BlockStore, BoxError, Sink, Source, cut_at_chunks, read_box
from tilewise.store.blocks import MemoryBlocks

# shape, chunks, dtype, order
KINDS: list[tuple[tuple[int, ...], tuple[int, ...], str, Any]] = [
    ((), (), "f8", None),
    ((0,), (1,), "f4", None),
    ((17,), (5,), "i8", None),
    ((12, 9), (5, 4), "f8", None),
    ((12, 9), (12, 9), "u1", (1, 0)),
    ((4, 0, 3), (2, 1, 3), "f8", None),
    ((5, 6, 7), (2, 6, 3), "c16", (2, 0, 1)),
    ((9, 4), (4, 4), "?", None),
]


def boxes(shape: tuple[int, ...], chunks: tuple[int, ...]) -> list[tuple[tuple[int, int], ...]]:
    """All of it, nothing of it, one element, boxes on both sides of chunks' borders."""
    whole = tuple((0, n) for n in shape)
    both = list(zip(chunks, shape, strict=True))
    found = [whole, tuple((n // 2, n // 2) for n in shape), tuple((min(c, n), n) for c, n in both)]
    if 0 not in shape:
        found += [tuple((n - 1, n) for n in shape), tuple((max(c - 1, 0), min(c + 1, n)) for c, n in both)]
    return found


def at(box: Any) -> Any:
    """The index of a box; a view also of an array without axes."""
    return (*(slice(*ends) for ends in box), ...)


def grown(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str, order: Any) -> Source:
    return Grown(shape, chunks, dtype, order)


def of_array(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str, order: Any) -> Source:
    made = elements(shape, dtype)
    laid = made if order is None else made.transpose(order).copy().transpose(np.argsort(order))
    return ArraySource(laid)


def strided(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str, order: Any) -> Source:
    wide = np.repeat(elements(shape, dtype), 2, axis=-1) if shape else elements(shape, dtype)
    return ArraySource(wide[..., ::2] if shape else wide)


def on_workers(shape: tuple[int, ...], chunks: tuple[int, ...], dtype: str, order: Any) -> Source:
    x = tw.asarray(of_array(shape, chunks, dtype, order).whole()).copy(order="K")
    made: Any = tw.evaluate(x)
    node = made._cell.node
    assert node is not None and isinstance(node.value, Source)
    return node.value


SOURCES: list[Callable[..., Source]] = [grown, of_array, strided, on_workers, *stored.SOURCES]
KEEP_ORDER = (grown, of_array, on_workers, *stored.KEEP_ORDER)


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    with tw.session(engine="virtual", mesh=(2, 2)):
        yield


@pytest.fixture(params=SOURCES, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Callable[..., Source]:
    if request.param is on_workers:
        request.getfixturevalue("workers")
        tw.config(eager_bytes=0)
    return request.param  # type: ignore[no-any-return]


def read(source: Source, box: Any) -> Any:
    out = np.empty([hi - lo for lo, hi in box], source.dtype)
    read_box(source, box, out)
    return out


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_source_reads_boxes(make: Callable[..., Source], kind: Any) -> None:
    source, want = make(*kind), elements(kind[0], kind[2])
    assert source.shape == want.shape and source.dtype == want.dtype and source.nbytes == want.nbytes
    assert len(source.chunks) == want.ndim and all(c >= 1 for c in source.chunks)
    for box in boxes(source.shape, source.chunks):
        part = want[at(box)]
        np.testing.assert_array_equal(read(source, box), part)
        for piece in source.parts(box):
            seen = want[at(piece)]
            got = source.read(piece)
            assert got.shape == seen.shape and got.dtype == seen.dtype
            np.testing.assert_array_equal(got, seen)
            wide = np.zeros([2 * n for n in seen.shape], source.dtype)
            out = wide[(*(slice(None, None, 2) for _ in seen.shape), ...)]  # not contiguous
            assert source.read(piece, out=out) is out
            np.testing.assert_array_equal(out, seen)
    whole = source.whole()
    np.testing.assert_array_equal(whole, want)
    if kind[3] is not None and make in KEEP_ORDER:
        assert whole.transpose(kind[3]).flags.c_contiguous


def test_a_source_refuses_boxes_and_memory_that_do_not_fit(make: Callable[..., Source]) -> None:
    source = make((12, 9), (5, 4), "f8", None)
    for box in (((0, 13), (0, 1)), ((-1, 2), (0, 1)), ((2, 1), (0, 1)), ((0, 1),)):
        with pytest.raises(BoxError):
            source.read(box)
    for out in (np.empty((2, 1)), np.empty((1, 1), "f4"), np.empty(1)):
        with pytest.raises(BoxError):
            source.read(((0, 1), (0, 1)), out=out)


def test_fingerprints_name_elements(make: Callable[..., Source]) -> None:
    first = make((12, 9), (5, 4), "f8", None)
    assert first.fingerprint() == first.fingerprint()
    hash(first.fingerprint())
    assert first.fingerprint() != make((12, 9), (5, 4), "i8", None).fingerprint()
    if make is not on_workers:  # there every value has a name of its own
        assert first.fingerprint() == make((12, 9), (5, 4), "f8", None).fingerprint()


def test_a_source_is_read_by_several_threads(make: Callable[..., Source]) -> None:
    if make is on_workers:
        pytest.skip("the driver asks its workers one thing at a time")
    source, want = make((64, 9), (5, 4), "f8", None), elements((64, 9), "f8")
    parts = [((k, k + 8), (0, 9)) for k in range(0, 64, 4) if k + 8 <= 64]
    with ThreadPoolExecutor(4) as pool:
        for box, got in zip(parts, pool.map(lambda box: read(source, box), parts), strict=True):
            np.testing.assert_array_equal(got, want[slice(*box[0])])


@pytest.fixture(scope="module")
def another_process() -> Iterator[Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        yield pool


def test_a_source_is_read_in_another_process(make: Callable[..., Source], another_process: Any) -> None:
    if make is on_workers:
        pytest.skip("values on workers are read through their driver")
    source = make((40, 30), (16, 30), "f8", None)
    data = pickle.dumps(source)
    assert not source.opened_by_workers or len(data) < 1000
    fingerprint, got = another_process.apply(read_pickled, (data,))
    assert fingerprint == source.fingerprint()
    np.testing.assert_array_equal(got, elements((40, 30), "f8"))


# -- sinks ------------------------------------------------------------------------------------------------------------

SINKS: list[Callable[..., Sink]] = [ArraySink, Boxes, *stored.SINKS]


@pytest.mark.parametrize("make_sink", SINKS)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_sink_is_committed_as_a_whole(make_sink: Callable[..., Sink], kind: Any) -> None:
    shape, chunks, dtype, _ = kind
    want = elements(shape, dtype)
    sink = make_sink(shape, want.dtype)
    whole = tuple((0, n) for n in shape)
    parts = list(sink.parts(whole) if sink.whole_chunks else cut_at_chunks(whole, chunks))
    for k, box in enumerate(reversed(parts)):
        if sink.opened_by_workers and k % 2:  # as another process would
            pickle.loads(pickle.dumps(sink)).write(box, want[at(box)])
            sink.count(box_size(box))
        else:
            sink.write(box, want[at(box)])
    made = sink.commit()
    np.testing.assert_array_equal(stored.read_back(sink, made), want)
    sink.abort()  # does nothing now
    with pytest.raises(BoxError):
        sink.write(whole, want)
    np.testing.assert_array_equal(stored.read_back(sink, made), want)
    assert traces(sink) == 1


@pytest.mark.parametrize("make_sink", SINKS)
def test_a_sink_refuses_half_of_an_array_and_wrong_blocks(make_sink: Callable[..., Sink]) -> None:
    sink = make_sink((4, 3), np.dtype("f8"))
    if not sink.whole_chunks:
        sink.write(((0, 2), (0, 3)), np.ones((2, 3)))
    for box, block in (
        (((2, 5), (0, 3)), np.ones((3, 3))),
        (((2, 4), (0, 3)), np.ones((1, 3))),
        (((2, 4), (0, 3)), np.ones((2, 3), "f4")),
    ):
        with pytest.raises(BoxError):
            sink.write(box, block)
    with pytest.raises(BoxError):
        sink.commit()
    sink.abort()
    sink.abort()
    for act in (sink.commit, lambda: sink.write(((2, 4), (0, 3)), np.ones((2, 3)))):
        with pytest.raises(BoxError):
            act()
    assert traces(sink) == int(was_there(sink))


@pytest.mark.parametrize("make_sink", SINKS)
def test_a_sink_aborts_when_its_block_raises(make_sink: Callable[..., Sink]) -> None:
    with pytest.raises(ZeroDivisionError), make_sink((2,), np.dtype("f8")) as sink:
        sink.write(((0, 2),), np.ones(2))
        raise ZeroDivisionError
    with pytest.raises(BoxError):
        sink.commit()
    assert traces(sink) == int(was_there(sink))


def was_there(sink: Sink) -> bool:
    """Whether a sink writes to a store that is there already (or its elements are nowhere to be seen)."""
    return getattr(sink, "starts", None) is not None or isinstance(sink, ArraySink)


def traces(sink: Sink) -> int:
    """How many files there are where a sink writes (1 if it writes to none, or not to a folder of its own)."""
    path = getattr(sink, "path", None)
    if path is None:
        return int(getattr(sink, "made", None) is not None or isinstance(sink, ArraySink))
    if "://" in path:
        return len(fsspec.filesystem("memory").glob(f"{path.removeprefix('memory:/')}*"))
    return len(os.listdir(os.path.dirname(path)))


def test_a_gather_writes_to_any_sink() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3) as session:
        x = tw.evaluate(tw.asarray(elements((10, 4), "f8")).copy())
        value = x._cell.node.value
        sink = Boxes((10, 4), "f8")
        np.testing.assert_array_equal(session.cluster.gather(value, sink), elements((10, 4), "f8"))
        wrong = Boxes((10, 4), "f4")
        with pytest.raises(BoxError):
            session.cluster.gather(value, wrong)
        assert wrong.made is None and wrong.written is None


# -- block stores -----------------------------------------------------------------------------------------------------

STORES: list[Callable[..., BlockStore]] = [MemoryBlocks]


@pytest.mark.parametrize("make_store", STORES)
def test_blocks_are_counted_while_they_are_held(make_store: Callable[..., BlockStore]) -> None:
    store = make_store()
    x = np.arange(100.0)
    store.reserve("x", 800)
    assert store.reserved_bytes == store.peak_bytes == 800
    store.put("x", x)
    assert store.get("x") is x and store.reserved_bytes == 800
    store.put("view", x[10:20])
    store.put("wide", np.broadcast_to(x, (50, 100)))
    assert store.reserved_bytes == 800  # one memory
    store.release("x")
    assert store.reserved_bytes == 800  # which others show
    store.release("view")
    store.release("wide")
    assert store.reserved_bytes == 0 and store.peak_bytes == 800
    store.reset_peak()
    assert store.peak_bytes == 0
    store.reserve("small", 800)
    store.put("small", np.arange(10.0))
    assert store.reserved_bytes == 80 and store.peak_bytes == 800
    store.release("small")
    store.put("empty", np.empty((0, 3)))
    store.put("number", np.array(1.0))
    assert store.reserved_bytes == 8


@pytest.mark.parametrize("make_store", STORES)
def test_what_exceeds_the_budget_is_refused_and_nothing_changes(make_store: Callable[..., BlockStore]) -> None:
    store = make_store(1000, "worker 3")
    store.put("a", np.zeros(100))
    with pytest.raises(
        MemoryBudgetError, match=r"no room for b in worker 3, got 208 bytes with 800 of 1,000 .*memory="
    ):
        store.reserve("b", 208)
    with pytest.raises(MemoryBudgetError):
        store.put("b", np.zeros(26))
    assert store.reserved_bytes == 800 and store.peak_bytes == 800
    store.reserve("b", 200)
    with pytest.raises(MemoryBudgetError):
        store.put("b", np.zeros(26))  # more than was said
    store.release("b")
    store.put("b", np.zeros(25))
    assert store.get("a").sum() == 0 and store.reserved_bytes == 1000


@pytest.mark.parametrize("make_store", STORES)
def test_pins_and_wrong_calls(make_store: Callable[..., BlockStore]) -> None:
    store = make_store()
    store.reserve("a", 8)
    for act in (
        lambda: store.get("a"),  # not made yet
        lambda: store.reserve("a", 8),
        lambda: store.get("b"),
        lambda: store.pin("b"),
        lambda: store.release("b"),
        lambda: store.unpin("a"),
    ):
        with pytest.raises(BlockError):
            act()
    store.put("a", np.zeros(1))
    with pytest.raises(BlockError):
        store.put("a", np.zeros(1))
    store.pin("a")
    store.pin("a")
    store.unpin("a")
    with pytest.raises(BlockError, match="pinned"):
        store.release("a")
    store.unpin("a")
    with pytest.raises(BlockError):
        store.unpin("a")
    store.release("a")
    with pytest.raises(BlockError):
        store.release("a")  # twice
    assert store.reserved_bytes == 0


def test_parts_lie_in_one_chunk_each() -> None:
    for shape, chunks, _, _ in KINDS:
        for box in boxes(shape, chunks):
            parts = list(cut_at_chunks(box, chunks))
            assert sum(map(box_size, parts)) == box_size(box)
            for part in parts:
                assert all(lo // c == (hi - 1) // c for (lo, hi), c in zip(part, chunks, strict=True))
