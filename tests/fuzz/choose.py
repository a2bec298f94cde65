"""What a random line is made of. In: a seed. Out: variables, views, operands, indices, as source that NumPy accepts.

The variables are there, as NumPy computed them: every choice looks at real shapes and dtypes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzz.program import _helpers, quiet

FLOATS = ("float64", "float64", "float64", "float32", "float16")
DTYPES = (*FLOATS, "int64", "int64", "int32", "int16", "int8", "uint8", "uint32", "bool", "complex128", "complex64")
LIMITS = {"float16": 2.0**10, "float32": 2.0**23, "float64": 2.0**52, "complex64": 2.0**23, "complex128": 2.0**52}
SIZES = (0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 6, 7)
LARGE_SHAPES = ((300,), (9001,), (33, 40), (64, 17), (20, 100), (100, 6), (50, 3), (4, 200), (16, 16), (5, 9, 16))


class Chooser:
    """Chooses among what the program has so far."""

    def __init__(self, seed: int, large: bool = False) -> None:
        self.rng = random.Random(seed)
        self.large = large
        self.names: dict[str, Any] = _helpers(np, [])
        self.count = 0

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def variables(self, test: Callable[[Any], bool] = lambda v: True) -> list[str]:
        return [
            k
            for k, v in self.names.items()
            if k.startswith("v") and isinstance(v, np.ndarray | np.generic) and v.dtype != object and test(v)
        ]

    def pick(self, test: Callable[[Any], bool] = lambda v: True) -> str | None:
        found = self.variables(test)
        return self.rng.choice(found[-8:] if self.chance(0.6) else found) if found else None

    def array(self, test: Callable[[Any], bool] = lambda v: True) -> str | None:
        return self.pick(lambda v: isinstance(v, np.ndarray) and test(v))

    def value(self, text: str) -> Any:
        with quiet():
            return eval(text, dict(self.names))

    def fresh(self, rough: bool = False) -> str:
        self.count += 1
        return f"{'r' if rough else 'v'}{self.count}"

    def shape(self) -> tuple[int, ...]:
        r = self.rng
        if self.large and (not self.variables() or self.chance(0.2)):
            return r.choice(LARGE_SHAPES)
        if self.chance(0.06):
            return (r.choice((33, 64, 100, 257)),)
        if self.chance(0.04):
            return (r.choice((9, 17)), r.choice((8, 31)))
        near = self.array()
        if near is not None and self.chance(
            0.8 if self.large else 0.5
        ):  # a shape that broadcasts with one that is there
            dims = list(self.names[near].shape)
            dims = [1 if self.chance(0.15) else d for d in dims]
            return tuple(dims[r.randint(0, len(dims)) if self.chance(0.3) else 0 :])
        return tuple(r.choice(SIZES) for _ in range(r.choice((0, 1, 1, 2, 2, 2, 3, 3))))

    def scalar(self) -> str:
        return self.rng.choice(
            ("0", "1", "2", "3", "-1", "-2", "5", "0.5", "2.0", "-1.5", "np.float32(2)", "np.int64(3)", "True", "-0.0",
             "np.float64(-3.0)", "np.int8(2)", "1j", "np.nan", "np.inf", "7.25", "1e3", "255", "np.uint8(7)")
        )  # fmt: skip

    def axis(self, ndim: int, several: bool = True) -> str:
        r = self.rng
        if self.chance(0.02):
            return str(ndim)
        if ndim == 0 or self.chance(0.3):
            return "None"
        if several and self.chance(0.3):
            k = r.randint(0 if self.chance(0.1) else 1, ndim)
            return str(tuple(a - ndim if self.chance(0.3) else a for a in r.sample(range(ndim), k)))
        return str(r.randrange(-ndim, ndim))

    def key(self, shape: tuple[int, ...]) -> str:
        """A basic index."""
        r = self.rng
        parts: list[str] = []
        left = r.randint(0, len(shape)) if self.chance(0.3) else len(shape)
        for d in shape[:left]:
            kind = r.random()
            if kind < 0.18 and d:
                parts.append(str(r.randrange(-d, d)))
            elif kind < 0.2:
                parts.append(str(d))
            elif kind < 0.4:
                parts.append(":")
            else:
                a = r.choice(("", "", str(r.randint(-d, d)), "1"))
                b = r.choice(("", "", str(r.randint(-d, d)), "-1"))
                step = r.choice(("", "", "", "2", "-1", "-2", "3"))
                parts.append(f"{a}:{b}" + (f":{step}" if step else ""))
        if self.chance(0.15):
            parts.insert(r.randint(0, len(parts)), "None")
        if left < len(shape) and self.chance(0.5):
            parts.append("...")
        elif parts and self.chance(0.05):
            parts.insert(r.randint(0, len(parts)), "...")
        return ", ".join(parts) or "..."

    def view(self, name: str, deep: float = 0.6) -> str:
        """An expression that shows a variable, or a part of it."""
        text = name
        while self.chance(deep):
            deep *= 0.5
            v = self.value(text)
            if not isinstance(v, np.ndarray):
                break
            shape = v.shape
            options = ["[" + self.key(shape) + "]"] * 4 + [".T", "[...]"]
            if v.ndim > 1:
                i, j = self.rng.sample(range(v.ndim), 2)
                options += [f".swapaxes({i}, {j})", f".diagonal(0, {i}, {j})", ".ravel()", ".reshape(-1)"]
            if v.size and v.size < 300:
                options += [f".reshape({self.dims(v.size)})", ".reshape(-1, 1)"]
            if v.dtype.kind == "c":
                options += [".real", ".imag"] * 2
            more = text + self.rng.choice(options)
            if self.good(more):
                text = more
        return text

    def dims(self, n: int) -> str:
        """A shape of n elements."""
        out: list[int] = []
        for f in (2, 3, 5, 7):
            if n % f == 0 and self.chance(0.6):
                out.append(f)
                n //= f
        out.append(n)
        self.rng.shuffle(out)
        return str(tuple(out))

    def good(self, text: str) -> bool:
        try:
            self.value(text)
        except Exception:
            return False
        return True

    def operand(self, like: tuple[int, ...] | None, numbers: bool = True) -> str:
        """A view or number, mostly one that broadcasts with a shape."""
        if numbers and self.chance(0.3):
            return self.scalar()
        for _ in range(6):
            name = self.pick()
            if name is None:
                break
            text = self.view(name, 0.3)
            if like is None or self.fits(np.shape(self.value(text)), like):
                return text
        if self.chance(0.04):
            return self.pick() or "1"
        if like is not None and self.chance(0.5):
            return f"data({self.rng.randrange(1000)}, {like}, '{self.rng.choice(DTYPES)}', {self.chance(0.1)})"
        return self.scalar()

    def fits(self, a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        try:
            return int(np.prod(np.broadcast_shapes(a, b))) < 20_000
        except ValueError:
            return False

    def settled(self, op: str, *texts: str) -> str:
        """An operator whose result has one last bit, for a target and operands.

        Of a rounded complex product of one element NumPy has two: in place it multiplies and adds in two steps, else
        in one.
        """
        values = [np.asarray(self.value(t)) for t in texts]
        if op not in ("*", "/") or values[0].size != 1 or not any(v.dtype.kind == "c" for v in values):
            return op
        with np.errstate(all="ignore"):
            whole = all(v.dtype.kind in "biu" or bool((v == v.round()).all()) for v in values)
        return op if whole and op == "*" else "+"

    def exact(self, *texts: str, power: bool = False) -> bool:
        """Whether sums of products of these are the same in any order."""
        bound, limit = 1.0, 2.0**52
        for text in texts:
            v = np.asarray(self.value(text))
            if v.dtype.kind not in "fc":
                v = v.astype(np.float64) if v.dtype.kind in "iub" else v
            else:
                limit = min(limit, LIMITS.get(v.dtype.name, 0.0))
            parts = [v.real, v.imag] if v.dtype.kind == "c" else [v]
            for p in parts:
                if v.dtype.kind == "c" and not np.isfinite(p).all():
                    return False
                ok = p[np.isfinite(p)].astype(np.float64)
                if ok.size and (ok != np.rint(ok)).any():
                    return False
                most = float(np.abs(ok).max()) if ok.size else 1.0
                bound *= (
                    float(np.prod(np.maximum(np.abs(ok), 1)))
                    if power
                    else max(most, 1.0) * (2 if v.dtype.kind == "c" else 1)
                )
            bound *= max(v.size, 1) if not power else 1
        return bound < limit

    def masks(self, shape: tuple[int, ...]) -> list[str]:
        return self.variables(lambda v: v.dtype == bool and v.shape == shape)

    def index(self, n: int) -> str:
        r = self.rng
        found = self.variables(
            lambda v: isinstance(v, np.ndarray) and v.dtype.kind in "iu" and v.ndim in (1, 2) and v.size < 40
        )
        if found and self.chance(0.4):
            name = r.choice(found)
            return name if self.chance(0.15) or not n else f"{name} % {n}"
        return str([r.randrange(-n, n) if n else 0 for _ in range(r.randint(0, 4))])
