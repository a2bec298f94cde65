"""The bytecode of all our modules in one file. In: files of bytecode. Out: imports that open one file, not two hundred.

Python looks for each module in some folders, and opens, reads and checks one file of bytecode for it: a fifth of the
time of `import tilewise`. So what those files hold is also kept side by side in one, beside them (`__pycache__`), which
a process writes at its end if it had to load many modules without it. A module is taken from there only if its source
is as it was then, as Python takes a file of bytecode, and if this Python wrote the file and every byte of it is as it
was written: bytecode that is not would end the process. Else Python's own way is gone. The file has the name of the
bytecode of `bytecode_file.py`, which is never loaded: so it goes with the package when that is uninstalled.
"""

from __future__ import annotations

import _imp
import atexit
import contextlib
import marshal
import os
import struct
import sys
from collections.abc import Sequence
from importlib._bootstrap_external import MAGIC_NUMBER
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import CodeType
from typing import Any

MAGIC = b"tilewise bytecode 2\n" + MAGIC_NUMBER  # which is Python's: versions in the making share names of files
NAME = "bytecode_file"
MANY = 24  # modules that were not in the file: it is worth writing again
TRIED = 8  # modules without bytecode that could be kept: there is none (checked by hashes, say)
_HEAD = struct.Struct(f"<{len(MAGIC)}s8sQ")  # hash and length of the index that follows
_FACTS = struct.Struct("<II")  # of a source, as Python notes them: when it was written, its length
_OLD = 16  # bytes before the code in a file of bytecode: Python's version, flags, facts

Entry = tuple[int, int, bool, bytes, bytes]  # where code begins, how long it is, whether it is a package's, facts, hash


class Bytecode:
    """Finds modules of a package, whose folder is given, in a file."""

    def __init__(self, package: str, folder: str, file: str) -> None:
        self.package, self.folder, self.file = package, folder, file
        self.missed = 0  # modules that Python had to find
        self._within = f"{package}."
        self._index: dict[str, Entry] = {}
        self._code = memoryview(b"")
        with contextlib.suppress(OSError, ValueError, EOFError, TypeError, struct.error):
            self._read()

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Where a module is (a finder of `sys.meta_path`); None if Python shall look for it."""
        found = self._index.get(name)
        if found is None:
            self.missed += name.startswith(self._within)
            return None
        source = self._source(name, found[2])
        if _facts(source) != found[3] or _hash(self._part(name)) != found[4]:
            self.missed += 1
            return None
        spec = ModuleSpec(name, _Loader(self, name, source), origin=source, is_package=found[2])
        spec.has_location = True
        spec.cached = self.file
        if spec.submodule_search_locations is not None:
            spec.submodule_search_locations.append(os.path.dirname(source))
        return spec

    def code(self, name: str) -> CodeType:
        """The code of a module that was found."""
        code: CodeType = marshal.loads(self._part(name))
        return code

    def write(self, least: int = 1) -> None:
        """Keep what was there, and the modules that Python found, if those are so many. Raises OSError."""
        other = f"{self.file}.{os.urandom(6).hex()}"
        with open(other, "xb") as file:  # first of all: where nobody may write, nothing shall take time
            try:
                loaded = self._loaded()
                if len(loaded) >= least:
                    file.writelines(self._parts((*self._kept(), *loaded)))
                    file.close()
                    os.replace(other, self.file)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(other)

    def _parts(self, modules: Sequence[tuple[str, bytes, bool, bytes]]) -> list[bytes]:
        index: dict[str, Entry] = {}
        parts: list[bytes] = []
        size = 0
        for name, part, is_package, facts in modules:
            index[name] = size, len(part), is_package, facts, _hash(part)
            parts.append(part)
            size += len(part)
        listed = marshal.dumps((self.folder, size, index))
        return [_HEAD.pack(MAGIC, _hash(listed), len(listed)), listed, *parts]

    def _read(self) -> None:
        with open(self.file, "rb") as file:
            data = memoryview(file.read())  # not mapped: who makes it shorter would end this process
        magic, checked, length = _HEAD.unpack_from(data)
        begin = _HEAD.size + length
        listed = data[_HEAD.size : begin]
        if magic == MAGIC and _hash(listed) == checked:
            folder, size, index = marshal.loads(listed)
            if folder == self.folder and len(data) == begin + size:
                self._index, self._code = index, data[begin:]

    def _part(self, name: str) -> memoryview:
        start, length, *_ = self._index[name]
        return self._code[start : start + length]

    def _source(self, name: str, is_package: bool) -> str:
        inside = os.path.join(self.folder, name[len(self._within) :].replace(".", os.sep))
        return os.path.join(inside, "__init__.py") if is_package else f"{inside}.py"

    def _kept(self) -> list[tuple[str, bytes, bool, bytes]]:
        """What the file has of sources that are as they were."""
        return [
            (name, bytes(part), is_package, facts)
            for name, (_, _, is_package, facts, checked) in self._index.items()
            if _facts(self._source(name, is_package)) == facts and _hash(part := self._part(name)) == checked
        ]

    def _loaded(self) -> list[tuple[str, bytes, bool, bytes]]:
        """Modules with a file of bytecode of their own that is checked by facts of the source."""
        found: list[tuple[str, bytes, bool, bytes]] = []
        tried = 0
        for name, module in list(sys.modules.items()):
            spec: Any = getattr(module, "__spec__", None)
            if not name.startswith(self._within) or type(getattr(spec, "loader", None)) is not SourceFileLoader:
                continue
            if not found and tried == TRIED:
                break
            tried += 1
            is_package = spec.submodule_search_locations is not None
            with contextlib.suppress(OSError, TypeError):
                with open(spec.cached, "rb") as opened:
                    data = opened.read()
                facts, source = data[8:_OLD], self._source(name, is_package)
                checked_by_facts = data[:8] == MAGIC_NUMBER + bytes(4)
                if spec.origin == source and checked_by_facts and _facts(source) == facts:
                    found.append((name, data[_OLD:], is_package, facts))
        return found


class _Loader(SourceFileLoader):
    """Loads a module as Python does, with code that is at hand."""

    def __init__(self, found_by: Bytecode, name: str, path: str) -> None:
        super().__init__(name, path)
        self._found_by = found_by

    def get_code(self, fullname: str) -> CodeType:
        """The code of the module."""
        return self._found_by.code(fullname)


def _facts(source: str) -> bytes:
    """What Python notes of a source in bytecode; nothing if there is none."""
    try:
        status = os.stat(source)
    except OSError:
        return b""
    return _FACTS.pack(int(status.st_mtime) & 0xFFFFFFFF, status.st_size & 0xFFFFFFFF)


def _hash(data: bytes | memoryview) -> bytes:
    return _imp.source_hash(0, data)  # a millisecond for all modules


def _write_if_missed(found: Bytecode) -> None:
    if found.missed >= MANY and not sys.dont_write_bytecode:
        with contextlib.suppress(OSError):  # the folder may not be ours to write to
            found.write(MANY)


def use(package: str, folder: str, cached: str | None) -> None:
    """Take modules of a package from one file; `cached` is where Python keeps the bytecode of one of them."""
    if cached is not None and sys.implementation.name == "cpython":
        beside, name = os.path.split(cached)
        found = Bytecode(package, folder, os.path.join(beside, f"{NAME}{name[name.index('.') :]}"))
        sys.meta_path.insert(0, found)
        atexit.register(_write_if_missed, found)
