"""Random programs as functions for `tw.jit`: `python -m tests.fuzz.jitted --cases 2000 --seed 0`.

A program's data become arguments. The function is called again and again, with other values that lie otherwise in
memory: from the third call on, small arrays go through a line of native calls (backend/llvm/replay/). Results and
arguments must be NumPy's after every call.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy

import tilewise as tw
from tests.fuzz.generate import generate
from tests.fuzz.program import Difference, Line, Loop, data, differs, quiet
from tests.fuzz.thresholds import thresholds
from tilewise.api.functions.purity import Untraceable

Array = numpy.ndarray[Any, Any]
Block = tuple[int, list[str]]  # how often, statements

DATA = re.compile(r"data\((\d+), (\([^)]*\)), '(\w+)', (True|False)\)")
ASKS = re.compile(r"\b(keep|peek|deep|pickled|repeated|foreign)\(")  # not for stand-ins
LAYOUTS: dict[str, Callable[[Any, Array], Any]] = {
    "plain": lambda np, a: np.asarray(a),
    "turned": lambda np, a: np.asarray(numpy.asfortranarray(a)),
    "backwards": lambda np, a: np.asarray(a[::-1].copy())[::-1] if a.ndim else np.asarray(a),
    "gaps": lambda np, a: np.asarray(numpy.repeat(a, 2, axis=0))[::2] if a.ndim else np.asarray(a),
}
CALLS = ("plain", "plain", "plain", "plain", "turned", "turned", "backwards", "backwards", "gaps", "gaps", "plain")


class Function:
    """A program as a function of its data."""

    def __init__(self, case: int, large: bool = False) -> None:
        self.specs: list[tuple[int, tuple[int, ...], str, bool]] = []
        program = generate(case, large=large)
        blocks = [(p.times, p.body) if isinstance(p, Loop) else (1, (p,)) for p in program]
        self.blocks = [(times, [s for line in body if (s := self._statement(line))]) for times, body in blocks]
        self._runnable()
        self._traceable()

    def _statement(self, line: Line) -> str:
        """A line with arguments for data; nothing if it asks for values."""

        def argument(found: re.Match[str]) -> str:
            self.specs.append((int(found[1]), eval(found[2]), found[3], found[4] == "True"))
            return f"d{len(self.specs) - 1}"

        return "" if ASKS.search(line.source()) else DATA.sub(argument, line.source())

    def _runnable(self) -> None:
        """Drop statements that raise with NumPy; what is left makes `outs`."""
        names: dict[str, Any] = {"np": numpy, **{f"d{k}": a for k, a in enumerate(self.given(numpy))}}
        with quiet():
            for times, body in self.blocks:
                for _ in range(times):
                    for statement in list(body):
                        try:
                            exec(statement, names)
                        except Exception:
                            body.remove(statement)
        made = [k for k, v in names.items() if re.fullmatch(r"[vr]\d+", k) and isinstance(v, numpy.ndarray)]
        self.outs = [k for k in made if names[k].dtype != object]

    def _traceable(self) -> None:
        """Drop statements that cannot be traced, as far as they are told."""
        while True:
            jitted = tw.jit(self.built(0))
            with quiet(), tw.config(fallback="silent"):
                try:
                    jitted(tw, *self.given(tw))
                except Exception:
                    return  # the calls that count will find it
            refused = [why for why in jitted._kept.values() if isinstance(why, Untraceable)]
            number = re.search(r":(\d+)$", refused[0].where or "") if refused else None
            if number is None or not self._drop(int(number[1])):
                return
            self._runnable()

    def _drop(self, number: int) -> bool:
        at = 1
        for times, body in self.blocks:
            at += times > 1
            for k in range(len(body)):
                at += 1
                if at == number:
                    del body[k]
                    return True
            at += not body
        return False

    def source(self) -> str:
        """The function."""
        text = [f"def f(np{''.join(f', d{k}' for k in range(len(self.specs)))}):"]
        for times, body in self.blocks:
            indent = "        " if times > 1 else "    "
            text += [f"    for _ in range({times}):"] * (times > 1) + [indent + s for s in body or ["pass"]]
        return "\n".join([*text, f"    return [{', '.join(f'np.array({o})' for o in self.outs)}]"])

    def built(self, number: int) -> Any:
        """The function, compiled."""
        names: dict[str, Any] = {}
        exec(compile(self.source(), f"jitted{number}", "exec"), names)
        return names["f"]

    def given(self, np: Any, call: int = 0, layout: str = "plain") -> list[Any]:
        """The arguments of a call."""
        made = (data(seed + 1000 * call, shape, dtype, special) for seed, shape, dtype, special in self.specs)
        return [LAYOUTS[layout](np, numpy.asarray(a)) for a in made]


def check(case: int, small: bool = False) -> tuple[str, Difference] | None:
    """The first difference from NumPy in some calls of a function, and its source."""
    function = Function(case, large=small)
    if not function.specs or not function.outs:
        return None
    plain = function.built(case)
    jitted = tw.jit(plain)
    with thresholds(case) if small else nullcontext(), tw.config(eager_bytes=(0, 300, 100_000)[case % 3]):
        for call, layout in enumerate(CALLS):
            found = _differs(function, plain, jitted, call, layout)
            if found is not None:
                return function.source(), Difference(found.kind, f"call {call}, {layout}: {found.where}", found.text)
    return None


def _differs(function: Function, plain: Any, jitted: Any, call: int, layout: str) -> Difference | None:
    mine, theirs = (function.given(np, call, layout) for np in (tw, numpy))
    with warnings.catch_warnings(record=True) as told, numpy.errstate(all="ignore", invalid="warn"):
        warnings.simplefilter("always")
        try:
            want = plain(numpy, *theirs)
        except Exception:
            return None  # other data
    if any("in cast" in str(w.message) for w in told):
        return None  # what does not fit is undefined
    with quiet():
        try:
            got = jitted(tw, *mine)
            pairs = zip((*function.outs, *function.specs), (*got, *mine), (*want, *theirs), strict=True)
            return next((d for n, g, w in pairs if (d := differs(str(n), g, w, layout=False))), None)
        except Exception as error:
            return Difference(f"raises {type(error).__name__}", "call", str(error))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--thresholds", action="store_true", help="thresholds of large data are small")
    options = parser.parse_args(arguments)
    failures = 0
    for case in range(options.seed, options.seed + options.cases):
        bad = check(case, options.thresholds)
        if bad is not None:
            failures += 1
            print(f"\n=== case {case}: {bad[1]}\n{bad[0]}", flush=True)
    print(f"{options.cases} functions from {options.seed}: {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
