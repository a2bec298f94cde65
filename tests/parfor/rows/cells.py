"""Cells of dicts and lists, copies, partial functions, reductions by calls, attributes, with known answers.

In: nothing. Out: rows as in row.py.
"""

# ruff: noqa: E501

from __future__ import annotations

from tests.parfor.rows.row import lines

THINGS = r"""
import copy, functools, collections, math, operator, itertools
import numpy as np
def use(*x): pass
from dataclasses import dataclass, field
n = 10; m = 5; b = 3
A = np.zeros(200); B = np.arange(200.0); C = np.zeros(200); X = np.arange(400.0).reshape(20, 20) + 1; M = np.zeros((20, 20))
I = np.arange(200)
D = {}; E = {k: k for k in range(40)}; DL = {k: [] for k in range(40)}; DA = {k: np.zeros(3) for k in range(20)}
LL = [[] for _ in range(20)]; same = [[]] * 20; L = [0] * 40; words = [f"w{k}" for k in range(20)]; grid = [[0] * 20 for _ in range(20)]
dd = collections.defaultdict(list)
mx = -1.0; mn = 1e9; k0 = 0; s = 0.0; c = 0
acc = np.zeros(20); best = np.full(20, -1.0)
class Obj:
    def __init__(self): self.a = np.zeros(50); self.b = np.arange(50.0); self.total = 0.0; self.weight = 2.0; self.items = []; self.count = 0
obj = Obj(); objs = [Obj() for _ in range(20)]
def f(x): return x * 2 + 1
def g(a, i, v): a[i] = v
def h(a, x): return a + x
pf = functools.partial(h, 3.0); pg = functools.partial(g, A); pk = functools.partial(h, x=2)
perm = np.array([3, 1, 4, 0, 5, 9, 2, 6, 8, 7]); dup = np.array([0, 1, 1, 2, 3, 4, 5, 6, 7, 8])
nested = {k: {"x": np.zeros(4), "l": []} for k in range(20)}
@dataclass
class P:
    x: float = 0.0
    y: float = 0.0
    tags: list = field(default_factory=list)
ps = [P(k, k) for k in range(20)]; one = P(); out = [None] * 20
"""

INDEPENDENT = r"""
D.setdefault(i, []).append(B[i])
D.setdefault(i, B[i])
A[i] = D.setdefault(i, i)
E.setdefault(i, 3)
D.update({i: B[i]})
D.update({2 * i: 1, 2 * i + 1: 2})
D.update({f"a{i}": B[i], f"b{i}": 1})
D |= {i: 1}
LL[i] += [1]
LL[i].extend([1, 2])
LL[i].append(B[i])
LL[i] += LL[i + 10]
D[i] = D.get(i, 0) + B[i]
E[i] = E.get(i, 0) + B[i]
D[i] = D.get(i, 0) * 2 + 1
D[i] = D.get(i, []) + [i]
DL[i].append(i)
DL[i] += [i]
DA[i][0] = B[i]
DA[i][:] = B[i:i + 3]
DA[i] += 1
nested[i]["x"][0] = B[i]
nested[i]["l"].append(B[i])
nested[i]["new"] = B[i]
dd[i].append(B[i])
x = copy.copy(LL[i])\nx.append(1)\nD[i] = x
x = copy.deepcopy(objs[0])\nx.a[0] = B[i]\nA[i] = x.a.sum()
x = copy.copy(objs[0])\nx.total = B[i]\nA[i] = x.total
x = copy.deepcopy(X)\nx[0] = i\nA[i] = x.sum()
x = copy.copy(X)\nx[0] = i\nA[i] = x.sum()
x = copy.copy(E)\nx[0] = i\nA[i] = x[0]
x = copy.deepcopy(DL)\nx[0].append(i)\nA[i] = len(x[0])
out[i] = copy.deepcopy(ps[i])
q = functools.partial(f, B[i])\nA[i] = q()
q = functools.partial(h, 2.0)\nA[i] = q(B[i])
q = functools.partial(g, A)\nq(i, 3)
q = functools.partial(g, A, i)\nq(B[i])
A[i] = pf(B[i])
A[i] = pk(B[i])
pg(i, B[i])
A[i] = sum(map(functools.partial(h, 2), X[i]))
q = functools.partial(h, x=B[i])\nA[i] = q(1)
q = functools.partial(np.sum, axis=0)\nM[i] = q(X) + i
D[i] = functools.reduce(lambda a, x: a + x, X[i])
D[i] = functools.reduce(operator.add, LL[i], 0)
mx = max(mx, A[i], 3) ## use(mx)
mn = min(mn, A[i], 3) ## use(mn)
mx = max(mx, A[i], B[i]) ## use(mx)
c = max(c, I[i], 3) ## use(c)
c = max(I[i], c, 3) ## use(c)
np.maximum(best, X[i], out=best)
np.add(acc, X[i], out=acc)
np.add(X[i], acc, out=acc)
np.add(acc, X[i], acc)
np.subtract(acc, X[i], out=acc)
np.multiply(acc, X[i], out=acc)
best[:] = np.maximum(best, X[i])
acc[:] = acc + X[i]
acc[...] = np.add(acc, X[i])
acc[:] += X[i]
best[3] = max(best[3], B[i])
best[3] = max(best[3], B[i], A[i + 100])
M[i] = np.maximum(M[i], X[i])
M += X * i
M[:, 0] += X[i]
np.minimum(M[i], X[i], out=M[i])
obj.a[i] = obj.b[i]
obj.total += obj.weight * B[i] ## use(obj)
obj.total += obj.weight * B[i]\nobj.count += 1 ## use(obj)
obj.total += obj.b[i]\nobj.a[i] = obj.weight
obj.total = max(obj.total, B[i])
obj.a += X[i, 0]
obj.a[:20] += X[i]
objs[i].total = objs[i].weight * 2
objs[i].items.append(obj.weight)
objs[i].a[0] = objs[i].b[1]
objs[i].total += objs[i].weight
obj.a[i] += obj.weight\nobj.total += obj.b[i]
ps[i].x = ps[i].y + 1
ps[i].x, ps[i].y = ps[i].y, ps[i].x
ps[i].tags.append(i)
one.x += i
out[i] = P(B[i], 2.0)
p = P(B[i], 2.0)\np.x += 1\nA[i] = p.x + p.y
p = P()\np.tags.append(i)\nA[i] = len(p.tags)
"""

DEPENDENT = r"""
D.setdefault(i // 2, []).append(B[i])
D.setdefault(0, []).append(B[i])
D.setdefault(i, LL[0]).append(B[i])
D.setdefault(i, LL[i // 2]).append(B[i])
D.setdefault(i // 2, B[i])
A[i] = D.setdefault(0, i)
D.setdefault(i, len(D))
D.setdefault(i, D.get(i - 1, 0))
D.update({0: B[i]})
D.update({i // 2: B[i]})
D.update({i: 1, i + 1: 2})
D.update(k=i)
D.update(E)
D.update({i: 1}, k=2)
D.update(**{str(i): 1})
D.update({i: D.get(i - 1)})
D |= {0: i}
LL[i // 2] += [1]
same[i] += [1]
same[i].append(1)
LL[i] += LL[i - 1]
LL[i].extend(LL[i + 1])
D[i] = D.get(i - 1, 0) + B[i]
DA[i // 2][0] = B[i]
nested[i]["l"].append(nested[i - 1]["l"])
dd[i // 2].append(B[i])
A[i] = E.pop(0)
del L[i]
x = copy.copy(objs[0])\nx.a[0] = B[i]
x = copy.copy(DL)\nx[0].append(i)
A[i] = copy.copy(A)[i - 1]
A[i] = copy.deepcopy(A)[i - 1]
A[i] = copy.deepcopy(A).sum()
out[i] = copy.deepcopy(out)
q = functools.partial(g, A)\nq(0, 3)
q = functools.partial(g, A, 0)\nq(B[i])
pg(0, B[i])
q = functools.partial(g, v=B[i])\nq(A, 0)
mx = max(mx, A[i], B[i])\nC[i] = mx ## use(mx)
mx = max(mx, A[i], mx * 2) ## use(mx)
mx = max(A[i], B[i], mx, key=abs) ## use(mx)
np.subtract(X[i], acc, out=acc)
np.divide(acc, X[i], out=acc)
np.add(acc, acc, out=acc)
np.add(acc, X[i], out=acc)\nA[i] = acc[0]
np.add(acc[1:], X[i, 1:], out=acc[:-1])
np.add(acc[1:], X[i, 1:], out=acc[1:])
np.add(acc, X[i], out=acc, where=acc > 0)
np.add(best, X[i], out=acc)\nbest[0] = 1
acc[:] = X[i] - acc
acc[2:5] = acc[2:5] + X[i, 2:5]
acc[2:5] = acc[3:6] + X[i, 2:5]
acc[2] = acc[2] + X[i, 2]
np.logical_or(acc, X[i], out=A[:20])
B[:20] = np.maximum(A[:20], X[i])
obj.a[i] = obj.a[i + 1]
obj.total += obj.weight\nobj.weight = i
obj.total += B[i]\nA[i] = obj.total
obj.total = obj.total + B[i]
obj.total = obj.weight * B[i]
objs[i].items.append(objs[i - 1].total)\nobjs[i].total = 2.0
obj.items.append(i)
ps[i].x = ps[i - 1].x
one.x = i
"""

CELL_ROWS = [*lines(INDEPENDENT, True, THINGS), *lines(DEPENDENT, False, THINGS)]
