"""Runs the programs of tests/programs/collection with any module in the place of NumPy.

A program is a file of plain NumPy with

* ``initialize(n)``: returns the tuple of inputs, random ones from ``np.random.default_rng(seed)``;
* ``program(*inputs)``: returns values, or updates its arguments in place, or both;
* ``SMALL`` and ``MEDIUM``: sizes for tests (at most 1,900 operations, mostly a few hundred) and for
  timing (about 10 ms of NumPy);
* ``KIND``: "element" where NumPy's mean time per operation at MEDIUM, indexing counted, is under 2 µs, that is
  loops over single elements and short rows; "array" otherwise.

From a shell: ``python tests/programs/runner.py [module [name ...]]`` compares every program at SMALL with NumPy.
"""

import builtins
import copy
import importlib
import sys
import traceback
import types
from pathlib import Path

import numpy

COLLECTION = Path(__file__).resolve().parent / "collection"
RTOL = {"float64": 1e-10, "complex128": 1e-10, "float32": 1e-4, "complex64": 1e-4, "float16": 1e-2}


def names():
    """The names of all programs, sorted."""
    return sorted(path.stem for path in COLLECTION.glob("*.py"))


def load(name, module=numpy):
    """Executes a program's file, unmodified, with every import of numpy answered by ``module``."""

    def replaced(target, globals=None, locals=None, fromlist=(), level=0):
        if level == 0 and target.partition(".")[0] == "numpy":
            found = module
            for part in target.split(".")[1:] if fromlist else ():
                found = getattr(found, part)
            return found
        return builtins.__import__(target, globals, locals, fromlist, level)

    path = COLLECTION / f"{name}.py"
    loaded = types.ModuleType(f"programs_{name}")
    loaded.__file__ = str(path)
    loaded.__builtins__ = {**vars(builtins), "__import__": replaced}
    exec(compile(path.read_text(), str(path), "exec"), vars(loaded))
    return loaded


def convert(value, function, seen=None):
    """``function`` applied to the arrays in nested lists, tuples and dicts; one array twice stays one array."""
    seen = {} if seen is None else seen
    if isinstance(value, (tuple, list)):
        return type(value)([convert(item, function, seen) for item in value])
    if isinstance(value, dict):
        return {key: convert(item, function, seen) for key, item in value.items()}
    if value is None or isinstance(value, (bool, int, float, complex, str, numpy.generic)):
        return value
    if id(value) not in seen:
        seen[id(value)] = function(value), value
    return seen[id(value)][0]


def inputs(name, module, n, inside=False):
    """Fresh inputs for ``module``: NumPy's, converted by ``module.array``, or its own where ``inside``."""
    if inside:
        return load(name, module).initialize(n)
    made = copy.deepcopy(load(name).initialize(n))
    return made if module is numpy else convert(made, module.array)


def execute(loaded, arguments):
    """Runs a loaded program and returns (results, arguments after the run), converted to NumPy."""
    results = loaded.program(*arguments)
    return convert((results, tuple(arguments)), numpy.asarray)


def run(name, module=numpy, n=None, inside=False):
    """Runs a program once and returns (results, arguments after the run) as NumPy arrays.

    The inputs come from NumPy, or with ``inside`` from ``initialize`` run under ``module``.
    ``n`` is the program's SMALL unless given.
    """
    loaded = load(name, module)
    n = loaded.SMALL if n is None else n
    return execute(loaded, inputs(name, module, n, inside))


def differences(expected, got, where="result"):
    """A list of sentences saying how ``got`` differs from ``expected``: empty when they agree."""
    if isinstance(expected, (tuple, list, dict)):
        if type(expected) is not type(got):
            return [f"{where}: type {type(got).__name__}, expected {type(expected).__name__}"]
        if len(expected) != len(got) or (isinstance(expected, dict) and expected.keys() != got.keys()):
            return [f"{where}: other keys or another length ({len(got)}, expected {len(expected)})"]
        keys = expected if isinstance(expected, dict) else range(len(expected))
        return [line for key in keys for line in differences(expected[key], got[key], f"{where}[{key!r}]")]
    if expected is None or isinstance(expected, str):
        return [] if expected == got and type(expected) is type(got) else [f"{where}: {got!r}, expected {expected!r}"]
    e, g = numpy.asarray(expected), numpy.asarray(got)
    if e.dtype != g.dtype:
        return [f"{where}: dtype {g.dtype}, expected {e.dtype}"]
    if e.shape != g.shape:
        return [f"{where}: shape {g.shape}, expected {e.shape}"]
    if e.dtype.kind not in "fc":
        bad = e != g
    else:
        rtol = RTOL[e.dtype.name]
        finite = numpy.abs(e[numpy.isfinite(e)])
        # Sums that cancel are judged against the largest value beside them, ten times as tightly.
        scale = finite.max() if finite.size else 0.0
        bad = ~numpy.isclose(g, e, rtol=rtol, atol=0.1 * rtol * scale, equal_nan=True)
    if not bad.any():
        return []
    at = tuple(int(i) for i in numpy.argwhere(bad)[0])
    return [f"{where}: {int(bad.sum())} of {bad.size} values differ, first at {at}: {g[at]!r}, expected {e[at]!r}"]


def compare(expected, got):
    """Raises AssertionError unless two answers of ``run`` agree in structure, dtypes, shapes and values."""
    found = differences(expected[0], got[0], "result") + differences(expected[1], got[1], "argument")
    assert not found, "; ".join(found)


def main(arguments):
    module = importlib.import_module(arguments[0] if arguments else "tilewise")
    failed = []
    chosen = arguments[1:] or names()
    for name in chosen:
        expected = run(name)
        for inside in (False, True):
            try:
                compare(expected, run(name, module, inside=inside))
            except Exception as error:
                failed.append(name)
                last = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(last.filename).name}:{last.lineno}"
                text = str(error)[:300]
                print(f"{name}{' (initialised inside)' if inside else ''}: {type(error).__name__}: {text} [{place}]")
    print(f"{len(chosen) - len(set(failed))} of {len(chosen)} programs agree with NumPy")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
