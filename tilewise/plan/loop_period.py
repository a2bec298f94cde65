"""What repeats in a body. In: a kernel. Out: chains of instructions, each the one before it in the iteration before.

A loop that was recorded iteration by iteration is a graph that a shift by one iteration maps onto itself. The shift is
guessed for one instruction and followed through operands and users; where it ends is the first iteration, or
what was computed before the loop.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush

from tilewise.kernel.loops import Instr, Kernel

LOOKS = (4, 1)  # levels of operands by which instructions are compared at first: many, or, of few iterations, few
STARTS = 3  # instructions from which a shift is looked for
GUESSES = 4  # of each
TURNS_LEAST = 2

Chain = list[int]  # values, the last iteration's first


class Body:
    """A kernel's body as a graph."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.inputs = len(kernel.inputs)
        self.base = self.inputs + len(kernel.params)
        self.instrs = kernel.body
        self.last = self.base + len(kernel.body)
        self.users: list[list[int]] = [[] for _ in range(self.last)]
        for v in range(self.base, self.last):
            for a in dict.fromkeys(self.instr(v).args):
                self.users[a].append(v)

    def instr(self, v: int) -> Instr:
        """The instruction that makes a value."""
        return self.instrs[v - self.base]

    def is_param(self, v: int) -> bool:
        return self.inputs <= v < self.base

    def alike(self, x: int, y: int) -> bool:
        """Whether two values are made by the same function."""
        if x < self.base or y < self.base:
            return False
        a, b = self.instr(x), self.instr(y)
        return a.fn == b.fn and a.dtype == b.dtype

    def looks(self, levels: int) -> list[int]:
        """A number per value: where it is equal, so are functions and some levels of operands."""
        first = [hash(v) if v < self.inputs else hash(t) for v, t in enumerate(self.kernel.dtypes[: self.base])]
        looks = first + [hash((i.fn, i.dtype)) for i in self.instrs]
        for _ in range(levels):
            looks = first + [hash((i.fn, i.dtype, *[looks[a] for a in i.args])) for i in self.instrs]
        return looks


def shifts(body: Body) -> Iterator[list[Chain]]:
    """The chains of each shift that may be the loop's, the most likely first."""
    tried: set[tuple[int, int]] = set()
    for levels in LOOKS:
        looks = body.looks(levels)
        often = Counter(looks[body.base :])
        starts = [x for x in range(body.base, body.last) if often[looks[x]] >= TURNS_LEAST and body.instr(x).args]
        for x in starts[: -STARTS - 1 : -1]:
            guesses = [y for y in range(x - 1, body.base - 1, -1) if looks[y] == looks[x]]
            for y in guesses[:GUESSES]:
                if (x, y) not in tried:
                    tried.add((x, y))
                    yield _chains(body, _followed(body, x, y))


def _followed(body: Body, x: int, y: int) -> dict[int, int]:
    """A shift by one iteration that takes x to y: down to all operands, and from these up to other users."""
    earlier: dict[int, int] = {}
    later: dict[int, int] = {}
    _down(body, x, y, earlier, later)
    for v in range(body.base, body.last):
        if v not in earlier:
            found = _other_user(body, v, earlier, later)
            if found is not None:
                _down(body, v, found, earlier, later)
    return earlier


def _down(body: Body, x: int, y: int, earlier: dict[int, int], later: dict[int, int]) -> None:
    """Follow a pair through the operands, users first."""
    heap = [(-x, y)]
    while heap:
        minus, y = heappop(heap)
        x = -minus
        if x == y or x in earlier or y in later or not body.alike(x, y):
            continue
        earlier[x], later[y] = y, x
        for a, b in zip(body.instr(x).args, body.instr(y).args, strict=True):
            if a != b:
                heappush(heap, (-a, b))


def _other_user(body: Body, v: int, earlier: dict[int, int], later: dict[int, int]) -> int | None:
    """The instruction that applies v's function to the corresponding operands of the iteration before."""
    for k, a in enumerate(body.instr(v).args):
        if a not in earlier:
            continue
        for y in body.users[earlier[a]]:
            if y == v or y in later or not body.alike(v, y) or body.instr(y).args[k] != earlier[a]:
                continue
            pairs = zip(body.instr(v).args, body.instr(y).args, strict=True)
            if all(p == q or earlier.get(p) == q or _open(body, p, q, earlier, v, y) for p, q in pairs):
                return y
    return None


def _open(body: Body, p: int, q: int, earlier: dict[int, int], v: int, y: int) -> bool:
    """Whether q may be p of the iteration before: p is not matched yet."""
    if p in earlier:
        return False
    return p == y or (body.is_param(p) and body.is_param(q)) or body.alike(p, q)


def _chains(body: Body, earlier: dict[int, int]) -> list[Chain]:
    """The chains of a shift; short ones that no other needs are not part of the loop."""
    found: list[Chain] = []
    ends = set(earlier.values())
    for top in earlier:
        if top not in ends:
            chain = [top]
            while chain[-1] in earlier:
                chain.append(earlier[chain[-1]])
            found.append(chain)
    most = max(map(len, found), default=0)
    stack = [chain for chain in found if 2 * len(chain) > most]
    of = {v: chain for chain in found for v in chain}
    kept = {chain[0]: chain for chain in stack}
    while stack:
        for a in body.instr(stack.pop()[0]).args:
            chain = of.get(a, [])
            if chain and chain[0] not in kept:
                kept[chain[0]] = chain
                stack.append(chain)
    return list(kept.values())
