"""Loops over groups of rows, with known answers. In: nothing. Out: rows as in row.py."""

from __future__ import annotations

from tests.parfor.rows.row import body, no, yes

LABELS = """
lab = np.array([0, 1, 2, 0, 1, 2, 2, 1, 5, -1]); small = lab.astype(np.int8); P = np.zeros(10); Q = np.ones((10, 3))
names = np.array(list("abcabccadb")); keys = np.unique(names); g = lab > 1; wide = np.ones((10, 10), bool)
W2 = wide * 1
def center(x, m): x[m] -= x[m].mean(axis=0)
"""

GROUP_ROWS = [
    *yes(
        body("P[lab == i] = i"),
        body("P[i == lab] = i"),
        body("P[small == i] = i", over="300"),
        body("Q[lab == i] = Q[lab == i] * 2"),
        body("Q[lab == i, 0] = Q[lab == i, 1]"),
        body("Q[lab == i] -= Q[lab == i].mean(axis=0)"),
        body("center(Q, lab == i)"),
        body("rows = lab == i", "P[rows] = Q[rows].sum(axis=1)"),
        body("P[(lab == i) & g] = i"),
        body("P[(lab == i) & (lab == 2)] = i"),
        body("rows = np.flatnonzero(lab == i)", "P[rows] = Q[rows, 0]"),
        body("(rows,) = np.nonzero(lab == i)", "A[rows] = 1"),
        body("P[np.where(lab == i)[0]] = i"),
        body("P[np.where(lab == i)] = i"),
        body("P[names == keys[i]] = i", over="len(keys)"),
        "for key in parfor(keys):\n    P[names == key] = len(key)\n",
        "for key in parfor([1, 2, 5]):\n    P[lab == key] = key\n",
        body("A[lab[i]] = A[i + 20]", over="range(3)"),
        body("P[lab == 2 * i + 1] = P[lab == 2 * i]"),
        body("mean = Q[lab == i].mean(axis=0)", "M[i, :3] = mean"),
        setup=LABELS,
    ),
    *no(
        body("P[lab == i // 2] = i"),
        body("P[lab == 1] = i"),
        body("P[lab != i] = i"),
        body("P[lab >= i] = i"),
        body("P[~(lab == i)] = i"),
        body("P[(lab == i) | g] = i"),
        body("P[(lab == i)[::-1]] = P[lab == i]"),
        body("P[lab == i] = P[lab == i + 1]"),
        body("P[lab == i] = P[0]"),
        body("P[lab == i] = P.mean()"),
        body("P[(lab == i) & (P > 0)] = i"),
        body("W2[(lab == i) & wide] = W2[lab == i].sum()"),
        body("rows = lab == i", "rows[0] = True", "P[rows] = i"),
        body("rows = lab == i", "again = rows", "again[:] = True", "P[rows] = i"),
        body("rows = lab == i", "rows |= g", "P[rows] = i"),
        body("rows = lab == i", "np.logical_or(rows, g, out=rows)", "P[rows] = i"),
        body("rows = lab == i", "for k in range(3):\n    P[rows] = k\n    rows[k] = True"),
        body("rows = lab == i if i else lab == 1", "P[rows] = i"),
        body("rows = np.flatnonzero(lab == i)", "P[rows - 1] = i"),
        body("rows = np.flatnonzero(lab == i)", "rows[:] = 0", "P[rows] = i"),
        body("lab[i] = 0", "P[lab == i] = i", over="10"),
        body("P[names == keys[i // 2]] = i", over="4"),
        body("P[lab == i] = (t := i)", after="def late(): return [t for _ in A]\nprint(late())\n"),
        "for key in parfor([1, 2, 1]):\n    P[lab == key] = key\n",
        body("P[small == np.int8(i % 3)] = i"),
        setup=LABELS,
    ),
]
