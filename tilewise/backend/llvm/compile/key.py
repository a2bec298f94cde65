"""The name of code on disk. In: what code is made from. Out: a hash of that and of all that makes it.

Two processes use one name only if they would make the same code: the sources of the emitters are hashed (once per
process, 1 ms), so nobody has to remember to raise a version, and no IR has to be emitted to look code up.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Hashable
from functools import cache
from pathlib import Path

from tilewise.backend.llvm.compile.cpu import fingerprint
from tilewise.backend.llvm.emit.frame import DATA_OFFSET
from tilewise.backend.llvm.math.table import FOREIGN

MOST_BYTES = 1 << 18  # of a file, that are read at once
LLVM = Path(__file__).parents[1]
EMITTERS = ("call", "compile", "emit", "loops", "math", "patterns", "products", "program", "program/loops")
FOLDERS = (
    *(LLVM / name for name in EMITTERS),
    LLVM.parents[1] / "kernel",
    LLVM.parents[1] / "kernel" / "program",
)  # what decides how code looks


def sources(folders: tuple[Path, ...] = FOLDERS) -> bytes:
    """A hash of every source file in these folders. Raises FileNotFoundError where there are none (only bytecode)."""
    whole = hashlib.sha256()
    for folder in folders:
        files = sorted(name for name in os.listdir(folder) if name.endswith(".py"))
        if not files:
            raise FileNotFoundError(f"no sources in {folder}")
        for name in files:
            text = _content(f"{folder}/{name}")
            whole.update(f"{name} {len(text)}\n".encode() + text)
    return whole.digest()


def _content(path: str) -> bytes:
    """All bytes of a file, in a quarter of the time of Path.read_bytes."""
    file = os.open(path, os.O_RDONLY)
    try:
        text = os.read(file, MOST_BYTES)
        while more := os.read(file, MOST_BYTES):
            text += more
        return text
    finally:
        os.close(file)


def compiler_version() -> str:
    """The version of llvmlite (each comes with one LLVM); "none" where it is missing."""
    try:
        return str(importlib.import_module("llvmlite").__version__)
    except ImportError:
        return "none"


@cache
def _maker() -> bytes:
    facts = f"{compiler_version()} {DATA_OFFSET} {fingerprint()}"
    return hashlib.sha256(sources() + facts.encode()).digest()


def name_of(key: Hashable, cpu: str) -> str:
    """The file name of code; `key` must be made of plain values. Raises FileNotFoundError without all sources."""
    text = f"{cpu} {key!r}"
    assert " at 0x" not in text, f"a key for code may not name an object by its address: {text}"
    if FOREIGN and any(f"'{fn}'" in text for fn in FOREIGN):
        raise FileNotFoundError("no sources of a function's code")
    return hashlib.sha256(_maker() + text.encode()).hexdigest()
