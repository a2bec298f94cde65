"""Progress of a loop: iterations done and time left. In: counts. Out: what `observe/progress.py` shows on the terminal.

Whoever waits for workers says how many iterations are done; loops inside of other loops, or of workers, say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilewise import events
from tilewise.config import current
from tilewise.observe import progress as shown
from tilewise.parfor.job import inside


class Progress:
    """One loop's own line; silent if another loop is shown already."""

    def __init__(self, visible: bool) -> None:
        self.visible = visible

    def done(self, count: int) -> None:
        """So many iterations have been done."""
        if self.visible:
            events.activity.iterations = count


@contextmanager
def looping(count: int) -> Iterator[Progress]:
    """Inside, a loop runs."""
    visible = current().progress and not inside.worker and not events.activity.loop
    if not visible:
        yield Progress(False)
        return
    with shown.showing(True):
        events.activity.loop, events.activity.iterations = count, 0
        try:
            yield Progress(True)
        finally:
            events.activity.loop = 0
