"""Progress of a loop: iterations done and time left. In: counts. Out: what `observe/progress.py` shows on the terminal.

Whoever waits for workers says how many iterations are done; loops inside of other loops, or of workers, say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilewise import events
from tilewise.config import current
from tilewise.observe import progress as shown
from tilewise.parfor.job import inside, unseen


def seen(done: int) -> None:
    """So many iterations have been done."""
    events.activity.iterations = done


@contextmanager
def looping(count: int) -> Iterator[Callable[[int], None]]:
    """Inside, a loop runs: whom to tell how far it is."""
    visible = current().progress and not inside.worker and not events.activity.loop
    if not visible:
        yield unseen
        return
    with shown.showing(True):
        events.activity.loop, events.activity.iterations = count, 0
        try:
            yield seen
        finally:
            events.activity.loop = 0
