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
    """The value of `emit` on the operands, computed in a function of its own."""
    caller, lanes, ty = args[0].fn, args[0].lanes, args[0].ty
    full = f"{name}_{ty}_{lanes}"
    if full not in caller.helpers:
        body = Function(full, "")
        body.avx512 = caller.avx512
        operands = [Val(body, f"%x{i}", a.ty, a.lanes) for i, a in enumerate(args)]
        result = emit(*operands)
        head = f"define internal {vtype(result.ty, lanes)} @{full}({', '.join(x.text for x in operands)}) #0 {{"
        caller.declares |= body.declares
        caller.helpers.update(body.helpers)
        caller.helpers[full] = "\n".join([head, *body.entry, *body.lines, f"  ret {result.text}", "}"])
    return args[0].make(f"call {vtype(ty, lanes)} @{full}({', '.join(a.text for a in args)})")
