"""Lines that are run as they are made. In: texts of lines. Out: those that mean something, in a list."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tests.fuzz.choose import Chooser
from tests.fuzz.program import Line, Loop, _Code

State = tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]


class Emitter(Chooser):
    """Keeps the lines that NumPy could run, and the variables after them."""

    def __init__(self, seed: int, length: int = 14, large: bool = False) -> None:
        super().__init__(seed, large)
        self.length = length
        self.code = _Code()
        self.lines: list[Line | Loop] = []
        self.body: list[Line] | None = None
        self.made = 0

    def emit(self, text: str, target: str | None = None, sums: tuple[str, ...] = (), power: bool = False) -> None:
        """Add a line, unless its sums would not be exact or it makes too much."""
        line = Line(text, target, ("power", *sums) if power else sums)
        before = self.state()
        try:
            if sums and not self.exact(*sums, power=power):
                return
            if not self.defined(line):
                self.back(before)
                return
            made = self.names.get(target) if target else None
            if isinstance(made, np.ndarray | np.generic) and (made.size > 20_000 or made.dtype == object):
                del self.names[target]  # type: ignore[arg-type]
                return
        except Exception:
            if not self.chance(0.25):
                return
        self.made += 1
        (self.lines if self.body is None else self.body).append(line)

    def defined(self, line: Line) -> bool:
        """Run a line; whether NumPy says what it gives. What NaN or infinity is as an integer, the processor says."""
        with warnings.catch_warnings(record=True) as told, np.errstate(all="ignore", invalid="warn"):
            warnings.simplefilter("always")
            self.code.run(self.made, line, self.names)
        return not any("encountered in cast" in str(w.message) for w in told)

    def state(self) -> State:
        """The variables, and what is in them."""
        return dict(self.names), {k: v.copy() for k, v in self.names.items() if isinstance(v, np.ndarray)}

    def back(self, state: State) -> None:
        """Return to a state."""
        self.names, contents = state
        for k, v in contents.items():
            if self.names[k].flags.writeable:
                self.names[k][...] = v
