"""What becomes of every NumPy name. In: a typical call of each. Out: `docs/coverage.md`.

    python -m benchmarks.coverage [--only name] [--write]

Each call runs on four virtual workers that have the operands, and with everything recorded. A name is

- *native* if one operator of ours does it, *composed* if several do (views and changes of dtype not counted),
- *fallback* if the call hands an operand to NumPy on the driver, brings one there, or sends all of one to every worker
  (but for products of matrices, where that is the least that can move), which a FallbackWarning says,
- *plain* if there is nothing to distribute: classes, constants, settings, text, files, and what depends on shapes only,
- *absent* if there is no such name.

A name may do more than its typical call: other options may fall back, and then say so in the same way.
"""

from __future__ import annotations

import argparse
import ast
import itertools
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw
from benchmarks.coverage_calls import CALLS, COMPLEX, INTEGERS, PLAIN
from tilewise.array.handle import node_of
from tilewise.errors import FallbackWarning
from tilewise.events import Event
from tilewise.ir.node import walk

PAGE = Path(__file__).resolve().parent.parent / "docs" / "coverage.md"
WORKERS = 4
N = 8_400  # of vectors
ROWS, COLS = 420, 120  # of matrices
SIDE = 368  # of a square one: more than a MiB, of which it is said if all of it goes to everybody
LARGE = N * 8 // 4  # bytes of operands that count as large: a quarter of a vector
VIEWS = ("view", "cut", "arrange", "reshape", "copy", "cast", "broadcast")
# What moves is what must move: panels of a factorisation, one operand of a product.
NEEDED = frozenset(("linalg.cholesky", "linalg.matrix_power"))
VERSION = ".".join(np.__version__.split(".")[:2])
CLASSES = ("native", "composed", "fallback", "plain", "absent")


@dataclass(frozen=True)
class Found:
    """What one name is."""

    name: str
    kind: str  # one of CLASSES
    note: str = ""  # of a fallback: what happens to the operand
    call: str = ""
    warned: bool = False  # by a FallbackWarning with the line of the call


def names() -> Iterator[str]:
    """Every public name of NumPy, of its linear algebra and its Fourier transforms; no modules."""
    lazy: set[str] = getattr(np, "__numpy_submodules__", set())
    for n in sorted(np.__all__):  # not what others add (numexpr does)
        if not n.startswith("_") and n not in lazy and not isinstance(getattr(np, n), types.ModuleType):
            yield n
    yield from (f"linalg.{n}" for n in np.linalg.__all__)
    yield from (f"fft.{n}" for n in np.fft.__all__)


def _of(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def call_of(name: str) -> str | None:
    """The text of a typical call; None of a name that is plain."""
    if name in CALLS:
        return CALLS[name]
    value = _of(np, name)
    if name in PLAIN or not isinstance(value, np.ufunc):
        assert name in PLAIN or isinstance(value, type) or not callable(value), f"no typical call of {name}"
        return None
    args = ("k", "i") if name == "ldexp" or name.startswith(tuple(INTEGERS)) else ("u", "y")
    args = ("c",) if name in COMPLEX else args
    return f"np.{name}({', '.join(args[: value.nin])})"


@cache
def arrays() -> dict[str, Any]:
    """The operands by name."""
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=N),
        "y": rng.normal(size=N),
        "u": rng.uniform(size=N),
        "c": rng.normal(size=N) + 1j * rng.normal(size=N),
        "k": rng.integers(0, 50, N),
        "i": rng.integers(0, N, N),
        "m": rng.random(N) < 0.5,
        "A": rng.normal(size=(ROWS, COLS)),
        "B": rng.normal(size=(ROWS, COLS)),
        "S": np.diag(np.arange(1.0, SIDE + 1)),
        "T": rng.normal(size=(N, 5)),
        "M": rng.random((ROWS, COLS)) < 0.5,
        "I": rng.integers(0, ROWS, (ROWS, COLS)),
    }


def operands(text: str) -> dict[str, Any]:
    """The operands that a call names, on the workers."""
    named = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    placed = {name: tw.asarray(v).relayout(0) for name, v in arrays().items() if name in named}
    tw.evaluate(*placed.values())
    return placed


def _arrays(found: Any) -> Iterator[Any]:
    if isinstance(found, tuple | list):
        for x in found:
            yield from _arrays(x)
    elif isinstance(found, tw.Array):
        yield found


def look(name: str) -> Found:
    """Call a name on four workers, and see what happens."""
    if _of(tw, name) is None and _of(np, name) is not None:
        return Found(name, "absent")
    text = call_of(name)
    if text is None:
        return Found(name, "plain")
    with tw.session(engine="virtual", workers=WORKERS), tw.config(eager_bytes=0, objective="bytes"):
        data = {"np": tw, "ROWS": ROWS, "COLS": COLS, **operands(text)}
        with tw.profile() as seen, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            *before, last = text.split("; ")
            source = f"<call {next(_numbers)} of {name}>"  # whose lines warn anew
            exec(compile("; ".join(before), source, "exec"), data)
            results = list(_arrays(eval(compile(last, source, "eval"), data)))
            once = not any(e.kind in ("pass", "call", "write") for e in seen.timeline)  # nothing was needed on the way
            ops = _operators(results)
            tw.evaluate(*results)
    note = "" if name in NEEDED else _gathered(seen.timeline)
    kind = "fallback" if note else "native" if ops <= 1 and once else "composed"
    warned = any(w.category is FallbackWarning and w.filename == source for w in said)
    return Found(name, kind, note, text, warned)


_numbers = itertools.count()


def _operators(results: list[Any]) -> int:
    """How many operators results are made of."""
    nodes = walk([node_of(x) for x in results])
    return sum(n.value is None and bool(n.inputs) and n.op.name not in VIEWS for n in nodes)


def _gathered(timeline: list[Event]) -> str:
    """What happened to a large operand that need not have left its worker; nothing if all stayed."""
    if any(e.kind == "fallback" for e in timeline):
        return "NumPy, on the driver"
    if sum(e.bytes for e in timeline if e.kind == "gather") >= LARGE * (WORKERS - 1) // WORKERS:
        return "brought to the driver"
    whole = [e.bytes for e in timeline if e.kind == "exchange" and e.name in ("all-gather", "broadcast")]
    return "all of it to every worker" if sum(whole) >= LARGE * (WORKERS - 1) else ""


def page(found: list[Found]) -> str:
    """The table as it stands in the documentation."""
    top = [f for f in found if "." not in f.name]
    count = {c: sum(f.kind == c for f in top) for c in CLASSES}
    lines = [
        "# Which NumPy names are distributed",
        "",
        f"Written by `python -m benchmarks.coverage --write` for NumPy {VERSION}, and tested.",
        "A typical call of each name runs on four workers that have the operands; the file says what the words mean.",
        "",
        "| of NumPy's top-level names | " + " | ".join(CLASSES) + " |",
        "|---|" + "---|" * len(CLASSES),
        f"| {len(top)} | " + " | ".join(str(count[c]) for c in CLASSES) + " |",
        "",
        "## Large operands that leave their workers",
        "",
        "Each such call gives a `FallbackWarning` with the user's line if an operand is large.",
        "",
        "| name | call | what happens |",
        "|---|---|---|",
        *(f"| `{f.name}` | `{f.call}` | {f.note} |" for f in found if f.kind == "fallback"),
        "",
    ]
    for kind in ("native", "composed", "plain", "absent"):
        of_kind = [f.name for f in found if f.kind == kind]
        if of_kind:
            lines += [f"## {kind.capitalize()}", "", *_wrapped(of_kind), ""]
    return "\n".join(lines)


def _wrapped(words: list[str], width: int = 140) -> Iterator[str]:
    line = ""
    for w in words:
        if line and len(line) + len(w) + 3 > width:
            yield line
            line = ""
        line += ("" if not line else " ") + f"`{w}`"
    yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    found = []
    for name in names():
        if args.only in name:
            found.append(look(name))
            if found[-1].kind not in ("plain", "native") or args.only:
                print(f"{name:28}{found[-1].kind:10}{found[-1].note}", flush=True)
    print({c: sum(f.kind == c for f in found) for c in CLASSES})
    if args.write:
        PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
