"""Progress: evaluations over a second say so. In: what engines note in `events.activity`. Out: a line on the terminal.

A thread looks every half second; it is started by the first evaluation, only if standard error is a terminal or shown
in a notebook.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tilewise import events

AFTER_SECONDS = 1.0
EVERY_SECONDS = 0.5

_watcher: threading.Thread | None = None
_no_terminal: object = None  # a standard error that was looked at: asking the system costs a microsecond


def watch() -> None:
    """Start watching, once."""
    global _watcher, _no_terminal
    if sys.stderr is _no_terminal or (_watcher is not None and _watcher.is_alive()):
        return
    if sys.stderr is None or not (sys.stderr.isatty() or in_notebook()):
        _no_terminal = sys.stderr
        return
    _watcher = threading.Thread(target=_look, name="tilewise progress", daemon=True)
    _watcher.start()


def in_notebook() -> bool:
    """Whether what is written to standard error is shown in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def under_way() -> bool:
    """Whether there is work that is shown if it takes long."""
    return events.activity.began != 0.0


def begin() -> bool:
    """Work begins that is shown if it takes long; False if it is part of such work."""
    activity = events.activity
    if activity.began:
        return False
    watch()
    if activity.what:
        activity.reach("", 0, 0, 0)
    activity.began = time.perf_counter()
    return True


def end() -> None:
    """Work has ended."""
    events.activity.began = 0.0


@contextmanager
def showing(wanted: bool) -> Iterator[None]:
    """Inside, work is shown if it takes long."""
    shows = wanted and not under_way()
    try:
        if shows:
            begin()
        yield
    finally:
        if shows:
            end()


def line(now: float) -> str | None:
    """What to show now, if anything."""
    activity = events.activity
    if not activity.began or now - activity.began < AFTER_SECONDS:
        return None
    if activity.loop:
        return _iterations(activity.iterations, activity.loop, now - activity.began)
    if activity.parts:
        return _parts(activity.what, activity.part, activity.parts, activity.bytes, now - activity.began)
    return f"tilewise: step {activity.done + 1} of {activity.total}, {now - activity.began:.1f} s"


def _parts(what: str, done: int, total: int, nbytes: int, taken: float) -> str:
    """Of blocks that take turns, or steps on workers.

    >>> _parts("block", 30, 120, 3_000_000_000, 2.0)
    'tilewise: block 31 of 120, 3.0 GB, 2.0 s, about 6.0 s left'
    """
    moved = f", {nbytes / 1e9:.1f} GB" if nbytes >= 1e8 else f", {nbytes / 1e6:.1f} MB" if nbytes >= 1e5 else ""
    left = f", about {taken * (total - done) / done:.1f} s left" if done else ""
    return f"tilewise: {what} {min(done + 1, total):,} of {total:,}{moved}, {taken:.1f} s{left}"


def _iterations(done: int, total: int, taken: float) -> str:
    """Of a loop.

    >>> _iterations(30, 120, 2.0)
    'tilewise: 30 of 120 iterations, 2.0 s, about 6.0 s left'
    """
    left = f", about {taken * (total - done) / done:.1f} s left" if done else ""
    return f"tilewise: {done:,} of {total:,} iterations, {taken:.1f} s{left}"


def _look() -> None:
    shown = 0
    while True:
        time.sleep(EVERY_SECONDS)
        text = line(time.perf_counter())
        if text is not None or shown:
            sys.stderr.write("\r" + (text or "").ljust(shown) + ("" if text else "\r"))
            sys.stderr.flush()
            shown = len(text) if text else 0
