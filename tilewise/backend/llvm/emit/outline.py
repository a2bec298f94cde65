"""A function that a body calls often, once per module. In: an emitter, its operands. Out: a `Val`, by a call.

Calls cost some 4 % of running time and pay in compiling only where one function comes three times or more (six exp in
one body: 18 ms inlined, 12 ms by calls).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby

from tilewise.backend.llvm.emit.text import Function, Val, vtype

OFTEN = 3


def often(names: Iterable[str]) -> frozenset[str]:
    """The names that come often."""
    return frozenset(name for name, same in groupby(sorted(names)) if len(list(same)) >= OFTEN)


def called(name: str, emit: Callable[..., Val], args: list[Val]) -> Val:
    """The value of `emit` on the operands, computed in a function of its own.

    It has the constants among them inside: some functions have other code for them (an exponent, a divisor).
    """
    caller, lanes, ty = args[0].fn, args[0].lanes, args[0].ty
    known = [a.constant for a in args]
    full = "_".join([name, ty, str(lanes), *[f"{i}is{word}" for i, word in enumerate(known) if word is not None]])
    given = [a for a, word in zip(args, known, strict=True) if word is None]
    if full not in caller.helpers:
        body = Function(full, "")
        body.avx512 = caller.avx512
        words = [f"%x{i}" if word is None else a.name for i, (a, word) in enumerate(zip(args, known, strict=True))]
        operands = [Val(body, word, a.ty, a.lanes) for word, a in zip(words, args, strict=True)]
        result = emit(*operands)
        heads = [x.text for x, word in zip(operands, known, strict=True) if word is None]
        head = f"define internal {vtype(result.ty, lanes)} @{full}({', '.join(heads)}) #0 {{"
        caller.declares |= body.declares
        caller.helpers.update(body.helpers)
        caller.helpers[full] = "\n".join([head, *body.entry, *body.lines, f"  ret {result.text}", "}"])
    return args[0].make(f"call {vtype(ty, lanes)} @{full}({', '.join(a.text for a in given)})")
