"""Abstract array programs and their random generators. In: seeds, sizes. Out: Programs (graphs.py has their graphs).

A program is a list of operators in order; an operator has a class (how it may be tiled), the positions of its operands
and the shape of its result. Nothing here knows of layouts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """One operator. Classes: new, linear, bilinear, nonlinear, sum, max, scan, matmul, transpose."""

    kind: str
    inputs: tuple[int, ...]
    shape: Shape
    axis: int | None = None  # of sum, max and scan; None reduces all


@dataclass(frozen=True)
class Program:
    name: str
    ops: tuple[Op, ...]

    def __len__(self) -> int:
        return len(self.ops)


@dataclass(frozen=True)
class Value:
    """A handle on a result while a program is written down."""

    writer: Writer
    at: int

    @property
    def shape(self) -> Shape:
        return self.writer.ops[self.at].shape

    @property
    def T(self) -> Value:
        return self.writer.add("transpose", (self,), self.shape[::-1])

    def __add__(self, other: Value) -> Value:
        return self.writer.map("linear", self, other)

    __sub__ = __add__

    def __mul__(self, other: Value) -> Value:
        return self.writer.map("bilinear", self, other)

    def __truediv__(self, other: Value) -> Value:
        return self.writer.map("nonlinear", self, other)

    def __matmul__(self, other: Value) -> Value:
        return self.writer.add("matmul", (self, other), self.shape[:-1] + other.shape[1:])

    def apply(self) -> Value:
        """A non-linear function of one array (exp, sqrt, a comparison)."""
        return self.writer.map("nonlinear", self)

    def sum(self, axis: int | None = None) -> Value:
        return self.writer.reduce("sum", self, axis)

    def max(self, axis: int | None = None) -> Value:
        return self.writer.reduce("max", self, axis)

    def scan(self, axis: int = 0) -> Value:
        return self.writer.add("scan", (self,), self.shape, axis)


class Writer:
    """Writes operators down in the order in which they are made."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def add(self, kind: str, inputs: tuple[Value, ...], shape: Shape, axis: int | None = None) -> Value:
        self.ops.append(Op(kind, tuple(value.at for value in inputs), shape, axis))
        return Value(self, len(self.ops) - 1)

    def new(self, *shape: int) -> Value:
        return self.add("new", (), shape)

    def map(self, kind: str, *inputs: Value) -> Value:
        return self.add(kind, inputs, max((value.shape for value in inputs), key=lambda s: (len(s), s)))

    def reduce(self, kind: str, of: Value, axis: int | None) -> Value:
        shape = () if axis is None else of.shape[:axis] + of.shape[axis + 1 :]
        return self.add(kind, (of,), shape, axis)

    def program(self, name: str) -> Program:
        return Program(name, tuple(self.ops))


Pick = Callable[[int], int]  # of n values written so far, the position of an operand


def _uniform(rng: random.Random) -> Pick:
    return lambda n: rng.randrange(n)


def _recent(rng: random.Random, window: int) -> Pick:
    return lambda n: rng.randrange(max(0, n - window), n)


SIDES = (64, 1_000, 20_000)


def _step(rng: random.Random, writer: Writer, values: list[Value], pick: Pick) -> None:
    """One more random operator that fits the shapes there are."""
    a = values[pick(len(values))]
    for _ in range(8):  # A second operand, if a fitting one is found soon.
        b = values[pick(len(values))]
        draw = rng.random()
        if b.shape == a.shape and draw < 0.7:
            values.append(rng.choice((Value.__add__, Value.__mul__, Value.__truediv__))(a, b))
            return
        if len(a.shape) == 2 and b.shape and a.shape[-1] == b.shape[0]:
            values.append(a @ b)
            return
        if len(a.shape) == 2 and b.shape == a.shape[1:] and draw < 0.9:
            values.append(a * b)
            return
    draw = rng.random()
    if len(a.shape) == 2 and draw < 0.25:
        values.append(a.T)
    elif a.shape and draw < 0.4 and len(values) > 3:
        values.append(a.sum(rng.randrange(len(a.shape))) if draw < 0.35 else a.max(rng.randrange(len(a.shape))))
    elif a.shape and draw < 0.45:
        values.append(a.scan(rng.randrange(len(a.shape))))
    else:
        values.append(a.apply())


def _leaf(rng: random.Random, writer: Writer, sides: tuple[int, ...]) -> Value:
    rank = rng.choice((1, 2, 2, 2))
    return writer.new(*(rng.choice(sides) for _ in range(rank)))


def random_program(seed: int, size: int, *, window: int | None = None) -> Program:
    """A random program of `size` operators; operands among all values, or the last `window`."""
    rng = random.Random(f"program-{seed}-{size}-{window}")
    writer = Writer()
    sides = tuple(rng.sample(SIDES, 2))
    values = [_leaf(rng, writer, sides) for _ in range(max(1, size // 6))]
    pick = _uniform(rng) if window is None else _recent(rng, window)
    while len(writer.ops) < size:
        _step(rng, writer, values, pick)
    return writer.program(f"random-{seed}-{size}" + (f"-window-{window}" if window else ""))


def random_loop(seed: int, size: int, *, body: int = 20, carried: int = 4) -> Program:
    """A random loop, unrolled to about `size` operators: each iteration does the same to what it carries over."""
    rng = random.Random(f"loop-{seed}-{size}")
    writer = Writer()
    sides = tuple(rng.sample(SIDES, 2))
    constants = [_leaf(rng, writer, sides) for _ in range(3)]
    state = [writer.new(*rng.choice(constants).shape) for _ in range(carried)]
    seed_of_body = rng.random()
    while len(writer.ops) < size:
        inner = random.Random(seed_of_body)  # The same choices every time: the shapes are the same too.
        values = constants + state
        pick = _uniform(inner)
        for _ in range(body):
            _step(inner, writer, values, pick)
        state = [
            next((v for v in reversed(values[len(constants) + carried :]) if v.shape == old.shape), old)
            for old in state
        ]
    return writer.program(f"loop-{seed}-{size}")
