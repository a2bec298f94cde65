"""Whether two accesses meet in different iterations: the cheapest test that decides. In: accesses. Out: `Outcome`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewise.kernel.dependence.access import Access, Outcome
from tilewise.kernel.dependence.affine_tests import distances, never_meet
from tilewise.kernel.dependence.expr import Index, Undecided
from tilewise.kernel.dependence.inspect import TooMany, meeting

SAMPLES = (256, 16, 3)  # iterations that are looked at where all are too many


def _known(a: Access, b: Access) -> tuple[Access, Access]:
    """Both without dimensions of which one side is any cell: these tell nothing apart."""
    both = zip(a.subscripts, b.subscripts, strict=True)
    kept = [d for d, sides in enumerate(both) if all(e.integer or e.evaluates() for e in sides)]
    if not kept or len(kept) == len(a.subscripts):
        return a, b
    return tuple(replace(x, subscripts=tuple(x.subscripts[d] for d in kept)) for x in (a, b))  # type: ignore[return-value]


def decide(a: Access, b: Access, parallel: Index, shared: Sequence[Index] = (), same: bool = False) -> Outcome:
    """Whether iterations p != q of `parallel` exist in which `a` (in p) and `b` (in q) touch one cell.

    `shared` are the loops around `parallel`, in order: they have the same value on both sides. `same` counts iterations
    that meet themselves, too. "Independent" is a proof; the answer is otherwise a pair that meets, or that may.

    >>> from tilewise.kernel.dependence.expr import constant, var
    >>> i = Index("i", constant(100))
    >>> write = Access("A", (var(i) * 2,), (i,), True)
    >>> decide(write, Access("A", (var(i) * 2 + 1,), (i,), False), i)
    Outcome(independent=True, test='GCD', pair=None)
    >>> decide(write, Access("A", (var(i) + 40,), (i,), False), i)
    Outcome(independent=False, test='Banerjee', pair=(20, 0))
    """
    if parallel.last < 1 and not same:
        return Outcome(True, "trip count")
    if any(loop.last < 0 for x in (a, b) for loop in x.loops):
        return Outcome(True, "trip count")
    if a.array != b.array:
        return Outcome(True, "arrays")
    a, b = _known(a, b)
    proof = never_meet(a, b, parallel, shared)
    if proof is not None:
        return Outcome(True, proof)
    name, distance = distances(a, b, parallel, shared)
    if distance is None and not same:
        return Outcome(True, name)
    affine = all(e.affine for x in (a, b) for e in x.subscripts)
    found = "inspector"
    if affine and not any(x.guards for x in (a, b)):
        used = any(e.slope(parallel) for e in a.subscripts)
        found = "constant" if not used else "Banerjee" if name == "constant" else name
    try:
        pair = meeting(a, b, parallel, shared, same=same)
        return Outcome(pair is None, "inspector" if pair is None else found, pair)
    except Undecided:
        pass
    except TooMany:
        for count in SAMPLES:
            try:
                pair = meeting(a, b, parallel, shared, first=count, same=same)
            except (TooMany, Undecided):
                continue
            if pair is not None:
                return Outcome(False, found, pair)
    guess = distance if distance is not None and abs(distance) <= parallel.last else 1
    return Outcome(False, "undecided", (max(guess, 0), max(-guess, 0)))
