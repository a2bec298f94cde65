"""`python -m tests.fuzz.nests --cases 500 --seed 0`: random nests of loops by plain Python and by `tw.jit`.

Nests of two or three loops, rectangular or triangular, up or down, whose statements add up, copy and scale elements of
one to three arrays at shifted subscripts. Compared are the bits of all arrays, and exceptions with the state they
leave: under the passes that change the order of iterations, under threads for every loop that may have them, and under
the interpreter.
"""

from __future__ import annotations

import argparse
import linecache
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewise as tw
from tests.fuzz.loops.settings import all_settings

SIZES = (11, 13)


def source_of(seed: int) -> str:
    """A function f(A, B, C, x)."""
    r = random.Random(seed)
    names = ["i", "j", "k"][: r.choice((2, 3, 3))]
    r.shuffle(names)
    lines: list[str] = ["def f(A, B, C, x):", "    n, m = A.shape"]
    arrays = r.choice(("A", "AB", "ABC", "ABC"))
    wild = r.random() < 0.2  # subscripts may be out of range

    def subscript(inside: list[str]) -> str:
        name = r.choice(inside)
        return name + r.choice(("", "", "", "", " + 1" if wild else "", " - 1"))

    def element(inside: list[str], array: str | None = None) -> str:
        return f"{array or r.choice(arrays)}[{subscript(inside)}, {subscript(inside)}]"

    def statement(inside: list[str], indent: str) -> list[str]:
        target = element(inside, r.choice(arrays[-1:] * 3 + arrays))
        one, two = element(inside), element(inside)
        kind = r.randrange(6)
        if kind < 3:
            return [f"{indent}{target} {r.choice(('+=', '-='))} {one} * {two}"]
        if kind == 3:
            return [f"{indent}{target} *= x"]
        if kind == 4:
            return [f"{indent}t = {one} - x", f"{indent}{target} = t * {two} + t"]
        return [f"{indent}{target} = {one} + {two}"]

    def head(name: str, around: list[str]) -> str:
        low = r.choice(("1", "1", "1", "0" if wild else "1", *around[-1:], *(f"{a} + 1" for a in around[-1:])))
        high = r.choice(("n", "m", "n - 1", "n", *around[-1:])) if low in ("0", "1") else "n"
        if r.random() < 0.15:
            return f"for {name} in range({high} - 1, {low} - 1, -1):"
        return f"for {name} in range({low}, {high}):"

    indent, around = "    ", list[str]()
    for depth, name in enumerate(names):
        lines.append(indent + head(name, around))
        around, indent = [*around, name], indent + "    "
        last = depth == len(names) - 1
        if not last and r.random() < 0.3:
            lines += statement(around, indent)
    if r.random() < 0.3:
        outer = indent[:-4]
        lines.insert(-1, f"{outer}s = x")
        lines.append(f"{indent}s += {element(around)} * {element(around)}")
        lines.append(f"{outer}{element(around[:-1])} = s")
    else:
        for _ in range(r.choice((1, 1, 2))):
            lines += statement(around, indent)
        if r.random() < 0.4:
            lines += statement(around[:-1], indent[:-4])
    lines.append("    return x" if r.random() < 0.8 else f"    return {names[-1]}")
    return "\n".join(lines) + "\n"


def function_of(seed: int) -> Callable[..., Any]:
    text, file = source_of(seed), f"<nest {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    known: dict[str, Any] = {}
    exec(compile(text, file, "exec"), known)
    return known["f"]  # type: ignore[no-any-return]


def outcome(f: Callable[..., Any], n: int, seed: int) -> tuple[Any, ...]:
    """What can be seen after a call."""
    r = np.random.default_rng(seed)
    arrays = [r.random((n, n)) - 0.5 for _ in range(3)]
    with np.errstate(all="ignore"):
        try:
            told: Any = f(*arrays, 0.5)
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
    return repr(told), *(a.tobytes() for a in arrays)


def wrong(seed: int) -> str:
    """Under which setting a nest differs from Python's, or nothing."""
    f = function_of(seed)
    for name, setting in all_settings().items():
        with setting():
            compiled = tw.jit(f)
            for n in SIZES:
                if outcome(compiled, n, seed) != outcome(f, n, seed):
                    return f"{name}, size {n}"
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failures = 0
    for seed in range(options.seed, options.seed + options.cases):
        if found := wrong(seed):
            failures += 1
            print(f"seed {seed}: {found}\n{source_of(seed)}", flush=True)
    print(f"{options.cases} nests, {failures} failures")
    return int(failures > 0)


if __name__ == "__main__":
    raise SystemExit(main())
