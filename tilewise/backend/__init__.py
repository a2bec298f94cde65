"""What runs stages: one protocol (base.py) and this list of who implements it; threads, cores and BLAS beside it.

Backends are opened when they are first asked for (LLVM is large). Nothing outside of this package imports one.
"""

from __future__ import annotations

import importlib
import threading
from typing import TYPE_CHECKING, Any

from tilewise.config import Settings, current, name_backends
from tilewise.later import later

if TYPE_CHECKING:
    from tilewise.backend.base import Backend, Facts, HostBackend
    from tilewise.backend.host import facts as known_facts
else:
    known_facts = later("tilewise.backend.host.facts")  # not `host`: Python gives that name to the package of it

NATIVE, REFERENCE = "llvm", "reference"
MODULES = {NATIVE: "tilewise.backend.llvm.backend", REFERENCE: "tilewise.backend.reference"}  # each has `open()`

_opened: dict[str, Any] = {}
_opening = threading.RLock()  # one thread loads a backend (perhaps ahead of time, ahead.py), others wait
name_backends(*MODULES)


def named(name: str) -> Any:
    """A backend, opened the first time.

    >>> named("reference").device
    'host'
    """
    found = _opened.get(name)
    if found is None:
        with _opening:
            found = _opened.get(name)
            if found is None:
                found = _opened[name] = importlib.import_module(MODULES[name]).open()
    return found


def register(backend: Backend) -> None:
    """Add a backend under its name (or put it in the place of another)."""
    _opened[backend.name] = backend
    name_backends(backend.name)


def host_backend(native: bool) -> HostBackend:
    """The backend for arrays of this process: machine code, or NumPy (`tw.config(native=False)`)."""
    return named(NATIVE if native else REFERENCE)  # type: ignore[no-any-return]


def chosen(settings: Settings) -> str:
    """The name of the backend that plans run on under some settings."""
    return settings.backend or (NATIVE if settings.native else REFERENCE)


def facts() -> Facts:
    """What the device has that plans are made for (no code is loaded for it: vectors may not be known yet)."""
    opened = _opened.get(chosen(current()))
    return known_facts.host_facts(0) if opened is None else opened.facts
