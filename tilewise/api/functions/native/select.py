"""Branches without loops as selections. In: a function of numbers, types. Out: a `Tape`, or None.

A function that cannot raise, and has branches but no loops, is computed along all its ways at once, and what its
conditions say is selected: then it is an elementwise operator like others, to be fused with its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.native.loop import Spec, made_of
from tilewise.api.functions.trace.tape import Input, Literal, Step, Tape
from tilewise.kernel.native_support import supports
from tilewise.kernel.program import ir
from tilewise.python.specialise import Specialised

MOST_STEPS = 256  # more are faster as branches
BOOL = np.dtype(np.bool_)
Env = dict[str, int]
ALWAYS, NEVER = -1, -2  # conditions that are no values


class _Unfit(Exception):
    """Something that cannot be selected: a loop, a fault, an array."""


def selected(f: Any, specs: Sequence[Spec]) -> tuple[Tape | None, tuple[Any, ...]]:
    """The function as one tape, and floats that it refers to, which follow its arguments. Raises Refused."""
    return made_of(f, specs, _tape)


def _tape(made: Specialised) -> Tape | None:
    if len(made.results) != 1 or made.program.arrays:
        return None
    try:
        return _Ways(made.program).tape(made.results[0][0] == "tuple")
    except _Unfit:
        return None


class _Ways:
    """A program's statements, on positions of a tape."""

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.entries: list[Input | Literal | Step] = []
        self.known: dict[Any, int] = {}
        self.halves: dict[int, tuple[int, int]] = {}  # a condition that is another and a test, or its opposite
        self.left: dict[str, list[tuple[Env, int]]] = {}
        self.result: tuple[int, ...] | None = None

    def tape(self, several: bool) -> Tape:
        env = {p.name: self._add(Input(k, np.dtype(p.dtype), False)) for k, p in enumerate(self.program.params)}
        self._block(self.program.body, env, ALWAYS)
        if self.result is None:
            raise _Unfit
        return _needed(Tape(tuple(self.entries), self.result, several))

    def _add(self, entry: Input | Literal | Step) -> int:
        key = (type(entry.value), np.asarray(entry.value).tobytes()) if isinstance(entry, Literal) else entry
        if key not in self.known:
            if len(self.entries) >= MOST_STEPS:
                raise _Unfit
            self.known[key] = len(self.entries)
            self.entries.append(entry)
        return self.known[key]

    def _step(self, fn: str, args: tuple[int, ...], dtypes: Sequence[str]) -> int:
        if not supports(fn, tuple(dtypes[:-1]), dtypes[-1]):
            raise _Unfit
        return self._add(Step(fn, args, tuple(map(np.dtype, dtypes))))

    def _expr(self, e: ir.Expr, env: Env) -> int:
        match e:
            case ir.Const():
                return self._add(Literal(np.dtype(e.dtype).type(e.value)))
            case ir.Var():
                if e.name not in env:  # never read where it has no value
                    return self._add(Literal(np.dtype(e.dtype).type(0)))
                return env[e.name]
            case ir.Op(fault=-1):
                args = tuple(self._expr(a, env) for a in e.args)
                return self._step(e.fn, args, [*(a.dtype for a in e.args), e.dtype])
            case ir.Pick():
                test, yes, no = (self._expr(x, env) for x in (e.test, e.yes, e.no))
                return self._where(test, yes, no, e.dtype)
        raise _Unfit

    def _where(self, test: int, yes: int, no: int, dtype: str) -> int:
        if yes == no or test == ALWAYS:
            return yes
        return self._step("where", (test, yes, no), ["bool", dtype, dtype, dtype])

    def _both(self, live: int, test: int) -> int:
        if live in (ALWAYS, NEVER):
            return test if live == ALWAYS else NEVER
        made = self._step("logical_and", (live, test), ["bool"] * 3)
        self.halves[made] = (live, test)
        return made

    def _either(self, a: int, b: int) -> int:
        if NEVER in (a, b):
            return b if a == NEVER else a
        if ALWAYS in (a, b):
            return ALWAYS
        p, q = self.halves.get(a, (ALWAYS, a)), self.halves.get(b, (ALWAYS, b))
        if p[0] == q[0] and self._opposite(p[1], q[1]):
            return p[0]
        return self._step("logical_or", (a, b), ["bool"] * 3)

    def _opposite(self, a: int, b: int) -> bool:
        x, y = self.entries[a], self.entries[b]
        return any(isinstance(e, Step) and e.fn == "logical_not" and e.args == (o,) for e, o in ((x, b), (y, a)))

    def _merged(self, test: int, yes: Env, no: Env) -> Env:
        """What names are where ways meet."""
        made = dict(no)
        for name, at in yes.items():
            dtype = self.program.names.get(name)
            made[name] = self._where(test, at, no[name], dtype) if name in no and dtype is not None else at
        return made

    def _block(self, block: ir.Block, env: Env, live: int) -> tuple[Env, int]:
        for s in block:
            if live == NEVER:
                break
            env, live = self._statement(s, env, live)
        return env, live

    def _statement(self, s: ir.Stmt, env: Env, live: int) -> tuple[Env, int]:
        match s:
            case ir.Set():
                return {**env, s.name: self._expr(s.value, env)}, live
            case ir.If():
                test = self._expr(s.test, env)
                other = self._step("logical_not", (test,), ["bool"] * 2)
                yes, here = self._block(s.then, env, self._both(live, test))
                no, there = self._block(s.other, env, self._both(live, other))
                if NEVER in (here, there):
                    return (no, there) if here == NEVER else (yes, here)
                return self._merged(test, yes, no), self._either(here, there)
            case ir.Named():
                end, on = self._block(s.body, env, live)
                for way, when in self.left.pop(s.label, []):
                    if on == NEVER:
                        end, on = way, when
                    else:
                        end, on = self._merged(when, way, end), self._either(on, when)
                return end, on
            case ir.Leave():
                self.left.setdefault(s.label, []).append((env, live))
                return env, NEVER
            case ir.Return() if self.result is None and live != NEVER:
                if any(isinstance(v, str) for v in s.values):
                    raise _Unfit
                self.result = tuple(self._expr(v, env) for v in s.values)  # type: ignore[arg-type]
                return env, NEVER
        raise _Unfit


def _needed(tape: Tape) -> Tape:
    """Without what no result needs."""
    used = set(tape.results)
    for k in reversed(range(len(tape.entries))):
        e = tape.entries[k]
        if isinstance(e, Input) or (k in used and isinstance(e, Step)):
            used |= {k, *(e.args if isinstance(e, Step) else ())}
    at = {k: n for n, k in enumerate(sorted(used))}
    entries = []
    for k in sorted(used):
        e = tape.entries[k]
        entries.append(Step(e.fn, tuple(at[a] for a in e.args), e.loop) if isinstance(e, Step) else e)
    return Tape(tuple(entries), tuple(at[r] for r in tape.results), tape.several)
