"""Bytecode of a package in one file: what is taken from it, and when Python must look itself."""

import importlib
import importlib.util
import inspect
import os
import py_compile
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilewise import bytecode
from tilewise.bytecode import MAGIC, Bytecode

NAME = "bytecode_example"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package with a module and a package inside, loaded by Python, with its bytecode written."""
    folder = tmp_path / NAME
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "__init__.py").write_text("depth = 1\n")
    (folder / "inner" / "leaf.py").write_text('"""A leaf."""\n\ndef depth():\n    return 2\n')
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    importlib.invalidate_caches()
    importlib.import_module(f"{NAME}.inner.leaf")
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == NAME]:
        del sys.modules[name]


def written(folder: Path) -> Bytecode:
    file = str(folder / "__pycache__" / "all.pyc")
    Bytecode(NAME, str(folder), file).write()
    return Bytecode(NAME, str(folder), file)


def test_modules_come_from_the_file(package: Path) -> None:
    found = written(package)
    shutil.rmtree(package / "inner" / "__pycache__")  # nothing else has their bytecode
    spec, inner = found.find_spec(f"{NAME}.inner.leaf"), found.find_spec(f"{NAME}.inner")
    assert spec is not None and spec.loader is not None and inner is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.depth() == 2 and module.__doc__ == "A leaf." and module.__package__ == f"{NAME}.inner"
    assert module.__file__ == str(package / "inner" / "leaf.py") and "return 2" in inspect.getsource(module)
    assert inner.submodule_search_locations == [str(package / "inner")]
    assert not (package / "inner" / "__pycache__").exists() and found.missed == 0
    assert found.find_spec("json") is None and found.find_spec(f"{NAME}.other") is None
    assert found.missed == 1  # those of others do not count


def test_a_source_that_changed_is_pythons(package: Path) -> None:
    found, leaf = written(package), package / "inner" / "leaf.py"
    before = leaf.stat()
    leaf.write_text("def depth():\n    return 3\n")
    os.utime(leaf, ns=(before.st_atime_ns, before.st_mtime_ns))  # its length tells
    assert found.find_spec(f"{NAME}.inner.leaf") is None and found.missed == 1
    leaf.write_text("x" * before.st_size)
    os.utime(leaf, (before.st_atime, before.st_mtime + 5))  # its time tells
    assert found.find_spec(f"{NAME}.inner.leaf") is None
    leaf.unlink()
    assert found.find_spec(f"{NAME}.inner.leaf") is None
    again = written(package)  # which keeps what is still right
    assert again.find_spec(f"{NAME}.inner") is not None and again.find_spec(f"{NAME}.inner.leaf") is None


def test_a_file_that_is_not_whole_or_not_ours(package: Path) -> None:
    found = written(package)
    data = Path(found.file).read_bytes()
    for wrong in (b"", data[:10], data[:-1], data[: len(data) // 2], b"X" + data[1:]):
        Path(found.file).write_bytes(wrong)
        assert Bytecode(NAME, str(package), found.file).find_spec(f"{NAME}.inner") is None
    Path(found.file).write_bytes(data)
    assert Bytecode(NAME, str(package), found.file).find_spec(f"{NAME}.inner") is not None
    assert Bytecode(NAME, str(package.parent), found.file).find_spec(f"{NAME}.inner") is None  # it has moved


def test_no_byte_may_change(package: Path) -> None:
    found = written(package)
    data, names = Path(found.file).read_bytes(), (f"{NAME}.inner", f"{NAME}.inner.leaf")
    codes = {name: found.code(name) for name in names}
    for k in range(0, len(data), 7):
        damaged = bytearray(data)
        damaged[k : k + 7] = bytes(b ^ 0x5A for b in data[k : k + 7])
        Path(found.file).write_bytes(damaged)
        again = Bytecode(NAME, str(package), found.file)
        right = [name for name in names if again.find_spec(name) is not None]
        assert all(again.code(name) == codes[name] for name in right) and len(right) < 2
        again.write()  # which keeps what is still right
        assert Bytecode(NAME, str(package), found.file).find_spec(names[1]) is not None
    other_python = MAGIC[:-4] + bytes(4) + data[len(MAGIC) :]
    Path(found.file).write_bytes(other_python)
    assert not any(Bytecode(NAME, str(package), found.file).find_spec(name) for name in names)


def test_what_a_loaded_file_was_may_become_shorter(package: Path) -> None:
    found = written(package)
    os.truncate(found.file, 0)  # by another process: a mapped file would end this one
    assert found.find_spec(f"{NAME}.inner.leaf") is not None
    assert found.code(f"{NAME}.inner.leaf").co_names == ("__doc__", "depth")


def test_nothing_is_written_where_it_is_no_use(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = package / "__pycache__"
    found = Bytecode(NAME, str(package), str(caches / "all.pyc"))
    before = sorted(caches.iterdir())
    found.write(least=10)  # too few
    for source in (package / "inner").glob("*.py"):
        py_compile.compile(str(source), invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)
    found.write()  # none that is checked by facts
    assert sorted(caches.iterdir()) == before
    monkeypatch.setattr(Bytecode, "_loaded", None)  # nobody may get as far as this
    with pytest.raises(TypeError):
        found.write()
    assert sorted(caches.iterdir()) == before  # nothing half done is left
    with pytest.raises(OSError):
        Bytecode(NAME, str(package), str(package / "nowhere" / "all.pyc")).write()


def test_installers_know_the_file() -> None:
    source = Path(bytecode.__file__).with_name(f"{bytecode.NAME}.py")
    assert source.is_file()
    ours = {found.file for found in sys.meta_path if isinstance(found, Bytecode)}
    assert ours == {importlib.util.cache_from_source(str(source))}
