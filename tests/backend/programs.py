"""Stages of many kinds. In: a program over NumPy's names. Out: its stage, geometry and inputs, as a plan has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tilewise as tw
from tilewise.array.program import program_of
from tilewise.backend.base import Geometry
from tilewise.ops.const import Const
from tilewise.stage.steps import Pass, Stage, Tiled, View, makes, passes, reads

ND = np.ndarray[Any, Any]
Program = Callable[..., Any]

RNG = np.random.default_rng(11)


class Lowered(NamedTuple):
    """A program as a backend gets it."""

    stage: Stage
    geometry: Geometry
    given: dict[int, ND]


def lowered(program: Program, arrays: list[ND]) -> Lowered:
    """The one stage of a program, and its inputs by position."""
    with tw.config(eager_bytes=0):
        made = program(tw, *[tw.asarray(a) for a in arrays])
        plan, nodes, wanted = program_of([made]).plan(None)
    have = {x for s in plan.steps for x in makes(s)}
    needed = sorted({x for s in plan.steps for x in reads(s)} - have)
    given = {x: np.asarray(op.value if isinstance(op := nodes[x].op, Const) else nodes[x].value) for x in needed}
    return Lowered(Stage(plan.steps, tuple(needed), tuple(wanted)), Geometry(nodes), given)


def kinds(stage: Stage) -> set[str]:
    """What a stage is made of."""
    found = {type(s).__name__.lower() for s in stage.steps}
    inner = [s for step in stage.steps for s in (step.steps if isinstance(step, Tiled) else (step,))]
    found |= {"view"} if any(isinstance(s, View) for s in inner) else set()
    for p in (p for s in stage.steps for p in passes(s)):
        found |= _kinds(p)
    return found


def _kinds(p: Pass) -> set[str]:
    out = {o.reduce for o in p.kernel.outputs if o.reduce is not None}
    out |= {"scan"} if any(o.scan for o in p.kernel.outputs) else set()
    out |= {"bucket"} if any(o.key is not None for o in p.kernel.outputs) else set()
    out |= {"update"} if any(w is not None for w in p.writes) else set()
    out |= {"loop"} if p.iterations is not None else set()
    return out | ({"product"} if p.letters is not None else set())


def _updated(np: Any, x: Any) -> Any:
    y = x * 2
    y[1:-1] = x[:-2] + x[2:]
    return y


def _assigned(np: Any, x: Any) -> Any:
    y = np.zeros_like(x)
    y[::2] = x[::2]
    return y


def _rolled(np: Any, x: Any) -> Any:
    y = x * 1
    for _ in range(40):
        y = y + np.exp(-y) * 0.1
    return y


def _blurred(np: Any, x: Any) -> Any:
    y = (x[:-2] + x[1:-1] + x[2:]) / 3
    return (y[:-2] + y[1:-1] + y[2:]) / 3


def _gradient(np: Any, X: Any) -> Any:
    w = np.asarray([0.5] * 13)
    return X.T @ (1 / (1 + np.exp(-(X @ w))))


def _nearest(np: Any, X: Any) -> Any:
    C = np.asarray(RNG_CENTRES)
    return ((X[:, None, :] - C) ** 2).sum(-1).argmin(1)


RNG_CENTRES = RNG.normal(size=(5, 13))
TALL = RNG.normal(size=(40_000, 13))
SMALL = RNG.normal(size=(17, 5))
LONG = RNG.normal(size=1003)
COUNTS = RNG.integers(-50, 50, size=(40, 7))
FLAGS = RNG.random(301) < 0.3

# name: program, inputs, what it must be made of
ROWS: dict[str, tuple[Program, list[ND], set[str]]] = {
    "map": (lambda np, x: np.sqrt(np.abs(x)) * 3 + 1, [SMALL], {"pass"}),
    "functions": (lambda np, x: np.exp(x) + np.sin(x) * np.log1p(x * x), [LONG], {"pass"}),
    "where": (lambda np, x: np.where(x > 0, x, -2 * x), [SMALL], {"pass"}),
    "integers": (lambda np, x: (x // 3) * 7 - x % 5, [COUNTS], {"pass"}),
    "complex": (lambda np, x: np.abs((x + 1j) * (x - 2j)), [SMALL], {"pass"}),
    "float32": (lambda np, x: np.tanh(x) / 2, [LONG.astype("f4")], {"pass"}),
    "broadcast": (lambda np, x, y: x * y[:, None] + y, [RNG.normal(size=(9, 9)), RNG.normal(size=9)], {"pass"}),
    "sum": (lambda np, x: (x * x).sum(), [LONG], {"add"}),
    "sum of rows": (lambda np, x: (x + 1).sum(1), [SMALL], {"add"}),
    "sum of columns": (lambda np, x: (x + 1).sum(0), [SMALL], {"add"}),
    "product of numbers": (lambda np, x: (1 + x / 9).prod(0), [SMALL], {"multiply"}),
    "least": (lambda np, x: (x - 1).min(1), [SMALL], {"minimum"}),
    "greatest": (lambda np, x: np.abs(x).max(), [COUNTS], {"maximum"}),
    "any": (lambda np, x: (x > 40).any(1), [COUNTS], {"logical_or"}),
    "all": (lambda np, x: (x > -50).all(0), [COUNTS], {"logical_and"}),
    "position": (lambda np, x: (x * 2).argmax(1), [SMALL], {"argmax"}),
    "position of all": (lambda np, x: (x * 2).argmin(), [SMALL], {"argmin"}),
    "variance": (lambda np, x: x.std(0), [TALL], {"add"}),
    "scan": (lambda np, x: (x * 2).cumsum(), [LONG], {"scan"}),
    "scan of columns": (lambda np, x: np.maximum.accumulate(x * 2, 0), [SMALL], {"scan"}),
    "buckets": (lambda np, x, k: np.bincount(k, x * 2, 7), [LONG, RNG.integers(0, 7, 1003)], {"bucket"}),
    "update": (_updated, [LONG], {"update"}),
    "assignment": (_assigned, [LONG], {"view"}),
    "view": (lambda np, x: x.T[1:, ::-1] * 2, [SMALL], {"view"}),
    "product": (lambda np, x, y: (x + 1) @ y, [SMALL, RNG.normal(size=(5, 8))], set()),
    "integer product": (lambda np, x: x @ x.T, [COUNTS], {"product"}),
    "vector product": (lambda np, x: x @ x, [LONG], {"product"}),
    "mask": (lambda np, x, m: (x * 2)[m], [LONG[:301], FLAGS], {"call"}),
    "sort": (lambda np, x: np.sort(x, 0) * 2, [SMALL], {"call"}),
    "rolled loop": (_rolled, [LONG], {"loop"}),
    "tiles": (_gradient, [TALL], {"tiled", "product"}),
    "tiles of softmax": (
        lambda np, X: (e := np.exp(X - X.max(1, keepdims=True))) / e.sum(1, keepdims=True),
        [TALL],
        {"tiled", "maximum", "add"},
    ),
    "tiles of a Gram matrix": (lambda np, X: (Y := X * 2).T @ Y, [TALL], {"product"}),
    "tiles with halos": (_blurred, [TALL], {"view"}),
    "nearest centre": (_nearest, [TALL], {"argmin"}),
    "nothing": (lambda np, x: (x * 2).sum(1), [np.empty((0, 3))], {"add"}),
}
