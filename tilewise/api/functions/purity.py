"""What a Python function can see. In: a function. Out: the values it refers to, and a key equal where it acts alike.

A function may be traced only if everything it refers to is known to be free of side effects, and what its trace says
holds only as long as those values stay what they are: both questions are answered from its bytecode.
"""

from __future__ import annotations

import builtins
import dis
import functools
from collections import namedtuple
from collections.abc import Hashable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from tilewise.api.functions.guards import Guards
from tilewise.api.ufuncs import ufunc
from tilewise.array.handle import Array
from tilewise.python.specialise import lifted

MAX_CONTENT = 1 << 16  # bytes of an ndarray that a function refers to; more is not compared at every call
PACKAGES = ("numpy", "tilewise", "math", "cmath", "operator", "_operator", "scipy")
IMPURE = frozenset(
    "random load loadtxt genfromtxt fromfile memmap save savez savez_compressed savetxt tofile dump seterr seterrcall "
    "setbufsize set_printoptions printoptions errstate config session profile calibrate testing open checkpoint "
    "geterr geterrcall getbufsize get_printoptions datetime64".split()  # what they say may change ("now" is a time)
)
GLOBALS = frozenset("LOAD_GLOBAL LOAD_NAME LOAD_FROM_DICT_OR_GLOBALS".split())
FREE = frozenset("LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_DEREF".split())  # the latter in bodies of classes
LAYOUT = frozenset("strides flags setflags base ctypes __array_interface__".split())  # how an array lies in memory
CONTENT = frozenset("shape real imag flat".split())  # attributes of arrays that may be assigned to
BUILTINS = frozenset(
    "abs min max pow divmod round sum range len zip enumerate map reversed float int bool complex tuple list dict "
    "slice isinstance all any sorted".split()
)
DEFAULT = "a default value"
CALLABLES = (FunctionType, BuiltinFunctionType, type, type(np.sum))
RECORD = frozenset(vars(namedtuple("record", ""))) | frozenset(  # what every named tuple has
    "__annotations__ __orig_bases__ __match_args__ __replace__ __static_attributes__ __firstlineno__".split()
)
SCALARS = (int, float, complex, bool, str, bytes, type(None), type(Ellipsis), np.generic, np.dtype)


class Untraceable(Exception):
    """A construct that cannot be traced, and where it stands. `pure`: the function still depends on nothing else."""

    def __init__(self, construct: str, where: str = "", pure: bool = True) -> None:
        super().__init__(construct)
        self.construct, self.where, self.pure = construct, where, pure


class Read(NamedTuple):
    """A name that code reads from outside, with the attributes that are asked of it at once."""

    name: str
    free: bool
    attributes: tuple[str, ...]
    line: int


class Scan(NamedTuple):
    """What code does that matters here; `bad` is what it does to the world outside, or to exceptions."""

    reads: tuple[Read, ...]
    bad: tuple[str, int] | None


@functools.lru_cache(maxsize=1024)
def scan(code: CodeType) -> Scan:
    """The names that code and the functions defined in it read from outside."""
    reads: list[Read] = []
    bad: tuple[str, int] | None = None
    line = code.co_firstlineno
    steps = list(dis.get_instructions(code))
    named = 0  # steps up to here belong to a name that was read
    for k, step in enumerate(steps):
        line = step.starts_line if type(step.starts_line) is int else line
        op = step.opname
        if op in GLOBALS or (op in FREE and step.argval in code.co_freevars):
            attributes = []
            for later in steps[k + 1 :]:
                if later.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
                    break
                attributes.append(later.argval)
            reads.append(Read(step.argval, op in FREE, tuple(attributes), line))
            named = k + len(attributes)
        elif op in ("STORE_GLOBAL", "DELETE_GLOBAL") or (op == "STORE_DEREF" and step.argval in code.co_freevars):
            bad = bad or (f"assignment to {step.argval}, which is outside of the function", line)
        elif op in ("LOAD_ATTR", "LOAD_METHOD") and (step.argval in LAYOUT or (step.argval in IMPURE and k > named)):
            bad = bad or (f"the attribute {step.argval}", line)  # of an array, of what may be a module
        elif op in ("STORE_ATTR", "DELETE_ATTR") and step.argval not in CONTENT:
            bad = bad or (f"assignment to the attribute {step.argval}", line)
        elif op == "IMPORT_NAME":
            bad = bad or ("import", line)
        elif op == "PUSH_EXC_INFO":
            bad = bad or ("try or with", line)
        elif op in ("RETURN_GENERATOR", "YIELD_VALUE") and code.co_name != "<genexpr>":
            bad = bad or ("yield or await", line)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found = scan(inner)
            reads += [r for r in found.reads if not r.free or r.name in code.co_freevars]
            bad = bad or found.bad
    return Scan(tuple(dict.fromkeys(reads)), bad)


def place(code: CodeType, line: int) -> str:
    """A line of code as messages name it."""
    return f"{code.co_filename}:{line}"


def lookup(f: FunctionType, read: Read, watch: Guards) -> tuple[str, Any]:
    """What a name stands for now, followed through modules; and how it is written."""
    if read.free:
        cells = dict(zip(f.__code__.co_freevars, f.__closure__ or (), strict=True))
        try:
            value = cells[read.name].cell_contents
        except (KeyError, ValueError):
            raise Untraceable(f"{read.name}, which has no value yet", place(f.__code__, read.line), False) from None
        watch.cell(cells[read.name])
    else:
        watch.name(f.__globals__, read.name)
        if read.name in f.__globals__:
            value = f.__globals__[read.name]
        elif hasattr(builtins, read.name):
            watch.name(vars(builtins), read.name)
            value = getattr(builtins, read.name)
        else:
            raise Untraceable(f"{read.name}, which has no value", place(f.__code__, read.line), False)
    name = read.name
    for attribute in read.attributes:
        if not isinstance(value, ModuleType):
            if isinstance(value, FunctionType | type) and not library(value):
                raise Untraceable(f"{name}.{attribute}, which may change", place(f.__code__, read.line), False)
            if not IMPURE.isdisjoint(read.attributes):
                raise Untraceable(f"{name}.{attribute}", place(f.__code__, read.line), False)
            break
        name = f"{name}.{attribute}"
        if attribute in IMPURE or not hasattr(value, attribute):
            raise Untraceable(name, place(f.__code__, read.line), False)
        watch.sure = watch.sure and attribute in vars(value)  # else it comes from a function of the module
        watch.name(vars(value), attribute)
        value = getattr(value, attribute)
    return name, value


def references(f: FunctionType, watch: Guards) -> Iterator[tuple[str, Any, str]]:
    """All that a function reads from outside: its name, value and line. Raises for what it must not do."""
    found = scan(f.__code__)
    if found.bad is not None:
        raise Untraceable(found.bad[0], place(f.__code__, found.bad[1]), found.bad[0].startswith(("try", "yield")))
    for read in found.reads:
        name, value = lookup(f, read, watch)
        yield name, value, place(f.__code__, read.line)
    for value in (*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()):
        yield DEFAULT, value, place(f.__code__, f.__code__.co_firstlineno)


def library(value: Any) -> bool:
    """Whether a callable is ours, NumPy's or Python's mathematics, without side effects."""
    return packaged(value) and getattr(value, "__name__", "") not in IMPURE


def packaged(value: Any) -> bool:
    """Whether a callable is ours, NumPy's or Python's mathematics."""
    if isinstance(value, np.ufunc | ufunc):
        return True
    if not isinstance(value, CALLABLES):
        return False
    module = getattr(value, "__module__", None) or ""
    if module == "builtins":
        return getattr(value, "__name__", "") in BUILTINS and getattr(builtins, value.__name__, None) is value
    return module.split(".")[0] in PACKAGES and ".random" not in module and "mtrand" not in module


def content(
    value: Any, where: str = "", name: str = "a value", seen: tuple[Any, ...] = (), watch: Guards | None = None
) -> Hashable:
    """A key for a value that a function refers to: equal keys, equal behaviour. Raises Untraceable if there is none."""
    t = type(value)
    watch = watch or Guards()
    watch.ours = watch.ours or _ours(value)
    if t in (float, complex):
        return t, repr(value)  # 0.0 and -0.0 are equal, NaN is not
    if isinstance(value, np.generic) and t is not np.void:  # whose fields may be written to
        return value.dtype.str, value.tobytes()
    if t in SCALARS or isinstance(value, np.dtype):
        return t, value
    if t is tuple:
        return tuple(content(v, where, name, seen, watch) for v in value)
    inner = plain(value)
    if inner is not None:
        if inner is not value:
            watch.name(vars(value), "__wrapped__")
        return function_key(inner, seen, watch=watch)
    if isinstance(value, np.vectorize) and not value.excluded and value.signature is None:
        watch.sure = False
        return ("vectorize", content(value.pyfunc, where, name, seen, watch), str(value.otypes))
    if library(value) or (isinstance(value, type) and bare(value)):
        watch.kinds = watch.kinds or value is np.ndarray or value is Array
        return ("object", value)  # other classes have attributes that may change
    watch.sure = watch.sure and isinstance(value, ModuleType)
    if t is np.ndarray and value.nbytes <= MAX_CONTENT and not value.dtype.hasobject:
        return value.shape, value.strides, value.dtype.str, value.tobytes()
    if isinstance(value, ModuleType):
        path = value.__name__.split(".")
        if path[0] not in PACKAGES or not IMPURE.isdisjoint(path):
            raise Untraceable(f"the module {name} as a value", where, False)
        return ("module", value.__name__)
    raise Untraceable(f"{name}, a {t.__name__} that is not known to stay as it is", where, False)


def _ours(value: Any) -> bool:
    """Whether a value is a module, function or object of this package: what it makes of ndarrays may be Arrays."""
    if isinstance(value, ModuleType):
        module = value.__name__
    else:
        module = (value if isinstance(value, CALLABLES) else type(value)).__module__ or ""
    return module.split(".")[0] == "tilewise"


def parameter(value: Any) -> bool:
    """Whether code takes a value that a function refers to as one more argument."""
    return type(value) is np.ndarray or lifted(value)


def bare(kind: type) -> bool:
    """Whether a class is an exception or a named tuple without anything of its own: no methods, no attributes."""
    names = {n for c in kind.__mro__ if c.__module__ != "builtins" for n in vars(c)}
    if issubclass(kind, BaseException):
        return all(n.startswith("__") for n in names)
    fields = getattr(kind, "_fields", None)
    return issubclass(kind, tuple) and fields is not None and names <= RECORD.union(fields)


def function_key(
    f: FunctionType, seen: tuple[Any, ...] = (), arrays: list[Array] | None = None, watch: Guards | None = None
) -> Hashable:
    """A key of code and all that the code refers to. Arrays go to `arrays`, if it is given; `watch` sees all names."""
    if f in seen:
        return ("recursion", seen.index(f))
    parts: list[Hashable] = [f.__code__]
    watch = watch or Guards()
    watch.function(f)
    for name, value, where in references(f, watch):
        if type(value) is Array and arrays is not None:
            parts.append(("array", name))
            arrays.append(value)
        elif watch.loose is not None and "." not in name and name != DEFAULT and parameter(value):
            at = next((k for k, v in enumerate(watch.loose) if v is value), len(watch.loose))
            watch.loose.append(value)
            layout = None if type(value) is float else (value.dtype.str, value.ndim, value.flags.c_contiguous)
            parts.append(("parameter", at, layout))
        elif (inner := plain(value)) is not None:
            if inner is not value:
                watch.name(vars(value), "__wrapped__")
            parts.append(function_key(inner, (*seen, f), arrays, watch))
        else:
            parts.append(content(value, where, name, (*seen, f), watch))
    return tuple(parts)


def plain(f: Any) -> FunctionType | None:
    """The user's Python function that a callable is, or that a `tw.jit` is made of; or None."""
    if type(f).__name__ == "jit" and type(f).__module__.startswith("tilewise."):
        f = f.__wrapped__
    return f if isinstance(f, FunctionType) and not packaged(f) else None
