"""The compiler's own process. In: requests, on standard input. Out: quick code on standard output, good code and files.

Started by helper.py without the package: it has LLVM, the program that it works for has not. One process
answers each request at once with quick code (or nearly good code, without LLVM's slowest pass, if the request asks for
that); another, forked from it and of low priority, makes the good code behind it. When the program ends, the second one
still puts on disk what was asked for, for the next program.
"""

from __future__ import annotations

import importlib
import os
import select
import struct
import sys
from _queue import SimpleQueue
from _thread import allocate_lock, start_new_thread

TYPE_CHECKING = False  # `typing` takes 4 ms to load
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

# Number, device and number of the folder, what is wanted first, lengths: module, CPU, folder, name.
REQUEST = struct.Struct("<QQQIIIII")
QUICKLY, NEARLY_GOOD, NOTHING = range(3)  # what may be wanted first
ANSWER = struct.Struct("<QII")  # number, whether it is an error's text, length
REQUESTS, QUICK_ANSWERS, GOOD_ANSWERS = 0, 1, 3  # descriptors
IDLE_S = 10.0  # after so long without a request the process ends; the next request starts another
NICER = 10  # by how much the making of good code gives way to others
BESIDE_NICER = 5  # the same of a second thread for quick code: with two cores, the program has one to itself
TAKE = 1 << 16  # bytes that are read at once
PASSES = '"passes"="standard"'  # compiler.py's: the attribute of functions that LLVM's passes run on
# Compiled before the first request: LLVM fills tables of its own then, and its pages are read. It takes 5 ms.
WARM_UP = """
define void @warm_up(ptr %at, i64 %count) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %head ]
  %sum = phi <2 x double> [ zeroinitializer, %entry ], [ %more, %head ]
  %here = getelementptr double, ptr %at, i64 %i
  %x = load <2 x double>, ptr %here, align 8
  %y = fmul <2 x double> %x, %x
  %more = fadd <2 x double> %sum, %y
  %small = fcmp olt <2 x double> %x, %y
  %least = select <2 x i1> %small, <2 x double> %x, <2 x double> %y
  store <2 x double> %least, ptr %here, align 8
  %next = add i64 %i, 2
  %again = icmp slt i64 %next, %count
  br i1 %again, label %head, label %done
done:
  store <2 x double> %more, ptr %at, align 8
  ret void
}
"""


class Request:
    """What is to be compiled, and where good code goes."""

    def __init__(self, data: bytes) -> None:
        self.number, self.device, self.inode, self.first, *lengths = REQUEST.unpack_from(data)
        at, parts = REQUEST.size, []
        for length in lengths:
            parts.append(data[at : at + length].decode())
            at += length
        self.module, self.cpu, self.folder, self.name = parts
        self.size = at


def whole(data: bytearray) -> Request | None:
    """The first request of what was read, if all of it is there; it is taken out."""
    if len(data) < REQUEST.size or len(data) < REQUEST.size + sum(REQUEST.unpack_from(data)[4:]):
        return None
    found = Request(bytes(data))
    del data[: found.size]
    return found


def _send(pipe: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


def _answered(request: Request, compiler: Any, level: int) -> tuple[bytes, bytes | None]:
    """An answer, and the code in it."""
    try:
        code = compiler.object_code(request.module, request.cpu, level=level)
    except Exception as error:  # the program has another way to run the kernel
        text = f"{type(error).__name__}: {error}".encode()
        return ANSWER.pack(request.number, 1, len(text)) + text, None
    return ANSWER.pack(request.number, 0, len(code)) + code, code


def _requests(pipe: int) -> Iterator[Request]:
    data = bytearray()
    while more := os.read(pipe, TAKE):
        data += more
        while (found := whole(data)) is not None:
            yield found


def good(pipe: int, compiler: Any) -> None:
    """Make good code of all that comes through a pipe."""
    os.nice(NICER)
    files = importlib.import_module("files")
    listening = True
    folders: dict[str, int] = {}
    for count, request in enumerate(_requests(pipe)):
        # llvm_library.py runs none of LLVM's passes.
        able = importlib.import_module("compiler") if PASSES in request.module else compiler
        answer, code = _answered(request, able, able.GOOD)
        if code is not None and request.name:
            try:
                if request.folder not in folders:
                    folders[request.folder] = os.open(request.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
                facts = os.fstat(folders[request.folder])
                if (facts.st_dev, facts.st_ino) == (request.device, request.inode):
                    files.write(folders[request.folder], request.name, code, count)
            except OSError:  # the program has warned of a folder that cannot be used
                folders.pop(request.folder, None)
        try:
            if listening:
                _send(GOOD_ANSWERS, answer)
        except OSError:  # the program has ended
            listening = False


class Team:
    """Threads that answer requests as they come, the shortest way: LLVM runs without the interpreter's lock."""

    def __init__(self, compiler: Any) -> None:
        self.waiting = 0  # requests without an answer
        self._requests: SimpleQueue[Request] = SimpleQueue()
        self._lock = allocate_lock()
        others = [compiler.another()] if hasattr(compiler, "another") and (os.cpu_count() or 1) > 1 else []
        for each, nicer in ((compiler, 0), *((other, BESIDE_NICER) for other in others)):
            start_new_thread(self._serve, (each, nicer))

    def work(self, request: Request) -> None:
        """Answer a request."""
        with self._lock:
            self.waiting += 1
        self._requests.put(request)

    def _serve(self, compiler: Any, nicer: int) -> None:
        os.nice(nicer)  # of this thread alone: Linux has it so
        while True:
            request = self._requests.get()
            level = compiler.QUICK if request.first == QUICKLY else compiler.GOOD
            answer = _answered(request, compiler, level)[0]
            with self._lock:
                try:
                    _send(QUICK_ANSWERS, answer)
                except OSError:
                    return  # the program has ended: there will be no more requests
                self.waiting -= 1


def quick(pipe: int, compiler: Any) -> None:
    """Answer requests with quick code, and hand them on through a pipe that never makes them wait."""
    compiler.skip_slowest_pass()
    compiler.object_code(WARM_UP, level=compiler.QUICK)
    os.set_blocking(pipe, False)
    data, later, idle = bytearray(), bytearray(), False
    team = Team(compiler)
    while not idle:
        can_read, can_write, _ = select.select([REQUESTS], [pipe] if later else [], [], IDLE_S)
        if can_read:
            more = os.read(REQUESTS, TAKE)
            if not more:
                break
            data += more
            before = bytes(data)
            while (found := whole(data)) is not None:
                if found.first != NOTHING:
                    team.work(found)
            later += before[: len(before) - len(data)]
        if can_write:
            del later[: os.write(pipe, later)]
        idle = not can_read and not can_write and not team.waiting
    os.set_blocking(pipe, True)
    _send(pipe, bytes(later))


def opened(packages: str) -> Any:
    """LLVM, from what is beside this file as modules of their own; by llvmlite if its library is not one we know."""
    library = importlib.import_module("llvm_library")
    if library.usable(packages):
        try:
            compiler = library.Library(packages)
            compiler.ready()
        except (OSError, AttributeError, RuntimeError):
            pass
        else:
            return compiler
    compiler = importlib.import_module("compiler")
    compiler.ready()
    return compiler


def main(packages: str) -> None:
    """Serve until there are no more requests."""
    if os.fork():
        os._exit(0)  # the program has no child that it did not start itself
    sys.path.insert(1, packages)
    compiler = opened(packages)
    reads, writes = os.pipe()
    if os.fork():
        os.close(reads)
        os.close(GOOD_ANSWERS)
        quick(writes, compiler)
        os._exit(0)  # whatever its threads still do
    else:
        for pipe in (REQUESTS, QUICK_ANSWERS, writes):
            os.close(pipe)
        good(reads, compiler)
