"""Loops with generators, keys that are tuples, and code that runs where none is called, with known answers.

In: nothing. Out: rows as in row.py.
"""

from __future__ import annotations

from tests.parfor.rows.row import body, no, yes

THINGS = """
import functools
import numpy.random as npr
lst = [1, 2, 3, 4]; held = np.array([[0], [1]], dtype=object); G = np.zeros(40)
bits = npr.PCG64(1); old = npr.RandomState(1); seed = npr.SeedSequence(3)
def gen_of(seed): return npr.default_rng(seed)
class Missing:
    def __getattr__(self, name): A[0] = 1; return 1
class Computed:
    @functools.cached_property
    def kept(self): A[0] = 1; return 1
    @property
    def half(self): A[0] = 1; return 1
    @half.setter
    def half(self, v): A[0] = v
    @property
    def plain(self): return 0.5
class Sets:
    def __setattr__(self, name, v): A[0] = v
class Less:
    def __lt__(self, other): A[0] = 1; return True
class Own:
    def append(self, v): A[0] = v
class Keep:
    def __init__(self): self.v = 0
    def put(self, k, v): self.v = v
class Through(Keep):
    def put(self, k, v): A[k] = v
STEP = 1
def later(k, by=STEP): A[k] = A[k + by]
def within(k, *, by=STEP - 1): A[k] = A[k + by]
STEP = 0
missing = Missing(); comp = Computed(); comps = [Computed() for _ in range(20)]; sets = [Sets() for _ in range(20)]
x1 = Less(); y1 = Less(); less = [Less() for _ in range(20)]; own = [Own() for _ in range(20)]; through = Through()
"""
OWN = "g = npr.default_rng(i)"
STREAMS = "range(n), rng=rng"

GENERATORS = [
    *no(
        body("np.random.default_rng(i).shuffle(A)"),
        body(OWN, "g.shuffle(A)"),
        body(OWN, "g.shuffle(A[i : i + 2])"),
        body(OWN, "f = g.shuffle", "f(x=A)"),
        body("npr.RandomState(i).shuffle(lst)"),
        body(OWN, "g.random(out=A)"),
        body(OWN, "g.random(None, float, A[:5])"),
        body(OWN, "g.standard_normal(out=A[i : i + 2])"),
        body(OWN, "g.standard_gamma(2.0, None, float, A)"),
        body(OWN, "g.permuted(X, out=M)"),
        body(OWN, "g.choice(held)[0] = i"),
        body(OWN, "npr.Generator.shuffle(g, A)"),
        body("for g in [npr.default_rng(i)]: g.shuffle(A)"),
        body("rng.shuffle(A)", over=STREAMS),
        body("rng.random(out=A)", over=STREAMS),
        body("npr.default_rng(rng).shuffle(A)", over=STREAMS),
        body("A[i] = npr.default_rng(rng).normal()"),
        body("A[i] = npr.default_rng(seed=rng).normal()"),
        body("A[i] = gen_of(rng).normal()"),
        body("A[i] = npr.default_rng([rng][0]).normal()"),
        body("A[i] = npr.default_rng(rng if i % 2 else i).normal()"),
        body("g = rng if i % 2 else npr.default_rng(i)", "A[i] = g.normal()"),
        *(body(f"A[i] = npr.{f}(bits).normal()") for f in ("default_rng", "Generator", "RandomState")),
        body("A[i] = npr.Generator(rng.bit_generator).normal()"),
        body("A[i] = rng.bit_generator.random_raw()"),
        body("A[i] = npr.default_rng(None).normal()"),
        body("npr.default_rng(seed).spawn(1)"),
        "for t in range(3):\n    g = npr.default_rng(t)\n    for i in parfor(n):\n        A[i] = g.normal()\n",
        setup=THINGS,
    ),
    *yes(
        body(OWN, "g.random(out=M[i])"),
        body(OWN, "g.shuffle(M[i])"),
        body(OWN, "g.standard_normal(None, float, M[i])"),
        body(OWN, "g.permuted(X[i], out=M[i])"),
        body("npr.RandomState(i).shuffle(A[3 * i : 3 * i + 3])"),
        body("mine = [1, 2, i]", OWN, "g.shuffle(mine)", "A[i] = mine[0]"),
        body("A[i] = npr.default_rng([1, i]).integers(5)"),
        body("A[i] = npr.default_rng((i, 3)).choice(B)"),
        body("A[i] = gen_of(gen_of(i)).normal()"),
        body("A[i] = npr.default_rng(seed).normal()"),
        body("A[i] = npr.default_rng(npr.SeedSequence(i)).normal()"),
        body("A[i] = npr.Generator(npr.PCG64(i)).choice(lst)"),
        body("A[i] = npr.default_rng(i).spawn(2)[0].normal()"),
        body("rng.random(out=M[i])", over=STREAMS),
        body("rng.shuffle(M[i])", over=STREAMS),
        body("A[i] = gen_of(rng).normal()", over=STREAMS),
        setup=THINGS,
    ),
]

KEYS = [
    *no(
        body("d[(i,)] = d.get((i - 1,), 1)"),
        body("d[(i,)] = d[(i - 1,)] if i else 0"),
        body("d[(0,)] = i"),
        body("k = (i // 2,)", "d[k] = i"),
        body("A[(0,)] = i"),
        body("M[np.arange(20), i // 2] = i"),
        body("M[np.arange(20), i] = M[np.arange(20), i + 1]"),
        body("r = np.arange(12)", "r[0] = i", "A[r + i] = 1"),
        body("r = np.arange(3)", "r[0] = 19", "M[r, 0] = i"),
        body("A[np.flatnonzero(np.arange(3))] = i"),
    ),
    *yes(
        body("d[(i,)] = i"),
        body("d[(i,)] = d.get((i,), 1)"),
        body("A[(i,)] = B[(i,)]"),
        body("M[(i,)] = M[(i,)] + 1"),
        body("x = (i,)", "A[x] = 1"),
        body("M[np.arange(20), i] = 1"),
        body("M[np.arange(2, 20, 3), i] = M[np.arange(6), i]"),
        body("M[i, np.arange(20)] += 1"),
    ),
]

OWN_CODE = [
    *no(
        *(body(f"A.{f}[0] = i") for f in ("__array__()", "conj()", "getfield(float)", 'to_device("cpu")')),
        body("np.asarray_chkfinite(A)[0] = i"),
        body("np.astype(A, float, copy=False)[0] = i"),
        body("A.tofile('x')"),
        *(body(f"G[i] = {x}") for x in ("missing.foo", "getattr(missing, 'foo')", "hasattr(missing, 'foo')")),
        *(body(x) for x in ("missing.foo", "q = Missing()\nq.foo")),
        *(body(f"{x}.{name}") for x in ("comp", "comps[i]", "Computed()") for name in ("kept", "half")),
        *(body(f"{x} = i") for x in ("comp.half", "comps[i].half", "sets[0].x", "sets[i].x")),
        *(body(x) for x in ("sorted([x1, y1])", "min([x1, y1])", "max(x1, y1)", "z = [x1, y1]\nz.sort()")),
        *(body(f"G[i] = {x}") for x in ("[x1] < [y1]", "x1 in less", "less[i] < 3")),
        body("own[i].append(i)"),
        body("q = Keep() if i else through", "q.put(0, i)"),
        body("(lambda k: put(A, 0, k)).__call__(i)"),
        body("box.data.fill.__call__(i)"),
        body("later(i)"),  # defaults have the values of the definition
        body("k = 1", "def g(by=k): A[i] = A[i + by]", "k = 0", "g()"),
        body("k = 1", "g = lambda *, by=k: A[i + by]", "k = 0", "A[i] = g()"),
        setup=THINGS,
    ),
    *yes(
        body("A[i] = A.conj()[i]"),
        body("A.__array__()[i] = i"),
        body("A[i] = sorted([i, 3])[0] + max([i, 2.5])"),
        body("G[i] = comp.plain + comps[0].plain"),
        body("q = Keep()", "q.put(0, i)", "A[i] = q.v"),
        body("within(i)"),
        body("g = lambda k, i=i: A[i] + k", "A[i] = g(2)"),
        body("k = 0", "def g(by=k): A[i] = A[i + by]", "k = 1", "g()"),
        setup=THINGS,
    ),
]
