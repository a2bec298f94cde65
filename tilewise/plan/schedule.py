"""The order of steps on a mesh. In: steps. Out: the same steps, in as few rounds of exchanges as possible.

Adjacent exchanges share a round, and a round costs one message. A step runs as early as exchanges allow; of all steps
that need the same number of rounds before them, exchanges come last.
"""

from __future__ import annotations

from dataclasses import replace

from tilewise.plan.draft import Draft
from tilewise.stage.steps import Exchange, Step, Write, makes, passes, reads


def schedule(draft: Draft) -> Draft:
    """A pass of the compiler: steps in rounds (without exchanges, as they are)."""
    if not any(isinstance(s, Exchange) for s in draft.steps):
        return draft
    rounds: dict[int, int] = {}  # by value: exchanges before it
    read_in: dict[int, int] = {}  # by value: the last round that reads it
    order: list[tuple[int, bool, int]] = []
    for k, step in enumerate(draft.steps):
        own = max((rounds.get(x, 0) for x in reads(step)), default=0)
        # What is overwritten is not read any more: readers before it would need a copy otherwise.
        own = max([own, *(read_in.get(b, 0) for b in _replaced(step))])
        for x in reads(step):
            read_in[x] = max(read_in.get(x, 0), own)
        exchange = isinstance(step, Exchange)
        order.append((own, exchange, k))
        for x in makes(step):
            rounds[x] = own + exchange
    return replace(draft, steps=tuple(draft.steps[k] for _, _, k in sorted(order)))


def _replaced(step: Step) -> list[int]:
    """What a step replaces parts of."""
    if isinstance(step, Write):
        return [step.base]
    return [w for p in passes(step) for w in p.writes if w is not None]
