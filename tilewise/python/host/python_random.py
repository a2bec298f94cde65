"""Python's own generators (`random`). In: a method and its arguments. Out: how it is done without Python.

What is made of draws is as in Python's Lib/random.py; `WRITTEN` is read as if the user had written it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from tilewise.kernel.program.ir import INT, Const, Expr, Op
from tilewise.python.build import Scalar, Value

ONE = Const(INT, 1)


def draw(name: str, args: list[Value], options: dict[str, Value]) -> tuple[str, tuple[str, ...], list[Expr]] | None:
    """The function of a method, what it needs of its numbers, and these."""
    whole = [v.e for v in args if isinstance(v, Scalar) and v.t.dtype == INT]
    if options or len(whole) != len(args):
        return None
    if name == "random" and not whole:
        return "python_random", (), []
    if name == "getrandbits" and len(whole) == 1:
        return "python_bits", ("bits",), whole
    if name == "randrange" and len(whole) == 1:
        return "python_range", ("", "count"), [Const(INT, 0), *whole]
    if name in ("randrange", "randint") and len(whole) == 2:
        width = Op("subtract", INT, (whole[1], whole[0]))
        last = Op("add", INT, (width, ONE)) if name == "randint" else width
        return "python_range", ("", "count"), [whole[0], last]
    return None


def sampled(name: str) -> Callable[..., Any]:
    """A method for samples of arguments: ranges are not empty."""
    f = getattr(random.Random(0), name)
    if name == "seed":
        return lambda *args, **options: None
    if name in ("randrange", "randint"):
        return lambda *args, **options: f(*(1, 3, 1)[: len(args)], **{k: 3 for k in options})
    return f  # type: ignore[no-any-return]


def _message() -> str:
    """What this Python says where there is nothing to choose."""
    try:
        random.Random(0).choice([])
    except IndexError as error:
        return str(error)
    raise AssertionError


NO_ITEMS = _message()
MAGIC: float = random.NV_MAGICCONST  # type: ignore[attr-defined]


def uniform(rng, a, b):  # type: ignore[no-untyped-def]
    return a + (b - a) * rng.random()


def choice(rng, seq):  # type: ignore[no-untyped-def]
    if len(seq) == 0:
        raise IndexError(NO_ITEMS)
    return seq[rng.randrange(len(seq))]


def shuffle(rng, x):  # type: ignore[no-untyped-def]
    for i in range(len(x) - 1, 0, -1):
        j = rng.randrange(i + 1)
        x[i], x[j] = x[j], x[i]


def normalvariate(rng, mu=0.0, sigma=1.0):  # type: ignore[no-untyped-def]
    while True:
        first = rng.random()
        second = 1.0 - rng.random()
        z = MAGIC * (first - 0.5) / second
        if z * z / 4.0 <= -math.log(second):
            break
    return mu + z * sigma


def lognormvariate(rng, mu=0.0, sigma=1.0):  # type: ignore[no-untyped-def]
    return math.exp(rng.normalvariate(mu, sigma))


def expovariate(rng, lambd=1.0):  # type: ignore[no-untyped-def]
    return -math.log(1.0 - rng.random()) / lambd


WRITTEN: dict[str, Any] = {
    f.__name__: f for f in (uniform, choice, shuffle, normalvariate, lognormvariate, expovariate)
}
