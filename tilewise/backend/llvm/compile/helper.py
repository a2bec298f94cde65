"""Compiling in a process of its own. In: a module's text. Out: quick code now, good code later. Loads no LLVM here.

llvmlite lets one thread compile at a time, takes 60 MB and up to 0.1 s to load, and good code takes seven times as long
as quick code: so another process (server.py) has LLVM, answers with quick code, and makes good code behind it, which a
thread of ours puts in the place of the quick one. The process starts with the first kernel that is not on disk, and
ends some time after there is nothing more to do, or after the program.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import select
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewise.backend.llvm.compile import disk
from tilewise.backend.llvm.compile.server import (
    ANSWER,
    GOOD_ANSWERS,
    NOTHING,
    QUICK_ANSWERS,
    QUICKLY,
    REQUEST,
    REQUESTS,
)
from tilewise.backend.while_waiting import do_a_piece
from tilewise.config import current

SERVE = "import sys; sys.path.insert(0, sys.argv[1]); import server; server.main(sys.argv[2])"  # from its bytecode
PIPE_BYTES = 1 << 19  # the requests of a plan: nobody who asks waits until they are read
TRIES = 2  # a process may end for want of work just as it is asked again
Arrived = Callable[[bytes], None]


class Ended(Exception):
    """The compiler's process ended without an answer: LLVM aborts where it cannot go on."""


class _Server:
    """A process that compiles, and the pipes to it."""

    def __init__(self, packages: str) -> None:
        ask, self._requests = _pipe()
        self._answers, answer = _pipe()
        good, say_good = _pipe()
        given = {REQUESTS: ask, QUICK_ANSWERS: answer, GOOD_ANSWERS: say_good}
        actions: list[tuple[Any, ...]] = [
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            *((os.POSIX_SPAWN_DUP2, pipe, at) for at, pipe in given.items()),
        ]
        command = [sys.executable, "-I", "-S", "-c", SERVE, str(Path(__file__).parent), packages]
        try:
            first = os.posix_spawn(sys.executable, command, os.environ, file_actions=actions, setpgroup=0)
        except OSError:
            for pipe in (self._requests, self._answers, good):
                os.close(pipe)
            raise
        finally:
            for pipe in given.values():
                os.close(pipe)
        os.set_blocking(self._requests, False)
        fcntl: Any = importlib.import_module("fcntl")  # there is none on Windows, where no such process runs
        with contextlib.suppress(OSError):  # more than the system allows
            for pipe in (self._requests, self._answers):
                fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._waiting: dict[int, Arrived] = {}
        self._answered: dict[int, tuple[int, bytes]] = {}  # answers that nobody has asked for yet
        self._count = 0
        threading.Thread(target=self._listen, args=(first, good), name="tilewise compiled code", daemon=True).start()

    def ask(self, module: str, cpu: str, folder: Path, name: str, arrived: Arrived, first: int) -> int:
        """Ask for code to begin with. Gives the number of the answer; good code arrives later."""
        self._count += 1
        found = disk.identity(folder) if name else None
        parts = [text.encode() for text in (module, cpu, str(folder), name if found else "")]
        head = REQUEST.pack(self._count, *(found or (0, 0)), first, *map(len, parts))
        self._waiting[self._count] = arrived
        try:
            self._send(b"".join([head, *parts]))
        except (OSError, EOFError) as error:
            raise Ended("the compiler's process ended") from error
        return self._count

    def answer(self, number: int) -> bytes:
        """The answer with a number."""
        try:
            while number not in self._answered:
                if select.select([self._answers], [], [], 0)[0] or not do_a_piece():
                    self._read_answer()
        except (OSError, EOFError) as error:
            raise Ended("the compiler's process ended") from error
        wrong, code = self._answered.pop(number)
        if wrong:
            raise RuntimeError(code.decode())
        return code

    def _read_answer(self) -> None:
        number, wrong, length = ANSWER.unpack(_exactly(self._answers, ANSWER.size))
        self._answered[number] = wrong, _exactly(self._answers, length)

    def _send(self, data: bytes) -> None:
        """Send a request, and take answers meanwhile: the process takes no requests while an answer is stuck."""
        left = memoryview(data)
        while left:
            can_read, can_write, _ = select.select([self._answers], [self._requests], [])
            if can_write:
                left = left[os.write(self._requests, left) :]
            elif can_read:
                self._read_answer()

    def _listen(self, first: int, pipe: int) -> None:
        """Hand out good code as it comes."""
        with contextlib.suppress(OSError):  # the program may wait for all its children itself
            os.waitpid(first, 0)  # it leaves another one behind and ends
        try:
            while True:
                number, wrong, length = ANSWER.unpack(_exactly(pipe, ANSWER.size))
                code = _exactly(pipe, length)
                arrived = self._waiting.pop(number, None)
                if not wrong and arrived is not None:
                    arrived(code)
        except (OSError, EOFError):
            os.close(pipe)

    def close(self) -> None:
        """Ask for nothing more."""
        os.close(self._requests)
        os.close(self._answers)
        self._waiting.clear()


def _pipe() -> tuple[int, int]:
    """A pipe whose ends have other numbers than those by which the process knows its own."""
    low = []

    def beyond(end: int) -> int:
        while end <= GOOD_ANSWERS:
            low.append(end)
            end = os.dup(end)
        return end

    out, into = (beyond(end) for end in os.pipe())
    for end in low:
        os.close(end)
    return out, into


def _exactly(pipe: int, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = os.read(pipe, count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


_server: _Server | None = None
_packages: str | None = None  # where llvmlite is; "" where there can be no process
_worked = False  # whether a process has ever answered


def usable() -> bool:
    """Whether there can be such a process here, whose code our linker knows."""
    global _packages
    if _packages is None:
        found = importlib.util.find_spec("llvmlite") if sys.platform == "linux" and sys.executable else None
        _packages = "" if found is None or found.origin is None else str(Path(found.origin).parents[1])
    return bool(_packages)


def start() -> None:
    """Start the process, if there is none. Raises OSError."""
    global _server
    if _server is None:
        assert _packages
        _server = _Server(_packages)


def start_early() -> None:
    """Start it where no code is kept yet: there will be something to compile, and it takes 0.1 s to get ready."""
    settings = current()
    if settings.wait_for_native or not usable():
        return
    try:
        with os.scandir(settings.cache_dir / "code") as entries:
            empty = next(entries, None) is None
    except OSError:
        empty = True
    if empty:
        with contextlib.suppress(OSError):  # it is tried again when there is something to compile
            start()


def compiled(module: str, cpu: str, folder: Path, name: str, arrived: Arrived, first: int = QUICKLY) -> bytes:
    """Quick code of a module; good code goes to `arrived` and to the folder under a name (""). Hold build.lock.

    `first` says which code to begin with: see server.py.

    Raises OSError where no process runs, Ended where LLVM gives up, RuntimeError with the compiler's error.
    """
    global _packages, _worked
    for left in reversed(range(TRIES)):
        start()
        assert _server is not None
        try:
            number = _server.ask(module, cpu, folder, name, arrived, first)
            code = b"" if first == NOTHING else _server.answer(number)
        except Ended:
            stop()
            if not left and not _worked:
                _packages = ""
                raise OSError("the compiler's process cannot run here") from None
            if not left:
                raise
        except RuntimeError:
            _worked = True
            raise
        except BaseException:  # an interrupt: an answer is still to come, and nobody will read it
            stop()
            raise
        else:
            _worked = _worked or first != NOTHING
            return code
    raise AssertionError


class Ticket:
    """A request that was sent ahead. In: what `compiled` takes. Hold build.lock."""

    def __init__(self, module: str, cpu: str, folder: Path, name: str, first: int) -> None:
        self._given, self._first = (module, cpu, folder, name), first
        self._good: bytes | None = None
        self._arrived: Arrived | None = None
        self._server = _server
        assert _server is not None
        self._number = _server.ask(*self._given, self._keep, first)

    def _keep(self, code: bytes) -> None:
        self._good = code
        if self._arrived is not None:
            self._arrived(code)

    def compiled(self, arrived: Arrived) -> bytes:
        """What `compiled` gives."""
        global _worked
        self._arrived = arrived
        if self._good is not None:
            return self._good  # there was time enough
        try:
            if self._server is not None and self._server is _server:
                code = self._server.answer(self._number)
                _worked = True
                return code
        except Ended:
            stop()
        return compiled(*self._given, arrived, self._first)


def running() -> bool:
    """Whether there is a process: not all code was on disk."""
    return _server is not None


def stop() -> None:
    """Let the process end when it has done what it was asked for."""
    global _server
    server, _server = _server, None
    if server is not None:
        server.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=stop)  # the parent's process is not the child's
