"""Arrays that NumPy keeps from writes. In: samples of results, a lowered program. Out: a refusal of what shows it.

Compiled code writes wherever it is told to, and what it returns can be written to. Arrays that cannot be in NumPy
(diagonals, what is broadcast, the imaginary parts of real numbers) have a root of their own (`Builder.roots`), which
whatever shows their memory has as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.kernel.program.ir import Array, HostCall, Return, Stmt, Store
from tilewise.python.refuse import Refused

_BEGIN = "read-only"


def roots(sample: Any, name: str, line: int) -> list[str]:
    """The root of what a call gives, if a sample of that is read-only, or has elements at one place."""
    if not isinstance(sample, np.ndarray):
        return []
    repeated = any(n > 1 and not step for n, step in zip(sample.shape, sample.strides, strict=True))
    return [f"{_BEGIN} {line} {name}"] if repeated or not sample.flags.writeable else []


def check(every: Sequence[Stmt], arrays: Mapping[str, Array]) -> None:
    """Raise Refused if a program writes to such an array, or returns it."""
    for s in every:
        if isinstance(s, Store):
            refuse_write(arrays[s.array].roots)
        elif isinstance(s, HostCall):
            for a in s.writes:
                refuse_write(arrays[a].roots)
        elif isinstance(s, Return):
            for v in s.values:
                _refuse(arrays[v].roots if isinstance(v, str) else (), "as a result")


def refuse_write(shown: Iterable[str]) -> None:
    """Raise Refused if memory is that of such an array."""
    _refuse(shown, "that is written to")


def _refuse(shown: Iterable[str], why: str) -> None:
    for root in sorted(shown):
        kind, _, rest = root.partition(" ")
        if kind == _BEGIN:
            line, _, name = rest.partition(" ")
            raise Refused(f"{name}, a read-only array, {why}", int(line), "Copy it with .copy() first")
