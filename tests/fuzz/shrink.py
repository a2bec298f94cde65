"""Shrinking. In: a failing program and a test of failure. Out: a smaller program that still fails the same way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

from tests.fuzz.program import Line, Loop, Program


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 60.0) -> Program:
    """Apply the first simplification that still fails, until none does."""
    end = time.monotonic() + seconds
    going = True
    while going and time.monotonic() < end:
        going = False
        for smaller in _simpler(program):
            if time.monotonic() > end:
                break
            if fails(smaller):
                program, going = smaller, True
                break
    return program


def _simpler(program: Program) -> Iterator[Program]:
    n = len(program)
    size = n // 2
    while size >= 1:  # without a run of parts
        for start in range(n - size, -1, -size):
            yield program[:start] + program[start + size :]
        size //= 2
    for i, part in enumerate(program):
        if isinstance(part, Loop):
            yield program[:i] + part.body + program[i + 1 :]
            for times in (2, part.times - 1):
                if 1 < times < part.times:
                    yield (*program[:i], Loop(times, part.body), *program[i + 1 :])
            for k in range(len(part.body)):
                if len(part.body) > 1:
                    yield (*program[:i], Loop(part.times, part.body[:k] + part.body[k + 1 :]), *program[i + 1 :])
    for i, part in enumerate(program):
        if isinstance(part, Line):
            for text in _simpler_text(part.text):
                yield (*program[:i], Line(text, part.target, part.sums), *program[i + 1 :])


def _simpler_text(text: str) -> Iterator[str]:
    """Plainer data and smaller shapes in a line."""
    found = re.fullmatch(r"data\(\d+, \((.*?)\), '(\w+)', (True|False)\)(.*)", text)
    if found:
        dims = [int(d) for d in found[1].split(",") if d.strip()]
        if found[3] == "True":
            yield text.replace("True", "False")
        if found[4]:
            yield text[: len(text) - len(found[4])]
        for i, d in enumerate(dims):
            for less in {d // 2, d - 1} - {d, -1}:
                new = tuple(dims[:i] + [less] + dims[i + 1 :])
                yield text.replace(f"({found[1]})", str(new), 1)
        if len(dims) > 1:
            for i in range(len(dims)):
                yield text.replace(f"({found[1]})", str(tuple(dims[:i] + dims[i + 1 :])), 1)
        if found[2] not in ("float64", "int64"):
            yield text.replace(found[2], "float64")
        return
    for bracket in re.finditer(r"\[[^\[\]]*\](?=[.\[)]|$| )", text):  # without an index
        yield text[: bracket.start()] + text[bracket.end() :]
    for method in re.finditer(r"\.(?:T|real|imag|ravel\(\)|copy\(\)|reshape\([^()]*\)|swapaxes\([^()]*\))", text):
        yield text[: method.start()] + text[method.end() :]
    for option in re.finditer(r", (?:keepdims|where|initial|dtype|axis)=(?:\([^()]*\)|[^,()]+)", text):
        yield text[: option.start()] + text[option.end() :]
