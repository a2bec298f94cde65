"""Random numbers that depend on the seed and the position only. In: a seed. Out: recorded Arrays.

`Generator(Counter(seed))` draws like NumPy's Generator. Its numbers are not those of NumPy's generators, but they are
the same for every engine, layout and number of workers, and a large draw is recorded, not made, until it is needed.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tilewise.api.create import _shape as shape_of
from tilewise.api.dispatch import call, composed
from tilewise.array import record as rec
from tilewise.array.assign import assign
from tilewise.array.handle import Array, from_buffer
from tilewise.array.schedule import policy
from tilewise.ops.random import Random, bits, draw, scaled

ELSEWHERE = 1 << 32  # positions set aside for a draw that NumPy makes


class Counter:
    """A seed and the position that the next draw begins at.

    >>> import tilewise as tw
    >>> x = tw.random.Generator(tw.random.Counter(7)).random(1000)
    >>> y = tw.random.Generator(tw.random.Counter(7))
    >>> bool((tw.concatenate([y.random(300), y.random(700)]) == x).all())
    True
    """

    def __init__(self, seed: Any = None, position: int = 0) -> None:
        self.seed_seq = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(rec.unwrap(seed))
        first, second = self.seed_seq.generate_state(2, np.uint64).tolist()
        self.key = (first, second)
        self.position = position

    def advance(self, count: int) -> int:
        """Where a draw of `count` numbers begins; the next one begins behind it."""
        begin = self.position
        self.position += count
        return begin

    def __repr__(self) -> str:
        return f"Counter(key={self.key[0]:#x}, position={self.position})"

    def __reduce__(self) -> Any:
        return (Counter, (self.seed_seq, self.position))


class CounterDraws:
    """The methods of a Generator over a Counter; what is not here is drawn by NumPy's Philox from key and position.

    >>> import tilewise as tw
    >>> rng = tw.random.Generator(tw.random.Counter(0))
    >>> rng.integers(0, 10, 5).shape, rng.normal(size=(2, 3)).shape, rng.permutation(4).shape
    ((5,), (2, 3), (4,))
    """

    def __init__(self, source: Counter) -> None:
        self.source = source

    def _draw(self, kind: str, size: Any, dtype: Any = np.float64, low: int = 0, span: int = 0) -> Any:
        shape = () if size is None else shape_of(size)
        count = math.prod(shape)
        node = draw(kind, self.source.key, self.source.advance(count), shape, dtype, low, span)
        if node.nbytes < policy.eager_limit() or size is None:
            made = node.op.numpy()
            return made[()].item() if size is None else from_buffer(made)
        return rec.record(node)

    def random(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Uniform in [0, 1)."""
        return self._into(out, "uniform", size, _float(dtype))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, out: Any = None) -> Any:
        """Normal with mean 0 and standard deviation 1."""
        return self._into(out, "normal", size, _float(dtype))

    def standard_exponential(
        self, size: Any = None, dtype: Any = np.float64, method: str = "zig", out: Any = None
    ) -> Any:
        """Exponential with mean 1."""
        return self._into(out, "exponential", size, _float(dtype))

    def _into(self, out: Any, kind: str, size: Any, dtype: Any) -> Any:
        if out is None:
            return self._draw(kind, size, dtype)
        if size is not None and shape_of(size) != out.shape:
            raise ValueError("size must match out.shape when used together")
        made = self._draw(kind, out.shape, dtype)
        if type(out) is Array:
            assign(out, made)
        else:
            out[...] = rec.unwrap(made)
        return out

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        """Uniform in [low, high)."""
        if rec.unwrap(np.any(np.asarray(rec.unwrap(high)) < np.asarray(rec.unwrap(low)))):
            raise ValueError("high - low < 0")
        return composed(lambda: self._draw("uniform", _size(size, low, high)) * (high - low) + low, (), {})

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        """Normal with mean loc and standard deviation scale."""
        if np.any(np.asarray(rec.unwrap(scale)) < 0):
            raise ValueError("scale < 0")
        return composed(lambda: self._draw("normal", _size(size, loc, scale)) * scale + loc, (), {})

    def exponential(self, scale: Any = 1.0, size: Any = None) -> Any:
        """Exponential with mean scale."""
        if np.any(np.asarray(rec.unwrap(scale)) < 0):
            raise ValueError("scale < 0")
        return composed(lambda: self._draw("exponential", _size(size, scale)) * scale, (), {})

    def integers(
        self, low: Any, high: Any = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False
    ) -> Any:
        """Whole numbers in [low, high), or [low, high] with endpoint."""
        low, high = (0, low) if high is None else (low, high)
        low, high, d = rec.unwrap(low), rec.unwrap(high), np.dtype(dtype)
        if d.kind not in "iub":
            raise TypeError(f"Unsupported dtype {d!r} for integers")
        np.random.default_rng(0).integers(
            low, high, 1 if np.ndim(low) == np.ndim(high) == 0 else None, d, endpoint
        )  # complaints
        if np.ndim(low) or np.ndim(high):
            return self._between(np.asarray(low), np.asarray(high), size, d, endpoint)
        first = operator.index(low)
        span = operator.index(high) - first + bool(endpoint)
        wide = np.dtype(np.uint64) if d.kind == "u" else np.dtype(np.int64)
        made = self._draw("integers", size, wide, first, span % (1 << 64))
        if size is None:
            return made if dtype is int or d == np.int64 else d.type(made)
        return made if d == wide else made.astype(d)

    def _between(self, low: Any, high: Any, size: Any, dtype: np.dtype[Any], endpoint: bool) -> Any:
        shape = np.broadcast_shapes(low.shape, high.shape) if size is None else shape_of(size)
        count = math.prod(shape)
        span = (high - low + endpoint).astype(np.uint64)
        x = bits(self.source.key, self.source.advance(count), count).reshape(shape)
        return from_buffer((scaled(x, span).astype(np.int64) + low).astype(dtype))

    def permutation(self, x: Any, axis: int = 0) -> Any:
        """The numbers below x, or the rows of an array, in random order."""
        number = not isinstance(x, Array | np.ndarray | list | tuple)
        n = operator.index(x) if number else np.shape(x)[axis]
        order = np.argsort(rec.unwrap(self._draw("uniform", n)), kind="stable")
        if number:
            return from_buffer(order)
        return call(np.take, (_array(x), order), {"axis": axis})

    def shuffle(self, x: Any, axis: int = 0) -> None:
        """The rows of an array in random order, in place."""
        x[...] = self.permutation(x, axis) if type(x) is Array else rec.unwrap(self.permutation(x, axis))

    def choice(
        self, a: Any, size: Any = None, replace: bool = True, p: Any = None, axis: int = 0, shuffle: bool = True
    ) -> Any:
        """Rows of an array (or numbers below a), drawn at random."""
        n = operator.index(a) if np.ndim(a) == 0 else np.shape(a)[axis]
        if p is not None or not replace or n <= 0:
            return self._elsewhere("choice")(a, size, replace, p, axis, shuffle)
        at = self.integers(0, n, size)
        return at if np.ndim(a) == 0 else call(np.take, (_array(a), at), {"axis": axis})

    def _elsewhere(self, name: str) -> Any:
        """NumPy's method, on a generator made from the key and the position."""
        at = self.source.advance(ELSEWHERE)
        numpy = np.random.Generator(np.random.Philox(key=list(self.source.key), counter=at))
        method = getattr(numpy, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = method(*rec.unwrap(args), **rec.unwrap(kwargs))
            return rec.wrap_array(result, ()) if type(result) is np.ndarray else result

        return call


def _array(x: Any) -> Array:
    return x if type(x) is Array else from_buffer(np.array(x))


def _float(dtype: Any) -> np.dtype[Any]:
    d = np.dtype(dtype)
    if d not in (np.float64, np.float32):
        raise TypeError(f"Unsupported dtype {d!r} for random")
    return d  # type: ignore[no-any-return]


def _size(size: Any, *parameters: Any) -> Any:
    """The shape asked for, or the parameters' if they are arrays."""
    if size is not None:
        return size
    shapes = [np.shape(p) for p in parameters]
    return np.broadcast_shapes(*shapes) if any(shapes) else None


__all__ = ["Counter", "CounterDraws", "Random"]
