"""tw.jit: a function, traced once per structure or compiled. In: a function. Out: one that replays its graph, or code.

A function that loops over elements is compiled from its source (source_call.py); what follows is about others, whose
graphs are replayed by trace_plan.py.

What is replayed must be what the function would do: the key of a trace has the function's code, defaults, closure and
the globals it names, the types of array arguments and the values of all others. Where that cannot be known, or the
function looks at values, it is called as it is, and a PerformanceWarning says why.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Hashable, Sequence
from types import MethodType, ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.api.functions.call_cache import MISSED, CachedCall, cached_call
from tilewise.api.functions.decorate_all import decorate_all
from tilewise.api.functions.guards import Guards
from tilewise.api.functions.purity import Untraceable, content, function_key, plain
from tilewise.api.functions.trace.array_trace import flatten, spec_of
from tilewise.api.functions.trace.trace_plan import Plan, attempt, twice
from tilewise.api.functions.warn import name_of, refusal, warn, warn_again, warn_plain
from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import strict_errors
from tilewise.array.cell import address, root
from tilewise.array.handle import Array, meta
from tilewise.array.session import on_workers, unlimited_memory
from tilewise.config import current
from tilewise.errors import FunctionError, message
from tilewise.later import later
from tilewise.python.policy import loops_of
from tilewise.python.refuse import Refused

if TYPE_CHECKING:
    from tilewise.api.functions import source_call
else:
    source_call = later("tilewise.api.functions.source_call")

TRACED_BYTES = 32 << 20  # of an Array: loops of whole arrays are traced from there on
MAX_TEMPLATES = 64  # per function; one that is called with ever new values is not traced any more


class jit:
    """A function of arrays that is traced once for each structure of its arguments, then replayed.

    Arguments and results may be nested in tuples, lists and dicts. Results are Arrays; NumPy's arrays and numbers where
    no Array is given and the function refers to nothing of Tilewise. Floats are parameters of the trace, other values
    that are not arrays are part of its key, as are those that the function refers to: it is traced again where
    they change. In-place updates of arguments are replayed, too. `functools.partial` is fine as well.

    Loops over elements are compiled from the function's source (docs/loops.md). With `strict=True` a function that can
    be neither traced nor compiled raises a `TilewiseError` that names the construct and its line.

    `tw.jit(module)` and `tw.jit(cls)` decorate every function that is defined in it, in place.

    >>> import tilewise as tw
    >>> @tw.jit
    ... def step(x, rate):
    ...     return {"x": x - rate * (x - 3.0), "error": ((x - 3.0) ** 2).sum()}
    >>> x = tw.zeros(4)
    >>> for rate in (0.5, 0.25):
    ...     state = step(x, rate)
    ...     x = state["x"]
    >>> x, state["error"]
    (Array([1.875, 1.875, 1.875, 1.875]), np.float64(9.0))
    """

    does_as_wrapped = True  # for those who look at the function

    def __new__(cls, f: Any = None, *, strict: bool = False) -> Any:
        """`@tw.jit(strict=True)` is a decorator; of a module or class, every function in it is decorated."""
        if f is None:
            return functools.partial(cls, strict=strict)
        if isinstance(f, ModuleType | type):
            return decorate_all(f, functools.partial(cls, strict=strict))
        return super().__new__(cls)

    def __init__(self, f: Callable[..., Any], *, strict: bool = False) -> None:
        if not callable(f):
            raise TypeError(f"tw.jit takes a function, got {type(f).__name__}")
        functools.update_wrapper(self, f)
        self.__wrapped__ = f
        self._bound: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # arguments of a partial function
        self._function: Any = f
        if isinstance(f, functools.partial):
            self._function, self._bound = f.func, (f.args, f.keywords)
        self._plain = plain(self._function)
        self.strict = strict
        self._loops = "" if self._plain is None else loops_of(self._plain)
        self._source = source_call.SourceFunction(self._plain) if self._plain is not None and self._loops else None
        self.traces = 0  # how often the function was traced
        self._kept: dict[Hashable, Any] = {}  # a Plan, Untraceable or by_value
        self._known: tuple[Guards | None, object, list[Array]] = (None, None, [])  # what the function is now
        self._identities: dict[Hashable, object] = {}
        self._latest: CachedCall | None = None  # a call that can be made again at once
        self._previous: Plan | None = None  # of the last call

    def __reduce__(self) -> Any:
        """As functions are pickled: by name, if that stands for it."""
        name = getattr(self, "__qualname__", "")
        found: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (_again, (self.__wrapped__, self.strict))

    def __get__(self, owner: Any, kind: Any = None) -> Any:
        return self if owner is None else MethodType(self, owner)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        source = self._source
        if source is not None and self._bound is None:
            if kwargs and (placed := source.placed(args, kwargs)) is not None:
                args, kwargs = placed, {}
            if source.quick is not None and not kwargs and (found := source.quick(args)) is not MISSED:
                return found
        f = self._function
        if self._bound is not None:
            args, kwargs = (*self._bound[0], *args), {**self._bound[1], **kwargs}
        if forcing.tracing.get() is not None:
            return f(*args, **kwargs)
        refused: Refused | None = None
        if source is not None and self._loops:
            given = (*args, *kwargs.values())
            lines = self._loops == "items" and all(map(_line, given))
            if self.strict or self._loops == "elements" or lines or not has_arrays(args, kwargs):
                return self._by_source(args, kwargs)
            if by_source_here(given) and in_c_order(given) and self._plain is source.function:
                try:
                    ours = any(type(v) is Array for v in given)
                    return source.call_whole(args, kwargs) if ours else source.call(args, kwargs)
                except Refused as error:
                    refused = error.with_traceback(None)
        latest = self._latest
        if latest is not None and not kwargs and (made := latest.run(self._known[0], args)) is not MISSED:
            return made
        leaves: list[Any] = []
        captured: list[Array] = []
        try:
            flat = not kwargs and FLAT.issuperset(map(type, args))
            if flat:
                structure = _row(len(args))
                leaves.extend(args)
            else:
                structure = flatten((args, kwargs), leaves)
            found = self._plain
            if found is None or strict_errors() or current().engine == "numpy":
                reason = "np.errstate that raises" if found is not None else "no Python code"
                raise Untraceable(reason, pure=False)
            watch, known, seen = self._known
            if watch is None or watch.functions[0][0] is not found or not watch.holds():
                watch, seen = Guards(), []
                known = self._identity(function_key(found, arrays=seen, watch=watch))
                self._known = watch, known, seen
            captured = seen
            settings = current()
            key = (structure, *map(_kind, leaves), known, settings.rewrite, settings.exact)
            if len({*map(id, leaves)}) < len(leaves) and (same := twice(leaves)):
                key = (*key, same)
            if captured:
                key = (*key, *map(_seen, captured))
            plan = self._kept.get(key)
            looked = plan is by_value
            if looked:
                key = (*key, by_value, *[repr(v) for v in leaves if type(v) is float])
                plan = self._kept.get(key)
            if plan is None:
                plan = self._learn(key, structure, leaves, captured, looked)
            if isinstance(plan, Untraceable):
                raise plan
            result = plan.run(leaves, captured)
            if flat and not captured and plan is self._previous:
                self._latest = cached_call(plan, watch, args)
            self._previous = plan
            return result
        except Untraceable as error:
            why = error.with_traceback(None)  # its frames have the arguments
        fails = why.construct.startswith("what raises")  # also when called, most likely: that says more
        if refused is None and in_c_order((*args, *kwargs.values())):
            if self._loops and source is not None:
                return self._by_source(args, kwargs)
            if not fails and (made := self._by_source_instead(args, kwargs)) is not MISSED:
                return made
        if self.strict:
            if fails and not captured and not has_arrays(args, kwargs):
                f(*args, **kwargs)  # of numbers a trace is a call, so this raises as well
            raise FunctionError(
                message(f"jit cannot trace {name_of(f)}: it has {why.construct}", where=why.where or None)
            )
        result = f(*args, **kwargs) if fails else None
        if current().engine != "numpy":
            found = [v for v in leaves if type(v) is Array]
            if refused is not None and not found:
                warn_plain(self._function, refused)
            else:
                warn("jit", f, why, found, "calls it every time")
        return result if fails else f(*args, **kwargs)

    def _by_source(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function whose loops are compiled from the source; as plain Python where they cannot be."""
        source = self._source
        assert source is not None
        settings = current()
        if settings.engine != "numpy" and not strict_errors() and self._plain is source.function:
            try:
                return source.call(args, kwargs)
            except Refused as error:
                why = error.with_traceback(None)
            if self.strict:
                raise FunctionError(refusal(self._function, why)) from None
            if not why.construct.endswith("with other arguments than it takes"):  # Python says what is wrong
                warn_plain(self._function, why)
        return self._function(*args, **kwargs)

    def _by_source_instead(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a function that cannot be traced; MISSED if its source has no native form.

        Arrays of ours go on as they are, without waiting for a compiler, unless native code is asked for.
        """
        given = (*args, *kwargs.values())
        ours = any(type(v) is Array for v in given)
        if self._plain is None or not (PLAIN | {Array}).issuperset(map(type, given)):
            return MISSED
        if current().engine == "numpy" or strict_errors() or (ours and not (self.strict and by_source_here(given))):
            return MISSED
        if self._source is None:
            self._source = source_call.SourceFunction(self._plain)
        try:
            return self._source.call_whole(args, kwargs) if ours else self._source.call(args, kwargs)
        except Refused:
            return MISSED

    def _identity(self, key: Hashable) -> object:
        """An object that stands for what the function is: code takes long to hash."""
        if len(self._identities) >= MAX_TEMPLATES:
            self._identities.clear()
        return self._identities.setdefault(key, object())

    def _learn(
        self, key: tuple[Any, ...], structure: Any, leaves: list[Any], captured: list[Array], looked: bool
    ) -> Plan | Untraceable:
        """Trace the function; also that it cannot be traced is kept. `looked`: it looks at its floats."""
        if len(self._kept) >= MAX_TEMPLATES:
            self._kept.clear()
            warn_again(self._function, self.traces)
        floats = [] if looked else [i for i, v in enumerate(leaves) if type(v) is float]
        self.traces += 1
        found = attempt(self._function, structure, leaves, captured, floats)
        if isinstance(found, Untraceable) and floats:
            self._kept[key] = by_value
            return self._learn(
                (*key, by_value, *[repr(leaves[i]) for i in floats]), structure, leaves, captured, looked=True
            )
        self._kept[key] = found
        return found  # type: ignore[no-any-return]


def _again(f: Callable[..., Any], strict: bool) -> jit:
    """A function that was pickled."""
    return jit(f, strict=strict)


def has_arrays(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an argument is an array, or may hold one."""
    return any(
        not isinstance(v, int | float | complex | np.generic) and not (type(v) is list and _of_numbers(v))
        for v in (*args, *kwargs.values())
    )


def by_source_here(args: Sequence[Any]) -> bool:
    """Whether loops of whole arrays are compiled from the source: on one worker, if large Arrays are not among these.

    On a mesh a trace has layouts to choose, and passes over arrays that no cache holds share tiles in it.
    """
    settings = current()
    if settings.engine == "numpy" or not settings.native or settings.compare or "source" in settings.without:
        return False
    if strict_errors() or on_workers() or not unlimited_memory():
        return False
    return not any(type(v) is Array and meta(v).nbytes > TRACED_BYTES for v in args)


def in_c_order(args: Sequence[Any]) -> bool:
    """Whether all arrays lie in C order: what NumPy makes of others has their order, and other views."""
    given = (meta(v) if type(v) is Array else v for v in args)
    return not any(isinstance(v, np.ndarray) and v.ndim > 1 and not v.flags.c_contiguous for v in given)


def _line(v: Any) -> bool:
    """Whether an argument is a number, or an array of numbers with one axis."""
    return isinstance(v, int | float | complex | np.generic) or (type(v) in (np.ndarray, Array) and v.ndim <= 1)


def _of_numbers(items: list[Any]) -> bool:
    """Whether a list has nothing but Python's numbers, or lists of them."""
    kinds = {*map(type, items)}
    return kinds <= _LISTED and (list not in kinds or all(type(v) is not list or _of_numbers(v) for v in items))


_LISTED = frozenset((int, float, complex, bool, list))
PLAIN = frozenset((np.ndarray, float, int, bool, complex, type(None)))
FLAT = frozenset((Array, np.ndarray, float, int, bool, type(None), ModuleType))


@functools.lru_cache(maxsize=64)
def _row(n: int) -> Any:
    """The structure of a call with n arguments that hold no others."""
    return flatten(((None,) * n, {}), [])


def _seen(x: Array) -> Hashable:
    """Which part of which cell a captured Array shows."""
    nd = meta(x)
    return id(x._cell), nd.shape, nd.strides, nd.dtype, address(nd) - address(root(nd)), x._fixed


def _kind(v: Any) -> Hashable:
    """What of an argument the trace hangs on."""
    t = type(v)
    if t is Array and v._cell.node is None and v._gen == v._cell.gen:
        nd: Any = v._nd
        if nd.flags.c_contiguous and nd.dtype in _NUMERIC:  # most arguments of most functions
            return nd.shape, nd.dtype, v._fixed
    if t is Array or t is np.ndarray:
        spec = spec_of(v)
        if not rec.numeric(spec.dtype):
            raise Untraceable(f"an argument of dtype {spec.dtype}", pure=False)
        return spec if t is Array else ("ndarray", spec)
    return float if t is float else content(v, name="an argument")


_NUMERIC = frozenset(map(np.dtype, "?bhilqBHILQefdFD"))

by_value = object()  # in place of a plan: the function looks at its floats, there is a plan for each
