"""One script again and again in one process. In: a name, a size, seconds. Out: JSON: best times, what is wrong.

python -m benchmarks.scripts.again heat large 2
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy

import tilewise
from benchmarks.kernels.systems import differs

HERE = Path(__file__).parent / "nine"
LEAST, MOST = 5, 200  # repeats


def load(name: str, library: ModuleType = numpy) -> Any:
    """A script as a module whose `np` is `library`."""
    spec = importlib.util.spec_from_file_location(f"{name}_with_{library.__name__}", HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.np = library
    return module


def results(script: Any, size: Any) -> dict[str, Any]:
    """What a script returns, as NumPy has it."""
    return {name: numpy.asarray(value) for name, value in script.main(size).items()}


def wrong(script: Any, found: dict[str, Any], expected: dict[str, Any]) -> str:
    """The first result that is not near, or nothing."""
    for name, value in expected.items():
        if text := differs(found[name], value, getattr(script, "RTOL", 1e-6), strict=True):
            return f"{name}: {text}"
    return ""


def main(name: str, size: str, seconds: float) -> dict[str, Any]:
    """Times of NumPy and Tilewise in turns, and what is wrong with Tilewise's first and last results."""
    scripts = {"numpy": load(name), "tilewise": load(name, tilewise)}
    best = dict.fromkeys(scripts, float("inf"))
    script = scripts["numpy"]
    expected = results(script, script.SIZES[size])
    problem = wrong(script, results(scripts["tilewise"], script.SIZES[size]), expected)
    began, count = time.perf_counter(), 0
    while count < LEAST or (count < MOST and time.perf_counter() - began < seconds):
        for system, script in scripts.items():
            start = time.perf_counter()
            found = results(script, script.SIZES[size])
            best[system] = min(best[system], time.perf_counter() - start)
        count += 1
    return {**best, "wrong": problem or wrong(script, found, expected)}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print(json.dumps(main(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
