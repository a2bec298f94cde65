"""Folds and scans along an axis, compiled. In: functions, kinds of numbers. Out: what runs on blocks of arrays.

A line is gone along in order. With a combiner, which is associative, long lines are cut into pieces of a fixed length,
whose results are combined pairwise: the bits depend on the length of the line alone, not on threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.native.elements import Elements, packed
from tilewise.api.functions.native.kinds import Kind, converted, joined, of_result, spec, stored
from tilewise.api.functions.native.loop import RETURNED, Loop, array, compiled, cuts, in_parts, result_types
from tilewise.config import current
from tilewise.python.refuse import Refused
from tilewise.records import dataclass
from tilewise.store import pool

PIECE = 1 << 10  # elements of a line between two combinations
LEAST_PART = 1 << 12  # elements of a thread's part of the lines
ND = np.ndarray[Any, Any]
Kinds = tuple[Kind, ...]


@dataclass(frozen=True)
class Functions:
    """What happens along a line.

    With `combine`: state = combine(state, f(elements)), without f: of the elements themselves. Without: state =
    f(state, elements). A scan gives emit(state), or the state, at every place.
    """

    f: Any
    combine: Any
    emit: Any

    def named(self) -> dict[str, Any]:
        """Those there are, by the names that texts call them."""
        named = {"f": self.f, "combine": self.combine, "emit": self.emit}
        return {k: v for k, v in named.items() if v is not None}


def state_kinds(
    by: Functions, elements: Sequence[np.dtype[Any]], start: Kinds | None, tuples: bool | None = None
) -> tuple[Kinds, bool]:
    """The kinds of the numbers of the state, which functions give again, and whether they are a tuple.

    `tuples`: whether what the state begins with is one. Raises Refused.
    """
    specs = [spec(d) for d in elements]
    several = bool(tuples)
    found: list[Kinds] = [start] if start is not None else []
    if by.combine is None:
        if not found:
            found = [(elements[0],)]
    elif by.f is None:
        found.append((elements[0],))
    else:
        made, several = _results(by.f, specs)
        if tuples not in (None, several):
            raise Refused("a state that is one number, or several, as it comes")
        found += made
    for _ in range(5):
        if len({len(k) for k in found}) != 1:
            raise Refused("a state of another number of values than it is given")
        kinds = tuple(joined(part) for part in zip(*found, strict=True))
        state = tuple(map(spec, kinds)) if several else spec(kinds[0])
        given = [state, state] if by.combine is not None else [state, *specs]
        again, listed = _results(by.f if by.combine is None else by.combine, given)
        if listed != several or any(len(k) != len(kinds) for k in again):
            raise Refused("a state that is one number, or several, as it comes")
        found = [kinds, *again]
        if tuple(joined(part) for part in zip(*found, strict=True)) == kinds:  # narrower results are converted
            return kinds, several
    raise Refused("a state whose type changes with every element")


def _results(f: Any, specs: Sequence[Any]) -> tuple[list[Kinds], bool]:
    """The kinds of what a function gives, and whether that is a tuple."""
    found = result_types(f, specs)
    tuples = {s[0] == "tuple" for s in found}
    if len(tuples) != 1:
        raise Refused("a result that is one number, or several, as it comes")
    several = tuples.pop()
    return [tuple(map(of_result, s[1:] if several else (s,))) for s in found], several


def emitted_kinds(emit: Any, kinds: Kinds, several: bool) -> Kind:
    """The kind of the number that a scan gives at every place."""
    state = tuple(map(spec, kinds)) if several else spec(kinds[0])
    made, tuples = _results(emit, [state])
    if tuples:
        raise Refused("a tuple where a scan has one number")
    return joined(k[0] for k in made)


def lines_text(by: Functions, operands: int, kinds: Kinds, several: bool, begins: bool, scans: bool) -> str:
    """The loop over the rows of matrices: results, operands, then the values that the state begins with."""
    n = range(len(kinds))
    outs = ["o0"] if scans and (by.emit is not None or not several) else [f"o{k}" for k in n]
    given = [f"x{k}" for k in range(operands)]
    firsts = [f"a{k}" for k in n] if begins else []
    state = f"({', '.join(f's{k}' for k in n)},)" if several else "s0"

    def at(i: str) -> str:
        return ", ".join(f"{x}[r, {i}]" for x in given)

    def put(name: str, what: str, deep: str) -> list[str]:
        """The parts of what a function gives, as numbers of their kinds."""
        names = [f"{name}{k}" for k in n]
        made = [f"{deep}{', '.join(names)}{',' if several else ''} = {what}"]
        return made + [f"{deep}{x} = {converted(k, x)}" for x, k in zip(names, kinds, strict=True)]

    def show(i: str, deep: str) -> list[str]:
        if by.emit is not None:
            return [f"{deep}o0[r, {i}] = emit({state})"]
        return [f"{deep}o{k}[r, {i}] = s{k}" for k in n]

    arguments = ", ".join([*by.named(), *outs, *given, *firsts])
    lines = [f"def lines({arguments}):", "    for r in range(x0.shape[0]):"]
    two, three = " " * 8, " " * 12
    contribution = at if by.f is None or by.combine is None else lambda i: f"f({at(i)})"
    if begins:
        lines += [f"{two}s{k} = a{k}" for k in n]
    else:
        lines += put("s", contribution("0"), two)
        lines += show("0", two) if scans else []
    lines.append(f"{two}for i in range({0 if begins else 1}, x0.shape[1]):")
    if by.combine is None:
        lines += put("s", f"f({state}, {at('i')})", three)
    else:
        lines += put("c", contribution("i"), three)
        other = f"({', '.join(f'c{k}' for k in n)},)" if several else "c0"
        lines += put("s", f"combine({state}, {other})", three)
    if scans:
        lines += show("i", three)
    else:
        lines += [f"{two}o{k}[r] = s{k}" for k in n]
    return "\n".join(lines) + "\n"


def merge_loop(combine: Any, kinds: Kinds, several: bool) -> Loop:
    """Two arrays of states as one, element by element."""
    n = range(len(kinds))
    names = [f"{c}{k}" for c in "oxy" for k in n]
    both = [", ".join(converted(kind, f"{c}{k}[i]") for k, kind in enumerate(kinds)) for c in "xy"]
    pair = ", ".join(f"({b},)" for b in both) if several else ", ".join(both)
    lines = [f"def merge(combine, {', '.join(names)}):", "    for i in range(len(o0)):"]
    if several:
        lines.append(f"        {', '.join(f'r{k}' for k in n)}, = combine({pair})")
        lines += [f"        o{k}[i] = r{k}" for k in n]
    else:
        lines.append(f"        o0[i] = combine({pair})")
    specs = [array(stored(kinds[k]), 1) for _ in "oxy" for k in n]
    loop = compiled("\n".join(lines) + "\n", {"combine": combine}, specs, len(kinds))
    if loop.captured:  # states are combined on the way between workers, too
        raise Refused("an array from outside in what combines states", 0, "Give it as an argument of f")
    return loop


def merging(combine: Any, kinds: Kinds, several: bool) -> Elements:
    """What combines two arrays of states. Raises Refused."""
    dtypes = tuple(map(stored, kinds))
    loop = merge_loop(combine, kinds, several)
    return Elements(combine, loop, (*kinds, *kinds), (*dtypes, *dtypes), dtypes, several)


def tree_loop(combine: Any, kinds: Kinds, several: bool) -> Loop:
    """Rows of states as one each, in place: neighbours pairwise, then their neighbours. Raises Refused."""
    n = range(len(kinds))
    both = [
        ", ".join(converted(kind, f"o{k}[r, {at}]") for k, kind in enumerate(kinds)) for at in ("2 * i", "2 * i + 1")
    ]
    pair = ", ".join(f"({b},)" for b in both) if several else ", ".join(both)
    lines = [f"def tree(combine, {', '.join(f'o{k}' for k in n)}):", "    for r in range(o0.shape[0]):"]
    lines += ["        m = o0.shape[1]", "        while m > 1:", "            for i in range(m // 2):"]
    if several:
        lines.append(f"                {', '.join(f'r{k}' for k in n)}, = combine({pair})")
        lines += [f"                o{k}[r, i] = r{k}" for k in n]
    else:
        lines.append(f"                o0[r, i] = combine({pair})")
    lines.append("            if m % 2:")
    lines += [f"                o{k}[r, m // 2] = o{k}[r, m - 1]" for k in n]
    lines.append("            m = (m + 1) // 2")
    return compiled("\n".join(lines) + "\n", {"combine": combine}, [array(stored(k), 2) for k in kinds], len(kinds))


def lines_loop(
    by: Functions, dtypes: Sequence[np.dtype[Any]], kinds: Kinds, several: bool, begins: bool, outs: Sequence[Any],
    scans: bool,
) -> Loop:  # fmt: skip
    """The compiled loop of `lines_text`. Raises Refused."""
    text = lines_text(by, len(dtypes), kinds, several, begins, scans)
    specs = [array(d, 2 if scans else 1) for d in outs] + [array(d, 2) for d in dtypes]
    return compiled(text, by.named(), [*specs, *(map(spec, kinds) if begins else ())], len(outs))


@dataclass(frozen=True)
class Lines:
    """A fold or scan along an axis of blocks that broadcast together; arrays that functions refer to come last."""

    by: Functions
    loop: Loop
    merge: Elements | None  # two arrays of states as one
    tree: Loop | None  # rows of states as one each, where lines are cut into pieces
    axis: int
    dtypes: tuple[np.dtype[Any], ...]
    first: tuple[Any, ...] | None
    outs: tuple[np.dtype[Any], ...]
    several: bool
    scans: bool
    native = True

    def __call__(self, *blocks: Any) -> Any:
        made = self.arrays(*blocks)
        return packed(made) if len(made) > 1 else made[0]

    def arrays(self, *blocks: Any) -> list[ND]:
        """The results, one by one."""
        n = len(self.dtypes)
        arrays = np.broadcast_arrays(*(np.asarray(b) for b in blocks[:n]))
        rest = self.loop.given(blocks)
        moved = [np.moveaxis(a, self.axis, -1) for a in arrays]
        outer, length = moved[0].shape[:-1], moved[0].shape[-1]
        rows = math.prod(outer)
        flat = [
            np.ascontiguousarray(m.astype(d, copy=False)).reshape(rows, length)
            for m, d in zip(moved, self.dtypes, strict=True)
        ]
        if self.scans:
            made = self._gone(flat, rest)
            return [np.ascontiguousarray(np.moveaxis(m.reshape(*outer, length), -1, self.axis)) for m in made]
        return [m.reshape(outer) for m in self._folded(flat, rest)]

    def _gone(self, flat: list[ND], rest: list[ND]) -> list[ND]:
        """The loop over rows, on all threads."""
        rows, length = flat[0].shape
        made = [pool.empty((rows, length) if self.scans else (rows,), d) for d in self.outs]
        if rows == 0 or (self.scans and length == 0):
            return made
        parts = cuts(rows, LEAST_PART // max(length, 1))
        first = self.first or ()

        def args(k: int) -> list[Any]:
            lo, hi = parts[k]
            return [*(m[lo:hi] for m in made), *(x[lo:hi] for x in flat), *first, *rest]

        in_parts(self.loop, len(parts), args)
        return made

    def _folded(self, flat: list[ND], rest: list[ND]) -> list[ND]:
        """Lines as one number each (or several)."""
        rows, length = flat[0].shape
        if self.tree is None or length <= PIECE:
            return self._gone(flat, rest)
        whole = length // PIECE
        states = self._gone([x[:, : whole * PIECE].reshape(rows * whole, PIECE) for x in flat], rest)
        pieces = [s.reshape(rows, whole) for s in states]
        if whole * PIECE < length:
            last = self._gone([np.ascontiguousarray(x[:, whole * PIECE :]) for x in flat], rest)
            pieces = [np.concatenate([p, s[:, None]], axis=1) for p, s in zip(pieces, last, strict=True)]
        pieces = [np.ascontiguousarray(p) for p in pieces]
        kept = [p.copy() for p in pieces]  # for Python, if code cannot
        end = self.tree(pieces) if current().native else None
        if end is None or (end.status != RETURNED and not self.tree.raised(end)):
            pieces = kept
            self.tree.python(pieces)
        return [p[:, 0].copy() for p in pieces]
