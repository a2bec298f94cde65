"""Random functions with loops. In: a seed. Out: a Case that ends, checked by running it.

Loops are over short ranges, arrays and tuples; every `while` counts its turns first, so programs end. Names r… hold
results of sums without a fixed order and of elementary functions: they are compared loosely and used nowhere else.
"""

from __future__ import annotations

from tests.fuzz.loops.case import AliasSpec, ArraySpec, Case, ScalarSpec, Spec
from tests.fuzz.loops.containers import Containers
from tests.fuzz.loops.expressions import DTYPES, INTS, REALS, Scope, kind_of
from tests.fuzz.loops.outcome import Outcome, Runaway, run
from tests.fuzz.loops.steps import Steps

TRIES = 50
RAISING = 0.25  # of the programs that raise are kept
HOPELESS = ("TypeError", "SyntaxError", "NameError", "AttributeError", "UFuncTypeError", "_UFunc")
ROUGH = "<rough>"  # where a return statement gives the r… names
WARNED = "encountered in cast"  # what NaN or a large float is as an integer, the processor says


class Generator(Containers, Steps):
    """Makes one function."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.specs: list[Spec] = []
        self.made = 0
        # Statements. What goes wrong does so in short functions, too, and compiling long ones takes five times as long.
        self.budget = self.rng.randint(4, 18) if self.chance(0.25) else self.rng.randint(2, 9)
        self.in_loop = 0
        self.rough: list[str] = []

    def make(self) -> Case:
        helpers = self.helpers()
        self.parameters()
        names = [f"p{k}" for k in range(len(self.specs))]
        lines = [*helpers, f"def f({', '.join(names)}):"]
        body = [*self.inner_helper(), *self.block(0)]
        while self.budget > 0:
            body += self.block(0)
        if not any(line.lstrip().startswith(("for ", "while ")) for line in body):
            body += self.for_loop(0)
        body += [f"return {self.returned()}"] if self.chance(0.9) else []
        lines += [("    " + line).rstrip() for line in ([f"{r} = 0.0" for r in self.rough] + body)]
        source = "\n".join(lines).replace(ROUGH, "".join(f", {r}" for r in self.rough))
        return Case(source + "\n", tuple(self.specs))

    def parameters(self) -> None:
        r = self.rng
        main = r.choice((*DTYPES, "float64", "float64", "int64"))
        for k in range(r.randint(1, 3)):
            name = f"p{k}"
            arrays = [j for j, s in enumerate(self.specs) if isinstance(s, ArraySpec)]
            if arrays and self.chance(0.15):
                self.alias(name, r.choice(arrays))
                continue
            dtype = main if self.chance(0.5) else r.choice(DTYPES)
            rank = r.choices((1, 2, 3), (5, 4, 1))[0]
            shape = tuple(r.choices((0, 1, 2, 3, 4, 5, 6), (0.3, 1, 2, 4, 4, 4, 2))[0] for _ in range(rank))
            if self.specs and self.chance(0.4) and isinstance(self.specs[0], ArraySpec):
                shape = self.specs[0].shape
            order = r.choices("CF", (7, 2))[0]
            steps = tuple(r.choices((1, 2, -1, -2), (10, 1, 1, 0.5))[0] for _ in shape) if self.chance(0.3) else ()
            side = r.choice(("left", "right"))
            self.specs.append(ArraySpec(r.randrange(1000), shape, dtype, self.chance(0.15), order, steps, side))
            self.scope.arrays[name] = (dtype, shape)
        for _ in range(r.randint(0, 3)):
            self.number_parameter(f"p{len(self.specs)}")

    def alias(self, name: str, of: int) -> None:
        spec = self.specs[of]
        assert isinstance(spec, ArraySpec)
        index = self.rng.choice(("[:]", "[1:]", "[:-1]", "[::-1]", "[::2]", ".T"))
        n = spec.shape[0]
        first = {"[:]": n, "[1:]": max(n - 1, 0), "[:-1]": max(n - 1, 0), "[::-1]": n, "[::2]": (n + 1) // 2}
        shape = spec.shape[::-1] if index == ".T" else (first[index], *spec.shape[1:])
        self.specs.append(AliasSpec(of, index))
        self.scope.arrays[name] = (spec.dtype, shape)

    def number_parameter(self, name: str) -> None:
        r = self.rng
        kind = r.choices("ifb", (5, 4, 1))[0]
        texts = {
            "i": ["0", "1", "2", "3", "5", "-2", "7", "2**62", "np.int64(3)", "np.int32(-4)", "np.uint8(200)"],
            "f": ["0.5", "-2.0", "0.0", "1e10", "float('nan')", "float('inf')", "np.float64(1.5)", "np.float32(0.25)"],
            "b": ["True", "False"],
        }[kind]
        text = r.choice(texts[:7] if self.chance(0.8) else texts)
        later = r.choice(texts) if self.chance(0.3) else text
        self.specs.append(ScalarSpec(text, later))
        self.scope.numbers[name] = kind

    def helpers(self) -> list[str]:
        """Functions beside `f`."""
        if self.chance(0.7):
            return []
        kind, zero = self.rng.choice((("i", "0"), ("f", "0.0")))
        if kind == "i" and self.chance(0.3):
            self.scope.helpers["down"] = ("i", 1)
            return ["def down(n):", "    if n <= 0 or n > 6:", "        return 1", "    return n * down(n - 1)", "", ""]
        outer, self.scope = self.scope, Scope({"x": kind, "y": kind})
        first, second = self.number(kind, 2), self.number(kind, 1)
        test = self.truth(1)
        self.scope = outer
        self.scope.helpers["h"] = (kind, self.rng.randint(1, 2))
        lines = ["def h(x, y=2):", f"    if {test}:", f"        return {first}", f"    s = {zero}"]
        return [*lines, "    for k in range(3):", f"        s += {second}", "    return s", "", ""]

    def inner_helper(self) -> list[str]:
        """A function in `f` that uses its names."""
        if self.chance(0.85) or not self.scope.arrays:
            return []
        outer = self.scope
        self.scope = outer.copy()
        self.scope.numbers["x"] = "i"
        text = self.number("i", 2)
        self.scope = outer
        self.scope.helpers["g"] = ("i", 1)
        return ["def g(x):", f"    return {text}", ""]

    def block(self, depth: int) -> list[str]:
        """Some statements; names that are new in it are mostly forgotten afterwards, as they may have no value."""
        lines: list[str] = []
        for _ in range(self.rng.randint(1, 4)):
            if self.budget <= 0 and lines:
                break
            self.budget -= 1
            lines += self.statement(depth)
        return lines or ["pass"]

    def nested(self, depth: int, loop: bool) -> list[str]:
        """An indented block."""
        before = self.scope.copy()
        self.in_loop += loop
        lines = ["    " + line for line in self.block(depth + 1)]
        self.in_loop -= loop
        if not self.chance(0.08):
            before.numbers = {n: self.scope.numbers[n] for n in before.numbers}
            self.scope = before
        return lines

    def statement(self, depth: int) -> list[str]:
        r = self.rng
        arrays = bool(self.scope.arrays)
        rows: list[tuple[float, object]] = [
            (2.5, self.assign),
            (1.5, self.augment),
            (3.0 if arrays else 0, self.store),
            (2.0 if arrays else 0, self.slice_statement),
            (0.8 if arrays else 0, lambda: self.slice_run(self.fresh)),
            (0.8 if arrays else 0, lambda: self.column_loop(self.fresh)),
            (0.4 if arrays else 0, lambda: self.view_statement(self.fresh("v"))),
            (0.7 if arrays and depth < 2 else 0, lambda: self.steps(self.fresh)),
            (0.5 if arrays and depth < 2 else 0, lambda: self.sums(self.fresh)),
            (0.5, self.allocate),
            (0.3, self.unpack),
            (0.3 if arrays else 0, self.whole_array),
            (0.35, self.rough_statement),
            (0.35 if arrays else 0, self.mask_statement),
            (0.3, self.list_statement),
            (0.3, self.several_types),
            (0.3, self.lists_of_lists),
            (0.2, self.dict_statement),
            (0.15, self.tuples_statement),
            (0.15, self.zero_dimensional),
            (0.35, self.library_statement),
            (0.3 if arrays else 0, self.nested_slices),
            (1.0 if depth else 0.12, self.leave),
            (0.6 if depth else 0.16, self.fail),
            ((3.5 if depth == 0 else 1.8) if depth < 3 else 0, lambda: self.for_loop(depth)),
            (0.6 if depth < 2 else 0, lambda: self.while_loop(depth)),
            (1.2 if depth < 3 else 0, lambda: self.if_statement(depth)),
        ]
        make = r.choices([m for _, m in rows], [w for w, _ in rows])[0]
        return make()  # type: ignore[operator, no-any-return]

    def assign(self) -> list[str]:
        text, kind = self.any_number(3)
        same = [n for n, k in self.scope.numbers.items() if k == kind and not n.startswith("p")]
        name = self.rng.choice(same) if same and self.chance(0.5) else self.fresh("x")
        if self.chance(0.04) and self.scope.numbers:
            name = self.rng.choice(list(self.scope.numbers))  # perhaps of another kind
        self.scope.numbers[name] = kind
        return [f"{name} = {text}"]

    def augment(self) -> list[str]:
        names = [n for n, k in self.scope.numbers.items() if k in "if"]
        if not names:
            return self.assign()
        name = self.rng.choice(names)
        kind = self.scope.numbers[name]
        operator = self.rng.choices(("+=", "-=", "*=", "//=", "%=", "^="), (6, 3, 1, 0.3, 0.5, 0.3))[0]
        if kind == "f" and operator == "^=":
            operator = "+="
        lines = [f"{name} {operator} {self.number(kind, 2)}"]
        return [*lines, f"{name} %= 1000003"] if operator == "*=" and kind == "i" and self.chance(0.7) else lines

    def store(self) -> list[str]:
        name = self.rng.choice(list(self.scope.arrays))
        dtype = self.scope.arrays[name][0]
        kind = kind_of(dtype)
        value = self.number("i" if kind == "f" and self.chance(0.2) else kind, 3)
        if dtype == "uint8" and self.chance(0.85):
            value = f"int({value}) & 255"
        elif dtype == "int32" and self.chance(0.5):
            value = f"int({value}) % 1000"
        elif kind == "i" and self.chance(0.1):
            value = self.real(2)
        operator = self.rng.choices(("=", "+=", "-=", "*="), (5, 3, 1, 1))[0] if kind in "ifc" else "="
        return [f"{self.at(name)} {operator} {value}"]

    def allocate(self) -> list[str]:
        r = self.rng
        name = self.fresh("t")
        dtype = r.choice((*INTS, *REALS, "float64"))
        shape = tuple(r.randint(1, 5) for _ in range(r.randint(1, 2)))
        old = r.choice(list(self.scope.arrays)) if self.scope.arrays else ""
        if old and self.chance(0.4):
            dtype, shape = self.scope.arrays[old]
            text = r.choice((f"{old}.copy()", f"np.zeros_like({old})", f"np.zeros({old}.shape, dtype=np.{dtype})"))
        elif self.chance(0.25):
            counter = self.fresh("k")
            self.scope.counters[counter] = (0, shape[0] - 1)
            text = f"np.array([{self.number(kind_of(dtype), 2)} for {counter} in range({shape[0]})])"
            del self.scope.counters[counter]
            shape, dtype = shape[:1], {"i": "int64", "f": "float64"}[kind_of(dtype)]
        else:
            text = r.choice((f"np.zeros({shape}, dtype=np.{dtype})", f"np.ones({shape}, dtype=np.{dtype})"))
            text = text if len(shape) > 1 else text.replace(f"({shape},", f"({shape[0]},")
        self.scope.arrays[name] = (dtype, shape)
        return [f"{name} = {text}"]

    def unpack(self) -> list[str]:
        names = [n for n in self.scope.numbers if not n.startswith("p")]
        pair = self.rng.sample(names, 2) if len(names) > 1 else [self.fresh("x"), self.fresh("x")]
        if len(names) > 1 and self.scope.numbers[pair[0]] == self.scope.numbers[pair[1]] and self.chance(0.5):
            return [f"{pair[0]}, {pair[1]} = {pair[1]}, {pair[0]}"]
        made = [self.any_number(1) for _ in pair]
        for name, (_, kind) in zip(pair, made, strict=True):
            self.scope.numbers[name] = kind
        return [f"{pair[0]}, {pair[1]} = {made[0][0]}, {made[1][0]}"]

    def whole_array(self) -> list[str]:
        """`A += …`, which writes to the array, or a new name for an expression of arrays."""
        name = self.rng.choice(list(self.scope.arrays))
        dtype, shape = self.scope.arrays[name]
        kind = kind_of(dtype)
        if kind == "b":
            return self.store()
        if kind == "c" or self.chance(0.6):
            return [f"{name} {self.rng.choice(('+=', '*='))} {self.number(kind, 1)}"]
        fresh = self.fresh("t")
        text = f"{name} {self.rng.choice('+-*')} {self.number(kind, 1)}"
        self.scope.arrays[fresh] = (dtype, shape)
        return [f"{fresh} = {text}"]

    def rough_statement(self) -> list[str]:
        """Into an `r…`: sums in any order, products of vectors, elementary functions, powers."""
        r = self.rng
        name = self.fresh("r") if not self.rough or self.chance(0.4) else r.choice(self.rough)
        if name not in self.rough:
            self.rough.append(name)
        arrays = [n for n, (d, _) in self.scope.arrays.items() if kind_of(d) in "if"]
        texts = [
            f"np.{r.choice(('exp', 'sin', 'tanh', 'log1p'))}(min(abs({self.real(1)}), 20.0))",
            f"abs({self.real(1)}) ** 1.5",
        ]
        if arrays:
            a = r.choice(arrays)
            own = self.scope.arrays[a][1]
            row = self.part(a, own[-1:])
            texts += [f"np.sum({row})", f"{row}.sum()", f"np.dot({row}, {self.part(a, own[-1:])})", f"{row} @ {row}"]
            texts += [f"np.sum({a})", f"{a}.mean()"]
        return [f"{name} {r.choice(('=', '+='))} {r.choice(texts)}"]

    def leave(self) -> list[str]:
        """`break`, `continue` or an early `return`, under a condition."""
        ways = [f"return {self.returned()}"] + (["break", "continue"] * 3 if self.in_loop else [])
        return [f"if {self.truth(2)}:", f"    {self.rng.choice(ways)}"]

    def fail(self) -> list[str]:
        name = self.named("i") or self.named("f")
        shown = f"f'got {{{name}}}'" if name else "'no'"
        if name and self.chance(0.3):
            shown = self.rng.choice((f"'%s of it' % {name}", f"f'{{{name}!r}} or {{{name} * 2:.3f}}'", f"str({name})"))
        if self.chance(0.4):
            return [f"assert {self.truth(2)}, {shown}"]
        error = self.rng.choice(("ValueError", "IndexError", "RuntimeError", "ZeroDivisionError"))
        return [f"if {self.truth(2)}:", f"    raise {error}({shown})"]

    def if_statement(self, depth: int) -> list[str]:
        lines = [f"if {self.truth(2)}:", *self.nested(depth, False)]
        if self.chance(0.2):
            lines += [f"elif {self.truth(2)}:", *self.nested(depth, False)]
        return [*lines, "else:", *self.nested(depth, False)] if self.chance(0.4) else lines

    def for_loop(self, depth: int) -> list[str]:
        r = self.rng
        counter = self.fresh("i")
        arrays = [(n, d, s) for n, (d, s) in self.scope.arrays.items()]
        if arrays and self.chance(0.3):
            return self.over_array(depth, counter, *r.choice(arrays))
        if self.chance(0.06):
            head = f"for {counter} in (-1, 0, 2):"
            return self.counting(depth, head, counter, (-1, 2))
        outer = [c for c, (low, high) in self.scope.counters.items() if low >= 0 and high <= 5]
        n = r.choice(r.choice(arrays)[2]) if arrays and self.chance(0.8) else r.randint(0, 5)
        pick = r.random()
        if outer and pick < 0.25:
            c = r.choice(outer)
            most = self.scope.counters[c][1]
            return self.counting(depth, f"for {counter} in range({c}):", counter, (0, max(most - 1, 0)))
        if outer and pick < 0.4:
            c = r.choice(outer)
            low = self.scope.counters[c][0]
            return self.counting(depth, f"for {counter} in range({c} + 1, {n}):", counter, (low + 1, n - 1))
        if pick < 0.55:
            return self.counting(depth, f"for {counter} in range({n} - 1, -1, -1):", counter, (0, n - 1))
        if pick < 0.68:
            return self.counting(depth, f"for {counter} in range(1, {n} - 1):", counter, (1, max(n - 2, 1)))
        if pick < 0.75:
            return self.counting(depth, f"for {counter} in range(0, {n}, 2):", counter, (0, max(n - 1, 0)))
        names = [a for a, _, s in arrays if s[0] == n]
        text = f"len({r.choice(names)})" if names and self.chance(0.5) else str(n)
        if (name := self.named("i")) and self.chance(0.06):
            return self.counting(depth, f"for {counter} in range({name} % 6):", counter, (0, 5))
        return self.counting(depth, f"for {counter} in range({text}):", counter, (0, max(n - 1, 0)))

    def counting(self, depth: int, head: str, counter: str, bounds: tuple[int, int]) -> list[str]:
        self.scope.counters[counter] = bounds
        lines = [head, *self.nested(depth, True)]
        if self.chance(0.7):
            self.scope.counters.pop(counter, None)
        else:
            self.scope.counters[counter] = bounds  # it may be used after the loop, even if that did not run
        return lines

    def over_array(self, depth: int, counter: str, name: str, dtype: str, shape: tuple[int, ...]) -> list[str]:
        element = self.fresh("e")
        pick = self.rng.random()
        if pick < 0.5 or len(shape) > 1:
            head = f"for {element} in {name}:"
        elif pick < 0.75:
            head = f"for {counter}, {element} in enumerate({name}):"
            self.scope.counters[counter] = (0, max(shape[0] - 1, 0))
        else:
            other = self.rng.choice([n for n, (d, s) in self.scope.arrays.items() if len(s) == 1])
            second = self.fresh("e")
            head = f"for {element}, {second} in zip({name}, {other}):"
            self.scope.numbers[second] = kind_of(self.scope.arrays[other][0])
        if len(shape) > 1:
            self.scope.arrays[element] = (dtype, shape[1:])
        else:
            self.scope.numbers[element] = kind_of(dtype)
        lines = [head, *self.nested(depth, True)]
        for scope in (self.scope.counters, self.scope.numbers, self.scope.arrays):
            for n in [n for n in scope if n in (counter, element) or f" {n} " in head.replace(",", " ")]:
                if n.startswith(("e", "i")):
                    scope.pop(n, None)  # type: ignore[attr-defined]
        return lines

    def while_loop(self, depth: int) -> list[str]:
        counter = self.fresh("w")
        most = self.rng.randint(1, 6)
        test = f"{counter} < {most}" + (f" and {self.truth(2)}" if self.chance(0.5) else "")
        self.scope.counters[counter] = (1, most)
        if self.chance(0.15):
            lines = [f"{counter} = 0", "while True:", f"    {counter} += 1"]
            lines += [f"    if {counter} > {most}:", "        break"]
        else:
            lines = [f"{counter} = 0", f"while {test}:", f"    {counter} += 1"]
        return [*lines, *self.nested(depth, True)]

    def returned(self) -> str:
        names = [*self.scope.numbers, *self.scope.counters, *self.scope.arrays]
        if not names or self.chance(0.1):
            return self.any_number(1)[0] + ROUGH
        return ", ".join(self.rng.sample(names, min(len(names), self.rng.randint(1, 4)))) + ROUGH


def usable(case: Case) -> Outcome | None:
    """What plain Python gives; None for what is no case."""
    try:
        function = case.function()
        outcome = run(function, case.arguments(), traced=True)
    except (Runaway, SyntaxError, MemoryError):
        return None
    if any(WARNED in text for text in outcome.told) or outcome.error.startswith(HOPELESS):
        return None
    return outcome


def generate(seed: int) -> Case:
    """The case of a seed: the first usable one of its attempts."""
    for attempt in range(TRIES):
        maker = Generator(seed * TRIES + attempt)
        case = maker.make()
        outcome = usable(case)
        if outcome is not None and (not outcome.error or maker.chance(RAISING)):
            return case
    raise AssertionError(f"no case in {TRIES} attempts from seed {seed}")
