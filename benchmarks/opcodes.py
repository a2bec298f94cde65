"""How many steps of the interpreter small operations take. In: options. Out: a table, by function if asked.

    python -m benchmarks.opcodes [--functions 12]

Times of a few microseconds drown in noise on a busy machine; counts of bytecodes and of calls are the same every time.
Two trees are compared by running this in both. An opcode takes some 10 ns, a call of a Python function as long as ten.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks.overheads import LARGE, SMALL, ten

WARM, COUNTED = 300, 50


class Counted:
    """Opcodes and calls by function, while it is switched on."""

    def __init__(self) -> None:
        self.opcodes: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()

    def __enter__(self) -> None:
        sys.settrace(self._trace)

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        code = frame.f_code
        name = f"{code.co_qualname} ({code.co_filename.rpartition('tilewise/')[2]})"
        if event == "opcode":
            self.opcodes[name] += 1
        elif event == "call":
            self.calls[name] += 1
        return self._trace


def counted(action: Callable[[], Any], prepare: Callable[[], Any] = lambda: None) -> Counted:
    """Opcodes of many calls, once everything is warm; `prepare` is not counted."""
    found = Counted()
    for k in range(WARM + COUNTED):
        prepare()
        if k < WARM:
            action()
        else:
            with found:
                action()
    return found


def rows() -> dict[str, Counted]:
    """Recording, and finding a plan again."""
    small = tw.asarray(np.ones(SMALL))
    big, other = tw.asarray(np.full(LARGE, 2.0)), tw.asarray(np.full(LARGE, 3.0))
    pending = big + other
    found = {
        "small + 1, at once": counted(lambda: small + 1),
        "record: known + known": counted(lambda: big + other),
        "record: known * number": counted(lambda: big * 0.5),
        "record: pending * number": counted(lambda: pending * 0.5),
    }
    made: list[Any] = []
    with tw.config(eager_bytes=0):
        x, y = tw.asarray(np.ones(SMALL)), tw.asarray(np.ones(SMALL))
        prepare = lambda: made.__setitem__(slice(None), [ten(x, y, 0.5)])  # noqa: E731
        found["plan-cache hit, ten operators"] = counted(lambda: np.asarray(made[0]), prepare)
    return found


def main() -> None:
    """Print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--functions", type=int, default=0, help="so many functions of each row")
    options = parser.parse_args()
    print(f"{'':<40}{'opcodes':>10}{'calls':>8}")
    for name, found in rows().items():
        print(f"{name:<40}{found.opcodes.total() / COUNTED:>10.0f}{found.calls.total() / COUNTED:>8.0f}")
        for function, n in found.opcodes.most_common(options.functions):
            print(f"    {function:<60}{n / COUNTED:>8.0f}{found.calls[function] / COUNTED:>6.0f}")


if __name__ == "__main__":
    main()
