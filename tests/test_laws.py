"""Kasen's laws, each as a property: F may take partial operands if F(R(a, b)) = R(F(a), F(b))."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewise as tw
from tilewise.ir.node import Node, intern, known_leaf
from tilewise.ir.reductions import LAWS
from tilewise.ir.scalar import TABLE, UFUNCS
from tilewise.layout import Mesh, Partial, Replicate
from tilewise.ops.contract import Contract
from tilewise.ops.elementwise import Map
from tilewise.ops.join import Broadcast, Copy
from tilewise.ops.reduce import Reduce
from tilewise.ops.reshape import Reshape
from tilewise.ops.traits.rule import rules
from tilewise.ops.views import Arrange, Cut

ROWS = [(f, row.name, how) for f, laws in LAWS.items() for row, how in laws.items()]
SMALL = st.integers(-8, 8)


def _values(f: str, op: str, draw: list[int]) -> list[np.generic]:
    if "logical" in f:
        return [np.bool_(v % 2) for v in draw]
    if "bitwise" in f:
        return [np.int64(v) for v in draw]
    return [np.float64(v) for v in draw]


@pytest.mark.parametrize(("f", "op", "how"), ROWS)
@given(draw=st.lists(SMALL, min_size=4, max_size=4))
def test_law(f: str, op: str, how: str, draw: list[int]) -> None:
    function, reduce = UFUNCS[f], UFUNCS[op]
    a0, a1, b0, b1 = _values(f, op, draw)
    if how == "together":
        if function.nin == 1:
            assert function(reduce(a0, a1)) == reduce(function(a0), function(a1))
        else:
            whole = function(reduce(a0, a1), reduce(b0, b1))
            assert whole == reduce(function(a0, b0), function(a1, b1))
    elif how == "first":  # by numbers other than zero
        b0 = b0 or np.float64(3)
        whole, parts = function(reduce(a0, a1), b0), reduce(function(a0, b0), function(a1, b0))
        np.testing.assert_allclose(parts, whole, rtol=1e-15, atol=1e-15 * (abs(a0) + abs(a1)))
    elif how == "one":  # of floats by finite numbers other than zero: a part that is zero times inf is not zero
        a0, a1, b0 = (np.int64(v) for v in (a0, a1, b0))
        assert reduce(function(a0, b0), function(a1, b0)) == function(reduce(a0, a1), b0)
        assert reduce(function(b0, a0), function(b0, a1)) == function(b0, reduce(a0, a1))
    else:
        raise AssertionError(how)


# -- and every rule of an operator that takes contributions -----------------------------------------------------------


def _leaf(shape: tuple[int, ...], dtype: str = "int64") -> Node:
    return known_leaf(np.zeros(shape, dtype), None)


def _op(op: Any, *inputs: Node) -> Node:
    made = np.asarray(op.numpy(*(np.ones(x.dims, x.dtype) for x in inputs)))
    return intern(op, inputs, made.shape, made.dtype)


X, SQUARE, INT = (4, 6), (6, 5), np.dtype(np.int64)
TAKING: list[Callable[[], Node]] = [
    lambda: _op(Cut((1, 5), (1, -1), (2, 6)), _leaf(X)),
    lambda: _op(Arrange((1, None, 0), (6, 3, 4)), _leaf(X)),
    lambda: _op(Reshape((3, 8), "C"), _leaf(X)),
    lambda: _op(Broadcast((2, 4, 6)), _leaf(X)),
    lambda: _op(Copy(None), _leaf(X)),
    lambda: _op(Contract("ab,bc->ac", "matmul"), _leaf(X), _leaf(SQUARE)),
    lambda: _op(Reduce("add", (0,), False, INT), _leaf(X)),
    lambda: _op(Reduce("maximum", (1,), True, INT), _leaf(X)),
    lambda: _op(Reduce("minimum", (0, 1), False, INT), _leaf(X)),
    lambda: _op(Map(TABLE["add"], INT, 0), _leaf(X), _leaf(X)),
    lambda: _op(Map(TABLE["multiply"], INT, 0), _leaf(X), _leaf(X)),
    lambda: _op(Map(TABLE["negative"], INT, 0), _leaf(X)),
]  # fmt: skip


@pytest.mark.parametrize("make", TAKING, ids=range(len(TAKING)))
@given(seed=st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_a_rule_that_takes_contributions_keeps_the_law(make: Callable[[], Node], seed: int) -> None:
    node, mesh = make(), Mesh(3)
    random = np.random.default_rng(seed)
    found = 0
    for over in ("add", "maximum", "minimum"):
        for rule in rules(node, [(Partial(over),)] * len(node.inputs), mesh):
            partial = [isinstance(x, Partial) for x in rule.ins]
            if not any(partial):
                continue
            found += 1
            assert all(p or isinstance(x, Replicate) for p, x in zip(partial, rule.ins, strict=True))
            assert rule.out == Partial(over)
            parts = [[np.asarray(random.integers(-5, 6, x.dims)) for _ in range(3)] for x in node.inputs]
            others = 0 if rule.once else 1  # where what is whole counts on one worker only
            parts = [p if own else [p[0], *[p[0] * others] * 2] for p, own in zip(parts, partial, strict=True)]
            reduce = UFUNCS[over]
            whole = [functools.reduce(reduce, p) if own else p[0] for p, own in zip(parts, partial, strict=True)]
            late = functools.reduce(reduce, [node.op.numpy(*(p[w] for p in parts)) for w in range(3)])
            np.testing.assert_array_equal(late, node.op.numpy(*whole))
    assert found


# -- by bytes ----------------------------------------------------------------------------------------------------------

rng = np.random.default_rng(0)
A, R = rng.normal(size=(400, 30)), rng.normal(size=400)
SUMS: dict[str, Callable[..., Any]] = {
    "scaled": lambda np, a, r: (2.0 * (a.T @ r)).sum(),
    "divided": lambda np, a, r: ((a.T @ r) / 7.0).sum(),
    "shifted": lambda np, a, r: (a.T @ r + 1.0).sum(),
    "subtracted": lambda np, a, r: (1.0 - a.T @ r).sum(),
    "shifted by a vector": lambda np, a, r: (a.T @ r + np.arange(30.0)).sum(),
    "combined": lambda np, a, r: (0.5 * (a.T @ r) - 0.25 * (a.T @ (r * r))).sum(),
    "mean": lambda np, a, r: (3.0 * a.mean(0) - 1.0).sum(),
    "in float32": lambda np, a, r: (np.float32(0.5) * (a.astype("f4").T @ r.astype("f4"))).sum(),
    "integers": lambda np, a, r: (7 + (a > 0).astype("i8").T @ (r > 0).astype("i8")).sum(),
}
LEFT_WHOLE: dict[str, Callable[..., Any]] = {
    "times zero": lambda np, a, r: (0.0 * (a.T @ r)).sum(),
    "times infinity": lambda np, a, r: (np.inf * (a.T @ r)).sum(),
    "times a vector": lambda np, a, r: ((a.T @ r) * np.arange(30.0)).sum(),
    "not linear": lambda np, a, r: ((a.T @ r) ** 2).sum(),
    "a number by contributions": lambda np, a, r: (2.0 / (a.T @ r)).sum(),
}


def _moved(program: Callable[..., Any], **settings: Any) -> int:
    """Bytes that cross, as announced and as counted; the result is NumPy's."""
    with tw.config(eager_bytes=0, objective="bytes", **settings), tw.session(engine="virtual", workers=4):
        a, r = tw.evaluate(tw.asarray(A).relayout(0)), tw.evaluate(tw.asarray(R).relayout(0))
        announced = tw.explain(program(tw, a, r)).network_bytes
        with tw.profile() as ran:
            result = program(tw, a, r).compute()
        with np.errstate(invalid="ignore"):
            want = program(np, A, R)
        np.testing.assert_allclose(result, want, rtol=1e-5 if want.dtype == "f4" else 1e-11)
    assert announced == ran.network_bytes
    return announced


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("name", SUMS)
def test_contributions_stay_contributions(name: str, blocks: int) -> None:
    assert _moved(SUMS[name], blocks=blocks) <= 8 * 2 * 3  # the sum, or two, to one worker and from there to all


@pytest.mark.parametrize("name", LEFT_WHOLE)
def test_what_the_laws_do_not_cover_is_whole_first(name: str) -> None:
    assert _moved(LEFT_WHOLE[name]) >= 30 * 8


def test_means_of_integers_are_rounded_once() -> None:
    x = np.array([1, 4, -4])
    for workers in (3, 16):
        with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=workers):
            np.testing.assert_array_equal(tw.asarray(x).mean(axis=0, keepdims=True), [1 / 3])


@pytest.mark.parametrize("name", ["scaled", "shifted"])
def test_exact_plans_round_as_written(name: str) -> None:
    assert _moved(SUMS[name], exact=True) >= 30 * 8
    assert _moved(SUMS[name]) < 30 * 8


def test_a_plan_for_one_number_is_not_taken_for_another() -> None:
    """Plans are kept without their numbers, but for whether these may scale contributions."""
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        a, r = tw.evaluate(tw.asarray(A).relayout(0)), tw.evaluate(tw.asarray(R).relayout(0))
        for number in (3.0, np.inf, 5.0, np.nan, 0.5):
            with np.errstate(invalid="ignore"):
                want = (number * (A.T @ R)).sum()
            np.testing.assert_allclose((number * (a.T @ r)).sum().compute(), want, rtol=1e-11)
