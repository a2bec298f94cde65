"""The settings a case is compiled under. In: a case's number. Out: named contexts.

Every case is run with one thread, with three (for every loop that may have them, however short), and by the interpreter
of the loop language; every other one also as a long program, in parts, or without the passes that change programs, in
turn. A compiler with more settings adds them here.

Most of a case's time would be compiling. What the settings of a case share (types, passes) is done once for it, and
LLVM's passes run for one case in eight; the others take the code as it is emitted, quickly translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import tilewise as tw
from tilewise import tuning
from tilewise.api.functions import source_call
from tilewise.backend.llvm.compile import compiler
from tilewise.backend.llvm.program import outline
from tilewise.kernel.program.optimise import NAMES, reorder, terms
from tilewise.kernel.program.optimise.slices import blocks
from tilewise.python import specialise as types

Setting = Callable[[], AbstractContextManager[Any]]
GOOD = 16  # two of so many cases are compiled by all of LLVM's passes
SMALL: tuple[tuple[Any, dict[str, int]], ...] = (
    (blocks, {"LEAST": 2, "BLOCK": 3}),
    (terms, {"LEAST": 2, "TERMS": 3}),
    (reorder, {"WIDE": 1, "ABREAST": 2, "ABREAST_ALONG": 3, "BLOCK": 2}),
    (types, {"POINTS": 0}),
)
_PASSES = '"passes"="standard"'  # the attribute of functions that they run on
_object_code = compiler.object_code


def _config(**values: Any) -> Setting:
    return lambda: tw.config(fallback="silent", **values)


@contextmanager
def _eager_threads() -> Iterator[None]:
    with tw.config(fallback="silent", threads=3), tuning.using(replace(tuning.tuned(), loop_share_units=-1)):
        yield


@contextmanager
def _in_parts() -> Iterator[None]:
    """As long programs are compiled, however short they are."""
    kept = outline.LONG, outline.PART
    outline.LONG, outline.PART = 1, 6
    try:
        with _eager_threads():
            yield
    finally:
        outline.LONG, outline.PART = kept


def _quick_code(module: str, cpu: str = "", triple: str = "") -> bytes:
    return _object_code(module.replace(_PASSES, ""), cpu, triple, compiler.QUICK)


def _once(f: Callable[..., Any], key: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the same again for what has the same key, exceptions included."""
    known: dict[Any, Any] = {}

    def once(*args: Any) -> Any:
        k = key(*args)
        if k not in known:
            try:
                known[k] = (f(*args), None)
            except Exception as error:
                known[k] = (None, error)
        made, error = known[k]
        if error is not None:
            raise error.with_traceback(None)
        return made

    return once


def _set(values: Iterable[tuple[Any, str, int]]) -> None:
    for module, name, value in values:
        setattr(module, name, value)


@contextmanager
def cheaply(case: int, whole: bool = False) -> Iterator[None]:
    """For all settings of one case: nothing is done twice. `whole`: with all of LLVM's passes, whichever it is."""
    kept = source_call.specialise, source_call.optimised
    kept_sizes = [(module, name, getattr(module, name)) for module, sizes in SMALL for name in sizes]
    if case % 2:  # slices, loops and arrays of points are short here
        _set((module, *item) for module, sizes in SMALL for item in sizes.items())
    # Functions of a case are made anew for every setting, from the same source.
    source_call.specialise = _once(kept[0], lambda f, args, options, guards, apart: (repr((args, options)), apart))
    source_call.optimised = _once(kept[1], lambda program, off: (id(program.body), program.apart, off))
    compiler.object_code = _object_code if whole or case % GOOD < 2 else _quick_code
    try:
        yield
    finally:
        source_call.specialise, source_call.optimised = kept
        _set(kept_sizes)
        compiler.object_code = _object_code


def all_settings() -> dict[str, Setting]:
    """Every setting there is."""
    return {
        "1 thread": _config(threads=1),
        "3 threads": _eager_threads,
        "in parts": _in_parts,
        "interpreted": _config(threads=1, native=False),
        "without passes": _config(threads=1, without=",".join(NAMES)),
    }


def settings_of(case: int) -> dict[str, Setting]:
    """Those that are cheap for every case, and one of the others in turn for every other case."""
    found = all_settings()
    dear = (["in parts"], ["without passes"], [], [])[case % 4]
    return {name: found[name] for name in ("1 thread", "3 threads", "interpreted", *dear)}
