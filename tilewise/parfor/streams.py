"""Random numbers in loops: each iteration has its own stream. In: a generator. Out: states by iteration number.

The streams depend on the generator and the iteration only, not on workers, tasks or modes. A loop spawns once from the
generator, so two loops have different streams, and the generator's own stream goes on where it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.errors import ParforError, message


class Streams:
    """The streams of one loop.

    >>> a, b = (Streams(np.random.default_rng(5)) for _ in range(2))
    >>> a.state(3) == b.state(3), a.state(3) == a.state(4)
    (True, False)
    """

    def __init__(self, generator: np.random.Generator) -> None:
        try:
            (child,) = generator.spawn(1)
        except TypeError as error:
            raise ParforError(
                message("rng cannot be spawned from", cure="Use np.random.default_rng(seed), which knows its seed")
            ) from error
        self.kind: Any = type(child.bit_generator)
        self.seed: Any = child.bit_generator.seed_seq

    def state(self, iteration: int) -> Any:
        """The state of the stream of an iteration."""
        key = (*self.seed.spawn_key, iteration)
        sequence = np.random.SeedSequence(self.seed.entropy, spawn_key=key, pool_size=self.seed.pool_size)
        return self.kind(sequence).state

    def generator(self) -> np.random.Generator:
        """A generator whose state is to be set."""
        return np.random.Generator(self.kind(0))
