"""Random numbers, NumPy's exact streams. In: NumPy's calls. Out: Arrays.

`default_rng`, `Generator` and the legacy functions give the numbers NumPy gives: an unmodified program computes the
same. `Generator(Counter(seed))` gives numbers that depend on the position only (counter.py).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewise.api.counter import Counter, CounterDraws
from tilewise.api.dispatch import into
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array, meta


class Generator:
    """NumPy's Generator with Arrays for results.

    >>> import tilewise as tw
    >>> tw.random.default_rng(0).integers(0, 10, 3)
    Array([8, 6, 5])
    """

    def __new__(cls, bit_generator: Any = None) -> Generator:
        """A generator over a Counter is one of ours."""
        return object.__new__(CounterGenerator if isinstance(bit_generator, Counter) else cls)

    def __init__(self, bit_generator: Any) -> None:
        self._numpy = np.random.Generator(bit_generator)

    @property
    def bit_generator(self) -> Any:
        """The source of bits."""
        return self._numpy.bit_generator

    def spawn(self, n_children: int) -> list[Any]:
        """Independent generators."""
        return [Generator(g.bit_generator) for g in self._numpy.spawn(n_children)]

    def shuffle(self, x: Any, *args: Any, **kwargs: Any) -> None:
        """Shuffle in place."""
        _shuffle(self._numpy.shuffle, x, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _wrapping(getattr(self._numpy, name))

    def __repr__(self) -> str:
        return repr(self._numpy)

    def __reduce__(self) -> Any:
        return (Generator, (self._numpy.bit_generator,))


class CounterGenerator(CounterDraws, Generator):
    """A Generator whose numbers depend on the seed and the position only.

    >>> import tilewise as tw
    >>> tw.random.Generator(tw.random.Counter(1)).random(2).shape
    (2,)
    """

    @property
    def bit_generator(self) -> Any:
        """The Counter."""
        return self.source

    def spawn(self, n_children: int) -> list[Any]:
        """Independent generators."""
        return [Generator(Counter(s)) for s in self.source.seed_seq.spawn(n_children)]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(np.random.Generator, name):
            raise AttributeError(f"'Generator' object has no attribute {name!r}")
        return self._elsewhere(name)

    def __repr__(self) -> str:
        return f"Generator({self.source!r})"

    def __reduce__(self) -> Any:
        return (Generator, (self.source,))


def _shuffle(method: Any, x: Any, *args: Any, **kwargs: Any) -> None:
    with LOCK:
        if type(x) is Array:
            forcing.force(x)
            x._cell.own()
            x = meta(x)
        method(x, *args, **kwargs)


# Where draws take what they fill, if it is not given by name.
OUT_AT = {"random": 2, "standard_normal": 2, "standard_exponential": 3, "standard_gamma": 3}


def _wrapping(method: Any) -> Any:
    at = OUT_AT.get(getattr(method, "__name__", ""), sys.maxsize)

    def call(*args: Any, **kwargs: Any) -> Any:
        out = args[at] if len(args) > at else kwargs.get("out")
        if type(out) is Array:
            return into(method, args[:at], kwargs, out)
        result = method(*rec.unwrap(args), **rec.unwrap(kwargs))
        return rec.wrap_array(result, ()) if type(result) is np.ndarray else result

    call.__name__ = getattr(method, "__name__", "random")
    call.__doc__ = method.__doc__
    return call


def default_rng(seed: Any = None) -> Generator:
    """A generator; the same seed gives NumPy's numbers.

    >>> import tilewise as tw
    >>> tw.random.default_rng(42).random(2)
    Array([0.77395605, 0.43887844])
    """
    if isinstance(seed, Generator):
        return seed
    if isinstance(seed, Counter):
        return Generator(seed)
    return Generator(np.random.default_rng(rec.unwrap(seed)).bit_generator)


def shuffle(x: Any) -> None:
    """Shuffle in place, by the legacy global state."""
    _shuffle(np.random.shuffle, x)


class RandomState(Generator):
    """NumPy's legacy generator with Arrays for results."""

    def __init__(self, seed: Any = None) -> None:
        seed = rec.unwrap(seed)
        self._numpy = seed if isinstance(seed, np.random.RandomState) else np.random.RandomState(seed)  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return (RandomState, (self._numpy,))


OWN = {
    "Counter": Counter,
    "Generator": Generator,
    "default_rng": default_rng,
    "shuffle": shuffle,
    "RandomState": RandomState,
}
NAMES = {
    n: OWN.get(n, f if isinstance(f := getattr(np.random, n), type) else _wrapping(f))
    for n in np.random.__all__
    if hasattr(np.random, n)
} | {"Counter": Counter}
