"""NumPy's warnings about division, overflow and invalid values. In: NumPy's messages. Out: warnings at the user's line.

Work on small arrays is NumPy's, called from this package: its warnings would name our files, and each of our lines
would warn once. So NumPy hands its messages to `Teller`, which gives them the line that a NumPy program would have.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import warnings
from types import CodeType, FrameType
from typing import Any, Protocol

import numpy as np

from tilewise.array.schedule.sites import NUMPY, PACKAGE

WARNED = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}  # NumPy's own setting
TOLD = {kind: "log" if way == "warn" else way for kind, way in WARNED.items()}


class Operator(Protocol):
    """An operator in Python code."""

    code: CodeType

    def line(self) -> int | None:
        """Its line."""


class Speaker(threading.local):
    """The operator that NumPy is at, if it is another one than its frame is at (array/chains/)."""

    place: Operator | None = None


SPEAKER = Speaker()


class Teller:
    """Where NumPy writes its messages: "Warning: divide by zero encountered in divide"."""

    def write(self, text: str) -> None:
        """Warn as NumPy does: at the line that runs, or at the one that called this package."""
        said = text.removeprefix("Warning: ").rstrip("\n")
        frame = users_frame(sys._getframe(1))
        place = SPEAKER.place
        line = place.line() if place is not None and place.code is frame.f_code else None
        warn_at((frame.f_code.co_filename, line or frame.f_lineno), frame.f_globals, said, RuntimeWarning)


def users_frame(innermost: FrameType) -> FrameType:
    """The user's frame, if this package is between it and NumPy; else the innermost."""
    frame, ours = innermost, False
    while frame.f_back is not None and frame.f_code.co_filename.startswith((PACKAGE, NUMPY)):
        ours = ours or frame.f_code.co_filename.startswith(PACKAGE)
        frame = frame.f_back
    return frame if ours else innermost


TELLER = Teller()


class Warnings:
    """The module `warnings` as NumPy's Python code has it: what it says through this package has the user's line.

    (Means of nothing, slices of NaN only.) Nothing else changes: filters, and which lines have warned, are Python's.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(warnings, name)

    def warn(
        self, message: Warning | str, category: type[Warning] = UserWarning, stacklevel: int = 1, **more: Any
    ) -> None:
        """Warn at the line that called this package, or where NumPy would."""
        frame = sys._getframe(1)
        user = users_frame(frame)
        if user is frame:
            warnings.warn(message, category, stacklevel + 1, **more)
        else:
            kind = type(message) if isinstance(message, Warning) else category
            warn_at((user.f_code.co_filename, user.f_lineno), user.f_globals, message, kind)


# Modules of NumPy's whose functions warn of the elements they are given.
SPEAK = ("_core._methods", "lib._function_base_impl", "lib._nanfunctions_impl")


def warn_at(place: tuple[str, int], names: dict[str, Any], said: Warning | str, kind: type[Warning]) -> None:
    """Warn at a line of the module that has these globals, as often as its filters say."""
    seen = names.setdefault("__warningregistry__", {})
    warnings.warn_explicit(said, kind, *place, names.get("__name__", "<string>"), seen)


def real_part(values: Any, dtype: np.dtype[Any]) -> Any:
    """What a cast of complex numbers to other ones keeps of them, with NumPy's warning at the user's line.

    NumPy itself would warn at ours, as its casts do not ask `TELLER`.
    """
    if values.dtype.kind != "c" or dtype.kind not in "iufmM":
        return values
    frame = users_frame(sys._getframe(1))
    text = "Casting complex values to real discards the imaginary part"
    warn_at((frame.f_code.co_filename, frame.f_lineno), frame.f_globals, text, np.exceptions.ComplexWarning)
    return values.real


def tell_lines() -> None:
    """Have NumPy's messages go to the teller, unless the program has chosen something else; its warnings, too."""
    if np.geterr() == WARNED and np.geterrcall() is None:
        np.seterr(**TOLD)  # type: ignore[arg-type]
        np.seterrcall(TELLER)
    for name in SPEAK:
        names = vars(sys.modules.get(f"numpy.{name}", warnings))
        if names.get("warnings") is warnings:
            names["warnings"] = Warnings()


def geterr() -> dict[str, str]:
    """How NumPy treats errors of floats: what a program has chosen.

    >>> import tilewise as tw
    >>> tw.geterr()["divide"]
    'warn'
    """
    told = np.geterrcall() is TELLER
    return {k: "warn" if told and v == "log" else str(v) for k, v in np.geterr().items()}


def geterrcall() -> Any:
    """The function or object that NumPy tells about errors of floats; None if a program has chosen none."""
    found = np.geterrcall()
    return None if found is TELLER else found


def _told(ways: dict[str, Any]) -> dict[str, Any]:
    """What NumPy is asked for in the place of warnings."""
    return {k: "log" if v == "warn" else v for k, v in ways.items()} if np.geterrcall() is TELLER else ways


def seterr(all: Any = None, **ways: Any) -> dict[str, str]:
    """Set how NumPy treats errors of floats; gives how it did before.

    >>> import tilewise as tw
    >>> before = tw.seterr(over="ignore")
    >>> tw.geterr()["over"], tw.seterr(**before)["over"], tw.geterr()["over"]
    ('ignore', 'ignore', 'warn')
    """
    before = geterr()
    ways = {k: v for k, v in {"all": all, **ways}.items() if v is not None}
    if {"log", "call"}.intersection(ways.values()):
        _step_back()
    np.seterr(**_told(ways))
    return before


def seterrcall(func: Any) -> Any:
    """Set the function or object that NumPy tells about errors of floats; gives the one before."""
    before = geterrcall()
    if func is not None or np.geterrcall() is not TELLER:
        _step_back()
        np.seterrcall(func)
    return before


def _step_back() -> None:
    """A program has an object of its own, or wants one: NumPy warns by itself, at the line that runs."""
    if np.geterrcall() is TELLER:
        np.seterr(**geterr())  # type: ignore[arg-type]
        np.seterrcall(None)


class errstate(contextlib.ContextDecorator):
    """NumPy's context manager for errors of floats.

    >>> import tilewise as tw
    >>> with tw.errstate(divide="ignore"):
    ...     tw.array([1.0]) / 0.0
    Array([inf])
    """

    def __init__(self, **ways: Any) -> None:
        np.errstate(**ways)  # NumPy's complaint
        self._ways = ways
        self._inner: list[Any] = []

    def __enter__(self) -> None:
        inner = np.errstate()
        inner.__enter__()  # takes back at the end what is set here
        self._inner.append(inner)
        if "call" in self._ways:
            seterrcall(self._ways["call"])
        seterr(**{k: v for k, v in self._ways.items() if k != "call"})

    def __exit__(self, *raised: Any) -> None:
        self._inner.pop().__exit__(*raised)


NAMES = {f.__name__: f for f in (geterr, geterrcall, seterr, seterrcall, errstate)}
