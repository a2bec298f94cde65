"""Settings: what there is, what each may be, and which apply here. In: keywords, environment. Out: Settings.

Hot paths read `current().eager_bytes` (about 50 ns). Read settings where the user's call is, not in worker threads:
a `with` block changes them for its own thread (or task) only.

Import from here by `from tilewise.config import current`: the attribute `tilewise.config` is the function of that name.
"""

import operator
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, cast, overload

from tilewise.errors import ConfigError, message
from tilewise.later import later
from tilewise.records import dataclass

if TYPE_CHECKING:
    import difflib
    import tempfile
else:
    difflib, tempfile = later("difflib"), later("tempfile")
KIB = 1024
MIB = 1024 * KIB
UNITS = {"": 1, "b": 1, "kib": KIB, "mib": MIB, "gib": 1024 * MIB, "tib": 1024 * 1024 * MIB}
UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
ENVIRONMENT_PREFIX = "TILEWISE_"

Fallback = Literal["warn", "error", "silent"]


def default_cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Tilewise's part of the user's cache folder."""
    root = environ.get("XDG_CACHE_HOME")
    if root:
        return Path(root) / "tilewise"
    try:
        return Path.home() / ".cache" / "tilewise"
    except RuntimeError:  # No home folder, as for some service accounts.
        return Path(tempfile.gettempdir()) / "tilewise"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings, with their defaults."""

    eager_bytes: int = 2 * MIB  # An operation on known data that touches fewer bytes is done at once by NumPy.
    exact: bool = False  # No rewrite that changes rounding.
    engine: Literal["numpy"] | None = (
        None  # "numpy": every node at once by its NumPy meaning. Engines are chosen by the session.
    )
    fallback: Fallback = "warn"  # What happens when a function is handed to NumPy.
    progress: bool = True  # Evaluations over a second show a line, if standard error is a terminal.
    cache_dir: Path = field(default_factory=default_cache_dir)  # Compiled code and calibrations.
    rewrite: bool = True  # Rules turn what was written into what costs less (docs/design/0011-rewrites.md).
    fusion: bool = True  # Operators between two communications become one pass.
    native: bool = True  # Passes become machine code; otherwise NumPy runs them tile by tile.
    wait_for_native: bool = False  # Wait for good code where quick code could run first; results are the same.
    backend: str | None = None  # What runs plans, by its name; None: machine code, or NumPy without `native`.
    flush: bool = True  # Evaluate a pending graph where it repeats (an iteration of a loop).
    blocks: int = 1  # Blocks per worker.
    threads: int | None = None  # Threads per worker; None: the cores there are.
    compare: bool = False  # Compare every node with NumPy and name the first that differs.
    tile: int | None = None  # Elements (rows) per cache tile; None: as many as the caches like.
    tune: bool = True  # Try other cache tiles while programs run, and keep the best on disk; results stay the same.
    layout_seed: int | None = None  # Choose layouts at random (valid ones) with this seed: for tests.
    objective: Literal["time", "bytes"] = "time"  # What layouts are chosen by: predicted time, or bytes that move.
    machine: Literal["fixed", "measured"] = "fixed"  # Whose rates time is predicted by; see tw.calibrate.
    without: frozenset[str] = frozenset()  # Passes of the compiler to leave out, by name: "roll,tile"; "operators".

    def __enter__(self) -> "Settings":
        """A block without changes: `with config(**changes)` works for whatever changes there are."""
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing to take back."""


class Changes(TypedDict, total=False):
    """What `config` takes: the fields of Settings, with what may be written for each."""

    eager_bytes: int | str
    exact: bool
    engine: Literal["numpy"] | None
    fallback: Fallback
    progress: bool
    cache_dir: str | os.PathLike[str]
    rewrite: bool
    fusion: bool
    native: bool
    wait_for_native: bool
    backend: str | None
    flush: bool
    blocks: int
    threads: int | None
    compare: bool
    tile: int | None
    tune: bool
    layout_seed: int | None
    objective: Literal["time", "bytes"]
    machine: Literal["fixed", "measured"]
    without: str | Iterable[str]


# --- values ----------------------------------------------------------------------------------------------


def parse_bytes(value: object) -> int:
    """A size in bytes from a number or from text with a unit (KiB is 1024 bytes, kB 1000).

    >>> parse_bytes("4MiB"), parse_bytes("1.5 kB"), parse_bytes(0)
    (4194304, 1500, 0)
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", value.lower())
        if match is None or match[2] not in UNITS:
            raise ValueError(value)
        return int(float(match[1]) * UNITS[match[2]]) if "." in match[1] else int(match[1]) * UNITS[match[2]]
    return _whole(value, least=0)


def _whole(value: object, *, least: int) -> int:
    if isinstance(value, bool):
        raise TypeError(value)
    number = operator.index(cast(Any, value))
    if number < least:
        raise ValueError(value)
    return number


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(value)
    return value


def _flag_text(text: str) -> bool:
    words = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    return words[text.lower()]


def _path(value: object) -> Path:
    path = os.fspath(cast(Any, value))
    if not isinstance(path, str) or not path:
        raise ValueError(value)
    return Path(path).expanduser()


@dataclass(frozen=True)
class Kind:
    """The values a setting may have: in words, from Python, and from the text of an environment variable."""

    says: str
    check: Callable[[object], object]
    read: Callable[[str], object]


def _choice(*options: str) -> Kind:
    def check(value: object) -> object:
        if not isinstance(value, str) or value not in options:
            raise ValueError(value)
        return value

    return Kind(" or ".join(repr(option) for option in options), check, check)


def _count(least: int) -> Kind:
    return Kind(
        f"a whole number of at least {least}",
        lambda value: _whole(value, least=least),
        lambda text: _whole(int(text), least=least),
    )


def _optional(kind: Kind) -> Kind:
    return Kind(
        f"None or {kind.says}",
        lambda value: None if value is None else kind.check(value),
        lambda text: None if text.lower() == "none" else kind.read(text),
    )


FLAG = Kind("True or False", _flag, _flag_text)

_passes: dict[str, None] = {}  # names that `without` may have; the compiler enters them
_enter: list[Callable[[], object]] = []  # what loads those who enter more of them


def name_passes(*names: str) -> None:
    """Enter names of compiler passes that can be left out."""
    _passes.update(dict.fromkeys(names))


def name_passes_by(load: Callable[[], object]) -> None:
    """Call this when someone asks for names: it loads those who enter them."""
    _enter.append(load)


def _pass_names(value: object) -> frozenset[str]:
    names = value.split(",") if isinstance(value, str) else [_text(name) for name in cast(Iterable[object], value)]
    found = frozenset(name.strip() for name in names if name.strip())
    if not found <= _passes.keys():
        for load in _enter:
            load()
    for name in sorted(found.difference(_passes)) if _passes else ():
        near = difflib.get_close_matches(name, _passes, n=1)
        guess = f"Did you mean {near[0]}? " if near else ""
        cure = f"{guess}Passes that can be left out are {', '.join(_passes)}"
        raise ConfigError(message(f"there is no compiler pass {name!r} to leave out", cure=cure))
    return found


_backends: dict[str, None] = {}  # names that `backend` may have; the backends enter them


def name_backends(*names: str) -> None:
    """Enter names of backends."""
    _backends.update(dict.fromkeys(names))


def _backend_name(value: object) -> str:
    name = _text(value)
    if _backends and name not in _backends:
        raise ConfigError(message(f"there is no backend {name!r}", cure=f"Backends are {', '.join(_backends)}"))
    return name


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    return value


KINDS: dict[str, Kind] = {
    "eager_bytes": Kind("a size in bytes, as 4194304 or '4MiB'", parse_bytes, parse_bytes),
    "exact": FLAG,
    "engine": _optional(_choice("numpy")),
    "fallback": _choice("warn", "error", "silent"),
    "progress": FLAG,
    "cache_dir": Kind("the path of a folder", _path, _path),
    "rewrite": FLAG,
    "fusion": FLAG,
    "native": FLAG,
    "wait_for_native": FLAG,
    "backend": _optional(Kind("the name of a backend", _backend_name, _backend_name)),
    "flush": FLAG,
    "blocks": _count(1),
    "threads": _optional(_count(1)),
    "compare": FLAG,
    "tile": _optional(_count(1)),
    "tune": FLAG,
    "layout_seed": _optional(_count(0)),
    "objective": _choice("time", "bytes"),
    "machine": _choice("fixed", "measured"),
    "without": Kind("names of compiler passes, as 'roll,tile'", _pass_names, _pass_names),
}
assert tuple(KINDS) == tuple(each.name for each in fields(Settings)) == tuple(Changes.__annotations__)


def _checked(name: str, value: object, *, text: bool = False, shown: str | None = None) -> object:
    """`value` as the setting `name` keeps it."""
    kind = KINDS.get(name)
    if kind is None:
        near = difflib.get_close_matches(name, KINDS, n=1)
        guess = f"Did you mean {near[0]}? " if near else ""
        raise ConfigError(message(f"there is no setting {name!r}", cure=f"{guess}Settings are {', '.join(KINDS)}"))
    try:
        return kind.read(cast(str, value)) if text else kind.check(value)
    except ConfigError:
        raise
    except (TypeError, ValueError, KeyError):
        cure = "Engines other than NumPy are chosen by tw.session(engine=...)" if name == "engine" else None
        raise ConfigError(message(f"{shown or name} is {kind.says}", got=repr(value), cure=cure)) from None


def from_environment(environ: Mapping[str, str]) -> Settings:
    """The settings a process starts with: the defaults, changed by variables such as `TILEWISE_EAGER_BYTES`.

    >>> from_environment({"TILEWISE_EAGER_BYTES": "4MiB", "TILEWISE_EXACT": "1"}).eager_bytes
    4194304
    """
    changes: dict[str, object] = {}
    for variable, text in environ.items():
        if not variable.startswith(ENVIRONMENT_PREFIX):
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name in KINDS:
            changes[name] = _checked(name, text.strip(), text=True, shown=variable)
        elif near := difflib.get_close_matches(name, KINDS, n=1, cutoff=0.8):  # Other names may be someone else's.
            meant = ENVIRONMENT_PREFIX + near[0].upper()
            raise ConfigError(message(f"there is no setting for the variable {variable}", cure=f"Use {meant}"))
    return replace(Settings(), **cast(Any, changes))


# --- which apply -----------------------------------------------------------------------------------------

_lock = threading.RLock()  # a signal handler or a finaliser may change settings in the middle of a change
_base = from_environment(os.environ)  # For the whole process; replaced, never changed.
_here: ContextVar[Settings | None] = ContextVar("tilewise_settings", default=None)  # Inside `with config(...)`.


class Least:
    """The least `eager_bytes` that may apply anywhere in the process: below it, hot paths need not ask `current`.

    Blocks `with config(...)` only lower it; when the last one ends, it is what applies to the whole process. A context
    copied inside of a block may outlive that: its small operations are then done at once.
    """

    __slots__ = ("_follows", "_guard", "_open", "eager_bytes")

    def __init__(self, eager_bytes: int) -> None:
        self.eager_bytes = eager_bytes
        self._follows: list[Callable[[int], None]] = []  # who is told
        self._open = 0
        self._guard = threading.RLock()

    def note(self, *applying: Settings, opened: int = 0) -> None:
        """Some settings begin to apply, with so many blocks more (or fewer) open."""
        with self._guard:
            self._open += opened
            before = [self.eager_bytes] if self._open else []
            self.eager_bytes = min([*before, _base.eager_bytes, *(each.eager_bytes for each in applying)])
            for told in self._follows:
                told(self.eager_bytes)

    def follow(self, told: Callable[[int], None]) -> None:
        """Tell someone now, and whenever it changes."""
        with self._guard:
            self._follows.append(told)
            told(self.eager_bytes)


LEAST = Least(_base.eager_bytes)


def _after_fork() -> None:
    """A thread that held a lock is not in the child."""
    _lock._at_fork_reinit()  # type: ignore[attr-defined]
    LEAST._guard._at_fork_reinit()  # type: ignore[attr-defined]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def current() -> Settings:
    """The settings that apply here."""
    return _here.get() or _base


def lookup() -> tuple[ContextVar[Settings | None], dict[str, Any], str]:
    """Where machine code finds what `current` gives: in a variable, or if that is None, by a name in a dict."""
    return _here, globals(), "_base"


def _assign(changes: dict[str, object]) -> None:
    """Change the whole process, and this context where it has settings of its own. Hold `_lock`."""
    global _base
    _base = replace(_base, **cast(Any, changes))
    own = _here.get()
    if own is not None:
        own = replace(own, **cast(Any, changes))
        _here.set(own)
    LEAST.note(*(() if own is None else (own,)))


def _restored(now: Settings, old: Settings, names: Iterable[str]) -> Settings:
    return replace(now, **{name: getattr(old, name) for name in names})


class Change:
    """Settings just changed for good; as a context manager, changed for the block only."""

    __slots__ = ("_before", "_changes", "_outer")

    def __init__(self, changes: dict[str, object]) -> None:
        self._changes = changes
        self._outer: list[Settings | None] = []  # What applied before each `with` that is open on this object.
        with _lock:
            # What applied before the call; None once a `with` has taken the change for good back.
            self._before: tuple[Settings, Settings | None] | None = (_base, _here.get())
            _assign(changes)

    def __enter__(self) -> Settings:
        if self._before is not None:
            self._take_back(*self._before)
            self._before = None
        outer = _here.get()
        inner = replace(outer or _base, **cast(Any, self._changes))
        self._outer.append(outer)
        LEAST.note(inner, opened=1)
        _here.set(inner)
        return inner

    def _take_back(self, base: Settings, here: Settings | None) -> None:
        """Undo the change for good, except where someone has changed the same setting since."""
        global _base

        def ours(now: Settings) -> list[str]:
            return [name for name, value in self._changes.items() if getattr(now, name) == value]

        with _lock:
            _base = _restored(_base, base, ours(_base))
            LEAST.note()
        now = _here.get()
        if now is not None and here is not None:
            _here.set(_restored(now, here, ours(now)))

    def __exit__(self, *raised: object) -> None:
        outer, inner = self._outer.pop(), _here.get()
        if outer is not None and inner is not None:  # Keep what plain calls inside the block changed beside our names.
            outer = _restored(inner, outer, self._changes)
        _here.set(outer)
        LEAST.note(opened=-1)

    def __repr__(self) -> str:
        return f"config({', '.join(f'{name}={value!r}' for name, value in self._changes.items())})"


@overload
def config() -> Settings: ...
@overload
def config(**changes: Unpack[Changes]) -> Change: ...
def config(**changes: Any) -> Settings | Change:
    """Change settings, for good or for a `with` block; without arguments, the settings that apply here.

    A call acts at once and for the whole process. In a `with` statement it acts for the block, in this thread only:

    >>> config(blocks=2)
    config(blocks=2)
    >>> with config(blocks=4, eager_bytes="1MiB"):
    ...     config().blocks, config().eager_bytes
    (4, 1048576)
    >>> config().blocks
    2
    >>> config(blocks=0)
    Traceback (most recent call last):
    tilewise.errors.ConfigError: blocks is a whole number of at least 1, got 0.
    >>> config(blcks=1)
    Traceback (most recent call last):
    tilewise.errors.ConfigError: there is no setting 'blcks'. Did you mean blocks? Settings are eager_bytes, exact, ...
    >>> config(blocks=1)
    config(blocks=1)
    """
    if not changes:
        return current()
    return Change({name: _checked(name, value) for name, value in changes.items()})
