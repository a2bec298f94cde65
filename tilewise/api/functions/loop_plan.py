"""What becomes of a function's loops, for people. In: a function, arguments. Out: a `LoopPlan`; nothing is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilewise.api.functions.purity import plain
from tilewise.api.functions.source_call import SourceFunction
from tilewise.api.functions.warn import name_of, refusal
from tilewise.backend import host_backend
from tilewise.config import current
from tilewise.kernel.program.ir import RERUN, Alloc, Block, For, Load, Loop, Op, Program, Store
from tilewise.kernel.program.walk import BLOCKS, expressions, statements
from tilewise.python.policy import loops_of
from tilewise.python.refuse import Refused


@dataclass(frozen=True)
class LoopPlan:
    """What `tw.explain(f, *args)` says: types of names, loops with their checks, why a function is not compiled.

    (An example is on the page about loops: here, functions are parts of Tilewise, which are not looked into.)
    """

    name: str
    refused: str  # why it is not compiled
    types: dict[str, str]
    loops: tuple[str, ...]
    vectors: int  # loops that work on several elements at once

    @property
    def compiled(self) -> bool:
        """Whether there is native code."""
        return not self.refused

    def __str__(self) -> str:
        if self.refused:
            return self.refused
        lines = [f"{self.name}: compiled from its source", "types:"]
        lines += [f"  {n}: {t}" for n, t in self.types.items()]
        lines += ["loops:", *(f"  {line}" for line in self.loops), f"loops with vectors: {self.vectors}"]
        return "\n".join(lines)


def loop_plan(f: Any, args: tuple[Any, ...]) -> LoopPlan:
    """The plan of a function (or a `tw.jit` of one) for arguments like these."""
    found = plain(f)
    if found is None:
        raise TypeError("explain takes Arrays, or a Python function and its arguments")
    if not loops_of(found):
        text = f"{name_of(found)}: no loops to compile (or no source at hand); tw.jit traces it"
        return LoopPlan(name_of(found), text, {}, (), 0)
    try:
        code = SourceFunction(found).code_for(args, {})
    except Refused as error:
        return LoopPlan(name_of(found), refusal(found, error), {}, (), 0)
    made = code.made
    names = {n: t for n, t in made.types.items() if "@" not in n}
    vectors = host_backend(current().native).vector_loops(made.program)
    return LoopPlan(name_of(found), "", names, tuple(_loops(made.program.body, made.program, "")), vectors)


def _loops(block: Block, program: Program, indent: str) -> Iterator[str]:
    for s in block:
        if isinstance(s, For) and not s.rare:
            name = "its elements" if s.name.startswith("$") else s.name.partition(":")[0]
            how = "; independent: on all cores where that is worth it" if s.parallel else ""
            how += _second_form(s)
            yield f"{indent}line {s.line}: for {name}: {_checks(s, program)}{how}"
        elif isinstance(s, Loop):
            yield f"{indent}line {s.line}: while: {_checks(s, program)}"
        deeper = indent + "  " * isinstance(s, For | Loop)
        for name in BLOCKS.get(type(s), ()) if not (isinstance(s, For) and s.rare) else ():
            if name != "proved":
                yield from _loops(getattr(s, name), program, deeper)


def _second_form(s: For) -> str:
    """What is done where no subscript can be out of range."""
    if any(isinstance(x, Alloc) for x in statements(s.proved)):
        return "; terms of its sums side by side, where no subscript can be out of range"
    return "; in another order where no subscript can be out of range" if s.proved else ""


def _checks(loop: For | Loop, program: Program) -> str:
    """What is checked in every iteration, or before them."""
    subscripts = integers = 0
    for s in loop.body:
        subscripts += isinstance(s, Store) and any(x >= 0 for x in s.faults)
        for e in expressions(s):
            subscripts += isinstance(e, Load) and any(x >= 0 for x in e.faults)
            integers += isinstance(e, Op) and e.fault >= 0 and program.faults[e.fault].error == RERUN
    parts = [f"{_count(subscripts, 'subscript')}, checked before where intervals say it"] * bool(subscripts)
    parts += [f"{_count(integers, 'integer')} checked for overflow"] * bool(integers)
    return "; ".join(parts) or "no checks"


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"
