"""Loops as users of NumPy and Python write them, with known answers.

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
vec = np.vectorize(f); vecg = np.vectorize(lambda x: g(A, 0, x)); T = np.zeros((4, 5, 6)); seen = set(); keys = list("abcdefghijklmnopqrst")
names = dict.fromkeys(keys, 0); rows = [list(range(5)) for _ in range(20)]; text = "hello world foo bar baz"; pairs = [(k, k + 1) for k in range(20)]; stack = []
recs = np.zeros(20, dtype=[("x", float), ("y", int)]); flags = np.zeros(200, dtype=bool); Z = np.zeros(50, dtype=complex); O = np.empty(20, dtype=object)
G = np.zeros((20, 20)); dct_arr = {"a": np.zeros(50), "b": np.arange(50.0)}; starts = np.array([0, 3, 7, 8, 12, 15, 20, 22, 30, 31, 40])
labels = np.array([0, 1, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9]); edges = [(0, 1), (2, 3), (4, 5), (6, 7)]; edges2 = [(0, 1), (1, 2)]
SIZE = 4; lock = None; idx2 = np.arange(20).reshape(10, 2); lst2 = [3, 1, 4, 0, 5]; rl = reversed
def clip(x, lo=0, hi=1): return max(lo, min(hi, x))
def rowsum(r):
    t = 0.0
    for v in r: t += v
    return t
def kern(a, i):
    w = a[max(0, i - 1): i + 2]
    return w.mean()
class Model:
    def __init__(self, w): self.w = w; self.fitted = False
    def fit(self, x): self.w = x * 2; self.fitted = True; return self
    def predict(self, x): return self.w * x
"""

INDEPENDENT = r"""
A[i] = np.apply_along_axis(f, 0, X[i]).sum()
M[i] = np.apply_along_axis(lambda v: v.sum(), 0, X) + i
M[i] = np.apply_along_axis(np.sort, 0, X[i])
M[i] = list(map(f, X[i]))
A[i] = sum(map(lambda x: x * i, X[i]))
A[i] = len(list(filter(lambda x: x > i, X[i])))
D[i] = sorted(rows[i], key=lambda x: -x)
D[i] = sorted(LL[i], key=len)
rows[i].sort(key=lambda x: -x)
flags[i] = any(x > 3 for x in X[i])
flags[i] = all(x > 3 for x in X[i] if x)
A[i] = next((x for x in X[i] if x > 3), 0)
A[i] = max(X[i], key=lambda v: -v)
A[i] = min((abs(v - 3), v) for v in X[i])[1]
M[i] = vec(X[i])
M[i] = np.vectorize(f)(X[i])
M[i] = np.vectorize(lambda v: v * i)(X[i])
M[i] = np.fromiter((v * 2 for v in X[i]), float)
M[i] = np.array([f(v) for v in X[i]])
M[i] = np.frompyfunc(f, 1, 1)(X[i])
A[i] = max(range(5), key=lambda k: X[i, k])
A[i] = max(range(5), key=X[i].__getitem__)
D[i] = list(zip(X[i], rows[i]))
D[i] = {k: v for k, v in zip(keys, X[i])}
D[i] = {v for v in rows[i]}
D[keys[i]] = [x ** 2 for x in rows[i] if x % 2]
{i, x in enumerate(B[:10])} A[i] = x
{i, (x, y) in enumerate(zip(B[:10], C))} A[i] = x + y
{x, k in zip(B, perm)} A[k] = x
{i, row in enumerate(X[:10])} M[i] = row * 2
{row, out_row in zip(X, M)} out_row[:] = row * 2
{k, v in E.items()} A[k] = v
{k, v in list(E.items())} E[k] = v + 1
{k in E} A[k] = E[k]
{k in sorted(E)} A[k] = E[k]
{a, b in edges} A[a] = B[b]
{a, b in edges} A[a] = A[b]
{p in ps} p.x = p.y + 1
{p in objs} p.a[:] = p.b
{p in objs} p.total = p.a.sum()
{w in text.split()} D[w] = len(w)
{i in range(0, 100, 10)} A[i:i + 10] = B[i:i + 10]
{i in range(10, 0, -1)} A[i] = B[i - 1]
{(r, c) in [(0, 1), (1, 0), (1, 1)]} M[r, c] = 1
{(r, c) in itertools.product(range(3), range(4))} M[r, c] = X[r, c]
{k in np.arange(10)} A[k] = 1
{k in np.flatnonzero(B > 190)} A[k] = 1
{k in perm} A[k] = B[k]
M[i, ...] = X[i, ...]
T[..., i] = 1
{5} T[:, i] = T[:, i] + 1
{5} T[:, i, ::2] = T[:, i, 1::2]
M[i][3] = 2
M[i][3:5] = X[i][3:5]
M[i:i + 1] = X[i]
M[i:i + 1, :] = X[i:i + 1, ::-1]
M[:, i:i + 1] = X[:, [i]]
M[[i]] = X[i]
M[i, None] = X[i]
M[i].flat[3] = 2
M.flat[i * 20] = 2
M.flat[i] = 2
np.put(A, i, 2)
np.put(M[i], [1, 2], B[i])
np.place(M[i], M[i] > 1, 0)
np.putmask(M[i], X[i] > 3, X[i])
np.copyto(A[3 * i:3 * i + 3], B[i])
np.fill_diagonal(T[i % 4], 1) if False else None
A[perm[i]] = B[i]
M[perm[i]] = X[i]
M[:, perm[i]] = X[i]
A[perm[i]] = A[perm[i]] + 1
q, r = divmod(i, 5)\nM[q, r] = i
M[i // 5, i % 5] = B[i]
r, q = i // 5, i % 5\nM[r, q] = X[q, r]
A[i * b:(i + 1) * b] = B[i * b:(i + 1) * b]
lo, hi = i * b, (i + 1) * b\nA[lo:hi] = B[lo:hi].cumsum()
lo = i * b\nhi = min(lo + b, 29)\nA[lo:hi] = 1
A[starts[i]:starts[i + 1]] = B[starts[i]:starts[i + 1]].sum()
s0, s1 = starts[i], starts[i + 1]\nA[s0:s1] = np.sort(B[s0:s1])
for j in range(i): M[i, j] = X[i, j]
for j in range(i): M[j, i] = X[i, j]
for j in range(i + 1):\n    M[i, j] = M[i, j] + 1
for j in range(i):\n    M[i, j] = M[j, i]
for j in range(i, n):\n    M[i, j] = X[i, j]\n    G[j, i] = X[i, j]
for j in range(i + 1, n):\n    M[i, j] = X[i] @ X[j]\n    M[j, i] = M[i, j]
k = i * (i + 1) // 2\nfor j in range(i + 1):\n    A[k + j] = X[i, j]
D[f"{i}"] = B[i]
D[f"{i:03d}"] = B[i]
D[str(i)] = B[i]
D["x%d" % i] = B[i]
D["{}-{}".format(i, 3)] = B[i]
D[i, i + 1] = B[i]
D[(i, "a")] = B[i]
D["k", i] = B[i]
D[keys[i]] = B[i]
D[keys[i].upper()] = B[i]
D[keys[i] + "_x"] = B[i]
names[keys[i]] = B[i]
dct_arr["a"][i] = dct_arr["b"][i]
out[i] = Model(B[i]).fit(X[i])
mdl = Model(B[i])\nmdl.fit(X[i])\nA[i] = mdl.predict(X[i + 1]).sum()
out[i] = Model(X[i]).predict(2.0)
if (v := B[i]) > 3:\n    A[i] = v
A[i] = (t := B[i]) + t
while (q := A[i]) < 5:\n    A[i] += 1
try:\n    A[i] = 1 / B[i]\nexcept ZeroDivisionError:\n    A[i] = 0
try:\n    A[i] = B[i]\nexcept (ValueError, IndexError) as e:\n    A[i] = -1\nfinally:\n    C[i] = 1
try:\n    v = E[i]\nexcept KeyError:\n    v = 0\nA[i] = v
with np.errstate(all="ignore"):\n    A[i] = np.log(B[i])
with np.errstate(divide="ignore") as es:\n    A[i] = 1 / B[i]
match i % 3:\n    case 0: A[i] = 1\n    case 1: A[i] = 2\n    case _: A[i] = 3
match pairs[i]:\n    case (a, b): A[i] = a + b
x = B[i]\nwhile x > 1:\n    x = x / 2\nA[i] = x
it = 0\nx = B[i]\nwhile x > 1 and it < 100:\n    x /= 2\n    it += 1\nI[i] = it
lo, hi = 0, 100\nwhile lo < hi:\n    mid = (lo + hi) // 2\n    if B[mid] < i: lo = mid + 1\n    else: hi = mid\nI[i] = lo
A[i] = sum([X[i, j] * X[j, i] for j in range(5)])
A[i] = sum(X[i, j] for j in range(5) if j != i)
M[i] = [X[i, j] + j for j in range(20)]
D[i] = {j: X[i, j] for j in range(5)}
D[i] = [[X[i, j] for j in range(3)] for k in range(2)]
D[i] = tuple(x for x in X[i] if x > 2)
def inner(v): return v * i\nA[i] = inner(B[i])
def inner(v):\n    if v < 2: return 1\n    return v * inner(v - 1)\nA[i] = inner(5)
inner = lambda v: v + i\nA[i] = inner(2)
A[i] = clip(B[i])
A[i] = clip(B[i], hi=5)
A[i] = rowsum(X[i])
A[i] = kern(B, i)
recs["x"][i] = B[i]
recs[i]["y"] = i
recs["x"][i] = recs["y"][i]
recs[i] = (B[i], i)
Z[i] = complex(B[i], i)
Z.real[i] = B[i]
O[i] = [i]
O[i] = X[i]
O[i] = {"a": i}
A[i], C[i] = B[i], i
A[i] = C[i] = B[i]
M[i], G[i] = X[i], X[i + 1]
A[2 * i], A[2 * i + 1] = A[2 * i + 1], A[2 * i]
A[i] = B[i] if i > 3 else C[i]
if i == 0: A[0] = 1\nelif i < 5: A[i] = 2\nelse: A[i] = 3
if i % 2 == 0:\n    A[i] = A[i + 1]
if i < 5:\n    A[i] = A[i + 5]
if i > 0 and i < 9:\n    A[i] = B[i - 1] + B[i + 1]
A[~i] = 1
A[-i - 1] = 1
A[-i] = A[i]
A[-1 - i] = A[i]
A[len(A) - 1 - i] = B[i]
A[i] = B[-i]
A[i ^ 1] = B[i]
A[i << 1] = 1
A[i << 1 | 1] = A[i << 1]
A[i * i] = 1
A[int(i)] = 1
A[int(i / 1)] = 1
A[2 ** i % 101] = 1
A[abs(i)] = 1
A[(i + 3) % 10] = 1
A[(i * 3) % 10] = i
j = (i + 1) % n\nA[j] = B[i]
M[i, i] = 1
M[i, n - 1 - i] = M[i, i]
M[0, i] = M[1, i]
M[i, 0], M[0, i] = 1, 1
M[i, 0] = M[0, i]
M[i, 1:] = M[i, :-1]
M[1:, i] = np.diff(M[:, i])
M[i] = M[i][::-1]
M[i] = M[i, perm[:5].sum()]
M[i][X[i] > 3] = 0
M[i, X[i] > 3] = 0
M[i, [1, 2, 3]] = 1
M[idx2[i]] = 1
M[idx2[i, 0], idx2[i, 1]] = 1
A[idx2[i]] = B[idx2[i]]
C[i] = A[labels.size:].sum()
acc = np.zeros(3)\nacc[i % 3] = 1\nA[i] = acc.sum()
buf = []\nfor v in X[i]:\n    buf.append(v * 2)\nM[i] = buf
buf = {}\nfor v in rows[i]:\n    buf[v] = buf.get(v, 0) + 1\nD[i] = buf
cnt = collections.Counter(rows[i])\nD[i] = cnt.most_common(1)
dq = collections.deque(maxlen=3)\nfor v in X[i]: dq.append(v)\nA[i] = sum(dq)
st = [i]\nwhile st:\n    v = st.pop()\n    if v > 0: st.append(v - 1)\n    A[i] += v
vis = set()\nfor v in rows[i]:\n    if v not in vis:\n        vis.add(v)\nA[i] = len(vis)
x = X[i].copy()\nx.sort()\nM[i] = x
x = X[i]\nM[i] = x[::-1]
x = M[i]\nx[0] = 1\nx += 2
x, y = M[i], G[i]\nx[:] = y
view = A[i * 10:(i + 1) * 10]\nview *= 2
view = A.reshape(20, 10)[i]\nview[:] = 1
A.reshape(20, 10)[i] = 1
A.reshape(20, -1)[i] = 1
M.T[i] = 1
M.T[i, 3] = M[3, i] + 1
M.T[i, 3] = M[i, 3] + 1
A[i] = np.dot(X[i], X[:, i])
M[i] = X @ X[i]
M[i, :5], M[i, 5:10] = X[i, 5:10], X[i, :5]
np.matmul(X, X[i], out=M[i])
np.dot(X, X[i], out=M[i])
X[i].sum(out=A[i:i+1]) if False else None
np.einsum("ij,j->i", X, X[i], out=M[i])
M[i] = np.where(X[i] > 3, X[i], 0)
M[i] = np.interp(B[:20], B, C)
A[i] = np.linalg.norm(X[i] - X[0])
A[i] = np.random.default_rng(i).normal()
A[i] = math.sqrt(B[i]) + math.floor(B[i])
A[i] = float(str(i))
A[i] = int("3") + len(text) + ord(text[0])
words[i] = words[i].upper()
words[i] = words[i] + "!"
words[i] += "!"
L[i] = L[i] + 1
L[i] += 1
L[i], L[i + 20] = L[i + 20], L[i]
grid[i][3] = grid[i][4]
grid[i] = grid[i][::-1]
grid[i][:] = [0] * 20
grid[i][i] += 1
rows[i].reverse()
rows[i].insert(0, 3)
rows[i][0], rows[i][1] = rows[i][1], rows[i][0]
rows[i].clear()
rows[i] = sorted(rows[i])
rows[i].pop()
a, *rest = rows[i]\nA[i] = a + sum(rest)
(a, b2), c2 = pairs[i], 3\nA[i] = a * b2
A[i] = sum(rows[i]) / len(rows[i])
A[i] += sum(v for r in rows for v in r)
for k, v in enumerate(X[i]): M[i, k] = v
for k, (v, w) in enumerate(zip(X[i], X[i + 1])): M[i, k] = v * w
for v in X[i]: A[i] += v
for r in rows: A[i] += r[0]
for j in range(n):\n    if j == i: continue\n    A[i] += X[i, j]
for j in range(n):\n    if X[i, j] > 10: break\n    A[i] = j
for j in range(n):\n    if X[i, j] > 10: break\nelse:\n    A[i] = 1
j = 0\nfor j in range(3): A[i * 3 + j] = j
assert B[i] >= 0\nA[i] = 1
if B[i] < 0: raise ValueError(i)\nA[i] = 1
if B[i] > 3: continue\nA[i] = 1
A[i] = getattr(ps[i], "x")
setattr(ps[i], "x", 3)
A[i] = operator.add(B[i], 1)
operator.setitem(A, i, 1)
A.__setitem__(i, 2)
A[i] = A.item(i) + 1
A[slice(i, i + 1)] = 1
A[np.s_[2 * i:2 * i + 2]] = 1
M[np.ix_([i], [1, 2])] = 1
s += B[i] * 2
s += B[i]\nA[i] = B[i] ** 2
s -= B[i]
c += int(B[i] > 3)
c += B[i] > 3
if B[i] > 3: c += 1
s = s + B[i]
mx = max(mx, B[i])
if B[i] > mx: mx = B[i]
mx = B[i] if B[i] > mx else mx
flags[i] = B[i] in (1, 2)
flags[i] |= B[i] > 3
A[I[i]] = 1
print(i) if False else None
t0 = 0.0\nfor j in range(20): t0 += X[i, j]\nA[i] = t0
A[i] = (lambda x: x ** 2)(B[i])
fn = f if i % 2 else abs\nA[i] = fn(B[i])
A[i] = {"a": 1, "b": 2}["ab"[i % 2]]
ps[i] = P(1, 2)
out[i] = {"mean": X[i].mean(), "std": X[i].std()}
out[i] = (i, X[i].sum())
out[i] = X[i] > 3
out[i] = None
out[i] = f
del_me = X[i]\ndel del_me\nA[i] = 1
global_like = 3\nA[i] = global_like
import math as mm\nA[i] = mm.sqrt(i)
from math import sqrt\nA[i] = sqrt(i)
A[i]: float = B[i]
x: float = B[i]\nA[i] = x
A[i] = i if not i else -i
A[i] = not B[i]
A[i] = B[i] and 3
A[i] = 0 < B[i] < 3
A[i] = B[i] is None
D[i] = D.get(i)
D[i] = E[i]
D[i] = E.get(i + 1, 0)
A[i] = i in E
if i in E: A[i] = E[i]
if i not in D: D[i] = []\nD[i].append(3)
if i not in E: E[i] = 0\nE[i] += 1
A[i] = len(E)
DL[i] = DL[i] + [1]
T[i % 4, i // 4] = 1
{20} T[i // 5, i % 5] = i
{20} T[np.unravel_index(i, (4, 5))] = i
{20} x, y = np.unravel_index(i, (4, 5))\nT[x, y] = i
{120} T.flat[i] = i
{120} T.reshape(-1)[i] = i
{120} T.ravel()[i] = i
"""

DEPENDENT = r"""
np.apply_along_axis(lambda v: g(A, 0, v[0]), 0, X)
list(map(lambda x: g(A, 0, x), X[i]))
M[i] = vecg(X[i])
A[i] = max(A, key=lambda v: -v)
{x, k in zip(B, dup)} A[k] = x
{a, b in edges2} A[a] = A[b]
{i in range(0, 100, 10)} A[i:i + 11] = B[i:i + 11]
T[..., 0] = i
M.flat[i // 2] = 2
np.put(A, 0, i)
np.put(A, [i, i + 1], B[i])
A[dup[i]] = B[i]
A[perm[i]] = A[i]
q, r = divmod(i, 5)\nM[q, 0] = r
M[i // 5, i % 4] = B[i]
A[starts[i]:starts[i + 1] + 1] = 1
for j in range(i, n):\n    M[0, j] = i
k = i * (i + 1) // 2\nfor j in range(i + 2):\n    A[k + j] = X[i, j]
D[f"{i % 2}"] = B[i]
D[(i // 2, "a")] = B[i]
dct_arr["a"][i] = dct_arr["a"][i + 1]
dct_arr[keys[i % 2]][0] = 1
try:\n    A[i] = B[i]\nfinally:\n    C[0] = i
match i % 3:\n    case 0: A[0] = i
def inner(v):\n    A[0] = v\ninner(i)
A[i] = kern(A, i)
recs["x"][i] = recs["x"][i + 1]
A[i], A[i + 1] = A[i + 1], A[i]
if i % 3 == 0:\n    A[i] = A[i + 3]
A[i >> 1] = i
A[i * i % 10] = 1
A[abs(i - 5)] = 1
A[(i * 5) % 10] = i
seen.add(i)
stack.append(i)
stack.pop()
A[i] = np.random.normal()
L[i], L[i + 1] = L[i + 1], L[i]
rows[i].pop()\nA[i] = len(rows[0])
if B[i] > 3: break\nA[i] = 1
setattr(one, "x", i)
operator.setitem(A, 0, i)
s = B[i] - s
if B[i] > mx:\n    mx = B[i]\n    k0 = i
if i in D: A[i] = 1\nD[i + 1] = 1
"""

FORM_ROWS = [*lines(INDEPENDENT, True, THINGS), *lines(DEPENDENT, False, THINGS)]
