"""`python -m tests.bits NAME... --runs 20`: run programs again and again; print digests of their results as JSON."""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy

import tilewise as tw
from tests.bits.digest import digest
from tests.bits.programs import PROGRAMS
from tilewise.array.schedule import promote

MOST = 4_000_000  # elements of an input


@contextmanager
def soon() -> Iterator[None]:
    """Loops are promoted after few operators; overflows are as they are."""
    with patch.object(promote, "LONG", 60), numpy.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def kernels() -> dict[str, Any]:
    """Every program of benchmarks/kernels, on inputs of 1,000 to some million elements, plain and traced."""
    registry = import_module("benchmarks.kernels.registry")
    found: dict[str, Any] = {}
    for name, p in registry.load().items():
        for size in sorted({1_000, 100_000, 1_000_000, p.size}):
            if size <= MOST and size in (p.size, *p.scales):
                found[f"{name} {size}"] = _kernel(p, size, lambda f: f)
                found[f"{name} {size} traced"] = _kernel(p, size, tw.jit)
    return found


def _kernel(program: Any, size: int, made: Any) -> Any:
    inputs = program.inputs(size)
    f = made(program.source)

    def run(np: Any) -> Any:
        return f(np, *[np.asarray(x) if isinstance(x, numpy.ndarray) else x for x in inputs])

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--backwards", action="store_true", help="the programs in the other order")
    parser.add_argument("--kernels", action="store_true", help="the programs of benchmarks/kernels")
    options = parser.parse_args()
    programs = kernels() if options.kernels else PROGRAMS
    names = options.names or list(programs)
    found: dict[str, list[str]] = {n: [] for n in names}
    with soon():
        for _ in range(options.runs):
            for name in reversed(names) if options.backwards else names:
                found[name].append(digest(programs[name](tw)))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
