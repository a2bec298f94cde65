"""Calls like the last one of compiled code, in few steps. In: code, its circumstances. Out: a function of arguments.

The function is written down for the types at hand and compiled by Python: every check is one comparison, and nothing is
looked up. Whatever does not fit gives MISSED, and the call goes the long way.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.call_cache import MISSED
from tilewise.api.functions.guards import ABSENT, Guards
from tilewise.array import force as forcing
from tilewise.array.arithmetic import strict_errors
from tilewise.backend.base import Direct
from tilewise.config import Settings, current
from tilewise.python.types import LEAST, MOST, SMALL

Quick = Callable[[tuple[Any, ...]], Any]
FEW = 256  # calls: half a millisecond


def quick_call(
    checks: list[tuple[Any, Any, int]],
    guards: Guards,
    settings: list[Settings],
    direct: Direct,
    structures: Sequence[Any],
    builders: Sequence[Callable[..., Any]],
    ended: Callable[..., Any],
    often: Callable[[], None],
) -> Quick | None:
    """checks: class, dtype and rank of each argument; structures and builders: of the
    results. settings: the ones that the code is known to be for, as its only item, which may be replaced.
    ended(args, room) is what follows if the code did not return. often() is called after many calls, each time.
    """
    if not guards.sure:
        return None
    known: dict[str, Any] = {
        "MISSED": MISSED, "ABSENT": ABSENT, "current": current, "settings": settings, "strict": strict_errors,
        "tracing": forcing.tracing.get, "call": direct.call, "pack": direct.pack, "head": direct.head,
        "rooms": direct.rooms, "Room": direct.room, "ended": ended, "results": direct.results, "often": often,
        "few": iter(range(FEW)),
    }  # fmt: skip
    names = [f"a{k}" for k in range(len(checks))]
    tests = [f"len(args) != {len(checks)}", "current() is not settings[0]", "tracing() is not None", "strict()"]
    lines = [f"if {' or '.join(tests)}: return MISSED"]
    if names:
        lines.append(f"{', '.join(names)}, = args")
    tests, words = [], []
    for k, (name, (kind, dtype, rank)) in enumerate(zip(names, checks, strict=True)):
        known[f"t{k}"], known[f"d{k}"] = kind, dtype
        tests.append(f"type({name}) is not t{k}")
        words.append(name)
        if rank >= 0:
            tests += [f"{name}.dtype is not d{k}", f"{name}.ndim != {rank}"]
            words[-1] = f"id({name})"
        elif kind is int:
            low, high = (-SMALL, SMALL - 1) if dtype else (LEAST, MOST)
            tests.append(f"not {low} <= {name} <= {high}")
        elif issubclass(kind, complex | np.complexfloating):
            words[-1] = f"{name}.real, {name}.imag"
    for k, (where, name, value) in enumerate(guards.names):
        known[f"g{k}"], known[f"v{k}"] = where.get, value
        tests.append(f"g{k}({name!r}, ABSENT) is not v{k}")
    for k, (f, code, defaults) in enumerate(guards.functions):
        known[f"f{k}"], known[f"c{k}"], known[f"e{k}"] = f, code, defaults
        tests.append(f"f{k}.__code__ is not c{k} or f{k}.__defaults__ is not e{k} or f{k}.__kwdefaults__ is not None")
    if guards.cells:
        known["cells"] = guards
        tests.append("not cells.holds()")
    if tests:
        lines.append(f"if {' or '.join(tests)}: return MISSED")
    lines += [
        "try: room = rooms.pop()",
        "except IndexError: room = Room()",
        f"call(pack({', '.join(words)}), room)",
        "status, which = head(room)",
        "if status: return ended(args, room)",
    ]
    for k, (structure, read) in enumerate(zip(structures, direct.reads, strict=True)):
        test = f"{'el' * (k > 0)}if which == {k}:"
        found = None if read is None else _result(structure, itertools.count(), known)
        if found is not None:
            known[f"read{k}"] = read
            lines.append(f"{test} v = read{k}(room, {direct.at}); found = {found}")
        elif structure[:2] == ("array", "numpy"):
            known[f"single{k}"] = direct.singles[k]
            lines.append(f"{test} found = single{k}(room, args)")
        else:
            known[f"build{k}"] = builders[k]
            lines.append(f"{test} found = build{k}(results(room, {k}, args), args)")
    lines += ["else: return ended(args, room)", "rooms.append(room)"]
    lines += ["for _ in few: break", "else: often()", "return found"]
    text = "def quick(args):\n" + "\n".join(f"    {line}" for line in lines)
    exec(text, known)
    return known["quick"]  # type: ignore[no-any-return]


def _result(structure: Any, places: Iterator[int], known: dict[str, Any]) -> str | None:
    """The text of a result that is made of the numbers `v`: a number, an object, a tuple of such. None: another."""
    kind = structure[0]
    if kind == "tuple":
        parts = [_result(s, places, known) for s in structure[1:]]
        return None if None in parts else f"({''.join(f'{p}, ' for p in parts)})"
    if kind == "object":
        name = f"object{len(known)}"
        known[name] = structure[1].value
        return name
    if kind == "py":
        return f"bool(v[{next(places)}])" if structure[1] == "bool" else f"v[{next(places)}]"
    if kind == "np":
        name = f"make{len(known)}"
        known[name] = np.dtype(structure[1]).type
        return f"{name}(v[{next(places)}])"
    return None
