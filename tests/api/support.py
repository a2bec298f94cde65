"""Runs a line of code with NumPy and with Tilewise in its place, and compares everything a user can see.

A row is text: statements separated by `;`, the last one an expression. The names in it are `np` (NumPy or Tilewise),
`nd` (real NumPy, in both runs) and operands, each made anew by the code in `OPERANDS`. Families of rows are in rows/.
"""

from __future__ import annotations

import ast
import functools
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy

import tilewise

MODES: dict[str, dict[str, Any]] = {
    "default": {"fallback": "warn"},
    "recorded": {"eager_bytes": 0, "fallback": "silent"},
}

OPERANDS: dict[str, str] = {
    "s": "np.array(3.5)",
    "e": "np.zeros((0, 3))",
    "e1": "np.zeros(0)",
    "one": "np.ones((1, 1)) * 2",
    "v": "np.array([3.0, -1.0, 2.5, 0.0, 7.0, -4.5])",
    "w": "np.array([1.0, 2.0, -3.0, 0.5, 0.25, 8.0])",
    "u": "np.array([0.1, 0.9, 0.5, 0.25, 0.7, 0.3])",
    "odd": "np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0])",
    "i": "np.array([3, -1, 2, 0, 7, -4])",
    "k": "np.array([2, 0, 1, 1, 0, 2])",
    "b": "np.array([True, False, True, True, False, False])",
    "c": "np.array([1 + 2j, -0.5j, 3.0, -1 - 1j, 0, 2j])",
    "i8": "np.array([3, -1, 2, 0, 127, -128], np.int8)",
    "u8": "np.array([3, 1, 2, 0, 255, 128], np.uint8)",
    "i16": "np.array([3, -1, 2, 0, 300, -4], np.int16)",
    "u16": "np.array([3, 1, 2, 0, 300, 4], np.uint16)",
    "i32": "np.array([3, -1, 2, 0, 7, -4], np.int32)",
    "u32": "np.array([3, 1, 2, 0, 7, 4], np.uint32)",
    "u64": "np.array([3, 1, 2, 0, 7, 4], np.uint64)",
    "f16": "np.array([3, -1, 2.5, 0, 7, -4.5], np.float16)",
    "f32": "np.array([3, -1, 2.5, 0, 7, -4.5], np.float32)",
    "c64": "np.array([1 + 2j, -0.5j, 3.0, -1 - 1j, 0, 2j], np.complex64)",
    "A": "np.array([[3.0, -1.0, 2.5], [0.0, 7.0, -4.5]])",
    "B": "np.arange(6.0).reshape(2, 3) - 2.5",
    "I": "np.array([[3, -1, 2], [0, 7, -4]])",
    "M": "np.array([[True, False, True], [False, False, True]])",
    "F": "np.asfortranarray(np.arange(12.0).reshape(3, 4))",
    "G": "np.arange(12.0).reshape(4, 3).T * 2",
    "N": "np.arange(20.0)[::-2]",
    "P": "np.arange(24.0).reshape(4, 6)[::-1, 1::2]",
    "T": "np.arange(24.0).reshape(2, 3, 4)",
    "R": "np.arange(24.0).reshape(4, 3, 2).transpose(2, 1, 0)",
    "S": "np.array([[2.0, 1.0, 0.5], [1.0, 3.0, -1.0], [0.5, -1.0, 4.0]])",
    "row": "np.array([10.0, 20.0, 30.0])",
    "col": "np.array([[1.0], [2.0]])",
    "at": "np.array([2, 0, 0])",
    "a": "nd.array([[3.0, -1.0, 2.5], [0.0, 7.0, -4.5]])",  # a real ndarray in both runs
    "p": "nd.arange(6.0)",
}

ROWS = Path(__file__).parent / "rows"
LATE = ("negative integer powers", "is out of bounds for axis", "Singular matrix", "not positive definite")


def rows(family: str) -> list[str]:
    """The rows of a family: the lines of its file."""
    return [line for line in (ROWS / f"{family}.txt").read_text().splitlines() if line]


@functools.cache
def _parsed(text: str) -> tuple[Any, Any, frozenset[str]]:
    tree = ast.parse(text)
    names = frozenset(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        value = compile(ast.Expression(last.value), text, "eval")
        tree.body.pop()
    else:
        value = compile("None", text, "eval")
    return compile(tree, text, "exec"), value, names


def run(text: str, module: Any) -> tuple[Any, dict[str, Any]]:
    """The value of a row with a module as NumPy, and the operands afterwards. An exception is a value."""
    statements, value, names = _parsed(text)
    scope: dict[str, Any] = {"np": module, "nd": numpy, "tw": tilewise}
    operands = [n for n in names if n in OPERANDS]
    for n in operands:
        scope[n] = eval(OPERANDS[n], {"np": module, "nd": numpy})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", tilewise.FallbackWarning)
        try:
            exec(statements, scope)
            result = eval(value, scope)
        except Exception as error:
            result = error
        return result, {n: scope[n] for n in operands}


def ours(value: Any) -> Any:
    """An Array's value; anything else as it is."""
    return value.compute() if type(value) is tilewise.Array else value


def difference(expected: Any, got: Any, ulps: int = 0, order: bool = True) -> str | None:
    """What differs between NumPy's result and ours, or None."""
    if isinstance(expected, Exception):
        if type(expected) is type(got):
            return None
        ours(got)  # may raise now
        return f"NumPy raises {expected!r}, we give {got!r}"
    if isinstance(got, Exception):
        return f"raises {got!r}, NumPy gives {expected!r}"
    if isinstance(expected, numpy.ndarray) and type(expected) is numpy.ndarray:
        if type(got) is not tilewise.Array:
            return f"a {type(got).__name__}, not an Array: {got!r}"
        if got._fixed:
            return f"a number {got!r}, not an array of no axes"
        return _arrays(expected, got, ulps, order)
    if isinstance(expected, numpy.generic):
        if type(got) is tilewise.Array:
            if not got._fixed:
                return f"an array {got!r}, not a number"
            return _arrays(numpy.asarray(expected), got, ulps, False)
        if not isinstance(got, type(expected)) or got.dtype != expected.dtype:
            return f"a {type(got).__name__} {got!r}, not a number of type {type(expected).__name__}"
        return _values(numpy.asarray(expected), numpy.asarray(got), ulps)
    if isinstance(expected, tuple | list):
        if len(expected) != len(got) or (type(expected) in (tuple, list) and type(got) is not type(expected)):
            return f"{got!r} is not {expected!r}"
        for e, g in zip(expected, got, strict=True):
            found = difference(e, g, ulps, order)
            if found:
                return found
        return None
    if isinstance(expected, dict):
        return difference(list(expected.items()), list(got.items()), ulps, order)
    if type(expected) in (bool, int, float, complex) and type(got) is tilewise.Array and got.ndim == 0:
        return _values(numpy.asarray(expected), got.compute(), ulps)
    if type(got) is not type(expected) and not callable(expected):
        return f"a {type(got).__name__} {got!r}, not a {type(expected).__name__} {expected!r}"
    if type(expected) is float and expected != expected:
        return None if got != got else f"{got} is not nan"
    if hasattr(expected, "__dict__") or callable(expected):
        return None
    return None if expected == got else f"{got!r} is not {expected!r}"


def _arrays(expected: Any, got: Any, ulps: int, order: bool) -> str | None:
    if got.dtype != expected.dtype:
        return f"dtype {got.dtype}, not {expected.dtype}"
    if got.shape != expected.shape:
        return f"shape {got.shape}, not {expected.shape}"
    if order and expected.size and (got.flags.forc, got.flags.fnc) != (expected.flags.forc, expected.flags.fnc):
        return f"strides {got.strides}, not {expected.strides}"
    return _values(expected, got.compute(), ulps)


def _values(expected: Any, got: Any, ulps: int) -> str | None:
    if expected.dtype.kind not in "fc":
        same = expected.tolist() == got.tolist()
        return None if same else f"{got!r} is not {expected!r}"
    if ulps == 0:
        same = numpy.array_equal(expected, got, equal_nan=True)
        if same and expected.dtype.kind == "f":
            real = ~numpy.isnan(expected)
            same = bool((numpy.signbit(expected) == numpy.signbit(got))[real].all())
    else:
        eps = float(numpy.finfo(expected.dtype).eps)
        size = float(numpy.nanmax(numpy.abs(expected[numpy.isfinite(expected)]), initial=0.0))
        with numpy.errstate(all="ignore"):
            same = numpy.allclose(
                expected, got, rtol=ulps * eps, atol=ulps * eps * size if ulps > 16 else 0, equal_nan=True
            )
    return None if same else f"{got!r} is not {expected!r}"


def check(text: str, mode: str, ulps: int = 0, order: bool = True) -> str | None:
    """What differs when a row runs in both: its value, or an operand afterwards."""
    expected, before = run(text, numpy)
    with tilewise.config(**MODES[mode]):
        got, after = run(text, tilewise)
        try:
            found = difference(expected, got, ulps, order)
        except Exception as error:  # a mistake that only the data tell
            late = type(error) is type(expected) and any(text in str(error) for text in LATE)
            return None if late else f"raised when asked for: {error!r}"
        for n, e in before.items() if found is None else ():
            same = difference(e, after[n], ulps) if OPERANDS[n].startswith("np") else _values(e, after[n], ulps)
            if same:
                return f"operand {n}: {same}"
    return found


def check_all(rows: Iterable[str], mode: str, ulps: int = 0, order: bool = True) -> None:
    """Assert that every row gives the same in both; all that differ are named."""
    found = [f"{text}\n    {wrong}" for text in rows if (wrong := check(text, mode, ulps, order))]
    assert not found, f"{len(found)} rows differ\n" + "\n".join(found)
