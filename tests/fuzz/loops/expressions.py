"""Random expressions. In: a scope of names with kinds. Out: Python text whose kind is known.

Kinds of numbers: i (whole), f (real), c (complex), b (truth); whether they are Python's or NumPy's, values say.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

INTS = ("int64", "int32", "uint8")
REALS = ("float64", "float32")
DTYPES = (*INTS, *REALS, "complex128", "bool")
EDGES = ("2**31", "2**62", "-2**63", "2**63 - 1", "3037000500", "255", "256")


def kind_of(dtype: str) -> str:
    """The kind of an array's elements."""
    return {"i": "i", "u": "i", "f": "f", "c": "c", "b": "b"}[dtype[0]]


@dataclass
class Scope:
    """The names that a statement may use."""

    numbers: dict[str, str] = field(default_factory=dict)  # name: kind
    counters: dict[str, tuple[int, int]] = field(default_factory=dict)  # loop variables, with their least and most
    arrays: dict[str, tuple[str, tuple[int, ...]]] = field(
        default_factory=dict
    )  # name: dtype and shape, as it is at first
    helpers: dict[str, tuple[str, int]] = field(default_factory=dict)  # name: kind of result, number of arguments

    def copy(self) -> Scope:
        return Scope(dict(self.numbers), dict(self.counters), dict(self.arrays), dict(self.helpers))


class Expressions:
    """Makes expressions."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.scope = Scope()

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def number(self, kind: str, depth: int = 2) -> str:
        """An expression of a kind, or of one that is converted to it without loss."""
        return {"i": self.whole, "f": self.real, "c": self.complex, "b": self.truth}[kind](depth)

    def any_number(self, depth: int = 2) -> tuple[str, str]:
        """An expression and its kind."""
        kind = self.rng.choices("ifcb", (5, 5, 0.6, 0.6))[0]
        return self.number(kind, depth), kind

    def named(self, kind: str) -> str | None:
        names = [n for n, k in self.scope.numbers.items() if k == kind]
        names += list(self.scope.counters) * 2 if kind == "i" else []
        return self.rng.choice(names) if names else None

    def element(self, kind: str) -> str | None:
        """An element of an array of this kind."""
        names = [n for n, (dtype, _) in self.scope.arrays.items() if kind_of(dtype) == kind]
        return self.at(self.rng.choice(names)) if names else None

    def at(self, name: str) -> str:
        """`name[…]` with a subscript for each axis, rarely out of range."""
        return f"{name}[{', '.join(self.subscript(n) for n in self.scope.arrays[name][1])}]"

    def subscript(self, n: int) -> str:
        r = self.rng
        if self.chance(0.012):
            return str(r.choice((n, -n - 1, n + 3)))
        fits = [c for c, (low, high) in self.scope.counters.items() if low >= -n and high < n]
        near = [
            (c, d)
            for c, (low, high) in self.scope.counters.items()
            for d in (-2, -1, 1, 2)
            if low + d >= -n and high + d < n
        ]
        pick = r.random()
        if fits and pick < 0.5:
            return r.choice(fits)
        if near and pick < 0.75:
            c, d = r.choice(near)
            return f"{c} {'+' if d > 0 else '-'} {abs(d)}"
        if fits and pick < 0.79:
            return f"-{r.choice(fits)}"
        if pick < 0.9 or self.chance(0.5):
            return str(r.randrange(-n, n) if n else 0)
        if (name := self.element("i")) and self.chance(0.5):
            return f"{name} % {max(n, 1)}"
        return f"({self.whole(1)}) % {max(n, 1)}"

    def leaf(self, kind: str, plain: list[str]) -> str:
        """A name, an element or a constant."""
        for make, p in ((self.named, 0.5), (self.element, 0.6)):
            found = make(kind) if self.chance(p) else None
            if found is not None:
                return found
        return self.rng.choice(plain)

    def whole(self, depth: int) -> str:
        r = self.rng
        if depth <= 0 or self.chance(0.2):
            if self.scope.arrays and self.chance(0.12):
                name = r.choice(list(self.scope.arrays))
                rank = len(self.scope.arrays[name][1])
                return r.choice((f"len({name})", f"{name}.shape[{r.randrange(rank)}]", f"{name}.size", f"{name}.ndim"))
            return r.choice(EDGES) if self.chance(0.02) else self.leaf("i", [str(k) for k in range(-3, 8)])
        a, b = self.whole(depth - 1), self.whole(depth - 1)
        pick = r.random()
        if pick < 0.5:
            return f"({a} {r.choices('+-*', (5, 4, 2))[0]} {b})"
        if pick < 0.60:
            return f"({a} {r.choice(('//', '%'))} {b if self.chance(0.25) else r.choice((2, 3, -3, 7))})"
        if pick < 0.66:
            return f"({a} {r.choice('&|^')} {b})"
        if pick < 0.70:
            return f"({a} {r.choice(('<<', '>>'))} {r.choice((1, 2, 5, 40, f'({b} & 7)'))})"
        if pick < 0.73:
            return f"({a} ** {r.choice((2, 3))})" if self.chance(0.8) else f"({r.choice((2, 3))} ** ({b} & 3))"
        if pick < 0.80:
            return f"{r.choice(('min', 'max'))}({a}, {b})"
        if pick < 0.86:
            return r.choice((f"abs({a})", f"(-{a})", f"(~{a})"))
        if pick < 0.90:
            return f"({a} if {self.truth(depth - 1)} else {b})"
        if pick < 0.93:
            return f"int({self.real(depth - 1)})" if self.chance(0.4) else f"int({self.truth(depth - 1)})"
        if pick < 0.95:
            return f"sum([{self.whole_of_counter(depth - 1)} for q in range({r.randint(0, 4)})])"
        return self.helped("i", depth) or f"({a} + {b})"

    def whole_of_counter(self, depth: int) -> str:
        """An expression with `q`, the variable of a comprehension."""
        self.scope.counters["q"] = (0, 3)
        text = f"q * {self.whole(depth)}" if self.chance(0.5) else self.whole(depth)
        self.scope.counters.pop("q", None)
        return text

    def helped(self, kind: str, depth: int) -> str | None:
        """A call of a function of the program."""
        names = [n for n, (k, _) in self.scope.helpers.items() if k == kind]
        if not names:
            return None
        name = self.rng.choice(names)
        args = [self.number(kind, depth - 1) for _ in range(self.scope.helpers[name][1])]
        return f"{name}({', '.join(args)})"

    def real(self, depth: int) -> str:
        r = self.rng
        if depth <= 0 or self.chance(0.2):
            return self.leaf("f", ["0.5", "-1.25", "2.0", "3.0", "0.1", "1e300", "-0.0"])
        a, b = self.real(depth - 1), self.real(depth - 1)
        pick = r.random()
        if pick < 0.55:
            return f"({a} {r.choices('+-*/', (5, 4, 4, 1.5))[0]} {b})"
        if pick < 0.62:
            return f"({a} {r.choices('+-*', (1, 1, 1))[0]} {self.whole(depth - 1)})"
        if pick < 0.66:
            c = self.whole(depth - 1)
            return f"({c} / {r.choice((2, 4, 8))})" if self.chance(0.7) else f"({a} / {c})"
        if pick < 0.70:
            return f"({a} {r.choice(('//', '%'))} {r.choice(('2.0', '-0.75', b))})"
        if pick < 0.78:
            return f"{r.choice(('min', 'max'))}({a}, {b})"
        if pick < 0.84:
            return r.choice((f"abs({a})", f"(-{a})", f"np.sqrt(abs({a}))", f"np.floor({a})"))
        if pick < 0.90:
            return f"({a} if {self.truth(depth - 1)} else {b})"
        if pick < 0.94:
            return f"float({self.whole(depth - 1)})" if self.chance(0.7) else f"np.float32({a})"
        if pick < 0.96 and (c := self.leaf("c", [""])):
            return f"{c}.{r.choice(('real', 'imag'))}"
        return self.helped("f", depth) or f"({a} - {b})"

    def complex(self, depth: int) -> str:
        if depth <= 0 or self.chance(0.3):
            return self.leaf("c", ["1j", "(2.0 - 1j)", "0j"])
        a, b = self.complex(depth - 1), self.complex(depth - 1)
        return self.rng.choice(
            (f"({a} + {b})", f"({a} - {b})", f"({a} * {b})", f"({a} + {self.real(depth - 1)})", f"(-{a})")
        )

    def truth(self, depth: int) -> str:
        r = self.rng
        if depth <= 0 and self.chance(0.3):
            return self.leaf("b", ["True", "False"])
        kind = r.choice("iif")
        a, b = self.number(kind, depth - 1), self.number(kind, depth - 1)
        order = ("<", "<=", ">", ">=", "==", "!=")
        pick = r.random()
        if pick < 0.62 or depth <= 0:
            return f"{a} {r.choice(order)} {b}"
        if pick < 0.74:
            return f"{a} {r.choice(('<', '<='))} {b} {r.choice(('<', '<=', '!='))} {self.number(kind, depth - 1)}"
        if pick < 0.9:
            return f"({self.truth(depth - 1)} {r.choice(('and', 'or'))} {self.truth(depth - 1)})"
        if pick < 0.95:
            return f"(not {self.truth(depth - 1)})"
        return self.leaf("b", ["True", "False"])
