"""Programs as bytes. In: a program. Out: bytes, equal for equal programs that were made alike; the program again.

Only values are written: classes by their numbers, numbers, texts. So reading bytes runs no code but the constructors
of the classes below.
"""

from __future__ import annotations

import marshal
from dataclasses import fields
from typing import Any

from tilewise.kernel.program import ir

CLASSES: tuple[type, ...] = (
    ir.Fault, ir.Const, ir.Var, ir.Op, ir.Load, ir.Dim, ir.Pick, ir.Apart, ir.Set, ir.Store, ir.If, ir.For, ir.Loop,
    ir.Named, ir.Leave, ir.Return, ir.Fail, ir.Alloc, ir.Span, ir.View, ir.Product, ir.Draw, ir.HostCall, ir.Invoke,
    ir.Array, ir.Param, ir.Program,
)  # fmt: skip
AGAIN, NAMES = -1, -2  # in place of a class: an object that was there before; a frozenset of texts
VERSION = 2  # of marshal: without notes of what is shared, which depend on who else holds an object
_NUMBERS = {kind: k for k, kind in enumerate(CLASSES)}
_PLAIN = frozenset([int, float, complex, bool, str, type(None)])


class Odd(ValueError):
    """Something in a program that has no bytes."""


def encoded(program: ir.Program) -> bytes:
    """The bytes of a program. Raises Odd."""
    seen: dict[int, int] = {}
    listed = {kind: tuple(f.name for f in fields(kind)) for kind in CLASSES}

    def written(v: Any) -> Any:
        kind = type(v)
        if kind in _PLAIN:
            return v
        if kind is tuple:
            return tuple([written(x) for x in v])
        if kind is dict:
            return {k: written(x) for k, x in v.items()}
        if kind is frozenset:
            return [NAMES, *sorted(v)]
        number = _NUMBERS.get(kind)
        if number is None:
            raise Odd(f"a {kind.__name__} in a program")
        if (before := seen.get(id(v))) is not None:
            return [AGAIN, before]
        made = [number, *[written(getattr(v, name)) for name in listed[kind]]]
        seen[id(v)] = len(seen)
        return made

    return marshal.dumps(written(program), VERSION)


def decoded(data: bytes) -> ir.Program:
    """The program that bytes were made from."""
    seen: list[Any] = []

    def read(v: Any) -> Any:
        kind = type(v)
        if kind is tuple:
            return tuple([read(x) for x in v])
        if kind is list:
            number = v[0]
            if number == AGAIN:
                return seen[v[1]]
            if number == NAMES:
                return frozenset(v[1:])
            made = CLASSES[number](*[read(x) for x in v[1:]])
            seen.append(made)
            return made
        if kind is dict:
            return {k: read(x) for k, x in v.items()}
        return v

    program = read(marshal.loads(data))
    assert type(program) is ir.Program
    return program
