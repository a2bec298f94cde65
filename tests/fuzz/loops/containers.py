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

    def several_types(self) -> list[str]:
        """A list of numbers of several types, changed in many ways, as a heap or in order, with random numbers."""
        r = self.rng
        name, out, at = self.fresh("l"), self.fresh("x"), self.fresh("k")
        self.scope.counters[at] = (0, 7)
        a, b, c = (self.number(r.choice("if"), 1) for _ in range(3))
        del self.scope.counters[at]
        n = r.randint(-3, 4)
        start = r.choice(("[]", f"[{n}]", "[0.0]", f"[0] * {abs(n)}", f"[{n}, 0.5]", f"[{self.number('f', 1)}]"))
        ways: list[list[str]] = [
            [f"{name}.append({a})"],
            [f"{name}.append({b} if {at} % 2 else {a})"],
            [f"{name}.insert({n}, {a})"],
            [f"if {name}:", f"    {name}.pop({r.choice(('', '0', '-1', '1'))})"],
            [f"if len({name}) > {abs(n)}:", f"    {name}[{n}] {r.choice(('=', '+=', '-=', '*='))} {b}"],
            [f"while {name} and {name}[-1] > {c}:", f"    {name}.pop()"],
            [f"{name}.{r.choice(('reverse', 'sort'))}()"],
            [f"{name} += [{a}, {n}]"],
            [f"{name}.extend(({a}, {b}))"],
            [f"if {a} in {name}:", f"    {name}.remove({a})"],
            [f"heapq.heappush({name}, {a})", f"if len({name}) > 2:", f"    heapq.heappop({name})"],
            [f"bisect.insort({name}, {a})"],
            [f"{name}.append(g{out}.{r.choice(('random()', 'randint(-5, 5)', 'uniform(-1, 2)', 'randrange(9)'))})"],
        ]
        lines = [
            f"{name} = {start}",
            f"g{out} = random.Random({r.randint(0, 9)})",
            f"for {at} in range({r.randint(0, 7)}):",
        ]
        lines += [f"    {line}" for way in r.sample(ways, r.randint(1, 3)) for line in way]
        which = r.choice((f"sum({name})", f"{name}[{n}]", f"{name}.count({a})", f"{name}.pop()", f"{name}.index({a})"))
        self.scope.numbers[out] = "f"
        return [*lines, f"{out} = {which} if len({name}) > {abs(n)} else 0.5"]

    def lists_of_lists(self) -> list[str]:
        """Rows that are read, written, lengthened, shared and swapped, and lists that take the place of others."""
        r = self.rng
        name, row, out, at = self.fresh("l"), self.fresh("l"), self.fresh("x"), self.fresh("k")
        kind = r.choice("iif")
        n, m = r.randint(1, 4), r.randint(0, 3)
        zero = {"i": "0", "f": "0.5"}[kind]
        self.scope.counters[at] = (0, 7)
        a, b = self.number(kind, 1), self.number(kind, 1)
        del self.scope.counters[at]
        i, j = f"{at} % {n}", r.choice((f"{at} % {m + 1}", "-1", "0", str(m)))
        some = f"{name}[{i}]"
        start = r.choice((
            f"[[{zero}] * {m} for _{at} in range({n})]", f"[[{zero}] * {m}] * {n}", f"[[] for _{at} in range({n})]",
            f"[[{zero}, {zero}] for _{at} in range({n})]", f"[[{zero}], [{zero}] * {m}] * {n}",
        ))  # fmt: skip
        ways: list[list[str]] = [
            [f"{some}.append({a})"],
            [f"if len({some}) > {m}:", f"    {some}[{j}] {r.choice(('=', '+=', '-=', '*='))} {b}"],
            [f"{row} = {some}", f"{row}.append({b})"],
            [f"{row} = [{a}] * {m}", f"{some} = {row}"],
            [f"{name}[0], {some} = {some}, {name}[0]"],
            [f"{row}, {some} = {some}, {row}"],
            [f"{name}.append({r.choice((row, some, f'{row}[:]', f'list({some})', f'[{a}]'))})"],
            [f"if len({name}) > 1:", f"    {row} = {name}.pop()"],
            [f"for v{at} in {some}:", f"    if len({row}) < 9:", f"        {row}.append(v{at})"],
            [f"{row} = [v{at} for v{at} in {some} if v{at} > {zero}]"],
            [f"if {row}:", f"    {row}.pop()"],
            [f"if {row}:", f"    {some}.extend({row}[:2])"],
        ]  # fmt: skip
        lines = [f"{row} = [{zero}]", f"{name} = {start}", f"for {at} in range({r.randint(0, 7)}):"]
        lines += [f"    {line}" for way in r.sample(ways, r.randint(1, 4)) for line in way]
        lines += [f"{out} = 0.0", f"for r{at} in {name}:", f"    for v{at} in r{at}:"]
        lines += [f"        {out} = {out} * 0.5 + v{at}"]
        which = r.choice((f"len({row})", f"len({name})", f"sum({row})", f"len({name}[{r.randint(-3, 3)}])"))
        self.scope.numbers[out] = "f"
        return [*lines, f"{out} = {out} + {which}"]

    def dict_statement(self) -> list[str]:
        """A dict or a set that is filled, asked and emptied in a loop."""
        r = self.rng
        name, out, at = self.fresh("d"), self.fresh("x"), self.fresh("k")
        kind = r.choice("if")
        self.scope.counters[at] = (0, 11)
        key = r.choice((f"{at} % {r.randint(1, 5)}", f"int({self.number('i', 1)}) % 7", f"{at} * 0.5"))
        key = f"({key}, {at} % 2)" if self.chance(0.25) else key
        value = self.number(kind, 2)
        del self.scope.counters[at]
        zero = {"i": "0", "f": "0.0"}[kind]
        lines = [f"{name} = {{}}", f"for {at} in range({r.randint(0, 12)}):"]
        if self.chance(0.3):  # a set
            lines[0] = f"{name} = set()"
            lines += [f"    {r.choice((f'{name}.add({key})', f'{name}.discard({key})'))}" for _ in range(2)]
            lines += [f"    if {key} not in {name}:", f"        {name}.add({key})"]
            self.scope.numbers[out] = "i"
            return [*lines, f"{out} = len({name})"]
        ways = [
            [f"    {name}[{key}] = {value}"],
            [f"    {name}[{key}] = {name}.get({key}, {zero}) + {value}"],
            [
                f"    if {key} in {name}:",
                f"        {name}[{key}] += 1",
                "    else:",
                f"        {name}[{key}] = {value}",
            ],
        ]
        lines += r.choice(ways)
        if self.chance(0.35):
            lines += [f"    if {key} in {name} and {at} % 3 == 1:", f"        del {name}[{key}]"]
        if self.chance(0.1):
            lines += [f"    {name}.pop({key})"]
        self.scope.numbers[out] = kind
        total = [f"{out} = {zero}", f"for {at}{at} in {name}:", f"    {out} = {out} * 0.5 + {name}[{at}{at}]"]
        self.scope.numbers[out] = "f"
        return [*lines, *total, f"{out} = {out} + len({name})"]

    def tuples_statement(self) -> list[str]:
        """A list of tuples, of which some are taken away again, and a loop over it."""
        r = self.rng
        name, out, at = self.fresh("l"), self.fresh("x"), self.fresh("k")
        self.scope.counters[at] = (0, 7)
        first, second = self.number("i", 1), self.number("f", 1)
        del self.scope.counters[at]
        lines = [f"{name} = [({r.randint(-2, 5)}, 0.5)]", f"for {at} in range({r.randint(0, 8)}):"]
        lines += [f"    {name}.append((int({first}) % 100, float({second})))"]
        if self.chance(0.4):
            lines += [f"    if len({name}) > {r.randint(1, 4)}:", f"        a{at}, b{at} = {name}.pop()"]
        lines += [f"{out} = 0.0", f"for a{at}, b{at} in {name}:", f"    {out} = {out} - a{at} + b{at} * 0.25"]
        if self.chance(0.3):
            lines += [f"{out} = {out} + {name}[{r.randint(-3, 2)}][{r.randint(0, 1)}]"]
        self.scope.numbers[out] = "f"
        return lines

    def library_statement(self) -> list[str]:
        """Python's own functions of numbers, of lists and of generators."""
        r = self.rng
        out, other, name = self.fresh("x"), self.fresh("x"), self.fresh("l")
        a, c = self.number("i", 1), self.number("i", 1)
        real, digits = self.real(1), r.randint(0, 4)
        least = r.choice(("min", "max", "sum", "any", "all"))
        ways: list[tuple[str, list[str]]] = [
            ("f", [f"{out} = round({real}, {digits})"]),
            ("i", [f"{out} = math.{r.choice(('gcd', 'lcm'))}(int({a}) % 1000, int({c}) % 1000)"]),
            ("i", [f"{out} = math.isqrt(int({a}))" if self.chance(0.2) else f"{out} = math.isqrt(int({a}) % 100000)"]),
            ("i", [f"{out} = math.factorial(int({a}) % 9)"]),
            ("b", [f"{out} = math.isclose({real}, {self.real(1)})"]),
            ("i", [f"{name} = [int({a}) % 50, {r.randint(-5, 5)}, {r.randint(-5, 5)}]", f"{out} = {least}({name})"]),
            ("i", [f"{out} = {least}({other} * {r.randint(-3, 3)} + 1 for {other} in range({r.randint(0, 4)}))"]),
        ]
        kind, lines = r.choice(ways)
        self.scope.numbers[out] = "b" if least in ("any", "all") and f"= {least}(" in lines[-1] else kind
        return lines

    def nested_slices(self) -> list[str]:
        """A slice of a slice, written to and read."""
        r = self.rng
        name = r.choice(list(self.scope.arrays))
        dtype, _ = self.scope.arrays[name]
        if kind_of(dtype) not in "if":
            return [f"{name}[1:][:2] = {name}[:-1][:1]"]
        parts = [r.choice(("[1:]", "[:-1]", "[::-1]", "[::2]", "[-3:]")) for _ in range(r.randint(2, 3))]
        way = r.choice(("=", "+="))
        return [f"{name}{''.join(parts)} {way} {self.number('i', 1) if dtype != 'uint8' else r.randint(0, 3)}"]

    def zero_dimensional(self) -> list[str]:
        """An array without axes, as an operand."""
        kind = self.rng.choice("if")
        name, out = self.fresh("z"), self.fresh("x")
        self.scope.numbers[out] = kind
        op = self.rng.choice("+-*")
        return [f"{name} = np.array({self.number(kind, 1)})", f"{out} = {name} {op} {self.number(kind, 1)}"]
