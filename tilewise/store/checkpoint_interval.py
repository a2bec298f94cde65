"""How often something is written. In: what a user says. Out: whether it is time."""

from __future__ import annotations

import re
import time
from typing import Any

from tilewise.errors import ConfigError, message

DEFAULT = "30s"


class Due:
    """When the next checkpoint is to be written: after some time ("30s", "5min"), or so many iterations or plans.

    >>> due = Due(2)
    >>> due.now(), due.now()
    (False, True)
    """

    def __init__(self, every: Any) -> None:
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|min|m|h)\s*", every) if isinstance(every, str) else None
        if found is None and (isinstance(every, bool | str) or not isinstance(every, int) or every < 1):
            raise ConfigError(
                message(
                    "every says how often to write a checkpoint", got=repr(every), cure='Write every="30s", or every=10'
                )
            )
        unit = {"s": 1, "sec": 1, "min": 60, "m": 60, "h": 3600}
        self.seconds = float(found[1]) * unit[found[2]] if found is not None else None
        self.count = every if found is None else None
        self.again()

    def now(self) -> bool:
        """Whether it is time, one iteration (or plan) later."""
        self.since += 1
        if self.count is not None:
            return bool(self.since >= self.count)
        return self.seconds is not None and time.monotonic() - self.at >= self.seconds

    def again(self) -> None:
        """Count from now on."""
        self.since, self.at = 0, time.monotonic()
