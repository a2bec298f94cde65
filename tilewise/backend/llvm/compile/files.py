"""The file of a compiled code. In: a folder's descriptor, a name, bytes. Out: the file, whole or not at all.

Imports nothing of ours, so that the compiler's own process (server.py) can use it without loading the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

MAGIC = b"tilewise code 1\n"
DIGEST = hashlib.blake2b(b"").digest_size
PART = "part-"  # how the names of files begin that are being written


def _digest(name: str, code: bytes) -> bytes:
    return hashlib.blake2b(name.encode() + code).digest()


def content(name: str, data: bytes) -> bytes | None:
    """The code in a file of that name, if it is whole."""
    start = len(MAGIC) + DIGEST
    code = data[start:]
    return code if data[: len(MAGIC)] == MAGIC and data[len(MAGIC) : start] == _digest(name, code) else None


def write(handle: int, name: str, code: bytes, count: int) -> None:
    """Write a file and rename it into place. Raises OSError."""
    part = f"{PART}{os.getpid()}-{count}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    file = os.open(part, flags, 0o600, dir_fd=handle)
    try:
        with open(file, "wb", buffering=0) as writer:
            left = memoryview(MAGIC + _digest(name, code) + code)
            while left:
                left = left[writer.write(left) :]
        os.rename(part, name, src_dir_fd=handle, dst_dir_fd=handle)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part, dir_fd=handle)
        raise
