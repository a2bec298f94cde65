"""Random numbers, NumPy's exact streams. In: NumPy's calls. Out: Arrays.

`default_rng`, `Generator` and the legacy functions give the numbers NumPy gives: an unmodified program computes the
same. `Generator(Counter(seed))` gives numbers that depend on the position only (counter_random.py).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilewise.api.counter_random import Counter, CounterDraws
from tilewise.api.dispatch import into
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array, from_buffer, meta
from tilewise.array.interop.elsewhere import parts_here
from tilewise.backend.ahead import is_large, is_open, open_ahead
from tilewise.backend.host.draws import fill_uniform
from tilewise.store import pool


class Generator(np.random.Generator):
    """NumPy's Generator with Arrays for results; what asks for NumPy's own class takes it.

    >>> import tilewise as tw
    >>> tw.random.default_rng(0).integers(0, 10, 3)
    Array([8, 6, 5])
    """

    def __new__(cls, bit_generator: Any = None) -> Generator:
        """A generator over a Counter is one of ours."""
        if isinstance(bit_generator, Counter):
            return np.random.Generator.__new__(CounterGenerator, np.random.Philox(0))  # type: ignore[call-arg]
        return np.random.Generator.__new__(cls, bit_generator)  # type: ignore[call-arg]

    def __init__(self, bit_generator: Any) -> None:
        super().__init__(bit_generator)
        self._numpy = np.random.Generator(bit_generator)  # draws: NumPy's code takes results of `self` for its own

    def shuffle(self, x: Any, *args: Any, **kwargs: Any) -> None:
        """Shuffle in place."""
        _shuffle(self._numpy.shuffle, x, *args, **kwargs)

    def spawn(self, n_children: int) -> list[Any]:
        """Independent generators."""
        return [Generator(g.bit_generator) for g in self._numpy.spawn(n_children)]

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:
        return (Generator, (self.bit_generator,))


class CounterGenerator(CounterDraws, Generator):
    """A Generator whose numbers depend on the seed and the position only.

    >>> import tilewise as tw
    >>> tw.random.Generator(tw.random.Counter(1)).random(2).shape
    (2,)
    """

    def __init__(self, source: Counter) -> None:
        np.random.Generator.__init__(self, np.random.Philox(0))  # of which nothing is drawn
        CounterDraws.__init__(self, source)

    @property
    def bit_generator(self) -> Any:
        """The Counter."""
        return self.source

    def spawn(self, n_children: int) -> list[Any]:
        """Independent generators."""
        return [Generator(Counter(s)) for s in self.source.seed_seq.spawn(n_children)]

    def __repr__(self) -> str:
        return f"Generator({self.source!r})"

    __str__ = __repr__

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


FILLS = ("random", "standard_normal")  # draws that fill memory of the pool, which need not be handed over page by page


def _wrapping(method: Any) -> Any:
    """A function of NumPy's that draws, with Arrays for results."""
    name = getattr(method, "__name__", "")
    at = OUT_AT.get(name, sys.maxsize)
    own: Any = getattr(method, "__self__", None)
    new = isinstance(own, np.random.Generator)  # not of the legacy kind
    fills, between = new and name in FILLS, new and name == "uniform"

    def call(*args: Any, **kwargs: Any) -> Any:
        out = args[at] if len(args) > at else kwargs.get("out")
        if type(out) is Array:
            return into(method, args[:at], kwargs, out)
        size = kwargs.get("size", args[-1] if args and not kwargs else None)
        open_ahead(size)
        if kwargs.keys() <= {"size"}:
            if fills and len(args) + len(kwargs) == 1 and is_large(size):
                shape = size if type(size) is tuple else (size,)
                out = pool.empty(shape, np.float64)
                if name == "random" and is_open():
                    return from_buffer(fill_uniform(own, out, lambda g, part: g.random(out=part)))
                return from_buffer(method(out=out))
            if between and len(args) + len(kwargs) == 3 and _bounds(args) and is_large(size) and is_open():
                return _uniform(own, args[0], args[1], size)
        result = method(*rec.unwrap(parts_here(args)), **rec.unwrap(kwargs))
        return rec.wrap_array(result, ()) if type(result) is np.ndarray else result

    call.__name__ = getattr(method, "__name__", "random")
    call.__doc__ = method.__doc__
    return call


def _bounds(args: tuple[Any, ...]) -> bool:
    """Whether arguments begin with two numbers."""
    return len(args) >= 2 and all(type(a) in (int, float) for a in args[:2])


def _uniform(generator: Any, low: float, high: float, size: Any) -> Any:
    """Numbers between two bounds, as NumPy makes them of each step."""
    shape = size if type(size) is tuple else (size,)

    def fill(part_generator: np.random.Generator, part: Any) -> None:
        part[...] = part_generator.uniform(low, high, part.size)

    return from_buffer(fill_uniform(generator, pool.empty(shape, np.float64), fill))


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


class RandomState(np.random.RandomState):
    """NumPy's legacy generator with Arrays for results."""

    def __init__(self, seed: Any = None) -> None:
        super().__init__(rec.unwrap(seed))
        self._numpy = np.random.RandomState(self._bit_generator)  # draws, and has the state

    def shuffle(self, x: Any) -> None:
        """Shuffle in place."""
        _shuffle(self._numpy.shuffle, x)

    def seed(self, *args: Any, **kwargs: Any) -> None:
        """Start anew."""
        self._numpy.seed(*args, **kwargs)

    def get_state(self, legacy: bool = True) -> Any:
        """The state of the generator, as NumPy gives it."""
        return self._numpy.get_state(legacy)  # type: ignore[call-overload]

    def set_state(self, state: Any) -> None:
        """Go on from a state."""
        self._numpy.set_state(state)

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:
        return (_restored, (self.get_state(legacy=False),))


def _restored(state: Any) -> RandomState:
    made = RandomState(getattr(np.random, state["bit_generator"])())
    made.set_state(state)
    return made


def _draws(cls: Any, base: Any) -> None:
    """Give a class the methods of NumPy's, with Arrays for results."""
    for name, method in vars(base).items():
        if not name.startswith("_") and callable(method) and name not in vars(cls):
            setattr(cls, name, _drawing(name))


def _drawing(name: str) -> Any:
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _wrapping(getattr(self._numpy, name))(*args, **kwargs)

    draw.__name__, draw.__doc__ = name, f"NumPy's `{name}`, with Arrays for results."
    return draw


_draws(Generator, np.random.Generator)
_draws(RandomState, np.random.RandomState)


def _elsewhere(name: str) -> Any:
    def method(self: CounterGenerator, *args: Any, **kwargs: Any) -> Any:
        return self._elsewhere(name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name, _method in vars(np.random.Generator).items():
    own = _name in vars(CounterDraws) or _name in vars(CounterGenerator)
    if callable(_method) and not _name.startswith("_") and not own:
        setattr(CounterGenerator, _name, _elsewhere(_name))


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
