"""Random loops over time. In: a scope. Out: lines whose arrays take each other's places, in turn or sometimes."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.loops.expressions import kind_of
from tests.fuzz.loops.slices import Slices

PLACES = ("{u}, {t} = {t}, {u}", "{u} = {t}", "{u}, {t} = {t}, {u}.copy()", "{t} = {u}", "{u}, {t} = {t}[::-1], {u}")


class Steps(Slices):
    """Makes loops that write one array from another."""

    def steps(self, fresh: Callable[[str], str]) -> list[str]:
        r = self.rng
        fits = [n for n, (d, s) in self.scope.arrays.items() if kind_of(d) in "if" and min(s) > 0 and d != "uint8"]
        if not fits:
            return ["pass"]
        old = r.choice(fits)
        dtype, shape = self.scope.arrays[old]
        u, t, turn = fresh("u"), fresh("t"), fresh("s")
        made = f"{t} = {r.choice((f'np.zeros_like({u})', f'{u}.copy()', f'np.ones({shape}, dtype=np.{dtype})'))}"
        inside = self.chance(0.35)
        before = self.scope.copy()
        self.scope.arrays |= {u: (dtype, shape), t: (dtype, shape)}
        self.scope.counters[turn] = (0, 3)
        lines, indent, counters = [f"for {turn} in range({r.randint(1, 4)}):"], "    ", []
        lines += [indent + made] if inside else []
        for n in shape:
            low = r.randint(0, 1) if n > 1 else 0
            counters.append(fresh("i"))
            self.scope.counters[counters[-1]] = (low, n - 1 - low)
            lines.append(f"{indent}for {counters[-1]} in range({low}, {n - low}):")
            indent += "    "
        at = ", ".join(counters)
        others = [self.at(r.choice((u, u, t))) for _ in range(r.randint(1, 2))]
        kind = kind_of(dtype)
        terms = [*others, self.number(kind, 1)]
        value = f" {r.choice('+-')} ".join(terms) if kind == "f" else f"({' + '.join(terms)}) % 1000"
        lines.append(f"{indent}{t}[{at}] {r.choice(('=', '=', '+='))} {value}")
        places = r.choice(PLACES[:3] if self.chance(0.7) else PLACES).format(u=u, t=t)
        lines += [f"    if {turn} % 2:", f"        {places}"] if self.chance(0.3) else [f"    {places}"]
        self.scope = before
        self.scope.arrays[u] = (dtype, shape)
        first = [f"{u} = {old}{r.choice(('', '', '.copy()', '[:]'))}"]
        return [*first, *([] if inside else [made]), *lines]

    def sums(self, fresh: Callable[[str], str]) -> list[str]:
        """A table of sums, each over a loop of its own."""
        r = self.rng
        fits = [n for n, (d, _) in self.scope.arrays.items() if kind_of(d) in "if" and d != "uint8"]
        if not fits:
            return ["pass"]
        kind = r.choice("if")
        shape = tuple(r.randint(1, 5) for _ in range(2))
        made, total, i, j, k = fresh("t"), fresh("x"), fresh("i"), fresh("i"), fresh("i")
        length = r.randint(0, 4)
        kept = dict(self.scope.counters)
        self.scope.counters |= {i: (0, shape[0] - 1), j: (0, shape[1] - 1), k: (0, max(length - 1, 0))}
        factors = [self.at(r.choice(fits)) for _ in range(r.randint(1, 2))]
        term = f"int({factors[0]}) % 100" if kind == "i" else " * ".join(factors)
        self.scope.counters = kept
        after = r.choice(("", "", " % {}", " // {}", " + {}")).format(r.choice((3, -7, 1, i, "np.int64(5)")))
        self.scope.arrays[made] = ({"i": "int64", "f": "float64"}[kind], shape)
        return [
            f"{made} = np.zeros({shape}, dtype=np.{self.scope.arrays[made][0]})",
            f"for {i} in range({shape[0]}):",
            f"    for {j} in range({shape[1]}):",
            f"        {total} = {r.choice((0, 0.0)) if kind == 'f' else 0}",
            f"        for {k} in range({r.choice((length, length, shape[0]))}):",
            f"            {total} += {term}",
            f"        {made}[{i}, {j}] = {total}{after}",
        ]
