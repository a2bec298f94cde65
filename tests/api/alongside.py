"""A thread beside a test. In: what it does again and again. Out: a context in which threads switch often."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def alongside(turn: Callable[[], None]) -> Iterator[None]:
    """Inside, another thread takes turn after turn; what one raises is raised at the end."""
    done = threading.Event()
    failed: list[Exception] = []

    def work() -> None:
        while not done.is_set() and not failed:
            try:
                turn()
            except Exception as error:
                failed.append(error)

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    thread.start()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
    if failed:
        raise failed[0]
