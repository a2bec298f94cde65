"""Random statements with masks, lists and arrays without axes. In: a scope. Out: lines."""

from __future__ import annotations

from tests.fuzz.loops.expressions import kind_of
from tests.fuzz.loops.slices import Slices


class Containers(Slices):
    """Makes statements whose lengths are known only when they run."""

    made: int

    def fresh(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made}"

    def mask_statement(self) -> list[str]:
        """`A[A > x] = y`, `A[mask] += …`, how many there are, one of them."""
        r = self.rng
        name = r.choice(list(self.scope.arrays))
        kind = kind_of(self.scope.arrays[name][0])
        if kind == "c":
            return [f"{name}[{name} == 0] = 1"]
        if kind == "b":
            return [f"{name}[~{name}] = {r.choice(('True', 'False'))}"]
        mask = f"{name} {r.choice(('>', '<=', '!='))} {self.number(kind, 1)}"
        fresh = self.fresh("x")
        ways = [
            [f"{name}[{mask}] = {self.number(kind, 1)}"],
            [f"{name}[{mask}] {r.choice(('+=', '*='))} {self.number(kind, 1)}"],
            [f"{fresh} = len({name}[{mask}])"],
            [f"{fresh} = np.count_nonzero({mask})"],
            [f"m{fresh} = {mask}", f"{name}[m{fresh}] = {name}[m{fresh}][::-1]"],
            [f"m{fresh} = {mask}", f"{name}[m{fresh}] = {name}[m{fresh}] * 2"],
        ]
        lines = r.choice(ways)
        if lines[0].startswith(fresh):
            self.scope.numbers[fresh] = "i"
        return lines

    def list_statement(self) -> list[str]:
        """A list that grows, and what is in it."""
        r = self.rng
        kind = r.choice("if")
        name, out, at = self.fresh("l"), self.fresh("x"), self.fresh("k")
        start = r.choice(("[]", f"[{self.number(kind, 1)}]", f"[{self.number(kind, 1)}] * {r.randint(0, 3)}"))
        lines = [f"{name} = {start}", f"for {at} in range({r.randint(0, 12)}):"]
        lines += [f"    {name}.append({self.number(kind, 2)})"]
        if self.chance(0.3):
            lines += [f"    if len({name}) > {r.randint(1, 5)}:", f"        {name}.pop()"]
        if self.chance(0.3):
            lines += [f"{name} = [{at} * 2 for {at}{at} in {name} if {at}{at} > 0]"]
        which = r.choice((f"len({name})", f"{name}[{r.randint(-3, 3)}]", f"{name}.pop()"))
        lines += [f"{out} = {which}"]
        self.scope.numbers[out] = "i" if which.startswith("len") else kind
        return lines

    def zero_dimensional(self) -> list[str]:
        """An array without axes, as an operand."""
        kind = self.rng.choice("if")
        name, out = self.fresh("z"), self.fresh("x")
        self.scope.numbers[out] = kind
        op = self.rng.choice("+-*")
        return [f"{name} = np.array({self.number(kind, 1)})", f"{out} = {name} {op} {self.number(kind, 1)}"]
