"""Compiled code on disk. In: a folder, a name, bytes. Out: the bytes again, or None. Never raises, never pickles.

The folder belongs to the user alone: one that someone else owns or may write to is not used, and it is kept open, so
that nobody can put another in its place. A file appears whole (it is renamed into place) and carries a checksum; one
that does not fit it counts as missing and is written again. What cannot be read or written costs one warning.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import time
import warnings
from pathlib import Path

from tilewise.backend.llvm.compile import files
from tilewise.errors import PerformanceWarning, message

LIMIT_BYTES = 256 << 20
TRIM_EVERY = 64  # files written between two looks at the size of the folder (5 µs per file in it)
OLD_S = 86400.0  # a file used again after this long counts as new

_folders: dict[Path, files.Folder | None] = {}  # an open folder, or None: not to be used
_quiet: set[Path] = set()  # folders that a warning was given for
_writes = itertools.count()


class NotPrivate(OSError):
    """A folder that is not the user's alone."""


def _warn(folder: Path, error: OSError) -> None:
    if folder not in _quiet:
        _quiet.add(folder)
        what = f"compiled code is not kept in {folder}: {error.strerror or error}"
        cure = "Use another folder: tw.config(cache_dir=...) or TILEWISE_CACHE_DIR"
        warnings.warn(message(what, cure=cure), PerformanceWarning, stacklevel=2)


def _make(folder: Path) -> None:
    """Create a folder and those above it, for the user alone."""
    missing = list(itertools.takewhile(lambda f: not f.exists(), (folder, *folder.parents)))
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _open(folder: Path) -> files.Folder:
    """A folder that is the user's alone."""
    _make(folder)
    if not hasattr(os, "O_DIRECTORY"):
        return str(folder)  # the user's own by the rights of the folder that it is in
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        facts = os.fstat(handle)
        if facts.st_uid != os.geteuid():
            raise NotPrivate("it belongs to someone else")
        if facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise NotPrivate(f"others may write to it (mode {stat.S_IMODE(facts.st_mode):o})")
    except OSError:
        os.close(handle)
        raise
    return handle


def _handle(folder: Path) -> files.Folder | None:
    """The folder, opened when first asked for."""
    if folder not in _folders:
        try:
            _folders[folder] = _open(folder)
        except OSError as error:
            _folders[folder] = None
            _warn(folder, error)
    return _folders[folder]


def get(folder: Path, name: str) -> bytes | None:
    """What was put under a name, if it is whole."""
    handle = _handle(folder)
    if handle is None:
        return None
    try:
        file = files.opened(handle, name, os.O_RDONLY)
    except OSError:
        return None
    try:
        facts = os.fstat(file)
        if isinstance(handle, int) and (facts.st_uid != os.geteuid() or facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)):
            return None
        with open(file, "rb", buffering=0, closefd=False) as reader:
            data = reader.read()
        if time.time() - facts.st_mtime > OLD_S:
            os.utime(file if os.utime in os.supports_fd else folder / name)
    except OSError:
        return None
    finally:
        os.close(file)
    return files.content(name, data)


def identity(folder: Path) -> tuple[int, int] | None:
    """The device and number of a folder that is used, by which another process knows that it has the same."""
    handle = _handle(folder)
    if handle is None:
        return None
    facts = os.stat(handle)
    return facts.st_dev, facts.st_ino


def put(folder: Path, name: str, code: bytes) -> None:
    """Keep bytes under a name."""
    handle = _handle(folder)
    if handle is None:
        return
    count = next(_writes)
    try:
        try:
            files.write(handle, name, code, count)
        except FileNotFoundError:  # someone removed the folder
            if isinstance(handle, int):
                os.close(handle)
            del _folders[folder]
            handle = _handle(folder)
            if handle is None:
                return
            files.write(handle, name, code, count)
        if count % TRIM_EVERY == 0:
            _trim(handle, LIMIT_BYTES)
    except OSError as error:
        _warn(folder, error)


def _trim(handle: files.Folder, limit: int) -> None:
    """Remove the files used longest ago while there is too much, and what crashed writers left."""
    found = []
    with os.scandir(handle) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                facts = entry.stat(follow_symlinks=False)
                left_over = entry.name.startswith(files.PART) and time.time() - facts.st_mtime > OLD_S
                found.append((0.0 if left_over else facts.st_mtime, facts.st_size, entry.name))
    total = sum(size for _, size, _ in found)
    for used, size, name in sorted(found):
        if used and total <= limit:
            break
        files.remove(handle, name)
        total -= size
