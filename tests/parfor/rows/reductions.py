"""Accumulations of all kinds, and things that are told apart through objects and index arrays, with known answers.

In: nothing. Out: rows as in row.py.
"""

from __future__ import annotations

from tests.parfor.rows.row import body, no, yes

THINGS = """
import collections
import functools
x = np.arange(100.0); y = np.zeros(100); z = np.ones(100); rep = np.array([0, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 9])
keys = list("abcdefghijkl"); vals = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8]; hist = np.zeros(20, dtype=int)
cnt = dict.fromkeys(keys, 0); dd = collections.defaultdict(float); cc = collections.Counter(); numbers = {}
dl = collections.defaultdict(list); least = float("inf"); state = {"s": 0.0, "arr": np.zeros(50), "text": "t"}
class Acc:
    def __init__(self): self.total = 0.0; self.count = 0; self.items = []; self.arr = np.zeros(50)
    def add(self, v): self.total += v
    def put(self, i, v): self.arr[i] = v
class Checked:
    def __init__(self): self._t = 0.0
    @property
    def t(self): return self._t
    @t.setter
    def t(self, v): self._t = v; A[0] = v
acc = Acc(); accs = [Acc() for _ in range(20)]; one = [acc] * 20; held = [accs[3]]; checked = Checked()
lists = [[] for _ in range(20)]; again = [lists[0]] * 20; dicts = [{} for _ in range(20)]
mixed = [1, "a", 2.5]; cplx = np.zeros(30, dtype=complex)
def store(a, i, v): a[i] = v
class Own:
    @staticmethod
    def max(a, b): return a - b
own = Own()
bound = functools.partial(store, y)
"""
AFTER = "print(s, least, count, y)\n"

REDUCTION_ROWS = [
    *yes(
        *(
            body(line, after=AFTER)
            for line in (
                "least = min(x[i], least)",
                "least = max(x[i], least)",
                "v = x[i] - 3\nleast = min(v, least)",
                "least = least if least < x[i] else x[i]",
                "if i % 2:\n    least = min(x[i], least)",
                "least = np.minimum(x[i], least)",
                "y = y + x * i",
                "y = np.maximum(y, x * i)",
                "np.add.at(y, rep, x[i])",
                "np.add.at(y, rep[i], 1.0)",
                "np.maximum.at(y, rep, x[i])",
                "np.add.at(M[i], rep, 1.0)\nz[i] = M[i, 0]",
                "cnt[keys[i % 3]] += 1",
                "cnt['a'] += vals[i]",
                "cnt['a'] += 1\nz[i] = cnt['b']",
                "state['s'] += x[i]",
                "L[i % 3] += 1",
                "L[0] = max(L[0], i)",
                "e[i % 3] *= 2",
                "dd[keys[i % 3]] += x[i]",
                "cc[vals[i]] += 1",
                "numbers[vals[i]] = numbers.get(vals[i], 0) + x[i]",
                "acc.total += x[i]",
                "acc.add(x[i])",
                "acc.count += 1\nacc.total += x[i]",
                "one[i].total += i",
                "accs[i].total += x[i]\naccs[i].count = 3",
            )
        ),
        setup=THINGS,
    ),
    *no(
        *(
            body(line, after=AFTER)
            for line in (
                "least = min(x[i], least)\nz[i] = least",
                "least = min(x[i], least)\nleast = least + 1",
                "least = min(least, x[i])\nleast = min(x[i], least)",
                "least = min(x[i], least)\nleast = max(x[i], least)",
                "least = min(x[i], least, key=abs)",
                "least = least if least <= x[i] else x[i]",
                "least = min(least * 2, x[i])",
                "least = own.max(least, x[i])",
                "min = lambda a, b: a - b\nleast = min(least, x[i])",
                "accs[i].total = A\naccs[i].total[0] = i",
                "acc.total += x[i]\nacc.total = A\nacc.total[0] = i",
                "L[0] = min(x[i], L[0])",
                "y[0] = min(x[i], y[0])",
                "y = y + x * i\nz[i] = y[0]",
                "y = x - y",
                "np.add.at(y, rep, y[i])",
                "np.add.at(y, rep, 1)\nz[i] = y[0]",
                "np.divide.at(y, rep, 2)",
                "cnt[keys[i % 2]] += 1\nz[i] = cnt['a']",
                "cnt[keys[i % 2]] += 1\nz[i] = cnt['l']",
                "cnt['a'] += 1\ndel cnt['b']",
                "cnt['a'] += 1\nz[i] = sum(cnt.values())",
                "cnt['a'] += cnt['a']",
                "cnt[keys[i % 2]] = i",
                "mixed[i % 3] += mixed[i % 3]",
                "mixed[i % 2] += 1",
                "state['arr'] += 1\nz[i] = state['arr'][0]",
                "dd[0] += x[i]\nz[i] = dd[1]",
                "dl[0] += [i]",
                "cc[vals[i]] += 1\nz[i] = cc[9]",
                "numbers[vals[i]] = numbers.get(vals[i], 1) + 1",
                "numbers[vals[i]] = numbers.get(vals[i], 0) + len(numbers)",
                "numbers[vals[i]] = numbers.get(0, 0) + 1",
                "L[vals[i]] += 1\nL.append(1)",
                "acc.total += x[i]\nz[i] = acc.total",
                "acc.total += x[i]\nz[i] = vars(acc)['total']",
                "acc.total += x[i]\nacc.total *= 2",
                "acc.total += x[i]\nacc.arr = z",
                "acc.total += acc.total * x[i]",
                "acc.total = acc.total * 2 + x[i]",
                "checked.t += 1",
                "one[i].total = i",
            )
        ),
        setup=THINGS,
    ),
]

APART_ROWS = [
    *yes(
        *(
            body(line)
            for line in (
                "accs[i].arr[0] = i",
                "accs[i].put(0, i)",
                "accs[i].items.append(i)",
                "lists[i].append(x[i])",
                "lists[i].append(1)\nlists[i].sort()\nz[i] = len(lists[i])",
                "dicts[i].update(a=i)",
                "L[i] = L[i] / len(L)",
                "L[i] = sum(v for v in lists[i])",
                "y[np.arange(3) + 3 * i] = 1",
                "y[3 * i + np.arange(3)] = y[np.arange(3 * i + 50, 3 * i + 53)]",
                "y[np.arange(3 * i, 3 * i + 3)] = 1",
                "y[np.s_[3 * i : 3 * i + 3]] = 1",
                "y[np.clip(i, 0, 50)] = 1",
                "y[np.maximum(i, 0)] = 1",
                "y[i + bool(i)] = 1",
                "y[ord(keys[i]) - 97] = 1",
                "cplx.real[i] = x[i]\ncplx.imag[i] = 1",
                "bound(i, 2)",
            )
        ),
        "for k in parfor(list(cnt)):\n    cnt[k] = len(k)",
        "for k in parfor(sorted(cnt)):\n    cnt[k] = 3",
        "for k, v in parfor(list(cnt.items())):\n    cnt[k] = v + 1",
        setup=THINGS,
    ),
    *no(
        *(
            body(line)
            for line in (
                "accs[i].arr[0] = accs[i - 1].arr[0]",
                "accs[i].arr[0] = held[0].arr[0]",
                "accs[i].arr = A\naccs[i].arr[0] = i",
                "one[i].arr[0] = i",
                "lists[i // 2].append(x[i])",
                "again[i].append(i)",
                "lists[i].append(len(lists[i - 1]))",
                "lists[i].append(1)\nA[i] = len(lists[1])",
                "lists[i].append(1)\nfor v in lists[1]: A[0] = v",
                "lists[i].append(1)\nif lists[1]: A[i] = 1",
                "if i == 3:\n    L.append(1)\nA[i] = len(L)",
                "dicts[0].update(a=i)",
                "y[np.arange(4) + 3 * i] = 1",
                "y[np.arange(3 * i, 3 * i + 4)] = 1",
                "y[np.arange(i)] = 1",
                "y[np.arange(0, 6, 2) + 3 * i] = 1",
                "r = np.arange(3)\nr[0] = 9\ny[r + 3 * i] = 1",
                "r = np.arange(3)\nfor k in range(2):\n    y[r + 3 * i] = 1\n    r[0] = 50",
                "y[np.s_[i : i + 2]] = 1",
                "y[np.clip(i, 3, 50)] = 1",
                "y[np.minimum(i, 5)] = 1",
                "y[bool(i)] = 1",
                "y[ord(keys[i]) // 2] = 1",
                "cplx.real[i] = cplx.real[i + 1]",
                "x.real[i] = x[i + 1]",
                "bound(0, i)",
                "functools.partial(store, y, 0)(i)",
            )
        ),
        "for k in parfor(list(vals)):\n    y[k] = 1",
        "for k, v in parfor(list(cnt.items())):\n    cnt['a'] = v + 1",
        "cnt['q'] = 1\nfor t in range(2):\n    for k in parfor(list(cnt)):\n        cnt[k[:1]] = cnt['a']",
        setup=THINGS,
    ),
]
