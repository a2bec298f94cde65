"""ndarrays that a function refers to, while it is traced. In: the function. Out: a context where writes to them fail.

A trace runs the function once (or twice, and in vain); what is replayed later would leave such a write out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilewise.api.functions.reach import Untraceable, function_key, plain
from tilewise.api.functions.tracer import PACKAGE
from tilewise.api.functions.watch import Watch

NOT_USERS = (PACKAGE, np.__path__[0])


@contextmanager
def unwritable(f: Any) -> Iterator[None]:
    """Inside, a write to an ndarray that f refers to raises Untraceable, and does not happen."""
    watch, found = Watch(), plain(f)
    if found is not None:
        function_key(found, arrays=[], watch=watch)
    held = [a for a in {id(a): a for a in watch.held}.values() if a.flags.writeable]
    try:
        for a in held:
            a.flags.writeable = False
        yield
    except ValueError as error:
        if held and "read-only" in str(error):
            raise Untraceable("a write to an ndarray outside of it", line_of(error), pure=False) from None
        raise
    finally:
        for a in sorted(held, key=lambda a: a.base is not None):  # a view follows what it shows
            a.flags.writeable = True


def line_of(error: BaseException) -> str:
    """The user's line that an exception came from."""
    at, where = error.__traceback__, ""
    while at is not None:
        code = at.tb_frame.f_code
        if not code.co_filename.startswith(NOT_USERS):
            where = f"{code.co_filename}:{at.tb_lineno}"
        at = at.tb_next
    return where
