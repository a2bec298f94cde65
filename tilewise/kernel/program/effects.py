"""What a call of a function of a program may change outside of it. In: a program, its functions. Out: yes or no."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilewise.kernel.program.ir import HostCall, Invoke, Program
from tilewise.kernel.program.walk import statements


def touches(p: Program, s: Invoke, functions: Sequence[Program], outside: Collection[str]) -> bool:
    """Whether a call writes to memory from outside of `p` (roots), or changes what only Python sees.

    What a function writes to may be an array that its caller has made: then the program can be run again.
    """
    params = functions[s.function].params
    for v, q in zip(s.inputs, params, strict=True):
        if isinstance(v, str) and q.written and not p.arrays[v].memory.isdisjoint(outside):
            return True
    return _effects(s.function, functions)


def _effects(which: int, functions: Sequence[Program]) -> bool:
    """Whether a function, or one that it calls, calls Python for more than a result."""
    seen, todo = {which}, [which]
    while todo:
        for s in statements(functions[todo.pop()].body):
            if isinstance(s, HostCall) and (s.effect or s.writes):
                return True
            if isinstance(s, Invoke) and s.function not in seen:
                seen.add(s.function)
                todo.append(s.function)
    return False
