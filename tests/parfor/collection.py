"""Loops with known answers. In: nothing.

Out: rows (setup, source, answers), one answer per parfor: True is independent.
"""

from __future__ import annotations

from typing import NamedTuple

SETUP = """
import math
import random
import numpy as np
n = 12; m = 5; b = 3
A = np.zeros(200); B = np.arange(200.0); C = np.zeros(200)
M = np.zeros((20, 20)); X = np.arange(400.0).reshape(20, 20); Y = np.zeros((4, 5, 6)); I = np.zeros(50, dtype=int)
perm = np.array([3, 1, 4, 0, 5, 9, 2, 6, 8, 7, 11, 10]); dup = np.array([0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10])
offsets = np.array([0, 3, 4, 8, 8, 10, 15, 20, 21, 22, 30, 31, 40])
L = [0.0] * 40; d = {}; e = {k: k for k in range(40)}; grid = [[0] * 20 for _ in range(20)]; same = [[0] * 20] * 20
arrays = [np.zeros(5) for _ in range(20)]; shared_arrays = [A[k : k + 2] for k in range(20)]
words = [f"w{k}" for k in range(20)]
s = 0.0; t = 0.0; best = -1.0; count = 0; flag = False; text = ""
V = A[1:]; R = A[::-1]; even = A[::2]; odd = A[1::2]; T = M.T; F = M.ravel(); W = A.reshape(20, 10)
D = M.diagonal(); A2 = A
rng = np.random.default_rng(0)
class Box: pass
box = Box(); box.total = 0.0; box.data = np.zeros(50); boxes = [Box() for _ in range(20)]
class Counter:
    def __init__(self): self.count = 0; self.cells = np.zeros(50)
    def bump(self): self.count = self.count + 1
    def put(self, k, v): self.cells[k] = v
    def get(self, k): return self.cells[k]
counter = Counter()
total = 0
def pure(x): return x * 2 + 1
def put(a, k, v): a[k] = v
def fill(a): a[:] = 1
def shift(a, k): a[k] = a[k + 1]
def local(a, k):
    out = np.zeros(3)
    out[0] = a[k]
    return out.sum()
def view(a, k): return a[k : k + 1]
def bump():
    global total
    total = total + 1
def read_total(): return total
def fact(k): return 1 if k < 2 else k * fact(k - 1)
def fib(k): return k if k < 2 else fib(k - 1) + fib(k - 2)
def down(k): return A[k] if k < 3 else down(k - 1)
def down_global(k):
    if k == 0: A[0] = 1
    else: down_global(k - 1)
blocks = [slice(4 * k, 4 * k + 4) for k in range(20)]
def default(x, into=[]):
    into.append(x)
    return x
"""


class Row(NamedTuple):
    source: str
    answers: tuple[bool, ...]
    setup: str = ""


def yes(*sources: str, setup: str = "") -> list[Row]:
    return [Row(s, (True,), setup) for s in sources]


def no(*sources: str, setup: str = "") -> list[Row]:
    return [Row(s, (False,), setup) for s in sources]


def body(*lines: str, over: str = "n", after: str = "") -> str:
    return (
        f"for i in parfor({over}):\n" + "\n".join("    " + x for line in lines for x in line.split("\n")) + "\n" + after
    )


ELEMENTS = [
    *yes(
        body("A[i] = B[i]"),
        body("A[i] = A[i] * 2"),
        body("A[2 * i] = A[2 * i + 1]"),
        body("A[i + 1] = B[i]"),
        body("A[n - 1 - i] = B[i]"),
        body("A[-i] = B[i]"),
        body("A[-1 - i] = B[i]"),
        body("A[i] = A[i + n]"),
        body("A[i] = A[i + 100]"),
        body("A[4 * i + 1] = A[6 * i]"),
        body("A[3 * i] = A[3 * i + 1] + A[3 * i + 2]"),
        body("A[i * i] = i"),
        body("A[i * (i + 1) // 2] = i"),
        body("A[2 ** i] = i", over="7"),
        body("A[1 << i] = i", over="7"),
        body("A[i ^ 1] = B[i]"),
        body("A[perm[i]] = B[i]"),
        body("A[perm[i]] = A[perm[i]] + 1"),
        body("A[perm[perm[i]]] = B[i]"),
        body("A[(5 * i) % 12] = i"),
        body("A[i % 12] = i"),
        body("A[i // 1] = i"),
        body("A[abs(i)] = i"),
        body("A[i] = B[i // 2] + B[i % 3]"),
        body("A[i] = B[dup[i]]"),
        body("A[i] = B[-i]"),
        body("A[int(i)] = i"),
        body("A[i] = i", over="range(0)"),
        body("A[0] = A[0] + A[1] * 2", over="range(1)"),
        body("A[0] = i", over="range(5, 5)"),
        body("A[0] = i", over="range(5, 6)"),
        body("A[i] = A[i - 1]", over="range(5, 0)"),
        body("A[i] = B[i]", over="range(10, 0, -1)"),
        body("A[i] = A[i + 1]", over="range(0, 20, 2)"),
        body("A[i] = A[i - 1]", over="range(19, 0, -2)"),
        body("A[i] = A[i + 6]", over="range(0, 20, 4)"),
        body("A[i // 2] = i", over="range(0, 20, 2)"),
        body("A[i % 10] = i", over="range(5, 15)"),
        body("A[min(i, 50)] = i"),
        body("A[i if i < 6 else i + 20] = 1"),
        body("M[i, 0] = M[i, 1]"),
        body("M[i, i] = 1"),
        body("M[i, perm[i]] = 1"),
        body("M[0, i] = M[1, i]"),
        body("M[i, 3] = M[3, 4]", over="3"),
        body("Y[0, 0, i] = Y[1, 0, 5 - i]", over="6"),
    ),
    *no(
        body("A[i] = A[i + 1]"),
        body("A[i] = A[i - 1]", over="range(1, 12)"),
        body("A[i] = A[i - 1]"),
        body("A[0] = B[i]"),
        body("A[3] = 7"),
        body("B[i] = A[0]; A[0] = i"),
        body("A[2 * i] = A[i]"),
        body("A[i] = A[2 * i]"),
        body("A[i] = A[n - 1 - i]"),
        body("A[n - i] = A[i]"),
        body("A[-i] = A[i + 190]"),
        body("A[i - 6] = A[i + 188]"),
        body("A[i // 2] = i"),
        body("A[i % 3] = i"),
        body("A[dup[i]] = i"),
        body("A[perm[i]] = A[i]"),
        body("A[i] = A[perm[i]]"),
        body("A[abs(i - 3)] = i"),
        body("A[min(i, 5)] = i"),
        body("A[i * i % 7] = i"),
        body("A[i & 6] = i"),
        body("A[i >> 1] = i"),
        body("A[int(i / 2)] = i"),
        body("A[i if i < 6 else i - 6] = 1"),
        body("A[4 * i + 2] = A[6 * i]"),
        body("A[i] = A[i + 2]", over="range(0, 20, 2)"),
        body("A[i] = A[i + 4]", over="range(0, 20, 4)"),
        body("A[i] = A[i + 1]", over="range(10, 0, -1)"),
        body("A[i] = A[i + 1]", over="range(2)"),
        body("A[i], A[i + 1] = A[i + 1], A[i]"),
        body("A[i] = A.sum()"),
        body("A[i] = A.max() + len(A)"),
        body("A[i] = np.dot(A, B)"),
        body("A[i] = A[A.size - 1 - i] + A[0]"),
        body("M[i, 0] = M[1, i]"),
        body("M[i, 3] = M[3, 3]"),
        body("M[i // 2, i // 2] = 1"),
        body("i = 3", "A[i] = 1"),
        body("if i < 6:\n    A[13 - i] = 1\n    A[i] = 2", "A[i] = 3"),
        body("A[i] = A[int(A[i])]"),
        body("I[i] = 2", "A[I[i + 1]] = 1"),
    ),
    *yes(body("i = i + 3", "A[i] = 1"), body("j = i", "i = 0", "A[j] = B[i]"), body("A[i], A[i + n] = A[i + n], A[i]")),
]

SLICES = [
    *yes(
        body("A[i * b : (i + 1) * b] = B[i]"),
        body("A[3 * i : 3 * i + 3] = 1"),
        body("A[3 * i : 3 * i + 2] = A[3 * i + 2]"),
        body("A[i * b : min((i + 1) * b, 34)] = B[i]"),
        body("A[offsets[i] : offsets[i + 1]] = i"),
        body("A[i::n] = i"),
        body("A[i : i + 24 : 12] = i"),
        body("M[i] = X[i]"),
        body("M[i, :] = M[i, ::-1]"),
        body("M[:, i] = X[i]"),
        body("M[:, i] = M[:, i] / M[:, i].sum()"),
        body("M[i, :i] = 1"),
        body("M[i:, i] = 1"),
        body("M[i, i:] = M[i, :]"),
        body("M[i][3] = 1"),
        body("M[i][:] = 0"),
        body("M[2 * i : 2 * i + 2, :] = X[2 * i : 2 * i + 2, :]", over="10"),
        body("M[i, [1, 3, 5]] = 0"),
        body("M[i, B[:20] > 5] = 0"),
        body("M[i, perm] = 0"),
        body("M[perm[i]] = X[i]"),
        body("Y[i] = 1", over="4"),
        body("Y[:, i, :] = 1", over="5"),
        body("Y[..., i] = 1", over="6"),
        body("Y[i, ..., 0] = Y[i, ..., 1]", over="4"),
        body("M[i, None] = 1"),
        body("A[i:i] = 1"),
        body("A[100:] = 0; A[i] = 1", over="1"),
        body("A[:100][i] = A[100:][i]"),
        body("A[i : i + 1] = A[i + 50 : i + 51]"),
        body("M[i : i + 1, 2:4] = M[i : i + 1, 4:6]"),
        body("A[-3 * i - 3 : -3 * i or None] = 1", over="1"),
        body("A[perm[3 * i : 3 * i + 3]] = i", over="1"),
        body("sl = slice(i * 4, i * 4 + 4)", "A[sl] = B[sl]"),
        body("lo = i * 4", "hi = lo + 4", "A[lo:hi] = B[lo:hi]"),
        body("lo, hi = 4 * i, 4 * i + 4", "A[lo:hi] = 1"),
    ),
    *no(
        body("A[i * b : (i + 1) * b + 1] = B[i]"),
        body("A[i : i + 2] = 1"),
        body("A[i:] = 1"),
        body("A[:i] = i"),
        body("A[:] = i"),
        body("A[...] = i"),
        body("A[i : i + 1] = A[i + 1 : i + 2]"),
        body("A[3 * i : 3 * i + 3] = A[3 * i + 3]"),
        body("A[i::6] = i"),
        body("M[i] = M[i + 1]", over="19"),
        body("M[i] = M[:, i]"),
        body("M[i, :] = X[i]; M[:, i] = 0"),
        body("M[i:] = 1"),
        body("M[i, i:] = M[i + 1, i:].sum()", over="19"),
        body("M[:, 0] = i"),
        body("M[dup[i]] = 1"),
        body("M[[0, i]] = 1"),
        body("A[perm] = i"),
        body("A[B > 5] = i"),
        body("A[offsets[i] : offsets[i + 1] + 1] = i"),
        body("Y[:, 0, :] = i", over="5"),
        body("A[i * b : min((i + 1) * b, 34) + 1] = B[i]"),
        body("A[i : i + 4 : 2] = i"),
        body("A[10 - i :: -1] = i"),
    ),
]

VIEWS = [
    *yes(
        body("V[i] = A[i + 1]"),
        body("V[i] = B[i]"),
        body("R[i] = A[199 - i]"),
        body("even[i] = odd[i]"),
        body("even[i] = A[2 * i + 1]"),
        body("T[i] = X[i]"),
        body("T[i, :] = M[:, i]"),
        body("F[20 * i : 20 * i + 20] = M[i]"),
        body("F[i] = M[0, i]"),
        body("W[i] = B[:10]"),
        body("W[i, 0] = A[10 * i + 1]"),
        body("D2[i] = 1", over="20"),
        body("A2[i] = A[i + 20]"),
        body("v = A[i : i + 1]", "v[0] = 1"),
        body("row = M[i]", "row[3] = 1", "row += 1"),
        body("row = M[i].reshape(4, 5)", "row[0] = 1"),
        body("c = A[3 * i : 3 * i + 3].copy()", "c[0] = 5", "C[i] = c.sum()"),
        body("x = np.asarray(M[i])", "x[:] = 2"),
        body("arrays[i][2] = 1"),
        body("arrays[i][:] = arrays[i] * 2"),
        body("a = arrays[i]", "a.fill(1)"),
        body("box.data[i] = 1"),
        body("boxes[i].x = i"),
    ),
    *no(
        body("V[i] = A[i]"),
        body("R[i] = A[i + 188]"),
        body("even[i] = A[i]"),
        body("T[i] = M[i]"),
        body("F[i + 1] = M[0, i]"),
        body("W[i, 0] = A[i]"),
        body("A2[i] = A[i + 1]"),
        body("D2[i] = M[3, i - 1]", over="20"),
        body("D2[i] = M[i, 0] + M[0, 0]", over="20"),
        body("v = A[i : i + 2]", "v[1] = v[0]"),
        body("row = M[0]", "row[i] = row[i - 1]"),
        body("row = M[0]", "row[:] = i"),
        body("shared_arrays[i][0] = shared_arrays[i][1]"),
        body("shared_arrays[i][:] = 1"),
        body("same[i][0] = i"),
        body("same[i][i % 2] = i"),
        body("arrays[i // 2][0] = i"),
        body("arrays[0][i] = arrays[0][i - 1]", over="range(1, 5)"),
        body("x = A.reshape(-1)", "x[0] = i"),
        body("x = A if i % 2 else B", "x[3] = i"),
        body("boxes[i // 2].x = i"),
        body("box.total = i"),
        body("box.data = np.zeros(3)"),
        body("u8[8 * i + 8] = A[i]"),
    ),
    *yes(body("u8[8 * i] = 1", "A[i] = 2")),
]
for k, row in enumerate(VIEWS):
    if "D2" in row.source:
        VIEWS[k] = row._replace(setup="D2 = np.lib.stride_tricks.as_strided(M, (20,), (21 * 8,))")
    if "u8" in row.source:
        VIEWS[k] = row._replace(setup="u8 = A.view(np.uint8)")

SCALARS = [
    *yes(
        body("t = B[i]", "A[i] = t * t"),
        body("t = B[i]", "t = t + 1", "A[i] = t"),
        body("t = 0", "for j in range(5):\n    t += X[i, j]", "A[i] = t"),
        body("k = 2 * i", "A[k] = A[k + 1]"),
        body("k = i", "k += 1", "A[k] = 1"),
        body("p, q = i, i + n", "A[p], A[q] = 1, 2"),
        body("if i % 2:\n    t = 1\nelse:\n    t = 2", "A[i] = t"),
        body("if i % 2 == 0: A[i] = A[i + 1]"),
        body("if i < 5: A[i] = A[i + 6]"),
        body("if i == 3: A[0] = 1"),
        body("if i % 2: continue", "A[i] = A[i + 1]"),
        body("if False: A[0] = i", "A[i] = 1"),
        body("if n > 100: A[0] = i", "A[i] = 1"),
        body("for j in range(m): A[i * m + j] = B[j]"),
        body("for j in range(m): A[i + j * n] = B[j]"),
        body("for j in range(m): M[i, j] = M[i, j + 1]"),
        body("for j in range(i): M[i, j] = M[j, i]"),
        body("for j in range(i + 1, 12): M[i, j] = 1", "M[i, i] = 0"),
        body("for j in range(12): M[perm[i], j] = X[j, i]"),
        body("j = 0", "while j < 5:\n    M[i, j] = j\n    j += 1"),
        body("for j in range(5):\n    if B[j] > 3: break\n    M[i, j] = 1"),
        body("for x in L: A[i] = x"),
        body("q = [0, 0]", "q[0] = i", "q.append(3)", "A[i] = q[0]"),
        body("q = {}", "q['a'] = i", "A[i] = q['a']"),
        body("q = np.zeros(3)", "q[0] = B[i]", "A[i] = q.sum()"),
        body("q = [x * 2 for x in B[:5]]", "A[i] = sum(q)"),
        body("A[i] = sum(X[i, j] for j in range(5))"),
        body("f = lambda x: x + i", "A[i] = f(1)"),
        body("A[i] = pure(B[i])"),
        body("put(A, i, B[i])"),
        body("put(A, perm[i], B[i])"),
        body("A[i] = local(B, i)"),
        body("view(A, i)[0] = 2"),
        body("fill(M[i])"),
        body("A[i] = fact(3)"),
        body("A[i] = fact(i)"),
        body("A[i] = fib(i) + fib(2)"),
        body("M.flat[i] = i"),
        body("M.reshape(-1)[i] = i"),
        body("M.reshape(4, 100)[i // 4, i % 4] = i"),
        body("r, c = np.unravel_index(i, (3, 4))", "M[r, c] = i"),
        body("A[blocks[i]] = i"),
        body("sl = blocks[i]", "A[sl] = B[sl]"),
        body("A[i] = math.sqrt(B[i]) + np.sin(B[i])"),
        body("A[i] = max(B[i], 3) + min(B[0], i)"),
        body("A[i] = B.mean() + B.std()"),
        body("try:\n    A[i] = 1 / B[i]\nexcept ZeroDivisionError:\n    A[i] = 0"),
        body("if B[i] < 0: raise ValueError(i)", "A[i] = 1"),
        body("assert B[i] >= 0", "A[i] = 1"),
        body("t = B[i]", "A[i] = t", after="t = 3\nprint(t)\n"),
        body("A[i] = 1", after="print(i, A[0])\n"),
        body("del_me = i", "A[del_me] = 0", "del del_me"),
        body("counter.put(i, 3)"),
        body("A[i] = (lambda k: B[k])(i)"),
        body("with np.errstate(all='ignore'):\n    A[i] = 1 / B[i]"),
        body("A[i] = len(L) + M.shape[0] + M.size"),
        body("r = X[i] - X[i].mean()", "A[i] = r @ r / np.sqrt((r ** 2).sum())"),
    ),
    *no(
        body("A[i] = t", "t = B[i]"),
        body("t = B[i]", "A[i] = t", after="print(t)\n"),
        body("if B[i] > 3: t = i", "A[i] = t"),
        body("if i == 0: t = 5", "A[i] = t"),
        body("t = t + 1", "A[i] = t"),
        body("count = count + 1", "A[count] = i"),
        body("t = 2 * t + B[i]", after="print(t)\n"),
        body("if B[i] > 5: flag = True", after="print(flag)\n"),
        body("if flag: A[0] = 1", "flag = not flag"),
        body("t = i", after="print(t)\n"),
        body("for j in range(5): t = j", after="print(t)\n"),
        body("if B[i] > 5: break", "A[i] = 1"),
        body("A[i] = 1", "if A[i] > 5: break"),
        body("shift(A, i)"),
        body("A[i] = down(i)"),
        body("down_global(i)"),
        body("M.flat[i] = M.flat[i + 1]"),
        body("M.flat[20] = M[1, 0] + i"),
        body("M.reshape(-1)[i] = M[0, i + 1]"),
        body("r, c = np.unravel_index(i, (3, 4))", "M[r, 0] = i"),
        body("A[blocks[i // 2]] = i"),
        body("fill(A)"),
        body("put(A, 0, i)"),
        body("put(A, dup[i], i)"),
        body("bump()"),
        body("default(i)"),
        body("A[i] = read_total()", "total = i"),
        body("counter.bump()"),
        body("counter.put(0, i)"),
        body("counter.put(i, counter.get(i + 1))"),
        body("A[i] = rng.normal()"),
        body("A[i] = np.random.rand()"),
        body("A[i] = random.random()"),
        body("rng.shuffle(M[i])"),
        body("x = rng", "A[i] = x.normal()"),
        body("for j in range(m): A[i * m + j] = A[i * m + j + 1]"),
        body("for j in range(m + 1): A[i * m + j] = B[j]"),
        body("for j in range(m): A[i + j] = B[j]"),
        body("for j in range(m): M[j, i] = M[i, j]"),
        body("for j in range(m): M[j, 0] = i"),
        body("for j in range(i): M[i, j] = M[j, 0]"),
        body("j = 0", "while j < 5:\n    M[j, 0] = j\n    j += 1"),
        body("while B[i] > count: count += 1"),
        body("if A[i + 1] > 0: A[i] = 1"),
        body("A[i] = 1 if A[i + 1] > 0 else 2"),
        body("A[i] = B[int(A[i - 1])]"),
        body("for j in range(int(A[i + 1])): A[i] = 1"),
        body("A[i] = [A[k] for k in range(3)][0]"),
        body("A[i] = sum(A[k] for k in range(3))"),
        body("f = lambda k: A[k + 1]", "A[i] = f(i)"),
        body("A[i] = (lambda: A[i + 1])()"),
        body("print(i)"),
        body("s += B[i]", "A[i] = s"),
        body("s += B[i]", "s *= 2", after="print(s)\n"),
        body("s = B[i] - s", after="print(s)\n"),
        body("text += str(i)", after="print(text)\n"),
        body("if s > 3: s += B[i]"),
        body("best = max(best, B[i]) + 1", after="print(best)\n"),
        body("if B[i] > best:\n    best = B[i]\n    count = i", after="print(best, count)\n"),
        body("open('f').read()"),
        body("exec('A[0] = i')"),
        body("t = A", "t[0] = i"),
        body("t = [A]", "t[0][0] = i"),
        body("t = {'a': A}", "t['a'][3] = i"),
        body("t = (A, B)", "t[0][2] = i"),
        body("t = []", "t.append(A)", "t[0][0] = i"),
        body("for a in (A, B): a[0] = i"),
        body("for a in arrays: a[0] = i"),
        body("with lock:\n    A[0] = i"),
    ),
]
for k, row in enumerate(SCALARS):
    if "lock" in row.source:
        SCALARS[k] = row._replace(setup="import threading; lock = threading.Lock()")

REDUCTIONS = [
    *yes(
        body("s += B[i]", after="print(s)\n"),
        body("s -= B[i]"),
        body("s = s + B[i]"),
        body("s = B[i] + s"),
        body("s = s + B[i] * 2 - 1"),
        body("s *= B[i]"),
        body("count += 1"),
        body("if B[i] > 3: count += 1"),
        body("for j in range(5): s += X[i, j]"),
        body("best = max(best, B[i])"),
        body("count = max(perm[i], count)"),
        body("count = count if count > perm[i] else perm[i]"),
        body("best = min(best, B[i])"),
        body("best = np.maximum(best, B[i])"),
        body("if B[i] > best: best = B[i]"),
        body("if best < B[i]: best = B[i]"),
        body("best = B[i] if B[i] > best else best"),
        body("A += X[i, 0]"),
        body("A += B * i"),
        body("A[:] += B"),
        body("A[0] += B[i]"),
        body("A[dup[i]] += 1"),
        body("A[i % 3] += B[i]"),
        body("I[int(B[i])] += 1"),
        body("M += np.outer(X[i], X[i])"),
        body("M[i % 2] += X[i]"),
        body("A[0] = max(A[0], B[i])"),
        body("e[i] += 1"),
        body("s += B[i]", "A[i] = B[i]", "count += 1"),
        body("A[i] += 1", "A[i] *= 2", "C[i] = A[i]"),
        body("s += B[i]", "best = max(best, B[i])"),
    ),
    *no(
        body("A[0] += A[i]"),
        body("A[dup[i]] = A[dup[i]] + B[i]"),
        body("np.add(A, B, out=A)"),
        body("np.maximum(A, X[i, 0], out=A)"),
        body("np.apply_along_axis(lambda v: A.fill(i), 0, X)"),
        body("np.nan_to_num(A, copy=False)"),
        body("A[i] += A[i + 1]"),
        body("A[dup[i]] += 1", "C[i] = A[0]"),
        body("A[i % 3] += 1", "A[i % 3] *= 2"),
        body("A += 1", "A[i] = 0"),
        body("I[i % 3] += B[i]"),
        body("A[i % 3] -= A[i]"),
        body("A[i % 3] /= 2"),
        body("A[i % 3] **= 2"),
        body("s **= 2"),
        body("s = 3 - s"),
        body("L += [i]"),
        body("np.subtract(B, A, out=A)"),
        body("np.add(A, A, out=A)"),
        body("s += s"),
        body("A[0] = max(B[i], A[0])"),
    ),
]

CONTAINERS = [
    *yes(
        body("L[i] = i"),
        body("L[i] = L[i] + 1"),
        body("d[i] = i"),
        body("d[i, 0] = i"),
        body("d[f'k{i}'] = i"),
        body("d['k' + str(i)] = i"),
        body("d['k%d' % i] = i"),
        body("d[words[i]] = i"),
        body("d[perm[i]] = i"),
        body("e[i] = e[i] + 1"),
        body("e[i] = e[i + 20]"),
        body("grid[i][3] = i"),
        body("for j in range(20): grid[i][j] = i + j"),
        body("grid[i] = [0] * 5"),
        body("d[i] = [i]"),
        body("for k, v in e.items(): A[i] = v"),
        "for i, x in parfor(enumerate(B)):\n    A[i] = x",
        "for i, (x, y) in parfor(enumerate(zip(B, C))):\n    A[i] = x + y",
        "for x, y in parfor(zip(perm, B)):\n    A[x] = y",
        "for k in parfor(perm):\n    A[k] = 1",
        "for k in parfor([3, 1, 2]):\n    A[k] = 1",
        "for k in parfor(words):\n    d[k] = 1",
        "for row in parfor(M):\n    row[0] = 1",
        "for a in parfor(arrays):\n    a[0] = 1",
        "for i, a in parfor(enumerate(arrays)):\n    a[:] = i",
    ),
    *no(
        body("L.append(i)"),
        body("L[0] = i"),
        body("L[i] = L[i - 1]"),
        body("L[-i] = L[i + 28]"),
        body("L.sort()"),
        body("L.pop()"),
        body("del L[i]"),
        body("L[i:i + 2] = [1, 2]"),
        body("d[i // 2] = i"),
        body("d['a'] = i"),
        body("d[f'k{i // 2}'] = i"),
        body("d[(i % 3, 1)] = i", over="range(0, 12, 3)"),
        body("d.update({i: 1})"),
        body("d.setdefault(0, i)"),
        body("d[dup[i]] = i"),
        body("e[i] = e[i + 1]"),
        body("A[i] = len(d)", "d[i] = 1"),
        body("e[i] = sum(e.values())"),
        body("grid[0][i] = grid[0][i - 1]"),
        body("grid[i // 2][0] = i"),
        body("grid[i][0] = grid[i + 1][0]", over="19"),
        body("seen.add(i)"),
        body("e[i] = e.get(i + 1, 0)"),
        "for k in parfor([3, 1, 3]):\n    A[k] = 1",
        "for k in parfor(dup):\n    A[k] = 1",
        "for x, y in parfor(zip(dup, B)):\n    A[x] = y",
        "for row in parfor(M):\n    M[0] = row",
        "for i, x in parfor(enumerate(A)):\n    A[i - 1] = x",
        "for a in parfor([A, B, A]):\n    a[0] += 1\n    C[0] = 1",
    ),
]
for k, row in enumerate(CONTAINERS):
    if "seen" in row.source:
        CONTAINERS[k] = row._replace(setup="seen = set()")

NUMPY = [
    *yes(
        body("np.add(X[i], 1, out=M[i])"),
        body("np.add(X[i], 1, M[i])"),
        body("np.copyto(M[i], X[i])"),
        body("M[i].sort()"),
        body("M[i].fill(3)"),
        body("np.put(M[i], [1, 2], 0)"),
        body("np.cumsum(X[i], out=M[i])"),
        body("X[i].sum(out=A[i : i + 1])", over="3"),
        body("M[i] = np.sort(X[i])"),
        body("M[i] = np.where(X[i] > 3, X[i], 0)"),
        body("A[i] = np.linalg.norm(X[i])"),
        body("A[i] = np.corrcoef(X[:, i], X[:, 0])[0, 1]"),
        body("for j in range(i, 12): M[i, j] = np.dot(X[:, i], X[:, j])"),
        body("for j in range(i + 1, 12):\n    c = np.dot(X[:, i], X[:, j])\n    M[i, j] = c\n    M[j, i] = c"),
        body("mask = dup != i", "A[i] = B[:12][mask].mean()"),
        body("train = np.concatenate([perm[: i], perm[i + 1 :]])", "A[i] = X[train].sum()"),
        body("r = np.random.default_rng(i)", "A[i] = r.normal()"),
        body("A[i] = rng.normal()", over="range(n), rng=rng"),
        body("x = X[i].copy()", "x.sort()", "A[i] = x[0]"),
        body("x = X[i] * 1", "x += 1", "A[i] = x.sum()"),
        body("M[i, :], C[i] = X[i], 3"),
        body("A[i] = C[i] = B[i]"),
        body("np.multiply(M[i], 2, out=M[i])"),
    ),
    *no(
        body("np.add(B, 1, out=A)"),
        body("np.add(X[i], 1, M[0])"),
        body("np.copyto(A, B)"),
        body("np.copyto(M[0], X[i])"),
        body("A.sort()"),
        body("A.fill(i)"),
        body("np.put(A, [1, 2], i)"),
        body("np.fill_diagonal(M, i)"),
        body("A.resize(300)"),
        body("np.random.shuffle(M[i])"),
        body("x = M[0]", "x.sort()"),
        body("x = M.T", "x[0] = i"),
        body("x = np.ravel(M)", "x[0] = i"),
        body("M[i] = np.roll(M, 1, axis=0)[i]"),
        body("A[i] = C[i + 1] = B[i]", "B[i] = C[i]"),
        body("np.subtract.at(A, perm, B)", "A[0] = 1"),
        body("np.save('f', A)"),
    ),
]

WRITES_BY_CALLS = [
    *yes(
        body("np.clip(X[i], 0, 1, M[i])"),
        body("np.dot(X, X[i], M[i])"),
        body("X[i].clip(0, 1, M[i])"),
        body("np.modf(X[i], M[i], M2[i])"),
        body("np.copyto(dst=M[i], src=X[i])"),
        body("A[i] = max(map(abs, B))"),
        body("A[i] = np.sum(X[i], 0)"),
        body("A[i] = X[i].dot(X[0])"),
        body("A[i] = np.add.reduce(X[i], 0)"),
        body("for x, y in zip(*[B, C]): A[i] = x"),
        setup="\nM2 = np.zeros((20, 20))",
    ),
    *no(
        *(
            body(line)
            for line in (
                "np.clip(B, 0, i, A)",
                "np.dot(X, X[i], A[:20])",
                "np.sum(X, 0, None, A[:20])",
                "np.cumsum(X[i], 0, None, A[:20])",
                "np.take(B, [i], 0, A[:1])",
                "np.round(B * i, 0, A)",
                "np.mean(X[i:], 0, None, A[:20])",
                "np.add.reduce(X * i, 0, None, A[:20])",
                "np.add.accumulate(B * i, 0, None, A)",
                "np.add.reduceat(B * i, [0], 0, None, A[:1])",
                "(B * i).clip(0, 1, A)",
                "X.dot(X[i], A[:20])",
                "np.modf(B * i, C.copy(), A)",
                "np.add(*(B, i, A))",
                "np.add(B, i, **{'out': A})",
                "np.copyto(*(A, B * i))",
                "B.clip(*(0, i, A))",
                "np.copyto(dst=A, src=B * i)",
                "np.put(a=A, ind=[0], v=i)",
                "np.place(arr=A, mask=A > i, vals=[i])",
                "np.putmask(a=A, mask=A > i, values=[i])",
                "np.ravel(a=A)[0] = i",
                "np.reshape(a=A, shape=(20, 10))[0, 0] = i",
                "np.asarray(a=A)[0] = i",
                "np.squeeze(a=A)[0] = i",
                "np.transpose(a=M)[0] = i",
                "np.nan_to_num(A, False)",
                "A.astype(float, 'K', 'unsafe', True, False)[0] = i",
                "A.__itruediv__(2)",
                "A.__ifloordiv__(2)",
                "A.__ior__(2)",
                "L.__imul__(2)",
                "import operator\noperator.itruediv(A, 2)",
                "import operator\noperator.ipow(A, 2)",
                "list(map(L.append, [i]))",
                "any(map(L.append, [i]))",
                "list(map(np.copyto, [A], [i]))",
                "list(map(np.add, [B], [i], [A]))",
                "sorted(words, key=L.append)",
                "list(filter(L.append, [i]))",
                "max([1, 2], key=L.append)",
                "list(map(called, [i]))",
                "import itertools\nlist(itertools.starmap(np.copyto, [(A, i)]))",
                "import itertools\nlist(itertools.starmap(L.insert, [(0, i)]))",
                "appending(L)",
                "list(map(fs[i % 1], [i]))",
                "list(map(fs[i % 2], [i]))",
                "sorted([i, 2], key=fs[i % 2])",
                "fs[i % 2](i)",
                "np.piecewise(B, [B > 0], [lambda v: A.fill(i)])",
            )
        ),
        setup="""
import operator
class Called:
    def __call__(self, x): L.append(x)
fs = [L.append, lambda x: L.append(x)]
called = Called(); appending = operator.methodcaller("append", 1)
""",
    ),
]

NARROW = [
    *yes(
        body("A[q[i]] = i"),
        body("A[q[i] + 1] = i"),
        body("A[q[i] * 2] = i", over="8"),
        body("A[int(q[i]) % 50 * 2] = i", over="8"),
        body("A[np.uint8(perm[i])] = i"),
        body("A[w[i] * 2] = i"),
        setup="\nq = np.arange(100, dtype=np.uint8); w = np.arange(20, dtype=np.int32)",
    ),
    *no(
        body("A[q[i] * 2] = i", over="200"),
        body("A[q[i] + q[100]] = i", over="200"),
        body("A[q[i] << 1] = i", over="200"),
        body("A[p[i] % 256 * 0 + np.uint8(p[i])] = i", over="300"),
        body("A[np.uint8(p[i])] = i", over="300"),
        body("A[int(q[i] * 2)] = i", over="200"),
        body("A[max(q[i], 1) * 2] = i", over="200"),
        body("A[(q[i] if i > 0 else q[0]) * 2] = i", over="200"),
        body("A[qs[i] * 2] = i", over="200"),
        body("A[i * k] = i", over="200"),
        body("A[mask[i] + mask[1]] = i", over="2"),
        body("A[int(h[i] + 2048)] = i"),
        "for x in parfor(q):\n    A[x * 2] = 1",
        setup="""
q = np.arange(200, dtype=np.uint8); p = np.arange(300); qs = list(q); k = np.uint8(2)
A = np.zeros(3000); mask = np.array([False, True]); h = np.arange(12, dtype=np.float16)
""",
    ),
]
NARROW[2] = NARROW[2]._replace(setup="\nq = np.arange(8, dtype=np.uint8)")

ITERATORS = [
    *no(
        *(
            body(line)
            for line in (
                "for t in it: A[i] = t",
                "A[i] = sum(it)",
                "A[i] = 5 in it",
                "a, *b2 = it\nA[i] = a",
                "for x, t in zip(B, it): A[i] = t",
                "import itertools\nA[i] = sum(itertools.islice(it, 2))",
                "A[i] = np.fromiter(it, float, 1)[0]",
                "for line in file: A[i] = len(line)",
                "A[i] = sum(gen)",
                "A[i] = sum(held[0])",
                "A[i] = sum(box2.it)",
                "A[i] = [t for t in it][0]",
                "other = it\nA[i] = list(other)[0]",
                "buffer[i] = 1\nA[i] = from_buffer[i + 1]",
            )
        ),
        setup="""
import io
it = iter(range(1000)); file = io.StringIO("a\\nb"); gen = (k for k in range(1000)); held = [it]; box2 = Box()
box2.it = it; buffer = bytearray(200); from_buffer = np.frombuffer(buffer, dtype=np.uint8)
""",
    ),
]

LEFT_NAMES = [
    *yes(
        body("x = [y := k for k in range(3)]", "A[i] = x[0]"),
        body("def f(): return 1", "A[i] = f()"),
        body("import math", "A[i] = math.sqrt(i)"),
    ),
    *no(
        body("x = [y := i for k in range(3)]", after="print(y)\n"),
        body("x = [t := t + k for k in range(3)]"),
        body("any((y := k) > i for k in range(5))", after="print(y)\n"),
        body("def f(): return i", after="print(f())\n"),
        body("import math as f", after="print(f)\n"),
        body("from math import pi as f", after="print(f)\n"),
        body("t = i", "del t", after="print(t)\n"),
        body("del t"),
        body("import re", "A[i] = len(re.sub('a', 'b', words[i]))", "A[0] = 1"),
    ),
]

NESTS = [
    Row("for i in parfor(n):\n    for j in parfor(m):\n        M[i, j] = X[j, i]\n", (True, True)),
    Row("for i in parfor(n):\n    for j in parfor(m):\n        M[i, 0] = X[j, i]\n", (True, False)),
    Row("for i in parfor(n):\n    for j in parfor(m):\n        M[0, j] = X[j, i]\n", (False, True)),
    Row("for i in parfor(n):\n    for j in parfor(i):\n        M[i, j] = M[j, i]\n", (True, True)),
    Row(
        "for i in parfor(n):\n    for j in parfor(i + 1, 12):\n        M[i, j] = 1\n        M[j, i] = 1\n", (True, True)
    ),
    Row(
        "for i in parfor(n):\n    s = 0.0\n    for j in parfor(m):\n        s += X[i, j]\n    A[i] = s\n", (True, True)
    ),
    Row(
        "for i in parfor(n):\n    s = 0.0\n    for j in parfor(m):\n        t = s\n        s = X[i, j]\n    A[i] = t\n",
        (True, False),
    ),
    Row("for i in range(1, n):\n    for j in parfor(m):\n        M[i, j] = M[i - 1, j] + M[i - 1, j + 1]\n", (True,)),
    Row("for i in range(1, n):\n    for j in parfor(m):\n        M[i, j] = M[i, j + 1]\n", (False,)),
    Row(
        "for t in range(3):\n    tmp = np.zeros(n)\n    for i in parfor(n):\n        tmp[i] = A[i]\n"
        "    for i in parfor(n):\n        A[i] = tmp[i - 1]\n",
        (True, True),
    ),
    Row("for t in range(3):\n    tmp = np.zeros(n)\n    for i in parfor(n):\n        tmp[0] = A[i]\n", (False,)),
    Row("for t in range(3):\n    for i in parfor(n):\n        x = t + i\n        A[i] = x\n    print(x)\n", (False,)),
    Row("for i in parfor(n):\n    A[i] = B[i]\nfor i in parfor(n):\n    A[i] = A[i + 1]\n", (True, False)),
    Row("for i in parfor(n):\n    perm[i] = 0\nfor i in parfor(n):\n    A[perm[i]] = 1\n", (True, False)),
    Row("perm[:] = 0\nfor i in parfor(n):\n    A[perm[i]] = 1\n", (False,)),
    Row("perm2 = perm[::-1]\nfor i in parfor(n):\n    A[perm2[i]] = 1\n", (True,)),
    Row(
        "for i in parfor(n):\n    for j in parfor(m):\n        for k in parfor(2):\n            Y[i, j, k] = 1\n",
        (True, True, True),
    ),
    Row(
        "for i in parfor(4):\n    for j in range(5):\n        for k in parfor(6):\n"
        "            Y[i, j, k] = Y[i, j - 1, k]\n",
        (True, True),
    ),
    Row("if n > 3:\n    for i in parfor(n):\n        A[i] = 1\n", (True,)),
    Row("for i in range(n):\n    perm[i] = perm[i] * 1\n    for j in parfor(n):\n        A[perm[j]] = 1\n", (False,)),
]
