"""Random loops. In: a number. Out: a program, as text for the analysis and as text that brute force runs."""

from __future__ import annotations

import random
from dataclasses import dataclass

SETUP = """
import numpy as np
A = np.zeros(400); B = np.arange(400.0); M = np.zeros((24, 24)); C = np.zeros((20, 3, 4))
P = np.random.default_rng(1).permutation(200); D = np.arange(200) // 2; K = np.arange(200) * 2
L = [0.0] * 300; d = {}; E = {k: 0.0 for k in range(400)}
G = [[0.0] * 30 for _ in range(40)]; H = [G[k // 2] for k in range(40)]; Z = [np.zeros(30) for _ in range(40)]
V = A[1:]; R = A[::-1]; Q = A[::2]; T = M.T; F = M.ravel(); W = A.reshape(-1, 4); S0 = M[2:20:3, 1:]
class Thing:
    def __init__(self):
        self.v = 0.0; self.w = 0.0; self.a = np.zeros(30)
    def put(self, k, x):
        self.a[k] = x
O = [Thing() for _ in range(40)]; U = [O[k // 2] for k in range(40)]; N = {}
Y = [[] for _ in range(40)]; X = [Y[k // 2] for k in range(40)]
import functools
n = 12
s = 0.0; t = 0.0; u = 0.0; big = -1.0
def put(X, k, v):
    X[k] = v
def move(X, k, m):
    X[k] = X[m] + 1.0
def get(X, k):
    return X[k]
def row(X, k):
    return X[k]
"""
RECORDED = """
import numpy as np
A = Recorded(np.zeros(400), log); B = Recorded(np.arange(400.0), log)
M = Recorded(np.zeros((24, 24)), log); C = Recorded(np.zeros((20, 3, 4)), log)
P = Recorded(np.random.default_rng(1).permutation(200), log); D = Recorded(np.arange(200) // 2, log)
K = Recorded(np.arange(200) * 2, log)
L = Cells("L", [0.0] * 300, log); d = Cells("d", {}, log); E = Cells("E", {k: 0.0 for k in range(400)}, log)
G = [Cells(("G", k), [0.0] * 30, log) for k in range(40)]; H = [G[k // 2] for k in range(40)]
Z = [Recorded(np.zeros(30), log) for _ in range(40)]
V = A.like(lambda x: x[1:]); R = A.like(lambda x: x[::-1]); Q = A.like(lambda x: x[::2]); T = M.like(lambda x: x.T)
F = M.like(lambda x: x.reshape(-1)); W = A.like(lambda x: x.reshape(-1, 4)); S0 = M.like(lambda x: x[2:20:3, 1:])
class Thing(Attributes):
    def put(self, k, x):
        self.a[k] = x
O = [Thing(("O", k), dict(v=0.0, w=0.0, a=Recorded(np.zeros(30), log)), log) for k in range(40)]
U = [O[k // 2] for k in range(40)]; N = Cells("N", {}, log)
Y = [Grown(("Y", k), log) for k in range(40)]; X = [Y[k // 2] for k in range(40)]
import functools
n = 12
S = Scalars(log, dict(s=0.0, t=0.0, u=0.0, big=-1.0))
def put(X, k, v):
    X[k] = v
def move(X, k, m):
    X[k] = X[m] + 1.0
def get(X, k):
    return X[k]
def row(X, k):
    return X[k]
"""
LONG = ["A", "B", "V", "R", "Q", "F"]  # at least 200 elements
TABLES = ["P", "D", "K"]


@dataclass(frozen=True)
class Case:
    """A program: `{s}` and its like in the texts are names that carry values."""

    source: str
    recorded: str
    live: frozenset[str]
    affine: bool


class Generator:
    """One program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.affine = self.random.random() < 0.6
        self.depth = 0
        self.loops = ["i"]
        self.assigned: list[str] = []
        self.counts = {"rows": 12}

    def pick(self, *options: str) -> str:
        return self.random.choice(options)

    # -- subscripts -----------------------------------------------------------------------------------------------

    def index(self, small: bool = False) -> str:
        """A subscript between 0 and 150, or between -20 and 20 for small ones."""
        r = self.random
        i = r.choice(self.loops)
        if small:
            forms = [i, i, "i", f"{i} + 1", f"11 - {i}", f"{r.randrange(12)}"]
            if not self.affine:
                forms += [
                    f"{i} // 2",
                    f"{i} % 3",
                    f"({i} * 5) % 12",
                    f"min({i}, 6)",
                    f"D[{i}]",
                    f"P[{i}] % 12",
                    f"{i} ^ 1",
                    f"-{i}",
                ]
            return r.choice(forms)
        a, b = r.choice([1, 1, 1, 2, 3, 4, 5]), r.choice([0, 0, 0, 1, 2, 3, 12, 20, 25])
        forms = [f"{a} * {i} + {b}", f"{a} * i + {b}", f"{i}", f"{i} + {b}", f"n - 1 - {i} + {b}", f"{i} + n", "i"]
        if len(self.loops) > 1:
            forms += [
                f"12 * i + {self.loops[-1]}",
                f"i + {self.loops[-1]}",
                f"5 * i + {self.loops[-1]} + {b}",
                f"i + 12 * {self.loops[-1]}",
            ] * 2
        if not self.affine:
            forms += [
                f"{i} // 2",
                f"{i} % 3",
                f"{i} * {i}",
                f"P[{i}]",
                f"D[{i}]",
                f"K[{i}] + {b}",
                f"P[{i} + 3]",
                f"abs({i} - 4)",
            ]
            forms += [
                f"({i} * 7) % 13",
                f"min({i}, 5)",
                f"max({i}, 3) + {b}",
                f"{i} ^ 1",
                f"{i} & 6",
                f"{i} * (i + 1) // 2",
                f"{i} + i % 2",
            ]
            forms += [
                f"({i} if {i} % 2 else {i} + 30)",
                f"-{i}",
                f"{i} - 3",
                f"int({i} / 2)",
                f"divmod({i}, 3)[0]",
                f"P[D[{i}]]",
            ]
        return r.choice(forms)

    def place(self) -> tuple[str, str]:
        """An element, and whether it is of an array."""
        r = self.random
        kind = r.randrange(12)
        if kind < 6:
            return r.choice(LONG), self.index()
        if kind < 8:
            return r.choice(["M", "T"]), f"{self.index(True)}, {self.index(True)}"
        if kind == 8:
            return "W", f"{self.index(True)}, {r.choice(['0', '1', '2', '3'])}"
        if kind == 9:
            return r.choice(["L", "E", "d"]), self.index()
        if kind == 10:
            return r.choice(["G", "H", "Z"]) + f"[{self.positive()}]", f"{self.positive()}"
        return "C", f"{self.positive()}, {r.randrange(3)}, {r.choice(['0', 'i % 4' if not self.affine else '1'])}"

    def positive(self) -> str:
        i = self.random.choice(self.loops)
        return self.pick(
            i,
            "i",
            f"{i} + 1",
            "11 - i",
            str(self.random.randrange(12)),
            *([] if self.affine else [f"{i} // 2", f"{i} % 4"]),
        )

    def region(self) -> tuple[str, str, str]:
        """A slice: array, subscript, and the text of its length where that is constant."""
        r = self.random
        a, w, b = r.choice([1, 2, 3, 4]), r.choice([1, 2, 3, 4]), r.choice([0, 0, 1, 5, 40])
        kind = r.randrange(6)
        if kind < 2:
            return r.choice(["A", "V", "R", "Q"]), f"{a} * i + {b} : {a} * i + {b + w}", str(w)
        if kind == 2:
            return "A", "i * 4 : min((i + 1) * 4, 45)", ""
        if kind == 3:
            return "M", f"{self.index(True)}", "24"
        if kind == 4:
            return "M", f":, {self.index(True)}", "24"
        return "A", f"i + {b} :: 12" if r.random() < 0.5 else f"i : i + {12 * w} : 12", ""

    # -- values ---------------------------------------------------------------------------------------------------

    def value(self) -> str:
        r = self.random
        kind = r.randrange(10)
        if kind < 4:
            array, at = self.place()
            return f"{array}[{at}] + 1.0" if array[0] != "d" else "1.0"
        if kind == 4 and self.assigned:
            return "{" + r.choice(self.assigned) + "} * 0.5"
        if kind == 5:
            array, at, _ = self.region()
            return f"{array}[{at}].sum()"
        if kind == 6 and r.random() < 0.25:
            return "{" + r.choice(["s", "t", "u"]) + "}"
        if kind == 7:
            return f"get(B, {self.index()})"
        return r.choice(["1.0", "float(i)", f"B[{self.index()}]", f"B[{self.index()}]"])

    # -- statements -----------------------------------------------------------------------------------------------

    def statement(self) -> tuple[list[str], list[str]]:
        r = self.random
        kind = r.randrange(31)
        if kind >= 26:
            return self.objects()
        if kind >= 22:
            return self.detour()
        if kind < 6:
            array, at = self.place()
            if array == "B":
                array = "A"
            text = f"{array}[{at}] = {self.value()}"
            return [text], [text]
        if kind < 8:
            return self.accumulation()
        if kind == 8:
            name = r.choice(["t", "u"])
            text = f"{{{name}}} = {self.value()}"
            self.assigned.append(name)
            return [text], [text]
        if kind < 11:
            array, at, _ = self.region()
            text = f"{array}[{at}] = {r.choice(['1.0', self.value()])}"
            return [text], [text]
        if kind == 11:
            array, at, size = self.region()
            other, where, length = self.region()
            if not size or size != length:
                return self.statement()
            text = f"{array}[{at}] = {other}[{where}] + 1.0"
            return [text], [text]
        if kind == 12:
            array, at, _ = self.region()
            if r.random() < 0.5:
                text = f"{array}[{at}].{r.choice(['fill(2.0)', 'sort()'])}"
                return [text], [text]
            return [f"np.add({array}[{at}], 1.0, out={array}[{at}])"], [f"{array}[{at}].put({array}[{at}] + 1.0)"]
        if kind == 13:
            one, two = self.index(), self.index()
            text = f"A[{one}], A[{two}] = A[{two}], A[{one}]"
            return [text], [text]
        if kind == 14:
            text = r.choice(
                [
                    f"put(A, {self.index()}, 1.0)",
                    f"move(A, {self.index()}, {self.index()})",
                    f"put(L, {self.index()}, 2.0)",
                ]
            )
            return [text], [text]
        if kind == 15:
            texts = [f"r = row(M, {self.index(True)})", f"r[{r.choice(['0', 'i', ':', '2:5'])}] = {self.value()}"]
            return texts, texts
        if kind == 16 and not self.affine:
            text = f"{r.choice(TABLES)}[{self.positive()}] = {r.choice(['3', 'i', 'D[i]'])}"
            return ([text], [text]) if r.random() < 0.2 else self.statement()
        if kind == 17:
            return self.largest()
        if self.depth < 2 and kind >= 18:
            return self.block(kind)
        return self.statement()

    def detour(self) -> tuple[list[str], list[str]]:
        """The same things by way of other values: views, containers, functions, conditions."""
        r = self.random
        at, value = self.index(), self.value()
        texts = r.choice(
            [
                [f"v = A[{r.choice(['1:', '::2', '::-1', '3:90', 'i:', ':150'])}]", f"v[{self.positive()}] = {value}"],
                [
                    f"v = {r.choice(['A', 'V', 'R'])}[{r.choice(['2:', '::3', '5:200:2'])}]",
                    f"A[{at}] = v[{self.positive()}] + 1.0",
                ],
                [f"x = A if {r.choice(['i % 2', 'i < 6', 'B[i] > 3.0'])} else V", f"x[{at}] = {value}"],
                [f"pair = (A, {at})", f"pair[0][pair[1]] = {value}"],
                ["box = [A, B]", f"box[0][{at}] = {value}"],
                ["box = []", "box.append(A)", f"box[0][{at}] = {value}"],
                [f"f = lambda k: k + {r.randrange(3)}", f"A[f({self.positive()})] = {value}"],
                ["def g(k):", f"    A[k] = {value}", f"g({at})"],
                [f"k = {at}", f"k = k + {r.randrange(3)}", f"A[k] = {value}"],
                [f"a, b = {at}, {self.index()}", "A[a] = A[b] + 1.0"],
                [
                    f"for q in [{r.randrange(5)}, {r.randrange(5)}, i]:",
                    f"    A[{self.pick('q', 'q + 3', '5 * i + q')}] = 1.0",
                ],
                ["for p, q in enumerate([3, 1, i]):", f"    A[{self.pick('p', '3 * i + p', 'q', '6 * i + q')}] = 1.0"],
                [
                    f"for p, q in zip(range(3), range({self.pick('0', 'i', '5')}, 12)):",
                    f"    A[{self.pick('p', '3 * i + p', 'q')}] = 1.0",
                ],
                [
                    "k = 0",
                    "while k < 3:",
                    f"    A[{self.pick('i', 'i + k', '3 * i + k', '3 * i')}] = 1.0",
                    "    k = k + 1",
                ],
                [f"A[{self.pick('P[3 * i : 3 * i + 3]', 'P[i : i + 2]', '[i, i + 1]', '[2 * i, 2 * i + 1]')}] = 1.0"],
                [f"M[{self.positive()}, {self.pick('D[:5]', '[1, 3]', '::2', '::-1', 'i:', ':i')}] = 1.0"],
                [f"T[{self.positive()}][{self.positive()}] = M[{self.positive()}][{self.positive()}] + 1.0"],
                [f"d[{self.pick('str(i)', 'str(i // 2)', '(i, 1)', '(i % 3, 1)', repr('k'))}] = 1.0"],
                [f"A[10 - i : 10 - i + {r.randrange(1, 3)}] = 1.0"],
                [f"A[{self.pick('-i - 1', '-2 * i - 1', '-1')}] = {value}"],
                [f"A[{self.pick('100 - i : 90 - i : -1', '100 - 2 * i : 98 - 2 * i : -1', '-i - 2 : -i - 1')}] = 1.0"],
                [f"if {at} < 20 and A[{self.index()}] < 0.5:", f"    A[{at}] = 1.0"],
                [f"A[{at}] = 1.0 if A[{self.index()}] > 0.5 else 2.0"],
                [f"A[{at}] = sum([B[q] for q in range(3)]) + sum([{self.pick('A', 'B')}[q + i] for q in range(2)])"],
            ]
        )
        return texts, texts

    def objects(self) -> tuple[list[str], list[str]]:
        """Attributes, lists that grow, dicts with defaults, runs of positions, bound functions, steps, tuples."""
        r = self.random
        value, at, other = self.value(), self.positive(), self.positive()
        kind = r.randrange(20)
        if kind < 3:
            thing = r.choice([f"O[{at}]", f"O[{at}]", f"U[{at}]", "O[3]"])
            name = r.choice(["v", "w"])
            return [f"{thing}.{name} += {value}"], [f"{thing}.accumulate('{name}', {value})"]
        if kind == 3:
            return [f"N[{at}] = N.get({at}, 0) + 1.5"], [f"N.accumulate({at}, 1.5, '+', 0)"]
        if kind == 4:
            array, where = self.place()
            array = "A" if array in ("B", "d") else array
            return [f"{array}[{where}] *= 2.0"], [f"{array}.accumulate(({where}), 1.0, '*')"]
        if kind == 5:
            array, where, _ = self.region()
            return [f"{array}[{where}] += {value}"], [f"{array}.accumulate(np.s_[{where}], {value})"]
        if kind == 6:
            return [f"np.add.at(A, {at}, 1.0)"], [f"A.accumulate({at}, 1.0)"]
        w = r.randrange(1, 4)
        texts = r.choice(
            [
                [f"O[{at}].v = {value}"],
                [f"U[{at}].w = O[{other}].v"],
                [f"O[{at}].a[{other}] = {value}"],
                [f"U[{at}].a[{other}] = {value}"],
                [f"O[{at}].put({other}, 1.0)"],
                [f"q = O[{at}]", f"q.v = q.w + {r.choice(['q.a[0]', '1.0', 'O[2].v'])}"],
                [f"{r.choice(['X', 'Y', 'Y'])}[{at}].append(1.0)"],
                [f"Y[{at}].append(1.0)", f"A[{self.index()}] = len({r.choice(['X', 'Y'])}[{other}])"],
                [f"A[np.arange({w}) + {r.choice(['3 * i', 'i', '2 * i + 1', '3 * (i // 2)'])}] = 1.0"],
                [f"A[np.arange(3 * i, 3 * i + {w + 1})] = {r.choice(['1.0', 'B[0]'])}"],
                [f"functools.partial(put, A)({self.index()}, {value})"],
                [f"put_a = functools.partial(put, v={value}, X=A)", f"put_a(k={self.index()})"],
                [f"a, b = A[{w}:], A[: -{w}]", f"a[{at}] = b[{other}] + 1.0"],
                ["views = (A[::2], A[1::2], V)", f"views[{r.randrange(3)}][{at}] = views[{r.randrange(3)}][{other}]"],
                [f"A[i : i + {4 * w} : {r.choice(['3', '4'])}] = 1.0"],
                [f"A[{2 * w} * i + 20 : {2 * w} * i + 20 - {w} : -1] = A[i]"],
                [f"A[2 * i : 2 * i + 9 : {w + 1}] = {value}"],
                [f"c = np.clip({at}, 0, {r.choice(['20', '5'])})", f"A[c] = {value}"],
                ["def h(k, X=A):", f"    X[k] = {value}", f"h({self.index()})"],
                ["def h(k):", "    w = V", "    def g(m):", "        w[m] = 1.0", "    g(k)", f"h({self.index()})"],
                ["z = V", f"z[{at}] = A[{other}] + 1.0"],
                [f"M[{at}, i : i + {w}] = M[{other}, {w} : {2 * w}] + 1.0"],
                [f"T[{at}][1:4] = {value}", f"M[1:4, {other}].fill(1.0)"],
            ]
        )
        return texts, texts

    def accumulation(self) -> tuple[list[str], list[str]]:
        r = self.random
        value = self.value()
        if r.random() < 0.4:
            return [f"{{s}} += {value}"], [f"S.accumulate('s', {value})"]
        array, at = self.place()
        if array in ("B", "d"):
            array = "A"
        if r.random() < 0.3:
            text = f"{array}[{at}] = {array}[{at}] + ({value})"
            return [text], [text]
        return [f"{array}[{at}] += {value}"], [f"{array}.accumulate(({at}), {value})"]

    def largest(self) -> tuple[list[str], list[str]]:
        text = self.pick("{big} = max({big}, B[i])", "{big} = max(B[i], {big})", "if B[i] > {big}: {big} = B[i]")
        return [text], ["S.accumulate('big', B[i], True)"]

    def block(self, kind: int) -> tuple[list[str], list[str]]:
        r = self.random
        self.depth += 1
        kept, loops = list(self.assigned), list(self.loops)
        if kind >= 20:
            name = "j" if "j" not in self.loops else "k"
            extent = r.choice(
                ["range(3)", "range(5)", "range(12)", "range(i)", "range(i, 12)", "range(0, 12, 3)", "range(4, 0, -1)"]
            )
            head = f"for {name} in {extent}:"
            if r.random() < 0.15:
                head = f"for {name} in {{parfor}}({extent}):"
            self.loops = [*self.loops, name]
        else:
            tests = [
                "i % 2 == 0",
                "i < 6",
                "i > 0",
                "i != 3",
                "i == 2",
                "B[i] > 100.0",
                "i >= 1 and i < 9",
                "not i % 3",
            ]
            if len(self.loops) > 1:
                tests += [f"i < {self.loops[-1]}", f"i == {self.loops[-1]}", f"{self.loops[-1]} > 1"]
            head = f"if {r.choice(tests)}:"
        body, recorded = self.body(r.choice([1, 1, 2]))
        self.depth -= 1
        self.assigned, self.loops = kept, loops
        return [head, *(f"    {x}" for x in body)], [head, *(f"    {x}" for x in recorded)]

    def body(self, count: int) -> tuple[list[str], list[str]]:
        out: tuple[list[str], list[str]] = ([], [])
        for _ in range(count):
            one, two = self.statement()
            out[0].extend(one)
            out[1].extend(two)
        return out

    def case(self) -> Case:
        r = self.random
        if r.random() < 0.1:
            source = ["if i % 2: continue"]
        else:
            source = []
        body, recorded = self.body(r.choice([1, 1, 2, 2, 3]))
        form = r.choice(
            [
                "0, n",
                "0, n",
                "0, n",
                "12",
                "2, 12",
                "11, -1, -1",
                "0, 12, 2",
                "0, 12, 3",
                "10, 0, -3",
                "0, 1",
                "0, 0",
                "0, 2",
            ]
        )
        live = frozenset(x for x in ("t", "u") if r.random() < 0.15)
        after = "".join(f"\nprint({x})" for x in sorted(live))
        plain = dict(s="s", t="t", u="u", big="big", parfor="parfor")
        scalars = {x: f"S.{x}" for x in plain} | {"parfor": ""}
        text = f"for i in parfor({form}):\n" + "\n".join(f"    {x}" for x in [*source, *body]) + after
        run = f"for i in range({form}):\n    log.iteration = i\n" + "\n".join(f"    {x}" for x in [*source, *recorded])
        return Case(_named(text, plain), _named(run, scalars), live, self.affine)


def _named(text: str, names: dict[str, str]) -> str:
    for name, other in names.items():
        text = text.replace("{" + name + "}", other)
    return text


def generate(seed: int) -> Case:
    """A program by number."""
    return Generator(seed).case()
