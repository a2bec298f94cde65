"""Calls of a function that is compiled from its source. In: arguments. Out: results, exceptions, changed arguments.

Code is made for the types of the arguments (`python/specialise.py`) and kept. A call like the last one only checks
types; the code itself sees whether arrays lie as it was made for. What the code cannot do by itself (integers of more
than 64 bits) is done by Python, from the start, if nothing has been written yet.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import numpy as np

from tilewise.api.functions.call_cache import MISSED as MISSED_CALL
from tilewise.api.functions.faults import raise_fault, reruns
from tilewise.api.functions.guards import Guards
from tilewise.api.functions.native_call import ENTRY, native_call
from tilewise.api.functions.quick_call import Quick, quick_call
from tilewise.api.functions.source_results import builder
from tilewise.array import force as forcing
from tilewise.array.assign import assign
from tilewise.array.cell import LOCK
from tilewise.array.handle import Array, meta
from tilewise.array.schedule import policy
from tilewise.backend import host_backend
from tilewise.backend.base import Outcome
from tilewise.config import current
from tilewise.kernel.program import raised as kept
from tilewise.kernel.program.ir import HOST, HostCall, Program, Return, View
from tilewise.kernel.program.optimise.run import optimised
from tilewise.kernel.program.walk import statements
from tilewise.python.build import Static
from tilewise.python.host import state
from tilewise.python.refuse import Refused
from tilewise.python.scalars.arithmetic import NATIVE_DTYPES
from tilewise.python.specialise import ArraySpec, OpaqueSpec, Specialised, array_spec, spec_of_number, specialise
from tilewise.python.types import LEAST, MOST, SMALL, Obj

RETURNED, FAILED, MISSED, INTERRUPTED = range(4)
MOST_CODES = 64
RECENT = 4  # codes that are tried before the types of arguments are worked out
NO_HELPERS = frozenset(("loop_threads",))  # for code that runs on threads already
_NUMBERS = (int, float, complex, bool)


class SourceFunction:
    """A function and the codes made of it so far. `task`: it is one of a parallel loop, on threads already."""

    def __init__(self, f: FunctionType, *, task: bool = False) -> None:
        self.function, self._task = f, task
        self._codes: dict[Hashable, Code | Refused] = {}
        self._guards = Guards()
        self._last: Code | None = None
        self._recent: list[Code] = []
        self.quick: Quick | None = None  # for calls like the last one
        code = f.__code__
        self._names, self._unnamed = code.co_varnames[: code.co_argcount], code.co_posonlyargcount

    def placed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...] | None:
        """The arguments of a call, all by place; None: some are left out, or have no place."""
        names = self._names[len(args) : len(args) + len(kwargs)]
        if len(args) < self._unnamed or len(names) != len(kwargs) or not kwargs.keys() <= {*names}:
            return None
        return (*args, *[kwargs[n] for n in names])

    def call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result. Raises Refused where there is no code for such arguments."""
        last = self._last
        if last is not None and last.settings != _settings():
            last = self._last = None
        elif last is not None:
            last.under[0] = current()  # others, but nothing that the code is made for differs
        if not self._guards.holds():
            self._forget()
            last = self._last = self.quick = None
        if not kwargs:  # of other types than the last ones, as those before
            for code in self._recent:
                if code is not last and code.quick is not None and (found := code.quick(args)) is not MISSED_CALL:
                    self._last, self.quick = code, code.quick
                    return found
        if last is not None and not kwargs and (leaves := last.fitting(args)) is not None:
            outcome = last.run(leaves)
            if outcome.status != MISSED:
                return self._ended(last, outcome, leaves, args, kwargs)
        return self._look(args, kwargs)

    def call_whole(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same, but for functions that return a part of an Array argument, which would be a copy of it here."""
        if self._found(_specs(args, kwargs), args, kwargs, apart=True).shows:
            raise Refused("a result that is a part of an Array argument")
        return self.call(args, kwargs)

    def code_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Code:
        """The code for such arguments, compiled if it is new."""
        return self._found(_specs(args, kwargs), args, kwargs, apart=True)

    def _found(self, specs: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, apart: bool) -> Code:
        key = (specs, apart, _settings())
        found = self._codes.get(key)
        if found is None:
            if len(self._codes) >= MOST_CODES:
                self._forget()
            try:
                found = Code(self.function, args, kwargs, specs, self._guards, apart, self._task)
            except Refused as error:
                found = error.again()
            self._codes[key] = found
        if isinstance(found, Refused):
            raise found.again()
        return found

    def _look(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        specs = _specs(args, kwargs)
        for apart in (True, False):
            code = self._found(specs, args, kwargs, apart=apart)
            leaves: list[Any] = []
            _flatten((*args, *kwargs.values()), leaves)
            outcome = code.run(leaves)
            if outcome.status != MISSED:
                if not kwargs:
                    code.under[0] = current()
                    code.quick = code.quick or self._quick(code)
                    self._last, self.quick = code, code.quick
                    self._recent = [code, *(c for c in self._recent if c is not code)][:RECENT]
                return self._ended(code, outcome, leaves, args, kwargs)
        return self.function(*args, **kwargs)  # read-only or unaligned: Python says what that means

    def _forget(self) -> None:
        """Make code anew: something that it was made for has changed, or there is much of it."""
        self._codes.clear()
        self._recent = []
        self._guards = Guards()

    def calls_python(self) -> bool:
        """Whether the code of the last call has functions that only Python can call (new shapes seldom need it)."""
        if self._last is None or not self._last.made.host:
            return False
        program = self._last.made.program
        bodies = (program.body, *(f.body for f in program.functions))
        calls = [s for body in bodies for s in statements(body) if isinstance(s, HostCall)]
        return not all(s.lengths or s.part for s in calls)

    def _quick(self, code: Code) -> Quick | None:
        """What makes calls like the one before, if they are simple enough."""
        direct = (
            code.native.direct() if code.plain and code.checks is not None and hasattr(code.native, "direct") else None
        )
        if direct is None or not code.structures:
            return None

        def ended(args: tuple[Any, ...], room: Any) -> Any:
            outcome = direct.outcome(room, list(args))
            if code.native.whole is not whole:
                self.quick = code.quick = self._quick(code)
            return MISSED_CALL if outcome.status == MISSED else self._ended(code, outcome, list(args), args, {})

        assert code.checks is not None
        whole = code.native.whole
        parts = (code.checks, self._guards, code.under, direct, code.structures, code.results, ended)
        if ENTRY.ready() and (made := native_call(*parts)) is not None:
            return made
        tried = False

        def often() -> None:
            nonlocal tried
            if not tried and ENTRY.ask():
                tried = True
                if (made := native_call(*parts)) is not None:
                    before, code.quick = code.quick, made
                    if self.quick is before:
                        self.quick = made

        return quick_call(*parts, often)

    def _ended(self, code: Code, outcome: Outcome, leaves: list[Any], args: Any, kwargs: Any) -> Any:
        if outcome.status == RETURNED:
            return code.results[outcome.which](outcome.values, code.given(leaves))
        if outcome.status == INTERRUPTED:
            error = kept.take() or KeyboardInterrupt()
            raise error.with_traceback(None)
        fault = code.made.program.faults[outcome.which]
        raised: BaseException | None = None
        if fault.error == HOST:
            raised = kept.take()
            assert raised is not None
            if isinstance(raised, state.Surprise):
                if not outcome.written:
                    return self.function(*args, **kwargs)
                raised = TypeError(f"{fault.message} has given another type than it gives for other values")
            raised = raised.with_traceback(state.outside(raised.__traceback__))
        elif reruns(fault) and not outcome.written:
            return self.function(*args, **kwargs)
        code_ = self.function.__code__
        raise_fault(fault, outcome.payload, code_.co_filename, code_.co_name, code_.co_qualname, raised)


def shows_part(program: Program, arrays: set[str]) -> bool:
    """Whether a result may show a part of one of these arguments."""
    every = list(statements(program.body))
    views: dict[str, list[View]] = {}
    for s in every:
        if isinstance(s, View):
            views.setdefault(s.array, []).append(s)

    def whole(name: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether an array is an argument, or memory of the program's own, from its first to its last element."""
        return all(v.source not in seen and v.renamed and whole(v.source, seen | {name}) for v in views.get(name, ()))

    results = {v for s in every if isinstance(s, Return) for v in s.values if isinstance(v, str)}
    return any(program.arrays[r].roots & arrays and not whole(r) for r in results)


def _settings() -> tuple[bool, frozenset[str]]:
    """What of the settings code is made for."""
    settings = current()
    return settings.native, settings.without


class Code:
    """Compiled code for some types of arguments."""

    def __init__(
        self,
        f: FunctionType,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        specs: Any,
        guards: Guards,
        apart: bool,
        task: bool,
    ) -> None:
        places, named = specs
        options = dict(named)
        made = specialise(f, list(places), options, guards, apart)
        off = current().without | (NO_HELPERS if task else frozenset())
        backend = host_backend(current().native)
        program = backend.passed(replace(made.program, short=apart, task=task), off, optimised)
        self.made: Specialised = replace(made, program=program)
        self.settings = _settings()
        self.under = [current()]  # the settings that `quick` looks for
        self.quick: Quick | None = None  # for calls with such arguments
        self.native: Any = backend.program(self.made.program, self.made.host)
        self.flat = _flat(places) if not named else None
        self.checks = None if self.flat is None else [_check(s) for s in self.flat]
        self.structures = self.made.results
        self.results = [builder(s) for s in self.made.results]
        params = self.made.program.params
        leaves = _leaves((*places, *options.values()))
        self.kept = [k for k, s in enumerate(leaves) if not isinstance(s, Static | OpaqueSpec)]
        self.opaque = [k for k, s in enumerate(leaves) if isinstance(s, OpaqueSpec)]
        self.ours = [k for k, s in enumerate(leaves) if isinstance(s, ArraySpec) and s.kind == "tilewise"]
        self.written = {k for k, p in zip(self.kept, params, strict=False) if p.written}
        self.plain = len(self.kept) == len(leaves) and not self.made.captured and not self.made.objects
        ours = {p.name for k, p in zip(self.kept, params, strict=False) if k in self.ours}
        self.shows = shows_part(self.made.program, ours)

    def fitting(self, args: tuple[Any, ...]) -> list[Any] | None:
        """The arguments, if they are of the types that the code is for; the code itself sees how arrays lie."""
        checks = self.checks
        if checks is None or len(args) != len(checks):
            return None
        for a, (kind, dtype, rank) in zip(args, checks, strict=True):
            t = type(a)
            if t is not kind:
                return None
            if rank >= 0:
                if a.dtype is not dtype or a.ndim != rank:
                    return None
            elif t is int and ((dtype and not -SMALL <= a < SMALL) or not LEAST <= a <= MOST):
                return None
        return list(args)

    def given(self, leaves: list[Any]) -> list[Any]:
        """What the program is given: arguments, and arrays from outside."""
        return leaves if self.plain else [*(leaves[k] for k in self.kept), *self.made.captured]

    def run(self, leaves: list[Any]) -> Outcome:
        if self.made.objects:
            objects = [leaves[k] for k in self.opaque]
            with state.frame(objects + [None] * (self.made.objects - len(objects))):
                return self._run_ours(leaves) if self.ours else self.native(self.given(leaves))
        return self._run_ours(leaves) if self.ours else self.native(self.given(leaves))

    def _run_ours(self, leaves: list[Any]) -> Outcome:
        """With Arrays among the arguments: the code works on their memory."""
        held = list(leaves)
        late: list[int] = []
        with LOCK:
            for k in self.ours:
                x = leaves[k]
                if policy.known(x) is None:
                    forcing.evaluate([x._cell])
                if policy.known(x) is None:  # held by workers
                    held[k] = x.compute()
                    late += [k] if k in self.written else []
                    continue
                if k in self.written:
                    x._cell.own()
                held[k] = meta(x)
            outcome: Outcome = self.native(self.given(held))
        for k in late:
            assign(leaves[k], held[k])
        return outcome


# -- arguments -------------------------------------------------------------------------------------------------------


def _specs(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]:
    return tuple(map(_spec, args)), tuple((k, _spec(v)) for k, v in kwargs.items())


def _spec(v: Any) -> Any:
    """What of an argument code is made for."""
    t = type(v)
    if t is np.ndarray:
        return array_spec(v, _dtype(v))
    if t is int and not LEAST <= v <= MOST:
        raise Refused("an integer of more than 64 bits as an argument")
    if t in _NUMBERS:
        return spec_of_number(v)
    if isinstance(v, np.generic) and not isinstance(v, np.void):
        if v.dtype.name not in NATIVE_DTYPES:
            raise Refused(f"an argument of dtype {v.dtype}")
        return v.dtype.type
    if t is Array:
        nd = meta(v)
        if v._fixed:
            return nd.dtype.type
        return array_spec(nd, _dtype(nd), "tilewise")
    if t is tuple:
        return tuple(map(_spec, v))
    if isinstance(v, state.GENERATORS):
        return OpaqueSpec(t, v)
    if v is None or t is str or callable(v) or isinstance(v, np.dtype):
        return _Fixed(v)
    raise Refused(f"an argument that is a {t.__name__}", 0, "Give arrays, numbers and tuples of them")


class _Fixed(Static):
    """An argument that code is made for as it is."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Fixed) and Obj(self.value) == Obj(other.value)

    def __hash__(self) -> int:
        return hash(type(self.value))


def _dtype(nd: Any) -> str:
    name = nd.dtype.name
    if name not in NATIVE_DTYPES or not nd.dtype.isnative:
        raise Refused(f"an argument of dtype {nd.dtype}")
    return str(name)


def _flat(specs: Sequence[Any]) -> list[Any] | None:
    """Specs that a quick test can be made of: no tuples, nothing but ndarrays and numbers."""
    slow = any(isinstance(s, tuple | Static | OpaqueSpec) for s in specs)
    ours = any(isinstance(s, ArraySpec) and s.kind != "numpy" for s in specs)
    return None if slow or ours else list(specs)


def _check(spec: Any) -> tuple[Any, Any, int]:
    """Class, dtype and rank of what fits; of an integer, whether it is small."""
    if isinstance(spec, ArraySpec):
        return np.ndarray, np.dtype(spec.dtype), spec.rank
    if spec in ("int", "wide"):
        return int, spec == "int", -1
    return spec, None, -1


def _leaves(specs: Sequence[Any]) -> list[Any]:
    return [leaf for s in specs for leaf in (_leaves(s) if isinstance(s, tuple) else [s])]


def _flatten(args: Sequence[Any], leaves: list[Any]) -> None:
    for a in args:
        if type(a) is tuple:
            _flatten(a, leaves)
        elif type(a) is Array and a._fixed:
            leaves.append(meta(a)[()])
        else:
            leaves.append(a)
