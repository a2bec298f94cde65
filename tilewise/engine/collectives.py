"""One worker's part in a collective (ops/traits/collectives.py). In: its blocks, others' pieces. Out: its blocks."""

from __future__ import annotations

import numpy as np

from tilewise.ops.traits.collectives import CollectiveCall, Outbox, Parts, exchange_rounds


class Participant:
    """A collective under way, as one worker runs it: what it sends next (`outbox`), or its result."""

    def __init__(self, call: CollectiveCall, worker: int, sources: list[Parts]) -> None:
        self.call = call
        self.result: Parts | None = None
        self._rounds = exchange_rounds(call.collective.op, call, worker, *sources)
        self.outbox: Outbox = []
        self._advance(None)

    def receive(self, inbox: Outbox) -> None:
        """Take what every worker sent, this one included; fill the outbox for the next round, or set the result."""
        self._advance(inbox)

    def _advance(self, inbox: Outbox | None) -> None:
        try:
            with np.errstate(all="ignore"):  # recorded work raises no warnings
                self.outbox = next(self._rounds) if inbox is None else self._rounds.send(inbox)
        except StopIteration as end:
            self.result = end.value
        except Exception as error:
            if self.call.site is not None:
                file, line = self.call.site
                error.add_note(f"in {self.call.collective.label()}, recorded at {file}:{line}")
            raise
