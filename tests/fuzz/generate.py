"""Random programs. In: a seed. Out: a Program whose lines mean something, because NumPy runs each as it is made.

Variables v… hold small integers where sums are taken (so any order of summation gives the same bits); r… are ends of
rough computations, compared by an error bound and never used again.
"""

from __future__ import annotations

import numpy as np

from tests.fuzz.array_lines import ArrayLines
from tests.fuzz.idioms import idiom
from tests.fuzz.program import Loop, Program

KINDS = (
    ("create", 5), ("binary", 12), ("nested", 6), ("unary", 4), ("ufunc", 3), ("ufunc_out", 4), ("alias", 8),
     ("assign", 14),
    ("mask", 9), ("fancy", 8), ("reduce", 10), ("centre", 2), ("scan", 2), ("product", 4), ("join", 5), ("select",
     5), ("cast", 3),
    ("shrinking", 4), ("rough", 3), ("method", 4), ("number", 3), ("look", 6), ("duplicate", 3), ("drop", 3),
)  # fmt: skip


class Generator(ArrayLines):
    """Makes one program."""

    def make(self) -> Program:
        for _ in range(self.rng.randint(2, 4)):
            self.create()
        while self.made < self.length:
            if self.body is None and self.chance(0.12):
                self.loop()
            self.instruction()
        return tuple(self.lines)

    def loop(self) -> None:
        """A body made while its first turn runs; further turns as long as sums stay exact."""
        self.body = []
        for _ in range(self.rng.randint(1, 5)):
            self.instruction()
        body, self.body = tuple(self.body), None
        turns = 1
        wanted = self.rng.randint(2, 6)
        while body and turns < wanted:
            before = self.state()
            try:
                for line in body:
                    if line.sums:
                        power = line.sums[0] == "power"
                        if not self.exact(*line.sums[power:], power=power):
                            raise StopIteration
                    try:
                        if not self.defined(line):
                            raise StopIteration
                    except (NameError, MemoryError, StopIteration):
                        raise StopIteration from None
                    except Exception:
                        pass
            except (StopIteration, Exception):
                self.back(before)
                break
            turns += 1
            if any(isinstance(v, np.ndarray) and v.size > 20_000 for v in self.names.values()):
                wanted = 0  # it grows
        if body:
            self.lines.append(Loop(turns, body) if turns > 1 else body[0])
            if turns == 1:
                self.lines += body[1:]

    def idiom(self) -> None:
        for line in idiom(self.rng, lambda: self.fresh(rough=True)):
            self.lines.append(line)
            self.made += 1

    def instruction(self) -> None:
        if self.large and self.body is None and self.chance(0.4):
            self.idiom()
            return
        kinds = [k for k, _ in KINDS]
        weights = [w for _, w in KINDS]
        getattr(self, self.rng.choices(kinds, weights)[0])()


def generate(seed: int, length: int = 14, large: bool = False) -> Program:
    """The program of a seed (large: most arrays have more than a few elements)."""
    return Generator(seed, length, large).make()
