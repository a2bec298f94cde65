"""Code for a key. In: a key and a maker of IR. Out: a C function of two byte blocks that runs without the GIL.

Code is looked for in memory, on disk, and compiled only then. `compiled_count()` counts the codes this process has
brought into memory, compiled or from disk. Code stays in memory while someone holds it or it was asked for of late.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from tilewise.backend.llvm.compile import disk, helper, key, linker
from tilewise.backend.llvm.compile.relocation import RULES, Unknown
from tilewise.backend.llvm.compile.server import NEARLY_GOOD, NOTHING, QUICKLY
from tilewise.backend.llvm.compile.switch import Switch
from tilewise.backend.llvm.emit.text import Function
from tilewise.config import current

Native = Callable[[bytes, bytes], None]
Maker = Callable[[str], Function]

CODES = 4096  # held in memory, some 8 to 16 KiB each; launches hold theirs themselves
MOST_ASKED = 64  # codes that were asked for ahead, and not wanted so far
ENTRY = "kernel"

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)
lock = threading.RLock()  # of code in memory and of the folders on disk
_asking = threading.local()  # whether a thread asks for code ahead
_asked: dict[Hashable, helper.Ticket] = {}
_cache: dict[Hashable, Native] = {}  # the one asked for last is last
_compiled = 0
if hasattr(os, "register_at_fork"):  # a fork waits for the compiler, which could not go on in the child
    os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


class Unready:
    """In the place of code that was asked for ahead."""


class CompileError(Exception):
    """Native code that could not be made; the kernel can still be interpreted. The cause is chained."""


def compiled_count() -> int:
    """How many codes this process has brought into memory."""
    return _compiled


def native(what: Hashable, make: Maker, cpu: str = "", *, better: bool = False) -> Native:
    """The code for a key (and a CPU, "" for this one), made the first time it is asked for. Raises CompileError.

    `better`: quick code will not do: it would run for long, and from registers, or give other NaNs (emit/nans.py).
    """
    with lock:
        found = _cache.pop((what, cpu), None)
        if found is None and getattr(_asking, "now", False):
            return _ask(what, make, cpu, better)  # type: ignore[no-any-return]
        if found is None:
            try:
                found = _made(what, make, cpu, better)
            except Exception as error:  # whatever goes wrong in there, the kernel has another way to run
                raise CompileError(f"{type(error).__name__}: {error}") from error
        _cache[what, cpu] = found
        if len(_cache) > CODES:
            del _cache[next(iter(_cache))]
    return found


@contextmanager
def asking() -> Iterator[None]:
    """In the block, `native` asks the compiler's process for code that is not there, and gives something `Unready`.

    Whoever asks for it again, after the block, waits for the answer.
    """
    _asking.now = True
    try:
        yield
    finally:
        _asking.now = False


def _ask(what: Hashable, make: Maker, cpu: str, better: bool) -> Any:
    """Send a request, if there is none yet, for code that is not on disk."""
    if (what, cpu) not in _asked and len(_asked) < MOST_ASKED and helper.running():
        folder, name = current().cache_dir / "code", key.name_of(what, cpu)
        if disk.get(folder, name) is None:
            function = make(ENTRY)
            if not function.optimised:
                first = NEARLY_GOOD if better else QUICKLY
                _asked[what, cpu] = helper.Ticket(function.module(), cpu, folder, name, first)
    return Unready()


def _made(what: Hashable, make: Maker, cpu: str, better: bool) -> Native:
    """Code from disk, or compiled and put there."""
    global _compiled
    folder = current().cache_dir / "code"
    ticket = _asked.get((what, cpu))
    try:
        result = None if ticket is None else _by_tiers(ticket.compiled)
    finally:
        _asked.pop((what, cpu), None)  # not before: work that is done while this waits may ask for the same
    if result is not None:
        result.make, result.cpu = make, cpu
        _compiled += 1
        return result  # type: ignore[no-any-return]
    try:
        name = key.name_of(what, cpu)
    except OSError:  # no sources to tell versions apart by
        name = ""
    code = disk.get(folder, name) if name else None
    if code is not None:
        result = _loaded(code)
    else:
        function = make(ENTRY)
        module, whole = function.module(), function.optimised or current().wait_for_native
        first = NEARLY_GOOD if better else QUICKLY
        result = None
        if not whole and RULES is not None and helper.usable():
            result = _by_tiers(lambda arrived: helper.compiled(module, cpu, folder, name, arrived, first))
        if result is None:
            code = compiler().object_code(module, cpu)
            result = _loaded(code)
            if name:
                disk.put(folder, name, code)
    result.make, result.cpu = make, cpu
    _compiled += 1
    return result  # type: ignore[no-any-return]


def _by_tiers(compiled: Callable[[helper.Arrived], bytes]) -> Any:
    """A function that runs quick code until its good code is there; None where there is no process to make them."""
    tiers = _Tiers()
    try:
        switch = tiers.begin(compiled(tiers.arrived))
    except (OSError, Unknown):
        return None
    function: Any = _SIGNATURE(switch.address)
    function.owner = switch
    return function


class _Tiers:
    """Good code may be there before quick code has been put into memory, or long after."""

    def __init__(self) -> None:
        self._switch: Switch | None = None
        self._good: bytes | None = None

    def begin(self, quick: bytes) -> Switch:
        self._switch = Switch(*linker.linked(quick, ENTRY))
        if self._good is not None:
            self.arrived(self._good)
        return self._switch

    def arrived(self, good: bytes) -> None:
        self._good = good
        if self._switch is not None:
            self._switch.lead(*linker.linked(good, ENTRY))


def compiler() -> Any:
    """LLVM, loaded when something must be compiled (`import llvmlite` takes longer than most programs)."""
    return importlib.import_module("tilewise.backend.llvm.compile.compiler")


def _loaded(code: bytes) -> Any:
    """A function whose memory lives as long as itself."""
    try:
        address, owner = linker.linked(code, ENTRY)
    except Unknown:
        address, owner = compiler().linked(code, ENTRY)
    function: Any = _SIGNATURE(address)
    function.owner = owner
    return function


def good_code(kind: str, text: str, arrived: Callable[[bytes], None]) -> None:
    """Hand the object file of a module to `arrived`: at once from disk, or when the compiler's process has made it.

    Raises OSError, RuntimeError or helper.Ended where there can be none.
    """
    with lock:
        folder = current().cache_dir / "code"
        name = key.name_of((kind, hashlib.sha256(text.encode()).hexdigest()), "")
        code = disk.get(folder, name)
        if code is None and not current().wait_for_native and helper.usable():
            helper.compiled(text, "", folder, name, arrived, NOTHING)  # whoever asks has another way to go on meanwhile
            return
        if code is None:
            code = bytes(compiler().object_code(text))
            disk.put(folder, name, code)
    arrived(code)


def optimised(function: Function) -> str:
    """The LLVM IR of a function after LLVM's passes."""
    with lock:
        return str(compiler().optimised(function.module()))


def listing(code: Native) -> tuple[str, str]:
    """The LLVM IR and the assembly of code."""
    made: Any = code
    llvm, module = compiler(), made.make(ENTRY).module()
    with lock:
        return llvm.text_of(module, made.cpu), llvm.assembly(module, made.cpu)
