"""Random slice statements. In: a scope. Out: lines that read and write parts of arrays, overlaps included."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.loops.expressions import Expressions, kind_of

REAL_CALLS = ("np.minimum", "np.maximum")


class Slices(Expressions):
    """Makes statements on parts of arrays."""

    def slice_of(self, n: int, m: int) -> str:
        """A slice of an axis of n elements that has m, if m is at most n."""
        r = self.rng
        if m > n:
            return ":"
        if m == n and self.chance(0.5):
            return r.choice((":", "::1", "::-1"))
        start = r.randint(0, n - m)
        end = start + m
        texts = [f"{start}:{end}"]
        if end == n:
            texts += [f"{start}:", f"{start}:{n + 5}"]
        if start == 0:
            texts += [f":{end}"]
        if m > 0 and end < n:
            texts += [f"{start}:{end - n}", f"{start - n}:{end - n}"]
        if m and start:
            texts += [f"{end - 1}:{start - 1}:-1"]
        if m > 1 and 2 * m - 1 <= n:
            texts += [f"{n - 2 * m + 1}::2"]
        return r.choice(texts)

    def counted(self, n: int) -> str | None:
        """A slice whose end is a loop's variable, as in triangular loops."""
        fits = [c for c, (low, high) in self.scope.counters.items() if low >= 0 and high <= n]
        return self.rng.choice([":{}", "{}:", "{0}:{0}+2"]).format(self.rng.choice(fits)) if fits else None

    def same_shape(self, shape: tuple[int, ...]) -> list[str]:
        """Arrays that have parts of this shape (of real numbers)."""
        found = []
        for name, (dtype, own) in self.scope.arrays.items():
            fits = len(own) >= len(shape) and all(map(int.__le__, shape, own[-len(shape) :]))
            if fits and kind_of(dtype) != "c":
                found.append(name)
        return found

    def part(self, name: str, shape: tuple[int, ...]) -> str:
        """A part of an array with a shape; the axes before it have a subscript each."""
        own = self.scope.arrays[name][1]
        lead = [self.subscript(n) for n in own[: len(own) - len(shape)]]
        cuts = [self.slice_of(n, m) for n, m in zip(own[len(own) - len(shape) :], shape, strict=True)]
        return f"{name}[{', '.join(lead + cuts)}]"

    def array_value(self, shape: tuple[int, ...], kind: str, depth: int = 2, given: tuple[str, ...] = ()) -> str:
        """An expression over parts of one shape; some of them are given."""
        r = self.rng
        if given and (depth <= 0 or self.chance(0.2)) and self.chance(0.7):
            return r.choice(given)
        names = [n for n in self.same_shape(shape) if kind == "f" or kind_of(self.scope.arrays[n][0]) in "ib"]
        if depth <= 0 or not names:
            if names and self.chance(0.8):
                return self.part(r.choice(names), shape)
            return self.number(kind, 1)
        a, b = (self.array_value(shape, kind, depth - 1, given) for _ in range(2))
        pick = r.random()
        if pick < 0.7:
            return f"({a} {r.choice('+-*')} {b})"
        if pick < 0.8:
            return f"{r.choice(REAL_CALLS)}({a}, {b})"
        if pick < 0.86:
            return f"np.where({a} {r.choice(('<', '>', '=='))} {b}, {a}, {b})"
        if pick < 0.92:
            return f"abs({a})"
        return f"({a} {r.choice('+-')} {self.number(kind, 1)})"

    def slice_statement(self) -> list[str]:
        """`A[…] = …` or `A[…] += …` with parts of arrays, or a plain copy within one array."""
        r = self.rng
        name = r.choice(list(self.scope.arrays))
        dtype, own = self.scope.arrays[name]
        kind = kind_of(dtype)
        if kind == "c":
            return [f"{self.part(name, own[-1:])} = {self.part(name, own[-1:])} + {self.complex(1)}"]
        if kind == "b":
            return [f"{self.part(name, own[-1:])} = {self.truth(1)}"]
        rank = r.randint(1, len(own))
        if (bound := self.counted(own[-1])) and self.chance(0.35):
            lead = ", ".join([*(self.subscript(n) for n in own[:-1]), ""])
            others = [n for n, (d, s) in self.scope.arrays.items() if len(s) == 1 and kind_of(d) == kind] or [name]
            other = r.choice(others)
            before = ", ".join([*(self.subscript(n) for n in self.scope.arrays[other][1][:-1]), ""])
            operator, factor = r.choice(("=", "+=", "-=")), self.number(kind, 1)
            return [f"{name}[{lead}{bound}] {operator} {other}[{before}{bound}] * {factor}"]
        shape = tuple(r.randint(min(n, 1), n) for n in own[len(own) - rank :])
        if self.chance(0.4):  # within one array, which may overlap
            return [f"{self.part(name, shape)} = {self.part(name, shape)}"]
        if self.chance(0.02):
            shape = tuple(n + 1 for n in shape)
        operator = r.choices(("=", "+=", "-=", "*="), (6, 2, 1, 1))[0]
        if kind == "i" and operator == "=" and self.chance(0.15):
            kind = "f"
        target = self.part(name, tuple(map(min, shape, own[-rank:])))
        return [f"{target} {operator} {self.array_value(shape, kind)}"]

    def slice_run(self, fresh: Callable[[str], str]) -> list[str]:
        """Neighbouring statements over parts of one shape, which read what others write, and new arrays of it."""
        r = self.rng
        names = [n for n, (d, _) in self.scope.arrays.items() if kind_of(d) in "if"]
        if not names:
            return self.slice_statement()
        first = r.choice(names)
        own = self.scope.arrays[first][1]
        rank = r.randint(1, len(own))
        shape = tuple(r.randint(min(n, 1), n) for n in own[len(own) - rank :])
        fits = [n for n in self.same_shape(shape) if n in names]
        targets = [self.part(r.choice([first, *fits]), shape) for _ in range(r.randint(1, 3))]
        given = list(targets)
        lines: list[str] = []
        for _ in range(r.randint(2, 5)):
            target = r.choice(targets)
            dtype = self.scope.arrays[target.partition("[")[0]][0]
            kind = kind_of(dtype)
            floats = any(kind_of(self.scope.arrays[g.partition("[")[0]][0]) == "f" for g in given)
            value = self.array_value(shape, kind, 2, tuple(given) if kind == "f" or not floats else ())
            if self.chance(0.06):  # another shape, or one that is repeated
                value = self.part(first, tuple(r.choice((1, n, n + 1)) for n in shape))
            if self.chance(0.35):
                name = fresh("t")
                self.scope.arrays[name] = ("float64" if kind == "f" else "int64", shape)
                lines.append(f"{name} = {value} + np.zeros({shape}{'' if kind == 'f' else ', dtype=np.int64'})")
                if value.startswith("(") and self.chance(0.8):
                    lines[-1] = f"{name} = {value} * {r.choice(given)}"
                given.append(name)
            else:
                lines.append(f"{target} {r.choices(('=', '+=', '-=', '*='), (6, 2, 1, 1))[0]} {value}")
            if self.chance(0.08) and self.scope.numbers:
                name = r.choice(list(self.scope.numbers))
                lines.append(f"{name} = {self.number(self.scope.numbers[name], 1)}")
        return lines

    def column_loop(self, fresh: Callable[[str], str]) -> list[str]:
        """A loop over columns of arrays, which may need the ones before, from the end or beyond it."""
        r = self.rng
        wide = [n for n, (d, own) in self.scope.arrays.items() if len(own) == 2 and kind_of(d) == "f"]
        if not wide:
            return self.slice_statement()
        rows, columns = self.scope.arrays[r.choice(wide)][1]
        wide = [n for n in wide if self.scope.arrays[n][1][0] == rows]
        long = [n for n, (d, own) in self.scope.arrays.items() if own == (rows,) and kind_of(d) == "f"]
        part = self.slice_of(rows, r.randint(min(rows, 1), rows)) if self.chance(0.4) else ":"
        counter = fresh("k")

        def column() -> str:
            at = r.choices((counter, f"{counter} - 1", f"{counter} + 1", "-1", f"{counter} + 2"), (5, 3, 3, 1, 0.3))[0]
            return f"{r.choice(wide)}[{part if self.chance(0.95) else ':'}, {at}]"

        given: list[str] = []

        def value(depth: int) -> str:
            if depth and self.chance(0.75):
                return f"({value(depth - 1)} {r.choice('+-*')} {value(depth - 1)})"
            others = [*given, *(f"{n}[{part}]" for n in long), r.choice(("0.5", "2.0", counter))]
            return column() if self.chance(0.7) else r.choice(others)

        lines = []
        for _ in range(r.randint(1, 4)):
            if self.chance(0.3):
                name = fresh("t")
                lines.append(f"    {name} = {column()} * {value(1)}")
                given.append(name)
            else:
                target = f"{r.choice(long)}[{part}]" if long and self.chance(0.2) else column()
                lines.append(f"    {target} {r.choices(('=', '+=', '*='), (6, 2, 1))[0]} {value(2)}")
        ends = (f"1, {columns}", f"{columns}", f"1, {columns} - 1", f"{columns} - 2, -1, -1", f"0, {columns}, 2")
        return [f"for {counter} in range({r.choice(ends)}):", *lines]

    def view_statement(self, fresh: str) -> list[str]:
        """A name for a part of an array, which shares its memory."""
        r = self.rng
        name = r.choice(list(self.scope.arrays))
        dtype, own = self.scope.arrays[name]
        rank = r.randint(1, len(own))
        shape = tuple(r.randint(min(n, 1), n) for n in own[len(own) - rank :])
        line = f"{fresh} = {self.part(name, shape)}"
        self.scope.arrays[fresh] = (dtype, shape)
        return [line]
