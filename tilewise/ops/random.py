"""Random numbers by position. In: a key and where in its stream to begin. Out: a node; no element depends on another.

Element i of a draw is a function of (key, begin + i) alone, so any piece of an array can be made anywhere, in any
order: on one core, on many workers, or again after a failure. The function is the finaliser of SplitMix64 (Steele, Lea
and Flood, "Fast splittable pseudorandom number generators", 2014) twice, each time with another half of a 128-bit key.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.ir.node import Node, Op, intern
from tilewise.layout import Mesh, Shard, even_cuts
from tilewise.ops.traits.block import Part, on_block
from tilewise.ops.traits.rule import Options, Rule, specific
from tilewise.ops.traits.work import Work, work
from tilewise.records import dataclass
from tilewise.tuning import Tuning, follow

_block: int  # kept by `_adopt`

GOLDEN = 0x9E3779B97F4A7C15  # SplitMix64's step, 2^64 / golden ratio
SECOND = 0xD1B54A32D192ED03  # an odd constant for the second number of a pair (Box-Muller)
MASK = (1 << 64) - 1
LOW = np.uint64(0xFFFFFFFF)


def _mix(x: Any) -> None:
    """SplitMix64's finaliser, in place."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, None)):
        x ^= x >> np.uint64(shift)
        if factor is not None:
            x *= np.uint64(factor)


def bits(key: tuple[int, int], begin: int, count: int, salt: int = 0) -> Any:
    """64 random bits for each position from `begin`.

    >>> both = bits((1, 2), 0, 8)
    >>> bool((both[3:] == bits((1, 2), 3, 5)).all())
    True
    """
    x = np.arange(count, dtype=np.uint64)
    x += np.uint64(begin & MASK)
    x *= np.uint64(GOLDEN)
    x += np.uint64((key[0] + salt) & MASK)
    _mix(x)
    x ^= np.uint64(key[1])
    _mix(x)
    return x


def uniform(x: Any, dtype: np.dtype[Any]) -> Any:
    """Numbers in [0, 1) from 64 random bits, on the grid of 2^-53 (2^-24 in single precision)."""
    if dtype == np.float32:
        return (x >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


def scaled(x: Any, span: Any) -> Any:
    """Whole numbers in [0, span) from 64 random bits: the high half of x * span. Off by at most span / 2^64."""
    s = np.asarray(span, np.uint64)
    a, b, c, d = x >> np.uint64(32), x & LOW, s >> np.uint64(32), s & LOW
    ad, bc = a * d, b * c
    mid = ((b * d) >> np.uint64(32)) + (ad & LOW) + (bc & LOW)
    return a * c + (ad >> np.uint64(32)) + (bc >> np.uint64(32)) + (mid >> np.uint64(32))


@dataclass(frozen=True)
class Random(Op):
    """`kind` is "uniform", "normal", "exponential" or "integers" (low + [0, span); span 0 stands for 2^64)."""

    kind: str
    key: tuple[int, int]
    begin: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: int = 0
    span: int = 0
    pitch: tuple[int, ...] | None = None  # positions from one element to the next along each axis; None: no gaps
    name = "random"

    def numpy(self, *arrays: Any) -> Any:
        out = np.empty(self.shape, self.dtype)
        self._fill(out, self.begin, self.pitch or _pitch(self.shape))
        return out

    def _fill(self, out: Any, begin: int, pitch: tuple[int, ...]) -> None:
        if pitch == _pitch(out.shape):
            flat = out.reshape(-1)
            for at in range(0, flat.size, _block):
                flat[at : at + _block] = self.block(begin + at, min(_block, flat.size - at))
            return
        for i in range(out.shape[0]):
            self._fill(out[i : i + 1].reshape(out.shape[1:]), begin + i * pitch[0], pitch[1:])

    def part(self, box: tuple[tuple[int, int], ...]) -> Random:
        """A box of the draw, as a draw of its own."""
        pitch = self.pitch or _pitch(self.shape)
        begin = self.begin + sum(low * p for (low, _), p in zip(box, pitch, strict=True))
        return replace(self, begin=begin, shape=tuple(high - low for low, high in box), pitch=pitch)

    def block(self, begin: int, count: int) -> Any:
        """Elements of the stream from one position."""
        x = bits(self.key, begin, count)
        if self.kind == "integers":
            made = scaled(x, self.span) if self.span else x
            made += np.uint64(self.low & MASK)
            return made.view(np.int64) if self.dtype.kind == "i" else made
        if self.kind == "uniform":
            return uniform(x, self.dtype)
        # 1 - u is in (0, 1]: its logarithm is finite.
        size = -np.log(1.0 - uniform(x, np.dtype(np.float64)))
        if self.kind == "exponential":
            return size
        angle = uniform(bits(self.key, begin, count, SECOND), np.dtype(np.float64))
        return np.sqrt(2.0 * size) * np.cos((2.0 * math.pi) * angle)

    def label(self) -> str:
        return f"random.{self.kind}"


@on_block.register(Random)
def _(op: Random, out: Part, ins: Sequence[Part]) -> Op:
    return op.part(out.box)


def _pitch(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The pitch of an array without gaps."""
    out = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        out[axis] = out[axis + 1] * shape[axis + 1]
    return tuple(out)


def draw(
    kind: str, key: tuple[int, int], begin: int, shape: tuple[int, ...], dtype: Any, low: int = 0, span: int = 0
) -> Node:
    """The node of a draw."""
    d = np.dtype(dtype)
    return intern(Random(kind, key, begin, shape, d, low, span), (), shape, d)


# -- on a mesh -----------------------------------------------------------------------------------------------------


@specific.register(Random)
def _(op: Random, node: Node, have: Options, mesh: Mesh) -> Iterator[Rule]:
    for axis, size in enumerate(op.shape):
        if size >= 2:
            yield Rule((), Shard(axis, even_cuts(size, mesh.total_blocks)))


@work.register(Random)
def _(op: Random, shapes: Sequence[tuple[int, ...]], size: int) -> Work:
    return Work(functions=size)


def _adopt(tuning: Tuning) -> None:
    """Keep the figures that are needed often."""
    global _block
    _block = tuning.random_block


follow(_adopt)
