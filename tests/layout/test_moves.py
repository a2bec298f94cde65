"""Exchanges, executed by a plain simulator: the destination holds the right values, the counts are those predicted.

The simulator works out what every holder has from the definitions, element by element, not from the code under test.
"""

import time
from math import prod

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewise.ir.reductions import Reduction
from tilewise.layout import (
    DRIVER,
    Box,
    Exchange,
    Grid,
    Kind,
    Layout,
    Mesh,
    OnDriver,
    Partial,
    Piecewise,
    Placement,
    Replicate,
    Shard,
    Tariff,
    even_shard,
    grid_layout,
    moves,
    priced_route,
    route,
    runs,
    step_cost,
    volume,
)
from tilewise.layout.prices import usual
from tilewise.solver.model.replicas import one_kind

MANY = min(10 * settings.default.max_examples, 2000)  # they take little time
Values = npt.NDArray[np.int64]
Holder = tuple[int, int | None]
OPS = ("add", "multiply", "minimum", "maximum", "logical_or", "logical_and", "bitwise_or")


# ---- the simulator -------------------------------------------------------------------------------------------------


def holders(layout: Layout, shape: tuple[int, ...], mesh: Mesh) -> dict[Holder, Box]:
    """What every holder has in memory, straight from the words of the definition."""
    whole = tuple((0, n) for n in shape)
    if isinstance(layout, OnDriver):
        return {(DRIVER, None): whole}
    boxes: dict[Holder, Box] = {}
    for worker in range(mesh.workers):
        row, column = divmod(worker, mesh.columns)
        for inner in range(mesh.blocks):
            if isinstance(layout, Grid):
                parts = [(layout.down, row * mesh.blocks + inner), (layout.across, column)]
            else:
                parts = [(layout, worker * mesh.blocks + inner)]
            box, cut = list(whole), isinstance(parts[0][0], Shard | Piecewise)
            for part, j in parts:
                if isinstance(part, Shard):
                    low, high = part.cuts[j], part.cuts[j + 1]
                    if low < high:
                        low, high = max(0, low - part.ghosts[0]), min(shape[part.axis], high + part.ghosts[1])
                    box[part.axis] = (low, high)
                elif isinstance(part, Piecewise):
                    ((low, high),) = runs(part.sets[j])
                    box[part.axis] = (low, high)
            boxes[worker, worker * mesh.blocks + inner if cut else None] = tuple(box)
    return boxes


def slot_of(exchange: Exchange, worker: int) -> int:
    """Which contribution a worker gives; 0 where elements come once."""
    row, column = divmod(worker, exchange.mesh.columns)
    if isinstance(exchange.src, Partial):
        return worker
    if isinstance(exchange.src, Grid) and exchange.reduces is not None:
        return row if isinstance(exchange.src.down, Partial) else column
    return 0


def slots_of(exchange: Exchange) -> int:
    return 1 + max(slot_of(exchange, worker) for worker in range(exchange.mesh.workers))


def window(box: Box, origin: Box) -> tuple[slice, ...]:
    """Index of a box in the memory of a holder that has `origin`."""
    for (low, high), (first, last) in zip(box, origin, strict=True):
        assert first <= low <= high <= last, f"{box} is not within {origin}"
    return tuple(slice(low - first, high - first) for (low, high), (first, _) in zip(box, origin, strict=True))


def reduction(op: str, parts: list[Values]) -> Values:
    total = parts[0]
    for part in parts[1:]:
        total = np.asarray(getattr(np, op)(total, part)).astype(np.int64)
    return total


def laid_out(layout: Layout, x: Values, contributions: list[Values], mesh: Mesh) -> dict[Holder, Values]:
    everything = tuple((0, n) for n in x.shape)
    parts: dict[Holder, Values] = {}
    for (worker, block), box in holders(layout, x.shape, mesh).items():
        source = x
        if isinstance(layout, Partial):
            source = contributions[worker]
        elif isinstance(layout, Grid) and Partial in map(type, (layout.down, layout.across)):
            down = isinstance(layout.down, Partial)
            source = contributions[worker // mesh.columns if down else worker % mesh.columns]
        parts[worker, block] = source[window(box, everything)]
    return parts


def execute(exchange: Exchange, state: dict[Holder, Values]) -> tuple[dict[Holder, Values], list[int], list[int]]:
    """The destination's memory, and the elements every worker sent and received."""
    src = holders(exchange.src, exchange.shape, exchange.mesh)
    dst = holders(exchange.dst, exchange.shape, exchange.mesh)
    sent, received = [0] * exchange.mesh.workers, [0] * exchange.mesh.workers
    slots = slots_of(exchange)
    shapes = {h: tuple(b - a for a, b in box) for h, box in dst.items()}
    arrived = {h: [np.zeros(shape, np.int64) for _ in range(slots)] for h, shape in shapes.items()}
    times = {h: [np.zeros(shape, np.int64) for _ in range(slots)] for h, shape in shapes.items()}
    for piece in exchange.pieces:
        sender, receiver = (piece.src_worker, piece.src_block), (piece.dst_worker, piece.dst_block)
        slot = slot_of(exchange, piece.src_worker)
        payload = state[sender][window(piece.box, src[sender])]
        assert payload.size == piece.size > 0
        into = window(piece.box, dst[receiver])
        arrived[receiver][slot][into] = payload
        times[receiver][slot][into] += 1
        from_place, to_place = max(sender[0], 0), max(receiver[0], 0)
        assert piece.crosses == (from_place != to_place)
        if from_place != to_place:
            sent[from_place] += payload.size
            received[to_place] += payload.size
    for counts in times.values():
        assert all((count == 1).all() for count in counts), "an element is missing or comes twice"
    op = exchange.reduces.name if exchange.reduces else "add"
    return {h: reduction(op, memory) for h, memory in arrived.items()}, sent, received


def least_elements(exchange: Exchange) -> int:
    """Elements that the destination's holders need and their place does not have, one by one."""
    shape, mesh = exchange.shape, exchange.mesh
    at_hand = [np.zeros(shape, bool) for _ in range(mesh.workers)]
    for (worker, _), box in holders(exchange.src, shape, mesh).items():
        at_hand[max(worker, 0)][tuple(slice(a, b) for a, b in box)] = True
    need = 0
    for (worker, _), box in holders(exchange.dst, shape, mesh).items():
        here = at_hand[max(worker, 0)][tuple(slice(a, b) for a, b in box)]
        need += here.size * slots_of(exchange) - int(here.sum())
    return need


# ---- properties ----------------------------------------------------------------------------------------------------


@st.composite
def shards(draw: st.DrawFn, shape: tuple[int, ...], mesh: Mesh) -> Shard:
    axis = draw(st.integers(0, len(shape) - 1))
    ghosts = draw(st.sampled_from([(0, 0), (0, 0), (1, 1), (0, 2), (3, 0), (20, 20)]))
    if draw(st.booleans()):
        return even_shard(axis, shape, mesh, ghosts=ghosts)
    n, inner = shape[axis], mesh.total_blocks - 1
    between = draw(st.lists(st.integers(0, n), min_size=inner, max_size=inner))
    return Shard(axis, (0, *sorted(between), n), ghosts)


@st.composite
def grids(draw: st.DrawFn, shape: tuple[int, ...], mesh: Mesh, partial: bool) -> Layout:
    """Any pair of placements that can stand together."""
    lines = (mesh.down, mesh.across)
    kinds = ["cut", "cut", "whole", "partial"] if partial else ["cut", "cut", "whole"]
    parts: list[Placement] = []
    for line in lines:
        kind = draw(st.sampled_from(kinds))
        used = [p.axis for p in parts if isinstance(p, Shard)]
        free = [a for a in range(len(shape)) if a not in used]
        if kind == "cut" and free:
            cut = draw(shards(shape, line))
            parts.append(cut if cut.axis in free else even_shard(free[0], shape, line))
        elif kind == "partial" and not any(isinstance(p, Partial) for p in parts):
            parts.append(Partial(draw(st.sampled_from(OPS))))
        else:
            parts.append(Replicate())
    return grid_layout(parts[0], parts[1])


@st.composite
def changes(draw: st.DrawFn) -> tuple[Layout, Layout, tuple[int, ...], Mesh]:
    """(src, dst, shape, mesh): every pair of kinds of layout, with equal cuts often enough for halos."""
    workers, columns = draw(st.sampled_from([(1, 1), (2, 1), (3, 1), (4, 1), (7, 1), (4, 2), (6, 3), (8, 4)]))
    mesh = Mesh(workers, draw(st.sampled_from([1, 3])), columns)
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 11]), max_size=3)))
    sharded: list[st.SearchStrategy[Layout]] = [shards(shape, mesh)] * 3 if shape else []
    if mesh.grid:
        sharded += [grids(shape, mesh, partial=False)] * 4
        if draw(st.booleans()):
            src = draw(grids(shape, mesh, partial=True))
            if isinstance(src, Grid) and Partial in map(type, (src.down, src.across)) and draw(st.booleans()):
                other = draw(grids(shape, mesh, partial=False))
                if isinstance(other, Grid):  # the contributions of one direction stay as they are
                    if isinstance(src.down, Partial):
                        return src, grid_layout(src.down, other.across), shape, mesh
                    return src, grid_layout(other.down, src.across), shape, mesh
            return src, draw(st.one_of(*sharded, st.just(Replicate()), st.just(OnDriver()))), shape, mesh
    kept: list[st.SearchStrategy[Layout]] = [*sharded, st.just(Replicate()), st.just(OnDriver())]
    src = draw(st.one_of(*kept, st.sampled_from(OPS).map(Partial)))
    if isinstance(src, Shard) and draw(st.booleans()):
        return src, Shard(src.axis, src.cuts, draw(st.sampled_from([(0, 0), (1, 1), (2, 3)]))), shape, mesh
    return src, draw(st.one_of(*kept)), shape, mesh


def op_of(layout: Layout) -> Reduction | None:
    parts = (layout.down, layout.across) if isinstance(layout, Grid) else (layout,)
    return next((p.op for p in parts if isinstance(p, Partial)), None)


def count_of(src: Layout, mesh: Mesh) -> int:
    if isinstance(src, Grid):
        return mesh.rows if isinstance(src.down, Partial) else mesh.columns
    return mesh.workers


def data_for(src: Layout, shape: tuple[int, ...], mesh: Mesh) -> tuple[Values, list[Values]]:
    op = op_of(src)
    if op is not None:
        random = np.random.default_rng(prod(shape))
        contributions = [np.asarray(random.integers(-3, 4, shape)) for _ in range(mesh.workers)]
        return reduction(op.name, contributions[: count_of(src, mesh)]), contributions
    return np.arange(1, prod(shape) + 1).reshape(shape), []


def assert_same(got: dict[Holder, Values], expected: dict[Holder, Values]) -> None:
    assert got.keys() == expected.keys()
    for holder, values in expected.items():
        np.testing.assert_array_equal(got[holder], values, err_msg=str(holder))


@settings(max_examples=MANY, deadline=None)
@given(changes())
def test_an_exchange_delivers_and_its_traffic_is_exact(
    change: tuple[Layout, Layout, tuple[int, ...], Mesh],
) -> None:
    src, dst, shape, mesh = change
    x, contributions = data_for(src, shape, mesh)
    exchange = moves(src, dst, shape, mesh)
    after, sent, received = execute(exchange, laid_out(src, x, contributions, mesh))
    assert_same(after, laid_out(dst, x, contributions, mesh))
    assert exchange.network_elements == sum(sent) == least_elements(exchange)
    assert exchange.bytes(8) == 8 * sum(sent)
    assert [exchange.sent(w) for w in range(mesh.workers)] == sent
    assert [exchange.received(w) for w in range(mesh.workers)] == received
    assert exchange.kind in Kind
    assert volume(src, dst, shape, mesh) == (sum(sent), sum(sent) if isinstance(src, OnDriver) else max(received))


@settings(max_examples=MANY, deadline=None)
@given(changes())
def test_a_route_delivers_and_never_moves_more_than_one_step(
    change: tuple[Layout, Layout, tuple[int, ...], Mesh],
) -> None:
    src, dst, shape, mesh = change
    x, contributions = data_for(src, shape, mesh)
    state, total, at = laid_out(src, x, contributions, mesh), 0, src
    steps = route(src, dst, shape, mesh)
    for step in steps:
        assert step.src == at
        state, sent, _ = execute(step, state)
        at, total = step.dst, total + sum(sent)
    assert at == dst and (src != dst or steps == ())
    assert_same(state, laid_out(dst, x, contributions, mesh))
    assert total == sum(step.network_elements for step in steps) <= moves(src, dst, shape, mesh).network_elements


@settings(max_examples=MANY // 2, deadline=None)
@given(changes(), st.booleans())
def test_no_chain_through_usual_layouts_is_cheaper(
    change: tuple[Layout, Layout, tuple[int, ...], Mesh], by_volume: bool
) -> None:
    src, dst, shape, mesh = change
    tariff = Tariff() if by_volume else Tariff(1000, 8, 3, all_bytes=False)
    found = priced_route(src, dst, shape, mesh, 8, tariff).cost
    steps = route(src, dst, shape, mesh, 8, tariff)
    assert found == sum(step_cost(e.src, e.dst, shape, mesh, 8, tariff) for e in steps)
    if op_of(dst) is None:
        for between in usual(shape, mesh)[0]:
            if not isinstance(between, OnDriver) or isinstance(src, Partial):
                first = step_cost(src, between, shape, mesh, 8, tariff)
                assert found <= first + step_cost(between, dst, shape, mesh, 8, tariff)


@settings(max_examples=MANY // 2, deadline=None)
@given(changes(), st.booleans())
def test_the_solver_s_prices_are_those_of_routes(
    change: tuple[Layout, Layout, tuple[int, ...], Mesh], by_volume: bool
) -> None:
    src, dst, shape, mesh = change
    tariff = Tariff() if by_volume else Tariff(1000, 8, 3, all_bytes=False)
    kind = one_kind(shape, 8, mesh, tariff)
    sources, targets = (src, Replicate()), (Replicate(), dst)
    prices = [[priced_route(x, y, shape, mesh, 8, tariff).cost for y in targets] for x in sources]
    if op_of(dst) is None:
        assert kind.cost(src, dst) == prices[0][1]
        assert kind.matrix(sources, targets).tolist() == prices
    assert kind.matrix(sources, sources)[0].tolist() == [0, prices[0][0]]


# ---- the known cases -----------------------------------------------------------------------------------------------

FOUR, SQUARE = Mesh(4), (8, 8)
ROWS, COLUMNS = even_shard(0, SQUARE, FOUR), even_shard(1, SQUARE, FOUR)
UNEVEN = Shard(0, (0, 1, 4, 6, 8))
HALO = Shard(0, ROWS.cuts, ghosts=(1, 1))
SUM = Partial("add")


@pytest.mark.parametrize(
    ("src", "dst", "kinds", "elements"),
    [
        (ROWS, ROWS, [], 0),
        (Replicate(), ROWS, ["slice"], 0),
        (Replicate(), HALO, ["slice"], 0),
        (ROWS, Replicate(), ["all-gather"], 3 * 64),
        (ROWS, COLUMNS, ["all-to-all"], 64 - 16),
        (ROWS, UNEVEN, ["boundary exchange"], 8),
        (ROWS, HALO, ["halo"], 6 * 8),
        (HALO, ROWS, ["trim ghosts"], 0),
        (Shard(0, ROWS.cuts, (1, 0)), Shard(0, ROWS.cuts, (0, 1)), ["halo"], 3 * 8),
        (HALO, UNEVEN, ["boundary exchange"], 0),  # the row that changes owner is there already, as a ghost
        (HALO, Replicate(), ["all-gather"], 3 * 64 - 6 * 8),
        (SUM, ROWS, ["reduce-scatter"], 3 * 64),
        (SUM, HALO, ["reduce-scatter", "halo"], 3 * 64 + 6 * 8),
        (SUM, Replicate(), ["reduce-scatter", "all-gather"], 2 * 3 * 64),
        (SUM, OnDriver(), ["reduce"], 3 * 64),
        (OnDriver(), ROWS, ["scatter"], 64 - 16),
        (OnDriver(), Replicate(), ["broadcast"], 3 * 64),
        (ROWS, OnDriver(), ["gather"], 64 - 16),
        (Replicate(), OnDriver(), ["gather"], 0),
    ],
)
def test_known_routes(src: Layout, dst: Layout, kinds: list[str], elements: int) -> None:
    steps = route(src, dst, SQUARE, FOUR)
    assert [step.kind for step in steps] == kinds
    assert sum(step.network_elements for step in steps) == elements


@pytest.mark.parametrize(
    ("workers", "shape", "kinds", "elements"),
    [
        (1, (8,), ["all-reduce"], 0),
        (2, (), ["all-reduce"], 2),
        (4, (), ["reduce", "broadcast"], 6),
        (4, (3,), ["reduce-scatter", "all-gather"], 18),
        (4, (0,), ["all-reduce"], 0),
        (4, (2, 2), ["reduce-scatter", "all-gather"], 24),
    ],
)
def test_small_all_reduces(workers: int, shape: tuple[int, ...], kinds: list[str], elements: int) -> None:
    steps = route(SUM, Replicate(), shape, Mesh(workers))
    assert [step.kind for step in steps] == kinds
    assert sum(step.network_elements for step in steps) == elements


def test_ghosts_between_blocks_of_one_worker_do_not_cross() -> None:
    mesh = Mesh(2, 3)
    bare = even_shard(0, (12,), mesh)
    ghosted = Shard(0, bare.cuts, ghosts=(1, 1))
    assert moves(bare, ghosted, (12,), mesh).network_elements == 2


@pytest.mark.parametrize("ghosts", [(1, 0), (0, 1)])
def test_ghosts_at_either_end_of_a_worker_are_not_fetched_again(ghosts: tuple[int, int]) -> None:
    mesh = Mesh(2, 3)
    gather = moves(even_shard(0, (12,), mesh, ghosts=ghosts), Replicate(), (12,), mesh)
    assert gather.network_elements == sum(piece.size for piece in gather.pieces if piece.crosses) == 12 - 1


def test_nothing_moves_into_a_partial() -> None:
    with pytest.raises(AssertionError):
        moves(Replicate(), SUM, SQUARE, FOUR)


def test_large_meshes_are_cheap_to_predict() -> None:
    mesh, shape = Mesh(1000, 4), (10**6, 10**3)
    rows = even_shard(0, shape, mesh)
    ghosted = Shard(0, rows.cuts, ghosts=(2, 2))
    begin = time.perf_counter()
    assert route(rows, ghosted, shape, mesh)[0].network_elements == 999 * 4 * 1000
    assert len(route(rows, ghosted, shape, mesh)[0].pieces) == 4000 + 2 * 3999
    assert route(rows, Replicate(), shape, mesh)[0].network_elements == 999 * 10**9
    assert route(rows, even_shard(1, shape, mesh), shape, mesh)[0].sent(3) == 10**6 - 4 * 1000  # keeps 4 columns
    assert time.perf_counter() - begin < 5  # seconds; measured 0.4, a loop over the 16 million pairs of blocks is over
