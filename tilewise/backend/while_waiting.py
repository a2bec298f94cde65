"""What can be done while code is waited for. In: pieces of work. Out: one at a time, where a thread would stand still.

An evaluation offers work that later ones would have to do (array/evaluation/next_code.py); whoever waits for the
compiler's process does a piece of it before looking again (backend/llvm/compile/helper.py). What is not done by the end
of the evaluation is forgotten: nothing depends on it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Offered(threading.local):
    pieces: Iterator[Any] | None = None


_offered = _Offered()


@contextmanager
def offered(pieces: Iterator[Any]) -> Iterator[None]:
    """In the block, a wait of this thread does some of these pieces; each ends at a `yield`."""
    _offered.pieces = pieces
    try:
        yield
    finally:
        _offered.pieces = None


def do_a_piece() -> bool:
    """Do one piece; whether there was one. Work within a piece waits without doing others."""
    pieces, _offered.pieces = _offered.pieces, None
    if pieces is None:
        return False
    for _ in pieces:
        _offered.pieces = pieces
        return True
    return False
