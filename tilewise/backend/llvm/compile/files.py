"""The file of a compiled code. In: an open folder, a name, bytes. Out: the file, whole or not at all.

A folder is its descriptor, so that nobody can put another in its place; its path, where a system opens no folders.

Imports nothing of ours, so that the compiler's own process (server.py) can use it without loading the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

MAGIC = b"tilewise code 1\n"
DIGEST = hashlib.blake2b(b"").digest_size
PART = "part-"  # how the names of files begin that are being written


Folder = int | str
NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)


def opened(folder: Folder, name: str, flags: int) -> int:
    """A descriptor of a file in a folder. Raises OSError."""
    if isinstance(folder, int):
        return os.open(name, flags | NO_LINKS, 0o600, dir_fd=folder)
    return os.open(os.path.join(folder, name), flags | NO_LINKS, 0o600)


def remove(folder: Folder, name: str) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(OSError):
        if isinstance(folder, int):
            os.unlink(name, dir_fd=folder)
        else:
            os.unlink(os.path.join(folder, name))


def _digest(name: str, code: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + code).digest()


def content(name: str, data: bytes) -> bytes | None:
    """The code in a file of that name, if it is whole."""
    start = len(MAGIC) + DIGEST
    code = data[start:]
    return code if data[: len(MAGIC)] == MAGIC and data[len(MAGIC) : start] == _digest(name, code) else None


def write(folder: Folder, name: str, code: bytes, count: int) -> None:
    """Write a file and rename it into place. Raises OSError."""
    part = f"{PART}{os.getpid()}-{count}"
    file = opened(folder, part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        with open(file, "wb", buffering=0) as writer:
            left = memoryview(MAGIC + _digest(name, code) + code)
            while left:
                left = left[writer.write(left) :]
        if isinstance(folder, int):
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            os.replace(os.path.join(folder, part), os.path.join(folder, name))
    except OSError:
        remove(folder, part)
        raise
