"""Files of this machine, as stores use them. In: paths. Out: stamps that show changes, files written as a whole.

A file is written under another name beside its own, and renamed when all of it is on the disk: who dies on the way
leaves the old file, or none.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from mmap import PAGESIZE
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tilewise.errors import SourceChangedError, StoreError, message
from tilewise.later import later
from tilewise.machine import machine

futures = later("concurrent.futures")
CURES = {
    errno.ENOSPC: "Free some space, or store it elsewhere; what was there before is unharmed",
    errno.EDQUOT: "Free some space, or store it elsewhere; what was there before is unharmed",
    errno.EFBIG: "Store it where files may be larger; what was there before is unharmed",
    errno.EACCES: "Choose a path that you may write to, or change its permissions",
    errno.EPERM: "Choose a path that you may write to, or change its permissions",
    errno.EROFS: "Choose a path that you may write to",
    errno.ENOENT: "Make the folder first, or correct the path",
    errno.ENOTDIR: "Correct the path: something on the way is no folder",
    errno.EISDIR: "Name a file in this folder",
}
READ_CURES = {
    errno.ENOENT: "Check the path; arrays of a file are read when they are needed, so it must stay",
    errno.EACCES: "Ask for permission to read it",
    errno.EISDIR: "Name a file in this folder",
}
FLUSHED_AT_ONCE = 8  # files
UNFINISHED = ".unfinished-"  # in the names of files that are being written


def bytes_of(block: np.ndarray[Any, Any]) -> memoryview:
    """The bytes of an array in C order: its own where it lies so, else those of a copy."""
    raw: Any = np.ascontiguousarray(block).reshape(-1).view(np.uint8)
    return memoryview(raw)


def write_at(handle: int, data: memoryview, at: int) -> None:
    """Write all bytes to a place of a file."""
    done = 0
    while done < len(data):
        done += os.pwrite(handle, data[done:], at + done)


def read_at(handle: int, into: memoryview, at: int) -> bool:
    """Fill memory from a place of a file; whether there was enough."""
    got = 0
    while got < len(into) and (n := os.preadv(handle, [into[got:]], at + got)):
        got += n
    return got == len(into)


_WRITE_RANGE = 2  # SYNC_FILE_RANGE_WRITE of Linux


def start_writing(handle: int, at: int, nbytes: int) -> None:
    """Let the system begin to bring bytes of a file to the disk: what waits until all is there waits with idle disks.

    Whole pages only: those at the ends may get more bytes, and would be written twice.
    """
    call = _sync_file_range()
    low, high = -(-at // PAGESIZE) * PAGESIZE, (at + nbytes) // PAGESIZE * PAGESIZE
    if call is not None and low < high:
        call(handle, low, high - low, _WRITE_RANGE)  # a hint: errors come with `flush`


@cache
def _sync_file_range() -> Any:
    """The system's function; None where it has none."""
    call = getattr(ctypes.CDLL(None), "sync_file_range", None) if sys.platform == "linux" else None
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return call


class Stamp(NamedTuple):
    """What a file looks like from outside: it has changed if this has."""

    size: int
    modified_ns: int
    inode: int

    @staticmethod
    def of(seen: os.stat_result) -> Stamp:
        """The stamp in what `os.stat` or `os.fstat` gives."""
        return Stamp(seen.st_size, seen.st_mtime_ns, seen.st_ino)


def stamp(path: str) -> Stamp:
    """The stamp of a file; StoreError if there is none that may be read."""
    with explained(path, "read"):
        return Stamp.of(os.stat(path))


URL = re.compile(r"^(?!file://)[a-zA-Z][a-zA-Z0-9+.-]*(::|://)")


def is_url(path: Any) -> bool:
    """Whether a path is for fsspec to open: files of this machine are not, even as URLs.

    >>> is_url("s3://bucket/a.zarr"), is_url("file:///data/a.zarr"), is_url("a.zarr")
    (True, False, False)
    """
    return bool(URL.match(os.fsdecode(path)))


def full_path(path: Any) -> str:
    """A path as every process on this machine understands it; of a URL the error that only Zarr arrays have such."""
    text = os.fsdecode(path)
    if is_url(text):
        raise StoreError(
            message(
                f"only Zarr arrays are read and written at URLs, not {shown(text)}",
                cure="Copy the file to or from this machine, or give the array the suffix .zarr",
            )
        )
    return str(os.path.abspath(os.path.expanduser(text.removeprefix("file://"))))


def shown(path: str) -> str:
    """A path or URL without a password.

    >>> shown("ftp://me:secret@host/x.npy")
    'ftp://***@host/x.npy'
    """
    return re.sub(r"://[^/@]*@", "://***@", path)


def real(path: str) -> str:
    """Where a path leads: what is written through a link takes the place of what it leads to, and the link stays."""
    return os.path.realpath(path)


def same(one: str, other: str) -> bool:
    """Whether two paths lead to one place."""
    return one == other or real(one) == real(other)


def changed(path: str) -> SourceChangedError:
    """The error for a file that is not what it was when it was opened."""
    return SourceChangedError(
        message(
            f"{path} was changed after it was opened as an array",
            cure="Open it again, or evaluate what reads it before it is written to",
        )
    )


@contextmanager
def explained(path: str, doing: str) -> Iterator[None]:
    """What the system refuses, as an error that names the file and a cure."""
    try:
        yield
    except StoreError:
        raise
    except FileExistsError:
        raise in_the_way(path) from None
    except OSError as error:
        if not error.errno and doing == "read":  # no system's, but a library's, of what it has read
            raise StoreError(
                message(f"{path} is damaged, or of another kind", got=str(error), cure="Restore it, or check the path")
            ) from None
        what = f"{path} cannot be {'read' if doing == 'read' else 'written'}: {os.strerror(error.errno or 0)}"
        cure = (READ_CURES if doing == "read" else CURES).get(error.errno or 0, "Check the path and its permissions")
        raise _like(error, message(what, cure=cure)) from None


class NotThere(StoreError, FileNotFoundError):
    """There is no such file."""


class NotAllowed(StoreError, PermissionError):
    """The file may not be read or written."""


class InTheWay(StoreError, FileExistsError):
    """Something is there already."""


def _like(error: OSError, text: str) -> StoreError:
    """A StoreError that `except FileNotFoundError` and `error.errno` know, too."""
    kinds = {FileNotFoundError: NotThere, PermissionError: NotAllowed}
    made = kinds.get(type(error), StoreError)(text)
    made.errno = error.errno
    return made


def in_the_way(path: str) -> StoreError:
    """The error for a path that exists where a new store is to be."""
    return InTheWay(
        message(f"{path} exists already, and nothing was written", cure="Store elsewhere, or pass overwrite=True")
    )


def check_free(path: str, overwrite: bool) -> None:
    """Raise if something is in the way of a new file; a folder is never replaced by one."""
    if os.path.isdir(path):
        raise InTheWay(
            message(
                f"{path} is a folder, and nothing was written",
                cure="Name a file in it, or remove it yourself: a file never takes the place of a folder",
            )
        )
    if os.path.lexists(path) and not overwrite:
        raise in_the_way(path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise InTheWay(
            message(
                f"{path} is a pipe or a device, which no file replaces, and nothing was written", cure="Name a file"
            )
        )


def check_parent(path: str) -> None:
    """Raise if there is no folder to make something in."""
    with explained(path, "write"):
        os.stat(os.path.dirname(real(path)))


def beside(path: str) -> str:
    """A name for what will be renamed to a path: in the same folder, used by nobody else."""
    folder, name = os.path.split(real(path))
    return os.path.join(folder, f".{name}{UNFINISHED}{os.urandom(6).hex()}")


def replace_file(made: str, path: str) -> None:
    """Give a finished file its name: it is on the disk first, and so is the name afterwards."""
    flush(made)
    path = real(path)
    with suppress(OSError):
        os.chmod(made, stat.S_IMODE(os.stat(path).st_mode))  # as the file that it takes the place of
    os.replace(made, path)
    flush(os.path.dirname(path))


def flush(path: str) -> None:
    """Return when a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def flush_folder(path: str) -> None:
    """Return when all files below a folder are on the disk, and then their names. Several at once: they share waits."""
    found = [(folder, [os.path.join(folder, name) for name in names]) for folder, _, names in os.walk(path)]
    with futures.ThreadPoolExecutor(FLUSHED_AT_ONCE) as threads:
        list(threads.map(flush, [name for _, names in found for name in names]))
    for folder, _ in found:
        flush(folder)


def remove(path: str) -> None:
    """Remove a file that may be gone already."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def write_text(path: str, text: str) -> None:
    """A small file, whole or not at all."""
    made = beside(path)
    try:
        Path(made).write_text(text)
        replace_file(made, path)
    except BaseException:
        remove(made)
        raise


SHARE = 0.5  # of this machine's memory: what a snapshot may take up


def snapshot_bytes() -> int:
    """The most that a copy of something in a file may take up."""
    return int(SHARE * machine().memory_bytes)


def check_snapshot(nbytes: int, limit: int | None, what: str) -> None:
    """Raise if a copy of something in a file would not fit into memory."""
    most = snapshot_bytes() if limit is None else limit
    if nbytes > most:
        raise StoreError(
            message(
                f"{what} can be written to, so that an array of it is a copy, which does not fit into memory",
                got=f"{nbytes:,} bytes, of {most:,}",
                cure="Open it to read only: tw.open(path)",
            )
        )
