"""Instances, their copies and attributes, functions in variables, nested dicts, with known answers.

In: nothing. Out: rows as in row.py.
"""

# ruff: noqa: E501

from __future__ import annotations

from tests.parfor.rows.row import lines

THINGS = r"""
import copy, functools, collections, itertools
import numpy as np
from dataclasses import dataclass, field
def use(*x): pass
n = 10; A = np.zeros(200); B = np.arange(200.0) + 1; C = np.zeros(200); E = {k: k for k in range(20)}; M = np.zeros((20, 20)); D = {}
rng = np.random.default_rng(0)
@dataclass
class P:
    k: int = 0
    a: object = None
out = [None] * 20; ud = collections.UserDict({1: 2}); ps = [P(k) for k in range(20)]; LL = [[] for _ in range(20)]
NT = collections.namedtuple("NT", "x y"); nt = NT(A, B); nts = [NT(k, k) for k in range(20)]
state = {"s": 0.0, "arr": np.zeros(50), "n": 0}; writers = [lambda k: A.__setitem__(0, k)] * 20
class Own:
    def __init__(self): self.v = 0
    def __copy__(self): A[0] = 1; return self
own = Own()
class G:
    def __init__(self): self.a = 1.0; self.b = np.zeros(20); self.c = 2.0
    def step(self, i): self.b[i] = self.a * self.c
    def bad(self, i): self.a = i
    @property
    def half(self): return self.a / 2
g = G(); gs = [G() for _ in range(20)]
"""

INDEPENDENT = r"""
q = P(k=i, a=A[i:i + 1])\nq.a[0] = 1\nC[q.k] = 2
C[i] = nts[i].x
nt.x[i] = nt.y[i]
state["arr"][i] = state["n"]\nstate["s"] += 1
fn = np.sin if i % 2 else np.cos\nC[i] = fn(B[i])
g.step(i)
C[i] = g.half
gs[i].bad(i)\ngs[i].step(3)
y = copy.copy(g)\ny.a = i\nC[i] = y.half
y = copy.deepcopy(g)\ny.b[0] = i\ny.step(1)\nC[i] = y.b[1]
y = P(a=[])\ny.a.append(i)\nC[i] = len(y.a)
out[i] = P(i)\nout[i].k = 3
for l in LL[i:i + 1]: C[i] = len(l)
LL[i][:] = [1]\nLL[i].append(1)
D.setdefault(i, {}).setdefault("a", []).append(1)
D.setdefault(i, {})["x"] = B[i]
if i in D: C[i] = D[i]
C[i] = len(list(filter(lambda l: l > 3, LL[i])))\nLL[i].append(1)
A[:] = A + B * 2
"""

DEPENDENT = r"""
x = copy.copy(rng)\nC[i] = x.normal()
C[i] = copy.copy(own).v
p = None\nfor j in range(3):\n    if p is not None: A[i + 5 + p.k - j] = 1\n    p = P(k=j)
for j in range(3):\n    q = P(a=A[j:j + 1])\n    q.a[0] = i
{k, v in E.items()} E[(k + 1) % 20] = 1\nC[k] = v
{v in np.asarray(A)} A[3] = v
{v in A.ravel()} A[3] = v
{v in itertools.chain(A[:3], A[3:5])} A[3] = v
C[i] = len(ud)\nud.data[i] = 1
ud[i] = 1
nt.x[0] = i
state["arr"][i] = state["s"]\nstate["s"] += 1
state["arr"] = C\nstate["arr"][0] = i
state["n"] = i\nC[state["n"]] = 1
state.update(n=i)\nC[state["n"]] = 1
state["arr"][0] = state["n"]\ndel state["n"]
writers[i](i)
g.bad(i)
g.step(i)\ng.a = 3.0
g.step(0)
C[i] = g.half\ng.a = 2.0
gs[i].bad(gs[i - 1].a)
for x in [g]: x.a = i
y = copy.copy(g)\ny.b[0] = i
y = copy.deepcopy(g)\nC[i] = y.a\ng.a = i
y = P(a=g)\ny.a.a = i
y = P(a=[A])\ny.a[0][0] = i
y = P()\ny.a = A\ny.a[0] = i
out[i] = P(a=A)\nout[i].a[0] = 1
out[i] = P(i)\nC[i] = out[i - 1].k if i else 0
C[i] = ps[0] == ps[1]\nps[i].k = 3
C[i] = ps[0] in ps\nps[i].k = 3
ps[0].k = ps[0].k + i * 2\nC[i] = ps[0].k
z = [LL[i], LL[0]]\nz[1].append(1)
z = {0: LL[0]}\nz[0].append(i)
(LL[0] if i else LL[1]).append(i)
for l in LL[:2]: l.append(i)
for l in LL: l.append(i)
for l in LL[i:i + 2]: l.append(1)
LL[i][:] = LL[0]\nLL[i].append(1)
D.setdefault(i, LL[0])\nLL[0].append(i)
D[i] = LL\nD[i][0].append(1)
D.setdefault(i, {}).setdefault("a", A)[0] = 1
D.setdefault(i // 2, {}).setdefault("a", []).append(1)
D.setdefault("x", {})[i] = B[i]
if i + 1 in D: C[i] = 1\nD[i] = 1
C[i] = max(LL, key=len) == []\nLL[i].append(1)
C[i] = sorted(LL, key=lambda l: len(l))[0] == []\nLL[i].append(1)
C[i] = len(list(filter(lambda l: len(l), LL)))\nLL[i].append(1)
C[i] = any(l for l in LL)\nLL[i].append(1)
np.maximum(A[:5], B[i], out=A[1:6])
np.add(A, B, out=A)\nC[0] = A[0]
A[:] = A + A[0]
A[:] = A * 2 + B
A[:] = A + B\nA[0] = 3
A[:] = np.maximum(A, A[::-1])
"""

INSTANCE_ROWS = [*lines(INDEPENDENT, True, THINGS), *lines(DEPENDENT, False, THINGS)]
