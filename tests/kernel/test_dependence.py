"""Dependence tests against brute force: an answer "independent" is always right."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest

from tilewise.kernel.dependence import inspect
from tilewise.kernel.dependence.access import Access
from tilewise.kernel.dependence.decide import decide
from tilewise.kernel.dependence.expr import (
    Expr,
    Index,
    Undecided,
    both,
    compare,
    constant,
    either,
    floor_divide,
    gather,
    greatest,
    least,
    multiply,
    negate,
    remainder,
    select,
    var,
)

SEEDS = 600
TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4])


def subscript(rng: random.Random, loops: list[Index], affine: bool) -> Expr:
    out = constant(rng.randrange(4))
    for loop in loops:
        out = out + var(loop) * rng.choice([0, 0, 1, 1, 2, 3, -1, 4])
    if affine or rng.random() < 0.5:
        return out
    other = var(rng.choice(loops))
    forms = [
        lambda: floor_divide(out, constant(rng.choice([2, 3]))),
        lambda: remainder(out, constant(rng.choice([2, 3, 5]))),
        lambda: multiply(other, other),
        lambda: least(out, constant(6)),
        lambda: greatest(out, other),
        lambda: gather(TABLE, [remainder(out, constant(20))]),
        lambda: select(compare("<", other, constant(2)), out, other),
    ]
    return rng.choice(forms)()


def access(rng: random.Random, array: str, outer: list[Index], dims: int, affine: bool, write: bool) -> Access:
    loops = list(outer)
    for _ in range(rng.choice([0, 0, 1, 2])):
        extent = constant(rng.randrange(0, 5))
        if rng.random() < 0.3:
            extent = var(rng.choice(loops)) + rng.choice([0, 1])
        loops.append(Index(rng.choice([":", "j"]), extent))
    guards: tuple[Expr, ...] = ()
    if rng.random() < 0.3:
        test = compare(rng.choice(["<", "==", "!=", ">="]), var(rng.choice(loops)), constant(rng.randrange(4)))
        other = compare("<=", var(loops[0]), constant(3))
        guards = (rng.choice([test, negate(test), both(test, other), either(test, other)]),)
    return Access(array, tuple(subscript(rng, loops, affine) for _ in range(dims)), tuple(loops), write, guards)


def points(x: Access) -> list[tuple[dict[Index, int], tuple[int, ...]]]:
    """All points of an access and the cells it touches there, one by one."""
    out: list[dict[Index, int]] = [{}]
    for loop in x.loops:
        out = [{**p, loop: k} for p in out for k in range(max(0, int(np.ravel(loop.extent.at(p))[0])))]
    return [
        (p, tuple(int(np.ravel(e.at(p))[0]) for e in x.subscripts))
        for p in out
        if all(bool(np.ravel(g.at(p))[0]) for g in x.guards)
    ]


def clashes(a: Access, b: Access, parallel: Index, shared: list[Index]) -> set[tuple[int, int]]:
    return {
        (p[parallel], q[parallel])
        for (p, x), (q, y) in itertools.product(points(a), points(b))
        if x == y and p[parallel] != q[parallel] and all(p[t] == q[t] for t in shared)
    }


def pair(seed: int) -> tuple[Access, Access, Index, list[Index]]:
    rng = random.Random(seed)
    shared = [Index("t", constant(rng.choice([1, 2, 3])))] if rng.random() < 0.3 else []
    extent = constant(rng.choice([2, 3, 6, 9])) if not shared or rng.random() < 0.7 else var(shared[0]) + 1
    parallel = Index("i", extent)
    dims, affine = rng.choice([1, 1, 2]), rng.random() < 0.6
    made = [access(rng, "A", [*shared, parallel], dims, affine, write) for write in (True, rng.random() < 0.5)]
    return made[0], made[1], parallel, shared


@pytest.mark.parametrize("few", [False, True], ids=["evaluated", "by form"])
def test_random_pairs(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if few:  # nothing can be evaluated: forms must decide
        monkeypatch.setattr(inspect, "MOST_POINTS", 0)
        monkeypatch.setattr(inspect, "MOST_INTERVALS", 0)
    proved = found = 0
    for seed in range(SEEDS):
        a, b, parallel, shared = pair(seed)
        real = clashes(a, b, parallel, shared)
        outcome = decide(a, b, parallel, shared)
        if outcome.independent:
            proved += 1
            assert not real, (seed, outcome, sorted(real)[:3])
        elif not few:
            found += 1
            assert outcome.pair in real, (seed, outcome)
    assert proved > 150 and (few or found > 100)


def both_of(write: Expr, read: Expr, loop: Index, *more: Index) -> Any:
    return decide(Access("A", (write,), (loop, *more), True), Access("A", (read,), (loop, *more), False), loop)


def test_names_of_tests() -> None:
    i = Index("i", constant(10_000_000))
    k, j = Index(":", constant(3)), Index("j", constant(5))
    assert both_of(var(i), var(i), i).test == "equals"
    assert both_of(var(i) * 2, var(i) * 2 + 1, i).test == "GCD"
    assert both_of(var(i), var(i) + 10_000_000, i).test == "Banerjee"
    assert both_of(var(i) * 3 + var(k), var(i) * 3 + var(k), i, k).test == "interval"
    assert both_of(var(i) * 5 + var(j), var(i) * 5 + var(j), i, j).test == "mixed radix"
    assert both_of(constant(3), constant(4), i).test == "constant"
    for write, read in ((constant(3), constant(3)), (var(i), var(i) + 1), (var(i) * 2, var(i))):
        outcome = both_of(write, read, i)
        assert not outcome.independent and outcome.pair is not None
    one = Index("i", constant(1))
    assert both_of(constant(3), constant(3), one).test == "trip count"


def test_large_blocks_are_compared_as_intervals() -> None:
    i = Index("i", constant(1000))
    start = var(i) * 10_000
    length = least(constant(10_000), constant(9_995_000) - start)
    block = Index(":", length)
    write = Access("A", (start + var(block),), (i, block), True)
    assert decide(write, write, i) == decide(write, write, i)
    assert decide(write, write, i).independent
    longer = Index(":", least(constant(10_001), constant(9_995_000) - start))
    outcome = decide(Access("A", (start + var(longer),), (i, longer), True), write, i)
    assert not outcome.independent and outcome.pair is not None and abs(outcome.pair[0] - outcome.pair[1]) == 1


def test_what_has_no_value_is_dependent() -> None:
    i = Index("i", constant(5))
    out_of_table = gather(TABLE, [var(i) + 18])
    with pytest.raises(Undecided):
        out_of_table.at({i: np.arange(5)})
    assert both_of(out_of_table, out_of_table, i).test == "undecided"
    by_zero = floor_divide(constant(6), var(i))
    assert both_of(by_zero, by_zero, i).test == "undecided"
    huge = var(i) * (1 << 62)
    assert both_of(huge, huge, i).test == "equals"
    assert both_of(huge, huge + (1 << 62), i).test == "undecided"
