"""The cheapest steps from one layout to another. In: two layouts, shape, mesh, prices. Out: exchanges, in order."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from tilewise.layout.crossing import volume
from tilewise.layout.moves import Exchange, moves
from tilewise.layout.placement import Layout, Mesh, OnDriver, bare, reduction
from tilewise.layout.prices import VOLUME, Tariff, prices
from tilewise.records import dataclass

Route = tuple[Exchange, ...]

ROUTES_KEPT = 1 << 15  # a route is a few small values; its pieces are made only when asked for


@dataclass(frozen=True)
class PricedRoute:
    """The intermediate layouts and the last one, and the total price."""

    through: tuple[Layout, ...]
    cost: int


@lru_cache(maxsize=ROUTES_KEPT)
def route(
    src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh, itemsize: int = 1, tariff: Tariff = VOLUME
) -> Route:
    """The exchanges of the cheapest route; none where nothing changes."""
    chain = (src, *priced_route(src, dst, shape, mesh, itemsize, tariff).through)
    return tuple(moves(a, b, shape, mesh) for a, b in pairwise(chain))


@lru_cache(maxsize=ROUTES_KEPT)
def priced_route(
    src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh, itemsize: int = 1, tariff: Tariff = VOLUME
) -> PricedRoute:
    """The cheapest chain, direct or through usual layouts; of equal ones the shorter."""
    if src == dst:
        return PricedRoute((), 0)
    table = prices(shape, mesh, itemsize, tariff)
    i, j = table.find(src), table.find(dst)
    if i is not None and j is not None and j < table.targets:
        return PricedRoute(table.chain(i, j), int(table.cost[i, j]))
    best = PricedRoute((dst,), step_cost(src, dst, shape, mesh, itemsize, tariff))
    if best.cost and reduction(dst) is None:
        row = [] if i is None else table.cost[i].tolist()  # what usual layouts cost from a usual one
        for k, between in enumerate((*table.layouts[: table.targets], bare(dst))):
            if between in (src, dst) or isinstance(between, OnDriver):
                continue
            first = row[k] if k < len(row) else step_cost(src, between, shape, mesh, itemsize, tariff)
            if first < best.cost:
                last = step_cost(between, dst, shape, mesh, itemsize, tariff)
                if first + last < best.cost:
                    best = PricedRoute((between, dst), first + last)
        if len(best.through) == 2 and i is not None:
            start = priced_route(src, best.through[0], shape, mesh, itemsize, tariff)
            best = PricedRoute((*start.through, dst), best.cost)
    return best


def step_cost(
    src: Layout, dst: Layout, shape: tuple[int, ...], mesh: Mesh, itemsize: int = 1, tariff: Tariff = VOLUME
) -> int:
    """The price of one exchange."""
    total, busiest = volume(src, dst, shape, mesh)
    if total == 0:
        return 0
    return int(tariff.cost((total if tariff.all_bytes else busiest) * itemsize))
