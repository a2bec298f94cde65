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
from tilewise.api.functions.purity import Untraceable, function_key, plain
from tilewise.api.functions.trace.scalar_trace import key_of
from tilewise.backend import host_backend, threads
from tilewise.backend.base import Outcome
from tilewise.config import current
from tilewise.kernel.program import raised as kept
from tilewise.kernel.program.ir import HOST, Program
from tilewise.python.build import Static
from tilewise.python.refuse import Refused
from tilewise.python.scalars.arithmetic import NATIVE_DTYPES
from tilewise.python.specialise import ArraySpec, Specialised, specialise
from tilewise.records import dataclass

RETURNED, FAILED, _, INTERRUPTED = range(4)  # statuses of an `Outcome`
MOST_LOOPS = 512
PARTS_PER_THREAD = 8  # elements may be of very different work
Spec = Any  # ArraySpec, or the class of a number


class Code:
    """A program, compiled where it first runs."""

    def __init__(self, program: Program, results: tuple[Any, ...]) -> None:
        self.program, self.results = program, results  # and structures of what it returns
        self._bound: Callable[[list[Any]], Outcome] | None = None

    def bound(self) -> Callable[[list[Any]], Outcome]:
        """What calls it."""
        if self._bound is None:
            self._bound = host_backend(True).program(self.program)
        return self._bound

    def __reduce__(self) -> tuple[Any, ...]:
        return (Code, (self.program, self.results))


class Loop:
    """Code, and the text that it was made of, which says what it does, in Python.

    captured: ndarrays and floats that functions refer to. They follow the arguments, and are operands on workers.
    """

    def __init__(self, text: str, functions: tuple[Any, ...], code: Code, captured: tuple[Any, ...]) -> None:
        self.text, self.functions, self.code, self.captured = text, functions, code, captured

    def __call__(self, args: Sequence[Any]) -> Outcome:
        return self.code.bound()(list(args))

    def python(self, args: Sequence[Any]) -> Any:
        """The same, by Python."""
        return written(self.text)(*self.functions, *args[: len(args) - len(self.captured)])

    def given(self, blocks: Sequence[Any]) -> list[Any]:
        """What functions refer to, as it comes with the operands."""
        kept = blocks[len(blocks) - len(self.captured) :] if self.captured else ()
        params = self.code.program.params[len(self.code.program.params) - len(kept) :]
        return [np.ascontiguousarray(x) if p.array else float(x) for x, p in zip(kept, params, strict=True)]

    def __reduce__(self) -> tuple[Any, ...]:
        return (Loop, (self.text, self.functions, self.code, (None,) * len(self.captured)))

    def raised(self, outcome: Outcome) -> bool:
        """Raise what a call came to, at the user's line; False if Python must make the call."""
        if outcome.status == INTERRUPTED:
            raise (kept.take() or KeyboardInterrupt()).with_traceback(None)
        if outcome.status != FAILED:
            return False
        program = self.code.program
        fault = program.faults[outcome.which]
        if reruns(fault):
            return False
        raise_fault(fault, outcome.payload, "<tilewise loop>", program.name, program.name)


def in_parts(loop: Loop, parts: int, args: Callable[[int], Sequence[Any]]) -> None:
    """All parts of some work on all threads: by the program, or by Python where that cannot.

    Of several exceptions the one of the first part is raised, as in a loop over all elements.
    """
    if not current().native:
        for k in range(parts):
            loop.python(args(k))
        return
    ends: list[Outcome | None] = [None] * parts
    code = loop.code.bound()

    def work(part: int) -> None:
        end = ends[part] = code(list(args(part)))
        if end.status == INTERRUPTED:
            loop.raised(end)  # at once: no more parts

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


@dataclass(frozen=True)
class _Made:
    """Something made of functions. captured: places among what these refer to by name, or values of their own."""

    what: Any
    captured: tuple[Any, ...]
    guards: Guards | None = None


_loops: dict[Hashable, _Made | Refused] = {}


def compiled(text: str, functions: Mapping[str, Any], specs: Sequence[Spec], outs: int) -> Loop:
    """The loop of a text whose first arguments are the functions; only its first `outs` arrays may be written.

    Raises Refused, with the user's line.
    """

    def make(made: Specialised) -> Code:
        if any(p.written for p in made.program.params[outs:]):
            raise Refused("a write to an array that it is given, or refers to", 0, "Give a new array as the result")
        return Code(made.program, made.results)

    given = tuple(functions.values())
    code, captured = _found((text, tuple(specs), outs), text, given, specs, make)
    copies = tuple(c if type(c) is float else np.array(c, order="C") for c in captured)  # as they are now
    return Loop(text, given, code, copies)


def result_types(f: Any, specs: Sequence[Spec]) -> tuple[Any, ...]:
    """The types that a function may give for arguments of these: ("py", "int64"), ("np", "float32"), ("tuple", ...)."""
    return made_of(f, specs, _results)[0]  # type: ignore[no-any-return]


def _results(made: Specialised) -> tuple[Any, ...]:
    return tuple(dict.fromkeys(made.results))


def made_of(f: Any, specs: Sequence[Spec], make: Callable[[Specialised], Any]) -> tuple[Any, tuple[Any, ...]]:
    """Something made of a function alone, kept; and what it captured. Raises Refused."""
    names = ", ".join(f"x{k}" for k in range(len(specs)))
    text = f"def given(f, {names}):\n    return f({names})\n"
    return _found((make, text, tuple(specs)), text, (f,), specs, make)


def _found(
    what: Hashable, text: str, functions: tuple[Any, ...], specs: Sequence[Spec], make: Callable[[Specialised], Any]
) -> tuple[Any, tuple[Any, ...]]:
    """Something made of functions, and what it captured: kept as long as these and what they refer to stay alike.

    Arrays and floats that they refer to by name may change: code is the same for all.
    """
    guards = Guards()
    guards.loose = []
    try:
        key: Hashable = (what, tuple(_key(f, guards) for f in functions))
    except Untraceable as error:
        if error.pure is False and not all(isinstance(f, FunctionType) for f in functions):
            raise Refused(error.construct) from None
        key, guards.loose = (what, functions), None
    loose = guards.loose
    found = _loops.get(key)
    if found is None or (isinstance(found, _Made) and found.guards is not None and not found.guards.holds()):
        if len(_loops) >= MOST_LOOPS:
            _loops.clear()
        try:
            watch = Guards()
            watch.loose = loose
            made = _lowered(written(text), [*map(Static, functions), *specs], watch)
            places = tuple(_place(c, loose) for c in made.captured)  # values of their own are in the key
            found = _Made(make(made), places, None if loose is not None else watch)
        except Refused as error:
            found = error.again()
        _loops[key] = found
    if isinstance(found, Refused):
        raise found.again()
    values = loose or []
    return found.what, tuple(values[c] if isinstance(c, int) else c for c in found.captured)


def _key(f: Any, guards: Guards) -> Hashable:
    inner = plain(f)
    return key_of(f) if inner is None else function_key(inner, watch=guards)


def _place(value: Any, loose: list[Any] | None) -> Any:
    """Where a value stands among those that functions refer to by name; or itself, as it is now if that is the key."""
    if loose is None:
        return value
    at = next((k for k, v in enumerate(loose) if v is value), None)
    return at if at is not None else value if type(value) is float else np.array(value, order="C")


def _lowered(loop: FunctionType, specs: list[Any], guards: Guards) -> Specialised:
    try:
        made = specialise(loop, specs, {}, guards, True)
        if made.host:  # threads would wait for each other
            fault = next(f for f in made.program.faults if f.error == HOST)
            refused = Refused(f"a call of {fault.message}", fault.line)
            refused.file = fault.file
            raise refused
        return made
    except Refused as error:
        if error.file.startswith("<tilewise"):  # no line of the user's
            error.file, error.line = "", 0
        raise


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
