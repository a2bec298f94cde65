"""Kasen's laws, each as a property: F may take partial operands if F(R(a, b)) = R(F(a), F(b))."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewise.ir.node import Node, intern, known_leaf
from tilewise.ir.reductions import LAWS
from tilewise.ir.scalar import TABLE, UFUNCS
from tilewise.layout import Mesh, Partial, Replicate
from tilewise.ops.contract import Contract
from tilewise.ops.elementwise import Map
from tilewise.ops.join import Broadcast, Copy
from tilewise.ops.reduce import Reduce
from tilewise.ops.reshape import Reshape
from tilewise.ops.rule import rules
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
    elif how == "one":  # used for whole numbers only: a part that is zero times inf is not zero
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
            parts = [p if own else [p[0]] * 3 for p, own in zip(parts, partial, strict=True)]
            reduce = UFUNCS[over]
            whole = [functools.reduce(reduce, p) if own else p[0] for p, own in zip(parts, partial, strict=True)]
            late = functools.reduce(reduce, [node.op.numpy(*(p[w] for p in parts)) for w in range(3)])
            np.testing.assert_array_equal(late, node.op.numpy(*whole))
    assert found
