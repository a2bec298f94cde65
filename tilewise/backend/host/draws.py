"""Uniform numbers by all threads, NumPy's exact streams. In: a generator, memory. Out: the memory, filled.

A uniform number takes one step of the generator, and some generators can be moved ahead by any number of steps: so
each part of the memory is filled by NumPy from a copy that begins where the part does. Other distributions take as many
steps as it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.backend import threads
from tilewise.tuning import tuned

ND = np.ndarray[Any, Any]
Fill = Callable[[np.random.Generator, ND], object]
MOVABLE = ("PCG64", "PCG64DXSM")  # one step of theirs is one number of 64 bits


def fill_uniform(generator: np.random.Generator, out: ND, fill: Fill) -> ND:
    """Contiguous memory filled with numbers of one step each; `fill` draws those of a part."""
    source: Any = generator.bit_generator
    flat = out.reshape(-1)
    step = tuned().draw_part
    if threads.get_threads() < 2 or flat.size < 2 * step or type(source).__name__ not in MOVABLE:
        fill(generator, flat)
        return out
    starts = range(0, flat.size, step)
    with source.lock:
        before = source.state
        after: dict[str, Any] = {}

        def part(k: int) -> None:
            copy: Any = type(source)(0)
            copy.state = before
            copy.advance(starts[k])
            fill(np.random.Generator(copy), flat[starts[k] : starts[k] + step])
            if k == len(starts) - 1:
                after.update(copy.state)

        threads.run(part, len(starts))
        # What is left of a step that gave two numbers of 32 bits stays: uniform ones do not take it.
        source.state = {**before, "state": after["state"]}
    return out
