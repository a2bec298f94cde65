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


def lines(text: str, answer: bool, setup: str) -> list[Row]:
    """A row per line: a body, with `\\n` for new lines; `{k in over}` before it, `## use(k)` after the loop."""
    rows = []
    for line in text.strip().split("\n"):
        line, _, after = line.partition(" ## ")
        target, over = "i", "n"
        if line.startswith("{"):
            head, _, line = line[1:].partition("} ")
            target, _, over = head.rpartition(" in ") if " in " in head else ("i", "", head)
        source = body(line.replace("\\n", "\n"), over=over, after=after).replace("for i in", f"for {target} in", 1)
        rows.append(Row(source, (answer,), setup))
    return rows
