"""Programs as data, and running one beside NumPy. In: lines and loops. Out: the first difference, or None.

A line is Python source over `np` and variables. The same source runs with NumPy and with Tilewise in the place of `np`;
`keep`, `pickled`, `deep` and `data` are the only other names it uses (see `_helpers`).
"""

from __future__ import annotations

import copy
import pickle
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy

import tilewise
from tilewise.array.handle import Array


@dataclass(frozen=True)
class Line:
    """One statement: `target = text` or, without a target, `text` itself."""

    text: str
    target: str | None = None
    sums: tuple[str, ...] = ()  # expressions whose sums must be exact for results to agree to the last bit

    def source(self) -> str:
        return self.text if self.target is None else f"{self.target} = {self.text}"


@dataclass(frozen=True)
class Loop:
    """A body that is repeated: plans are cached, and the flush rule fires."""

    times: int
    body: tuple[Line, ...]


Program = tuple[Line | Loop, ...]


@dataclass(frozen=True)
class Difference:
    """What went wrong. `kind` is what a shrunk program must share with it."""

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind} at `{self.where}`: {self.text}"


def data(seed: int, shape: tuple[int, ...], dtype: str, special: bool = False) -> numpy.ndarray[Any, Any]:
    """Small integers in any dtype; some NaN, infinity and -0.0 where asked for."""
    rng = numpy.random.default_rng(seed)
    kind = numpy.dtype(dtype)
    low = 0 if kind.kind in "ub" else -4
    values = rng.integers(low, 5, shape)
    if kind.kind == "b":
        return values % 2 == 1
    out = numpy.asarray(values).astype(kind)
    if kind.kind == "c":
        out = (out + 1j * rng.integers(low, 5, shape)).astype(kind)
    if special and kind.kind in "fc" and out.size:
        flat = out.reshape(-1)
        for value in (numpy.nan, numpy.inf, -numpy.inf, -0.0):
            if rng.random() < 0.7:
                flat[rng.integers(flat.size)] = value
    return numpy.asarray(out)


def _helpers(np: types.ModuleType, kept: list[tuple[Any, Any]]) -> dict[str, Any]:
    """The names a program may use."""

    def keep(x: Any) -> None:
        """Force; the export is a snapshot that must never change."""
        if np is numpy:
            kept.append((numpy.array(x, copy=True), None))
        else:
            seen = numpy.asarray(x)
            kept.append((seen, seen.copy()))

    def peek(x: Any) -> None:
        """Force; the caller's copy may be written to without changing x."""
        if np is not numpy and type(x) is Array:
            own = x.compute()
            if own.ndim and own.size:
                own.reshape(-1)[...] = 1

    def foreign(x: Any) -> Any:
        """A snapshot of an ndarray that is written to afterwards."""
        source = numpy.array(x, copy=True)
        if np is numpy:
            return source
        taken = tilewise.asarray(source)
        if source.ndim and source.size:
            source[...] = 0
        return taken

    def repeated(f: Callable[..., Any], *args: Any) -> Any:
        """What a function gives that is called often: a plan of small arrays is a line from the third call on."""
        if np is numpy:
            return f(*args)
        made = tilewise.jit(f)
        for _ in range(4):
            made(*args).compute()
        return made(*args)

    return {
        "np": np,
        "repeated": repeated,
        "keep": keep,
        "peek": peek,
        "foreign": foreign,
        "pickled": lambda x: pickle.loads(pickle.dumps(x)),
        "deep": copy.deepcopy,
        "data": lambda *args: np.asarray(data(*args)),
    }


class Invalid(Exception):
    """The program is not one (a name that shrinking took away)."""


def steps(program: Program) -> Iterator[tuple[int, Line]]:
    """Every execution of a line, with the line's number."""
    number = 0
    for part in program:
        if isinstance(part, Line):
            yield number, part
            number += 1
            continue
        for _ in range(part.times):
            for k, line in enumerate(part.body):
                yield number + k, line
        number += len(part.body)


class _Code:
    """Compiled lines: a line in a loop is the same code object each time, as in a real program."""

    def __init__(self) -> None:
        self.made: dict[tuple[int, str], Any] = {}

    def run(self, number: int, line: Line, names: dict[str, Any]) -> None:
        source = line.source()
        code = self.made.get((number, source))
        if code is None:
            code = self.made[number, source] = compile(source, f"<line {number}>", "exec")
        exec(code, names)


@dataclass
class Trace:
    """What NumPy did: the exception of each step (None: it went well), the variables and exports at the end."""

    raised: list[type[BaseException] | None]
    variables: dict[str, Any]
    kept: list[tuple[Any, Any]]


def model(program: Program) -> Trace:
    """Run with NumPy."""
    code, kept = _Code(), []  # type: ignore[var-annotated]
    names = _helpers(numpy, kept)
    fixed = {*names, "__builtins__", "__warningregistry__"}
    raised: list[type[BaseException] | None] = []
    with quiet():
        for number, line in steps(program):
            try:
                code.run(number, line, names)
                raised.append(None)
            except NameError as error:
                raise Invalid(str(error)) from None
            except Exception as error:
                raised.append(Unindexable if _of_python(error) else type(error))
    return Trace(raised, {k: v for k, v in names.items() if k not in fixed}, kept)


class Unindexable(TypeError, IndexError):
    """A number that is indexed: 1j * np.float64(2) is Python's (TypeError), 1j * np.float32(2) NumPy's (IndexError)."""


def _of_python(error: Exception) -> bool:
    """Whether it is Python's complaint about an index of a number of its own."""
    return isinstance(error, TypeError) and str(error) == "'complex' object is not subscriptable"


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


Setting = Callable[[], AbstractContextManager[Any]]


def compare(
    program: Program, trace: Trace, setting: Setting, retry: type[Exception] | None = None
) -> Difference | None:
    """Run with Tilewise under a setting; the first difference from what NumPy did.

    A step that raises `retry` (an injected fault) is taken again: a failed evaluation must have changed nothing.
    """
    code, kept = _Code(), []  # type: ignore[var-annotated]
    names = _helpers(tilewise, kept)
    fixed = {*names, "__builtins__", "__warningregistry__"}
    with quiet(), setting():
        for (number, line), expected in zip(steps(program), trace.raised, strict=True):
            found = _step(code, number, line, names, expected, retry)
            if found is not None:
                return found
        mine = {k: v for k, v in names.items() if k not in fixed}
        if set(mine) != set(trace.variables):
            return Difference("variables", "end", f"{sorted(mine)} instead of {sorted(trace.variables)}")
        for _ in range(2):  # the second look finds values that forcing changed
            for name, want in trace.variables.items():
                got = mine[name]
                try:
                    found = _again(lambda got=got, want=want, name=name: differs(name, got, want), retry)
                except Exception as error:
                    return Difference(f"raises {type(error).__name__}", name, _told(error))
                if found is not None:
                    return found
        for (want, _), (seen, before) in zip(trace.kept, kept, strict=True):
            if not _same_bits(seen, before):
                return Difference("export", "end", f"an export changed: {before!r} became {seen!r}")
            found = differs("export", seen, want, layout=False)
            if found is not None:
                return found
    return None


def permitted(program: Program, trace: Trace, setting: Setting, found: Difference, retry: type[Exception]) -> bool:
    """Whether only rounding differs, and not if rewrites that change it are off (a mean that comes with a variance)."""

    @contextmanager
    def exactly() -> Iterator[None]:
        with tilewise.config(exact=True), setting():
            yield

    return found.kind == "rounding" and compare(program, trace, exactly, retry) is None


def _again(call: Callable[[], Any], retry: type[Exception] | None) -> Any:
    while retry is not None:
        try:
            return call()
        except retry:
            continue
    return call()


def _step(
    code: _Code, number: int, line: Line, names: dict[str, Any], expected: Any, retry: type[Exception] | None
) -> Difference | None:
    where = f"{number}: {line.source()}"
    try:
        if expected is None:
            _again(lambda: code.run(number, line, names), retry)
            return None
        # Errors that depend on data come when the value is asked for.
        scratch = Line(line.text, "_result" if line.target else None)
        _again(lambda: code.run(number + 10_000, scratch, names), retry)
        result = names.pop("_result", None)
        _again(
            lambda: [r.compute() for r in (result if isinstance(result, tuple) else [result]) if type(r) is Array],
            retry,
        )
    except Exception as error:
        if expected is None or not isinstance(error, _family(expected)):
            return Difference(
                f"raises {type(error).__name__}", where, f"{_told(error)}; NumPy: {expected and expected.__name__}"
            )
        names.pop("_result", None)
        return None
    return Difference(f"misses {expected.__name__}", where, "NumPy raises, Tilewise does not")


def _family(expected: type[BaseException]) -> tuple[type[BaseException], ...]:
    """NumPy's own subclasses count as what they derive from."""
    if expected is Unindexable:
        return (TypeError, IndexError)
    if expected.__module__.startswith("numpy"):
        return (expected, *[b for b in expected.__mro__ if b in (ValueError, TypeError, IndexError)])
    if expected in (ValueError, IndexError, OverflowError):
        return (ValueError, IndexError, OverflowError)  # which of two mistakes is found first is not promised
    return (expected,)


def _told(error: BaseException) -> str:
    return " | ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())])


ROUGH = {2: 2e-2, 4: 1e-4, 8: 1e-9, 16: 1e-9}  # by bytes of a real number; names that start with r


def differs(name: str, got: Any, want: Any, layout: bool = True) -> Difference | None:
    """How a value differs from NumPy's."""
    if isinstance(want, tuple | list):
        if type(got) is not type(want) or len(got) != len(want):
            return Difference("type", name, f"{got!r} instead of {want!r}")
        return next((d for g, w in zip(got, want, strict=True) if (d := differs(name, g, w, layout))), None)
    if type(want) is complex and isinstance(got, Array):
        want = numpy.complex128(want)  # 1j + float64: Python's own complex takes NumPy's number for a float
    if not isinstance(want, numpy.ndarray | numpy.generic):
        ok = type(got) is type(want) and (got == want or (got != got and want != want))
        return None if ok else Difference("number", name, f"{got!r} instead of {want!r}")
    if not isinstance(got, Array | numpy.ndarray | numpy.generic):
        return Difference("type", name, f"{type(got).__name__} instead of {type(want).__name__}")
    fixed = isinstance(got, numpy.generic) or (isinstance(got, Array) and got._fixed)
    if layout and fixed != isinstance(want, numpy.generic):
        return Difference("scalar", name, f"{'a number' if fixed else 'an array'} instead of {type(want).__name__}")
    if got.dtype != want.dtype:
        return Difference("dtype", name, f"{got.dtype} instead of {want.dtype}")
    if got.shape != want.shape:
        return Difference("shape", name, f"{got.shape} instead of {want.shape}")
    if layout and want.size and not fixed:
        mine = tuple(s for s, d in zip(got.strides, got.shape, strict=True) if d > 1)
        theirs = tuple(s for s, d in zip(want.strides, want.shape, strict=True) if d > 1)
        if mine != theirs:
            return Difference("strides", name, f"{got.strides} instead of {want.strides}, shape {want.shape}")
        if isinstance(got, Array) and got.flags.writeable != want.flags.writeable:
            return Difference("writeable", name, f"{got.flags.writeable} instead of {want.flags.writeable}")
    value = got.compute() if isinstance(got, Array) else numpy.asarray(got)
    if value.dtype != want.dtype or value.shape != want.shape:
        return Difference("computed", name, f"{value.dtype}{value.shape} instead of {want.dtype}{want.shape}")
    rough = name.startswith("r") or _rounded(want)
    ok = _close(value, want) if rough else _same_bits(value, want)
    if ok:
        return None
    kind = "rounding" if _close(value, want) else "values"
    return Difference(kind, name, f"\n{value!r}\ninstead of\n{want!r}")


def _same_bits(a: Any, b: Any) -> bool:
    a, b = numpy.asarray(a), numpy.asarray(b)
    if a.dtype.kind == "c":  # of several complex NaNs, the order of a reduction says which is the least
        a, b = (numpy.where(numpy.isnan(a) & numpy.isnan(b), 0, x) for x in (a, b))
        return _same_bits(a.real, b.real) and _same_bits(a.imag, b.imag)
    if a.dtype.kind != "f":
        return bool(numpy.array_equal(a, b))
    with numpy.errstate(all="ignore"):
        nan = numpy.isnan(a) & numpy.isnan(b)
        same = (a == b) & (numpy.signbit(a) == numpy.signbit(b))
    return bool((nan | same).all())


def _rounded(a: Any) -> bool:
    """Complex values that were rounded: NumPy's scalars and arrays multiply to different last bits."""
    if a.dtype.kind != "c":
        return False
    a = a[numpy.isfinite(a)]
    parts = numpy.abs([a.real, a.imag])
    return bool((parts > 2**20).any() or (parts != numpy.rint(parts)).any())


def _close(a: Any, b: Any) -> bool:
    if a.dtype.kind not in "fc":
        return bool(numpy.array_equal(a, b))
    tolerance = ROUGH[a.real.dtype.itemsize]
    finite = numpy.abs(b[numpy.isfinite(b)]) if b.size else numpy.zeros(0)
    scale = float(finite.max()) if finite.size else 0.0
    return bool(numpy.allclose(a, b, rtol=tolerance, atol=tolerance * min(max(scale, 1.0), 1e30), equal_nan=True))


def source(program: Program, setting: str) -> str:
    """The program as Python source to paste."""
    lines = [f"# {setting}", "import numpy, tilewise as np", "from tests.fuzz.program import data"]
    for part in program:
        if isinstance(part, Loop):
            lines.append(f"for _ in range({part.times}):")
            lines += [f"    {line.source()}" for line in part.body]
        else:
            lines.append(part.source())
    return "\n".join(lines)


def lines_of(program: Program) -> Sequence[Line]:
    """All lines, loops unrolled once."""
    return [line for part in program for line in (part.body if isinstance(part, Loop) else (part,))]
