"""What reaches shared objects by other ways than names, and classes with equality of their own, with known answers.

In: nothing. Out: rows as in row.py.
"""

# ruff: noqa: E501

from __future__ import annotations

from tests.parfor.rows.row import lines

THINGS = r"""
import copy, functools, collections
import numpy as np
def use(*x): pass
n = 10; A = np.zeros(200); B = np.arange(200.0) + 1; M = np.zeros((20, 20)); C = np.zeros(200)
LL = [[] for _ in range(20)]; D = {}; E = {k: k for k in range(20)}; DL = {k: [] for k in range(20)}; grid = [[0] * 20 for _ in range(20)]
shared = [B[k : k + 2] for k in range(20)]; apart = [B[2 * k : 2 * k + 2] for k in range(20)]
class Obj:
    def __init__(self, a): self.a = a; self.t = 1.0; self.l = []
os_ = [Obj(v) for v in shared]; oa = [Obj(v) for v in apart]; same = [oa[0]] * 20
LA = [[A]] * 5
dd = collections.defaultdict(list)
folds = np.array_split(np.random.default_rng(0).permutation(40), 10); over = [np.arange(k, k + 3) for k in range(20)]
class W:
    def __hash__(self): return 0
    def __eq__(self, o): return True
class S(str):
    def __eq__(self, o): return True
    def __hash__(self): return 0
class N(int):
    def __eq__(self, o): return True
    def __hash__(self): return 0
strs = [S(k) for k in range(20)]; ints = [N(k) for k in range(20)]; ws = [W() for k in range(20)]; dw = {W(): 0}
class F:
    def __eq__(self, o): return True
    def __hash__(self): return hash(np.errstate)
    def __call__(self, *a, **k): A[0] = a[0] if a else 1; return self
    def __enter__(self): A[0] = 1
    def __exit__(self, *a): pass
ff = F()
class R(F):
    def __hash__(self): return hash(np.random.default_rng)
rr = R()
class Q(F):
    def __hash__(self): return hash(np.clip)
qq = Q()
class Lk(F):
    def __hash__(self): return hash(list)
    def __call__(self, x): A[0] = 1; return list(x)
lk = Lk()
"""

INDEPENDENT = r"""
dd[i].append(i)\ndd[i].append(2)
apart[i] /= 2
apart[i] += 2
oa[i].a /= 2
oa[i].a += 2
oa[i].l += [i]
D.update({i: 1})\nC[i] = D[i]
D.setdefault(i, 1)\nC[i] = i in D
D.update({(i, 0): 1, (i, 1): 2})
DL[i] = [1]\nDL[i].append(1)
if i % 2: DL[i] = []\nDL[i].append(1)
if i not in D: D[i] = []\nD[i].append(1)
C[folds[i]] = B[folds[i]]
test = folds[i]\nC[test] = B[test].mean()
for test in [folds[i]]: C[test] = 1
train = np.concatenate([f for k, f in enumerate(folds) if k != i])\nC[folds[i]] = B[train].mean()
mask = np.ones(40, bool)\nmask[folds[i]] = False\nC[folds[i]] = B[:40][mask].mean()
setattr(oa[i], "t", i)\nC[i] = getattr(oa[i], "t")
{k in np.flatnonzero(C == 0)} C[k] = 1
x = copy.deepcopy([A])\nx[0][0] = i
C[i] = max(range(5), key=M[i].__getitem__)
C[i] = max(E, key=E.get)
"""

DEPENDENT = r"""
LL[i] += [A]\nLL[i][-1][0] = i
LL[i].extend([A])\nLL[i][-1][0] = i
LL[i].append(A)\nLL[i][-1][0] = i
LL[i] = LL[i] + [A]\nLL[i][-1][0] = i
x = []\nx += [A]\nx[0][0] = i
x = []\nx.extend([A])\nx[0][0] = i
x = []\nx.extend(LA[0])\nx[0][0] = i
x = [*LA[0]]\nx[0][0] = i
x = {}\nx.update({1: A})\nx[1][0] = i
x = {}\nx |= {1: A}\nx[1][0] = i
x = {**{1: A}}\nx[1][0] = i
x = dict(a=A)\nx["a"][0] = i
x = []\nx.insert(0, A)\nx[0][0] = i
x = []\nx[0:0] = [A]\nx[0][0] = i
x = [A] * 2\nx[0][0] = i
x = [A] + []\nx[0][0] = i
x = sum([[A]], [])\nx[0][0] = i
x = [[A]][0]\nx[0][0] = i
x = ([A],) + ()\nx[0][0][0] = i
x = sorted([A], key=id)\nx[0][0] = i
x = list(reversed([A]))\nx[0][0] = i
x = [v for v in LA[0]]\nx[0][0] = i
D.update({i: A})\nD[i][0] = i
D.setdefault(i, A)[0] = i
x = D.setdefault(i, A)\nx[0] = i
D.setdefault(i, [A])[0][0] = i
D[i] = A\nD.setdefault(i, 0)[0] = i
D.setdefault(i, []).append(A)\nD[i][0][0] = i
D |= {i: A}\nD[i][0] = i
dd[i].append(A)\ndd[i][0][0] = i
dd[i] = A\ndd[i][0] = i
dd[i].append(i)\nC[i] = len(dd)
dd[i].append(i)\nC[i] = len(dd[i + 1])
shared[i] /= 2
shared[i] += 2\nC[i] = shared[i][0]
os_[i].a /= 2
os_[i].a += 2\nC[i] = os_[i].a[0]
same[i].a /= 2
same[i].l += [i]
oa[i].l += [A]\noa[i].l[0][0] = 1
C[i] = grid == LL\ngrid[i][0] = i
C[i] = grid in [LL]\ngrid[i][0] = i
C[i] = LL.count([1])\nLL[i].append(1)
C[i] = LL.index([])\nLL[i].append(1)
C[i] = str(LL) == ""\nLL[i].append(1)
C[i] = len(f"{LL}")\nLL[i].append(1)
C[i] = sum(map(len, LL))\nLL[i].append(1)
C[i] = max(LL) == []\nLL[i].append(1)
x = np.array(grid)\ngrid[i][0] = i
x = copy.copy(LL)\nC[i] = len(x[1])\nLL[i].append(1)
x = copy.deepcopy(LL)\nC[i] = len(x[1])\nLL[i].append(1)
D.update({i: 1})\nC[i] = len(D)
D.update({i: 1})\nC[i] = sum(D.values())
D.update({i: 1})\nC[i] = D.get(i + 1, 0)
D.setdefault(i, 1)\nC[i] = (i + 1) in D
D.update({(i, 0): 1, (i + 1, 0): 2})
D[i] = 1\nfor k in D: C[i] += 1
E[i] = E[E[i]]
DL[i] = DL[i + 1]\nDL[i].append(1)
DL[i] = DL[0]\nDL[i].append(1)
DL[i] = [1]\nDL[i + 1].append(1)
if i % 2: DL[i] = DL[0]\nDL[i].append(1)
if i not in D: D[i] = []\nD[i].append(1)\nC[i] = len(D)
if 0 not in D: D[i] = []
C[over[i]] = 1
D[strs[i]] = i
D[ints[i]] = i
D[ws[i]] = i
dw[i] = i
A[ints[i]] = A[ints[i] + 1]
with ff(): C[i] = 1
with ff: C[i] = 1
rr(i)
C[i] = rr(i).normal()
qq(i, 2, 3)
lk([1])
for k in lk([1]): C[i] = k
D[float(i)] = D.get(i + 1)
D[i] = D.get(float(i + 1))
D[True] = i
D[i] = D.get(np.float64(i) + 1)
L2 = LL\nL2[i].append(len(LL[i - 1]))
folds[i][0] = 0\nC[folds[i]] = 1
folds[i] = over[i]\nC[folds[i]] = 1
match [A]:\n    case [x]: x[0] = i
match (A, 1):\n    case (x, y): x[0] = i
match {"a": A}:\n    case {"a": x}: x[0] = i
match {"a": A}:\n    case {**r}: r["a"][0] = i
C[np.array([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 6], [6, 7], [7, 8], [8, 9], [9, 10]])[i]] = i
x = next(iter([A]))\nx[0] = i
g2 = (v for v in [A])\nnext(g2)[0] = i
getattr(oa[0], "l").append(i)
setattr(oa[0], "t", i)
setattr(oa[i], "l", A)\noa[i].l[0] = 1
fn = (lambda: A) if i else (lambda: B)\nfn()[0] = i
fs = functools.partial(lambda a: a, A)\nfs()[0] = i
fs = functools.partial(np.add, 1, 2, A)\nfs()
fs = functools.partial(np.add, out=A)\nfs(1, 2)
list(map(functools.partial(np.add, 1, 2), [A]))
fs = np.vectorize(lambda v: A, otypes=[object])\nfs([1])[0][0] = i
fs = np.frompyfunc(lambda v: A, 1, 1)\nfs([1])[0][0] = i
{k in [3, 1, 3]} C[k] = k
{k in np.array([1, 2, 1])} C[k] = C[k + 1]
{k in np.flatnonzero(B > 190)} C[k] = C[k - 1]
{k in "a b a".split()} D[k] = C
x = copy.copy(oa[0])\nx.l.append(i)
x = copy.copy([A])\nx[0][0] = i
x = copy.copy({1: A})\nx[1][0] = i
x = copy.copy(oa[0])\noa[i].t = 1.0\nC[i] = x.t
x = copy.deepcopy(oa[0])\noa[i].l.append(1)
x = copy.copy((A,))\nx[0][0] = i
E[i] = max(E, key=E.get)
C[i] = max(range(5), key=C.__getitem__)
C[i] = max(range(5), key=LL.pop)
"""

ALIAS_ROWS = [*lines(INDEPENDENT, True, THINGS), *lines(DEPENDENT, False, THINGS)]
