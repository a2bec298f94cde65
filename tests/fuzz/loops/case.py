"""A case as data: the text of a module with a function `f`, and its arguments. In: specs. Out: functions and arguments.

Arrays lie flush against guard pages (tests/kernel/guards.py), so code that reads or writes too far dies at once.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import linecache
import math
import random
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.fuzz.program import data
from tests.kernel.guards import guarded, strides_for

_numbers = itertools.count()
MODULES = {"bisect": bisect, "heapq": heapq, "random": random}


@dataclass(frozen=True)
class ArraySpec:
    """An array of small whole numbers (some special values, where asked for), as it lies in memory."""

    seed: int
    shape: tuple[int, ...]
    dtype: str
    special: bool = False
    order: str = "C"
    steps: tuple[int, ...] = ()  # strides of the axes, in elements of a packed array; () is all ones
    side: str = "right"  # the guard page that it touches

    def made(self, call: int) -> np.ndarray[Any, Any]:
        """The array of one call."""
        rank = len(self.shape)
        axes = range(rank) if self.order == "C" else range(rank - 1, -1, -1)
        strides = strides_for(self.shape, np.dtype(self.dtype).itemsize, list(axes), self.steps or (1,) * rank)
        array = guarded(self.shape, self.dtype, strides, self.side)
        array[...] = data(self.seed + 1000 * call, self.shape, self.dtype, self.special)
        return array

    def text_of(self, call: int) -> str:
        """The array as an expression."""
        plain = data(self.seed + 1000 * call, self.shape, self.dtype, self.special)
        text = f"np.array({plain.tolist()!r}, dtype=np.{self.dtype}).reshape({self.shape})"
        if self.order == "F":
            text = f"np.asfortranarray({text})"
        if any(step != 1 for step in self.steps):
            text = f"strided({text}, {self.steps})"
        return text.replace("nan", "np.nan").replace("inf", "np.inf")


@dataclass(frozen=True)
class ScalarSpec:
    """A number, as Python text, and another for later calls."""

    text: str
    later: str

    def text_of(self, call: int) -> str:
        return self.later if call else self.text


@dataclass(frozen=True)
class AliasSpec:
    """A view of an earlier argument."""

    of: int
    index: str

    def text_of(self, call: int) -> str:
        return f"a{self.of}{self.index}"


Spec = ArraySpec | ScalarSpec | AliasSpec


@dataclass(frozen=True)
class Case:
    """A module's text with `f` in it, and what `f` is called with."""

    source: str
    specs: tuple[Spec, ...]

    def arguments(self, call: int = 0) -> list[Any]:
        """Fresh arguments; later calls have other values."""
        made: list[Any] = []
        for spec in self.specs:
            if isinstance(spec, ArraySpec):
                made.append(spec.made(call))
            elif isinstance(spec, AliasSpec):
                made.append(eval(f"a{spec.index}", {"a": made[spec.of], "np": np}))
            else:
                made.append(eval(spec.text_of(call), {"np": np, "nan": np.nan, "inf": np.inf}))
        return made

    def function(self) -> Callable[..., Any]:
        """`f`, newly made, whose source can be found as that of a cell of a notebook."""
        name = f"<loops {next(_numbers)}>"
        linecache.cache[name] = (len(self.source), None, self.source.splitlines(keepends=True), name)
        names: dict[str, Any] = {"np": np, "math": math, "__name__": "loops", **MODULES}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # of what shrinking leaves
            exec(compile(self.source, name, "exec"), names)
        made: Callable[..., Any] = names["f"]
        return made

    def script(self, calls: Sequence[int] = (0,)) -> str:
        """The case as a program of its own, with these calls."""
        lines = [
            "import bisect",
            "import heapq",
            "import math",
            "import random",
            "",
            "import numpy as np",
            "import tilewise as tw",
            "",
        ]
        if any(isinstance(s, ArraySpec) and any(k != 1 for k in s.steps) for s in self.specs):
            lines += [
                "",
                "def strided(x, steps):",
                "    base = np.zeros([max(n, 1) * abs(k) for n, k in zip(x.shape, steps)], x.dtype)",
                "    cut = base[tuple(slice(None, None, k) for k in steps)]",
                "    view = cut[tuple(slice(n) for n in x.shape)]",
                "    view[...] = x",
                "    return view",
                "",
            ]
        lines += ["", self.source]
        names = ", ".join(f"a{k}" for k in range(len(self.specs)))
        for call in sorted(set(calls)):
            lines += ["", f"def arguments_{call}():"]
            lines += [f"    a{k} = {spec.text_of(call)}" for k, spec in enumerate(self.specs)]
            lines += [f"    return [{names}]", ""]
        makers = ", ".join(f"arguments_{call}" for call in calls)
        lines += ["", "for g in (f, tw.jit(f)):", f"    for arguments in ({makers},):", "        a = arguments()"]
        lines += ["        try:", "            print(repr(g(*a)))"]
        lines += ["        except Exception as e:", "            print(repr(e))", "        print(a)"]
        return "\n".join(lines)
