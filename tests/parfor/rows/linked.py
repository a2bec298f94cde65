"""Objects linked to others, generators of lists, positions that are counted: known answers. In: nothing. Out: rows."""

from __future__ import annotations

from tests.parfor.rows.row import Row, body, no, yes

SETUP_LINKED = """
class Node:
    def __init__(self, v): self.v = v; self.next = None; self.kids = []
nodes = [Node(float(k)) for k in range(20)]
for first, second in zip(nodes, nodes[1:]): first.next = second
class Slots:
    __slots__ = ("v", "next")
    def __init__(self, v): self.v = v; self.next = None
slots = [Slots(float(k)) for k in range(20)]
for first, second in zip(slots, slots[1:]): first.next = second
gens = [np.random.default_rng(k) for k in range(20)]; one = [np.random.default_rng(0)] * 20
bits = np.random.PCG64(1); alike = [np.random.Generator(bits) for _ in range(20)]
sh = [0]; cells = np.empty(20, object)
for k in range(20): cells[k] = sh
"""
SETUP_COUNTED = "blocks3 = np.arange(36).reshape(12, 3); marks = np.array([0.0, 1.0, 2.0, np.nan, 1.0])"

LINKED = [
    *no(
        body("nodes[i].v = nodes[i].next.v"),
        body("C[i] = nodes[i].next.v", "nodes[i].v = 3.0"),
        body("q = nodes[i].next", "t = q.v", "nodes[i].v = 3.0"),
        body("nodes[i].v = nodes[i].next.next.v"),
        body("nodes[i].next.kids.append(3)", "C[i] = len(nodes[i].kids)"),
        body("q = nodes[i] if B[i] > 3 else nodes[0]", "C[i] = q.v", "nodes[i].v = 3.0"),
        body("q = nodes[0]", "while q is not None:\n    C[i] += q.v\n    q = q.next", "nodes[i].v = 3.0"),
        body("slots[i].v = slots[i].next.v"),
        body("C[i] = slots[i].next.v", "slots[i].v = 3.0"),
        body("nodes[i].w = 1", "C[i] = nodes[i].next.w", over="range(10, -1, -1)"),
        body("cells[i] += [3]"),
        body("for z in (nodes[0], nodes[i]): C[i] += z.v", "nodes[i].v = 3.0"),
        body("kept = Undone()", "A[i] = 1"),
        setup=SETUP_LINKED + "class Undone:\n    def __del__(self): L.append(1)\n",
    ),
    *yes(
        body("q = nodes[i].next", "C[i] = q.v"),
        body("q = nodes[i].next", "C[i] = q.v", "nodes[i].kids = [i]"),
        setup=SETUP_LINKED,
    ),
    Row(
        body("q = Node(i)", "for j in parfor(3):\n    C[3 * i + j] = q.v\n    if j == 0: q.v = 5.0"),
        (True, False),
        SETUP_LINKED,
    ),
]

DRAWN = [
    *no(
        body("A[i] = gens[i // 2].normal()"),
        body("A[i] = one[i].normal()"),
        body("A[i] = alike[i].normal()"),
        body("A[i] = gens[i].normal() + gens[i + 1].normal()"),
        body("A[i] = gens[i].normal() + gens[0].normal()"),
        body("gens[0] = gens[i]", "A[i] = gens[i].normal()"),
        setup=SETUP_LINKED,
    ),
    *yes(
        body("A[i] = gens[i].normal()"),
        body("A[i] = gens[i].normal() + gens[i].uniform()"),
        "for i, g in parfor(enumerate(gens)):\n    A[i] = g.normal()\n",
        setup=SETUP_LINKED,
    ),
]

COUNTED = [
    *yes(
        body("k = i * m", "for j in range(m):\n    C[k] = j\n    k += 1"),
        body("k = i * (m + 1)", "for j in range(m):\n    C[k] = j\n    k = k + 1", "C[k] = 7"),
        body("k = i * 6", "for j in range(2):\n    for q in range(3):\n        C[k] = j\n        k += 1"),
        body("k = 10 * i + 9", "for j in range(5):\n    C[k] = j\n    k -= 2"),
        body("k = i", "if k > 5: k += 6", "A[k] = i"),
        body("if i < 3: k = i\nelif i < 6: k = i + 20\nelse: k = i + 40", "A[k] = A[k] + 1"),
        body("A[blocks3[i]] = i"),
        body("A[perm[3 * i : 3 * i + 3]] = i", over="4"),
        body("A[perm[i::4]] = i", over="4"),
        body("A[blocks3[:, i]] = i", over="3"),
        body("A[perm[offsets[i] : offsets[i + 1]]] = 1.0", over="5"),
        body("A[:5][marks == i] = i + 1", over="4"),
        "for x in parfor('abc'): d[x] = 1\n",
        setup=SETUP_COUNTED,
    ),
    *no(
        body("k = i * m", "for j in range(m + 1):\n    C[k] = j\n    k += 1"),
        body("k = i * m", "for j in range(m):\n    C[k] = j\n    k += 1", "C[k] = 3"),
        body("k = i * m", "for j in range(m):\n    C[k] = j\n    k += j"),
        body("k = i * m", "for j in range(m):\n    C[k] = j\n    k += 1\n    if B[j] > 2: continue\n    k += 1"),
        body("k = np.uint8(20 * i)", "for j in range(15):\n    C[k % 200] = j\n    k += np.uint8(1)", over="10"),
        body("k = i", "if k > 5: k -= 6", "A[k] = i"),
        body("if B[i] < 3: k = i\nelse: k = i - 3", "A[k] = 1"),
        body("A[perm[3 * i : 3 * i + 4]] = i", over="4"),
        body("A[perm[i::3]] = i", over="4"),
        body("A[dup[3 * i + 1 : 3 * i + 4]] = i", over="3"),
        body("A[perm[3 * i : 3 * i + 3]] = i", "perm[0] = 3", over="4"),
        body("A[:5][marks != i] = i + 1", over="4"),
        "for x in parfor('aba'): d[x] = i\n",
        setup=SETUP_COUNTED,
    ),
]
