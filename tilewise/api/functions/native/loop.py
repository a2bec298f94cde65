"""A loop of ours around functions of users, compiled. In: the loop's text, functions, types. Out: a `Loop`.

The loop is Python text, read by the same front end as the functions, which are lowered at the places of their calls.
What is sent to workers is the program: source may not be at hand there. Arrays that functions refer to are operands.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np

from tilewise.api.functions.faults import raise_fault, reruns
from tilewise.api.functions.guards import Guards
from tilewise.api.functions.purity import Untraceable
from tilewise.api.functions.scalar_trace import key_of
from tilewise.backend import host_backend, threads
from tilewise.backend.base import Outcome
from tilewise.config import current
from tilewise.kernel.program.ir import Program
from tilewise.python.arithmetic import NATIVE_DTYPES
from tilewise.python.build import Static
from tilewise.python.refuse import Refused
from tilewise.python.specialise import ArraySpec, Specialised, specialise

RETURNED, FAILED = 0, 1  # statuses of an `Outcome`
MOST_LOOPS = 512
PARTS_PER_THREAD = 8  # elements may be of very different work
Spec = Any  # ArraySpec, or the class of a number


class Loop:
    """A program, compiled where it first runs; the text that it was made of says what it does, in Python."""

    def __init__(
        self, text: str, functions: tuple[Any, ...], program: Program, captured: tuple[Any, ...], results: Any
    ) -> None:
        self.text, self.functions, self.program, self.captured = text, functions, program, captured
        self.results = results  # structures of what it returns
        self._bound: Callable[[list[Any]], Outcome] | None = None

    def bound(self) -> Callable[[list[Any]], Outcome]:
        """Its code."""
        if self._bound is None:
            self._bound = host_backend(True).program(self.program)
        return self._bound

    def __call__(self, args: Sequence[Any]) -> Outcome:
        return self.bound()(list(args))

    def python(self, args: Sequence[Any]) -> Any:
        """The same, by Python."""
        return written(self.text)(*self.functions, *args[: len(args) - len(self.captured)])

    def __reduce__(self) -> tuple[Any, ...]:
        captured = (None,) * len(self.captured)  # these are operands
        return (Loop, (self.text, self.functions, self.program, captured, self.results))

    def raised(self, outcome: Outcome) -> bool:
        """Raise what a call came to, at the user's line; False if Python must make the call."""
        if outcome.status != FAILED:
            return False
        fault = self.program.faults[outcome.which]
        if reruns(fault):
            return False
        raise_fault(fault, outcome.payload, "<tilewise loop>", self.program.name, self.program.name)


def in_parts(loop: Loop, parts: int, args: Callable[[int], Sequence[Any]]) -> None:
    """All parts of some work on all threads: by the program, or by Python where that cannot.

    Of several exceptions the one of the first part is raised, as in a loop over all elements.
    """
    if not current().native:
        for k in range(parts):
            loop.python(args(k))
        return
    ends: list[Outcome | None] = [None] * parts
    code = loop.bound()

    def work(part: int) -> None:
        ends[part] = code(list(args(part)))

    threads.run(work, parts)
    for k, end in enumerate(ends):
        assert end is not None
        if end.status != RETURNED and not loop.raised(end):
            loop.python(args(k))


def cuts(n: int, least: int) -> list[tuple[int, int]]:
    """Ranges of 0 to n for threads to take, of `least` or more."""
    parts = max(1, min(n // max(least, 1), PARTS_PER_THREAD * threads.get_threads()))
    return [(n * k // parts, n * (k + 1) // parts) for k in range(parts)]


# -- making them -------------------------------------------------------------------------------------------------------

_loops: dict[Hashable, tuple[Guards | None, Loop | Refused]] = {}
_types: dict[Hashable, tuple[Guards | None, Specialised | Refused]] = {}


def compiled(text: str, functions: Mapping[str, Any], specs: Sequence[Spec], outs: int) -> Loop:
    """The loop of a text whose first arguments are the functions; only its first `outs` arrays may be written.

    Raises Refused, with the user's line.
    """

    def make(guards: Guards) -> Loop:
        made = _lowered(written(text), [*map(Static, functions.values()), *specs], guards)
        if any(p.written for p in made.program.params[outs:]):
            raise Refused("a write to an array that it is given, or refers to", 0, "Give a new array as the result")
        captured = tuple(np.array(c, order="C") for c in made.captured)
        return Loop(text, tuple(functions.values()), made.program, captured, made.results)

    return _found(_loops, (text, tuple(specs), outs), tuple(functions.values()), make)  # type: ignore[no-any-return]


def result_types(f: Any, specs: Sequence[Spec]) -> tuple[Any, ...]:
    """The types that a function may give for arguments of these: ("py", "int64"), ("np", "float32"), ("tuple", ...)."""
    return tuple(dict.fromkeys(_of_numbers(f, specs).results))


def straight(f: Any, specs: Sequence[Spec]) -> tuple[Program | None, bool]:
    """The program of a function of numbers, if it gives one kind of result, without arrays; whether it is a tuple."""
    made = _of_numbers(f, specs)
    if len(made.results) != 1 or made.program.arrays:
        return None, False
    return made.program, made.results[0][0] == "tuple"


def _of_numbers(f: Any, specs: Sequence[Spec]) -> Specialised:
    def make(guards: Guards) -> Specialised:
        names = ", ".join(f"x{k}" for k in range(len(specs)))
        text = f"def given(f, {names}):\n    return f({names})\n"
        return _lowered(written(text), [Static(f), *specs], guards)

    return _found(_types, tuple(specs), (f,), make)  # type: ignore[no-any-return]


def _lowered(loop: FunctionType, specs: list[Any], guards: Guards) -> Specialised:
    try:
        return specialise(loop, specs, {}, guards, True)
    except Refused as error:
        if error.file.startswith("<tilewise"):  # no line of the user's
            error.file, error.line = "", 0
        raise


def _found(kept: dict[Hashable, Any], what: Hashable, functions: tuple[Any, ...], make: Callable[[Guards], Any]) -> Any:
    """Something made of functions, kept as long as these and all they refer to stay the same."""
    guards: Guards | None = None
    try:
        key: Hashable = (what, tuple(map(key_of, functions)))
    except Untraceable as error:
        if error.pure is False and not all(isinstance(f, FunctionType) for f in functions):
            raise Refused(error.construct) from None
        key, guards = (what, functions), Guards()
    found = kept.get(key)
    if found is None or (found[0] is not None and not found[0].holds()):
        if len(kept) >= MOST_LOOPS:
            kept.clear()
        try:
            made = make(guards or Guards())
        except Refused as error:
            error.__traceback__ = None
            made = error
        found = kept[key] = (guards, made)
    if isinstance(found[1], Refused):
        raise found[1]
    return found[1]


@lru_cache(maxsize=256)
def written(text: str) -> FunctionType:
    """The function of a text, whose source is at hand."""
    file = f"<tilewise loop {len(_texts)}>"
    _texts.append(text)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"np": np, "__name__": "__loops__"}
    exec(compile(text, file, "exec"), names)
    name = text[len("def ") : text.index("(")]
    return names[name]  # type: ignore[no-any-return]


_texts: list[str] = []


def array(dtype: Any, rank: int) -> ArraySpec:
    """The type of an array in C order. Raises Refused for dtypes without native form."""
    name = np.dtype(dtype).name
    if name not in NATIVE_DTYPES:
        raise Refused(f"numbers of dtype {name}")
    return ArraySpec(name, rank, True)
