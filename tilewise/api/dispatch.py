"""How a NumPy function reaches Tilewise. In: NumPy's function and, where there is one, our recorder. Out: our function.

A recorder has NumPy's signature and returns an Array, or NotImplemented to let NumPy do it (with a FallbackWarning).
Small known operands never reach it: NumPy does them at once. `out=` is taken care of here for every function.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array import record as rec
from tilewise.array.arithmetic import choose, strict_errors
from tilewise.array.assign import assign
from tilewise.array.cell import LOCK
from tilewise.array.fallback import announce, fallback
from tilewise.array.handle import Array, from_buffer, from_number, meta
from tilewise.array.interop.array_like import REFUSED, given
from tilewise.array.interop.elsewhere import printed
from tilewise.array.number import scalar
from tilewise.array.schedule import policy
from tilewise.array.schedule.loop_flush import PROMOTED
from tilewise.array.schedule.sites import composing, spot
from tilewise.array.session import on_workers
from tilewise.config import LEAST, current
from tilewise.errors import TilewiseError

_NDARRAY, _DOT = np.ndarray, np.dot  # one look-up less
Recorder = Callable[..., Any]
RECORDERS: dict[Any, Recorder] = {}  # NumPy's function -> ours
VIEWS: set[Any] = set()  # NumPy functions that only look at shapes: recorders that cost nothing, whatever the size
MUTATORS: dict[Any, int] = {}  # NumPy functions that write into an argument -> which one
# NumPy functions that have a quicker way for ndarrays: most only call the method of their name.
QUICK: dict[Any, Callable[..., Any]] = {
    getattr(np, n): getattr(np.ndarray, n)
    for n in (
        "sum prod max min mean any all argmax argmin cumsum cumprod std var take repeat transpose swapaxes nonzero"
    ).split()
}
NAMED: dict[Any, Callable[..., Any]] = {}  # those that also take the same names of arguments
JOINS: set[Any] = {np.concatenate, np.stack}  # take an output or a dtype: NumPy complains about both
PRODUCTS: set[Any] = {np.dot, np.matmul}  # of a matrix and a vector: at once (record.slight)
# NumPy functions that ask for the values in any case: nothing to warn about.
QUIET: set[Any] = {getattr(np, n) for n in "save savez savez_compressed savetxt shares_memory may_share_memory".split()}
TEXTS: set[Any] = {np.array_repr, np.array_str, np.array2string}
DIRECT: dict[Any, Callable[..., Any]] = {}  # functions that are called often: ways past `call`, or MISSED
PUBLIC: dict[Any, Callable[..., Any]] = {}  # NumPy's function -> our public one


def implements(*functions: Any, view: bool = False) -> Callable[[Recorder], Recorder]:
    """Register a recorder for NumPy functions."""

    def register(recorder: Recorder) -> Recorder:
        for f in functions:
            RECORDERS[f] = recorder
            if view:
                VIEWS.add(f)
        return recorder

    return register


def product(func: Any, x: Any, y: Any) -> Any:
    """A product of two small known Arrays; None if they are something else."""
    if type(x) is Array and type(y) is Array and not x._fixed and not y._fixed:
        c, d = x._cell, y._cell
        if c.node is None and d.node is None and x._gen == c.gen and y._gen == d.gen:
            a: Any = x._nd
            b: Any = y._nd
            size = a.nbytes + b.nbytes
            if size < LEAST.eager_bytes or size < current().eager_bytes:
                r = a.dot(b) if func is _DOT else multiplied(a, b)
                if type(r) is _NDARRAY:
                    return from_buffer(r) if r.base is None else rec.wrap(r, (x, y))
                return from_number(r) if type(r) in rec.SCALARS else rec.wrap(r)
    return None


def multiplied(a: Any, b: Any) -> Any:
    """a @ b. Of vectors that lie in one piece, `dot` takes less time for the same bits.

    Of one element each it keeps the sign of zero and `@` does not; steps through memory are added in another order.
    """
    if a.ndim == 1 == b.ndim and a.size > 1 and a.flags.carray and b.flags.carray:
        try:
            return a.dot(b)
        except (TypeError, ValueError):
            pass  # its own complaint
    return a @ b


MISSED = object()


def _known(x: Array) -> Any:
    """The ndarray of an Array that is known and no number; else None."""
    cell = x._cell
    return None if cell.node is not None or x._gen != cell.gen or x._fixed else x._nd


def at_hand(func: Any, bare: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a NumPy function that writes to none of its arguments gives for small known Arrays and plain values.

    `bare` is the function without NumPy's search for foreign arrays among the arguments.

    MISSED if there is something else among them: `call` takes all kinds, at three times the cost.
    """
    plain: list[Any] = []
    arrays: list[Array] = []
    touched = 0
    nd: Any
    for a in args:
        t = type(a)
        if t is Array:
            cell = a._cell  # _known(a), written out: most arguments of most calls
            if cell.node is not None or a._gen != cell.gen or a._fixed:
                return MISSED
            nd = a._nd
            touched += nd.nbytes
            arrays.append(a)
            plain.append(nd)
        elif t in rec.ATOMS:
            plain.append(a)
        elif t in rec.KNOWN:
            plain.append(scalar(a))
        elif t is list or t is tuple:
            inner: list[Any] = []
            for x in a:
                if type(x) is Array:
                    nd = _known(x)
                    if nd is None:
                        return MISSED
                    touched += nd.nbytes
                    arrays.append(x)
                    inner.append(nd)
                elif type(x) in rec.ATOMS:
                    inner.append(x)
                else:
                    return MISSED
            plain.append(inner if t is list else tuple(inner))
        else:
            return MISSED
    ways = QUICK
    if kwargs:
        if "out" in kwargs:
            return MISSED
        ways = NAMED
        if not rec.is_plain(kwargs.values()):
            ways, kwargs = {}, kwargs.copy()
            for name, a in kwargs.items():
                if type(a) is Array:
                    nd = kwargs[name] = _known(a)
                    if nd is None:
                        return MISSED
                    touched += nd.nbytes
                    arrays.append(a)
                elif type(a) not in rec.ATOMS:
                    return MISSED
    if touched >= LEAST.eager_bytes:
        return MISSED
    usual = func if kwargs else bare  # which takes other names
    way = ways.get(func, usual) if plain and type(plain[0]) is _NDARRAY else usual
    try:
        r = way(*plain, **kwargs)
    except Exception:
        if way is func:
            raise
        r = MISSED
    if r is MISSED:
        r = func(*plain, **kwargs)  # its own complaint
    return _wrapped(r, arrays)


def one_at_hand(func: Any, bare: Any, x: Array) -> Any:
    """The same for one Array and nothing else: most calls of most programs."""
    cell = x._cell
    if cell.node is not None or x._gen != cell.gen or x._fixed:
        return MISSED
    nd: Any = x._nd
    if nd.nbytes >= LEAST.eager_bytes:
        return MISSED
    way = QUICK.get(func, bare)
    try:
        r = way(nd)
    except Exception:
        if way is func:
            raise
        r = MISSED
    if r is MISSED:
        r = func(nd)  # its own complaint
    if type(r) is _NDARRAY:
        return from_buffer(r) if r.base is None and r is not nd else _wrapped(r, [x])
    return from_number(r) if type(r) in rec.SCALARS else rec.wrap(r, (x,))


def _wrapped(r: Any, arrays: list[Array]) -> Any:
    """Arrays for what NumPy gave for these."""
    if type(r) is _NDARRAY:
        memory = r if r.base is None else r.base
        for x in arrays:
            nd: Any = x._nd
            if nd is memory or nd.base is memory:
                break
        else:
            if memory is r:
                return from_buffer(r)
            if type(memory) is _NDARRAY and (flags := memory.flags).owndata and flags.forc and r.flags.writeable:
                x = from_buffer(memory)  # new memory, seen in another shape
                x._nd = r
                return x
    return rec.wrap(r, arrays)


def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a NumPy function on arguments that may hold Arrays."""
    if func is np.where and not kwargs and (chosen := choose(args)) is not None:
        return chosen
    if func in MUTATORS:
        return mutate(func, MUTATORS[func], args, kwargs)
    if len(args) > 1 and len(args) > (at := out_at(func)) and args[at] is not None:
        return into(func, args[:at], kwargs, args[at])
    arrays: list[Array] = []
    foreign: list[Any] = []
    plain: list[Any] = []
    touched = rec.look(args, plain, arrays, foreign)
    if not kwargs:
        if touched < LEAST.eager_bytes or touched < policy.eager_limit():  # most calls of most programs
            quick = QUICK.get(func)
            if quick is not None and plain and type(plain[0]) is np.ndarray:
                return rec.wrap(quick(*plain), arrays, foreign)
            return rec.wrap(func(*plain), arrays, foreign)
        if func in PRODUCTS and len(plain) == 2 == len(args) and policy.slight(*plain):
            return rec.wrap(func(*plain), arrays, foreign)
    else:
        out = kwargs.get("out")
        if out is not None:
            return into(func, args, kwargs, out)
        more: list[Any] = []
        touched += rec.look(kwargs.values(), more, arrays, foreign)
        if touched < policy.eager_limit():
            return rec.wrap(func(*plain, **dict(zip(kwargs, more, strict=True))), arrays, foreign)
    if func in TEXTS and args and type(args[0]) is Array:
        how = {k: kwargs.get(k) for k in ("threshold", "edgeitems")}
        return func(printed(args[0], **how), *args[1:], **kwargs)
    if func in QUIET or (strict_errors() and func not in VIEWS) or any(map(rec.peculiar, foreign)):
        return rec.at_once(func, args, kwargs)
    if policy.flush_loop(arrays, rolls=func is np.roll):
        return call(func, args, kwargs)
    recorder = RECORDERS.get(func)
    if recorder is not None and arrays:
        if func in VIEWS or (not policy.small(arrays) and all(rec.numeric(x.dtype) for x in arrays)):
            return attempt(recorder, func, args, kwargs)
    elif recorder is None or not arrays:
        return fallback(func, args, kwargs) if arrays else rec.at_once(func, args, kwargs)
    if policy.small(arrays):
        return rec.at_once(func, args, kwargs)
    return fallback(func, args, kwargs)


def of_one(func: Any, x: Array) -> Any:
    """`call` for one Array and nothing else, in fewer words where it is pending, or held by workers."""
    node, recorder = x._cell.node, RECORDERS.get(func)
    if node is None or recorder is None or func in VIEWS or node.trail & PROMOTED or strict_errors():
        return call(func, (x,), {})
    del node  # what is held here cannot be updated in place
    if not rec.numeric(x.dtype) or policy.flush_loop((x,)):
        return call(func, (x,), {})
    return attempt(recorder, func, (x,), {})


def attempt(
    recorder: Recorder, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str | None = None
) -> Any:
    """What a recorder gives. Where it cannot, NumPy does it; where it finds a mistake, NumPy says what is wrong."""
    try:
        result = composed(recorder, args, kwargs)
        if result is not NotImplemented:
            return result
        wrong = False
    except (TilewiseError, AssertionError):
        raise
    except Exception as error:
        if str(error) == REFUSED:
            raise  # whoever has called asks for the Arrays
        wrong = True
    if on_workers() and _lengths_unknown((args, kwargs)):
        return attempt(recorder, func, args, kwargs, name)
    if wrong:
        result = rec.at_once(func, args, kwargs)  # NumPy's own exception; else it was no mistake
        announce(name or func.__name__, args, kwargs)
        return result
    return fallback(func, args, kwargs, name)


def _lengths_unknown(args: Any) -> bool:
    """Whether masks decided lengths of arguments that nobody had counted. Now they are numbers."""
    arrays: list[Array] = []
    rec.find_arrays(args, arrays)
    unknown = [x for x in arrays if x._nd is None and (n := x._cell.node) is not None and not n.known]
    for x in unknown:
        meta(x)
    return bool(unknown)


def composed(recorder: Recorder, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a recorder gives: all that it records is one call of the program."""
    token = composing.set(spot(2))
    try:
        return recorder(*args, **kwargs)
    finally:
        composing.reset(token)


@functools.cache
def out_at(func: Any) -> int:
    """Where a function takes its output if that is not given by name; far away if nowhere."""
    bare = getattr(func, "__wrapped__", func)
    code = getattr(bare, "__code__", None)
    if code is not None and not hasattr(func, "__signature__"):  # the same, for a tenth of the time
        names = code.co_varnames[: code.co_argcount]
        return names.index("out") if "out" in names[code.co_posonlyargcount :] else sys.maxsize
    text = getattr(bare, "__text_signature__", None)
    if text is not None and "$" not in text:  # `inspect` would take longer, and leave garbage that holds all modules
        (function,) = ast.parse(f"def function{text}: pass").body
        assert isinstance(function, ast.FunctionDef)
        names = [each.arg for each in function.args.args]
        return len(function.args.posonlyargs) + names.index("out") if "out" in names else sys.maxsize
    found = signature_of(func)
    for i, p in enumerate(found.parameters.values() if found is not None else ()):
        if p.name == "out" and p.kind is p.POSITIONAL_OR_KEYWORD:
            return i
    return sys.maxsize


@functools.cache
def signature_of(func: Any) -> inspect.Signature | None:
    """How a function is called, if it says so."""
    try:
        return inspect.signature(func)
    except (TypeError, ValueError):
        return None


def into(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
    """A function with out=: compute, then write."""
    kwargs = {k: v for k, v in kwargs.items() if k != "out"}
    if type(out) is tuple and len(out) == 1:
        out = out[0]
    if type(out) is not Array:  # a foreign array is written now
        result = func(*rec.unwrap(args), **rec.unwrap(kwargs), out=out)
        return out if result is out else rec.wrap(result)
    arrays: list[Array] = [out]
    rec.find_arrays(args, arrays)
    rec.find_arrays(kwargs.values(), arrays)
    recorder = RECORDERS.get(func)
    if (
        recorder is not None
        and not strict_errors()
        and not policy.small(arrays)
        and all(rec.numeric(x.dtype) for x in arrays)
        and meta(out).flags.writeable
        and (func not in JOINS or kwargs.get("dtype") is None)
    ):
        try:
            result = composed(recorder, args, kwargs)
        except (TilewiseError, AssertionError):
            raise
        except Exception:  # NumPy says what is wrong
            result = NotImplemented
        # Where types differ NumPy's rule decides, and each function has its own.
        if type(result) is Array and not out._fixed and result.dtype == out.dtype and result.shape == out.shape:
            assign(out, result)
            return out
    _into_now(func, args, kwargs, out)
    return out


def _into_now(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], out: Array) -> None:
    with LOCK:
        plain, more = rec.unwrap(args), rec.unwrap(kwargs)
        forcing.force(out)
        if out._fixed:
            func(*plain, **more, out=meta(out)[()])  # NumPy's complaint about a number
        elif meta(out).flags.writeable:
            out._cell.own()
        func(*_again(args, plain), **more, out=meta(out))


def _again(args: tuple[Any, ...], plain: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments after the output's buffer may have moved."""
    return tuple(meta(a) if type(a) is Array else p for a, p in zip(args, plain, strict=True))


def mutate(func: Any, which: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A function that writes into an argument: the buffer is made private first."""
    target = args[which] if len(args) > which else None
    if type(target) is not Array or target._fixed:  # what becomes of a number is NumPy's to say
        return rec.wrap(func(*rec.unwrap(args), **rec.unwrap(kwargs)))
    recorder = RECORDERS.get(func)
    if recorder is not None and composed(recorder, args, kwargs) is not NotImplemented:
        return None
    announce(func.__name__, args, kwargs)
    with LOCK:
        rec.unwrap(args)
        more = rec.unwrap(kwargs)
        forcing.force(target)
        if meta(target).flags.writeable:
            target._cell.own()
        plain = tuple(meta(a) if type(a) is Array and not a._fixed else rec.unwrap(a) for a in args)
        return rec.wrap(func(*plain, **more), [target])


def public(func: Any, name: str | None = None) -> Callable[..., Any]:
    """Our function for NumPy's."""
    found = PUBLIC.get(func)
    if found is not None:
        return found

    if func in PRODUCTS:

        def function(*args: Any, **kwargs: Any) -> Any:
            found = product(func, *args) if len(args) == 2 and not kwargs else None
            try:
                return call(func, args, kwargs) if found is None else found
            except ValueError as error:
                return call(func, given(error, args), kwargs)
    else:
        most = -1 if func in MUTATORS else out_at(func)  # arguments of a call that writes to none of them
        bare = getattr(func, "__wrapped__", func)
        direct = DIRECT.get(func)

        def function(*args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 <= most and not kwargs and type(args[0]) is Array:
                found = one_at_hand(func, bare, args[0])
            else:
                found = at_hand(func, bare, args, kwargs) if len(args) <= most else MISSED
            try:
                if found is MISSED and direct is not None:
                    found = direct(*args, **kwargs)
                return call(func, args, kwargs) if found is MISSED else found
            except ValueError as error:
                return call(func, given(error, args), kwargs)

    functools.update_wrapper(function, func, assigned=("__name__", "__doc__", "__qualname__"), updated=())
    function.__module__ = func.__module__.replace("numpy", "tilewise", 1)  # where pickle finds it
    function.__wrapped__ = func  # type: ignore[attr-defined]  # `help` and editors find the signature there
    return PUBLIC.setdefault(func, function)  # another thread may have been first


def array_function(self: Array, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NEP 18: NumPy's own functions on Arrays."""
    return call(func, tuple(args), dict(kwargs))


Array.__array_function__ = array_function
