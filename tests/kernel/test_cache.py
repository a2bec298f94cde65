"""Compiled code on disk: found again by other processes, private, never trusted when damaged, never in the way."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernel.support import call
from tilewise.backend.llvm.call import compiled
from tilewise.backend.llvm.compile import build, compiler, cpu, disk, files, key, linker
from tilewise.backend.llvm.program import kept
from tilewise.config import config
from tilewise.errors import PerformanceWarning
from tilewise.kernel.family import X86
from tilewise.kernel.loops import Instr, Kernel, Output

EXP = Kernel(("float64",), (), (Instr("exp", (0,), "float64"),), (Output(1),), (False,))


@pytest.fixture(autouse=True)
def forgetful() -> Iterator[None]:
    """Start and end as a new process would: nothing in memory, no warning given."""

    def forget() -> None:
        build._cache.clear()
        compiled.compile.cache_clear()
        disk._quiet.clear()
        for handle in disk._folders.values():
            if handle is not None:
                os.close(handle)
        disk._folders.clear()

    forget()
    yield
    forget()


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A line per run of the compiler."""
    seen: list[str] = []
    real = compiler.object_code

    def counted(*arguments: Any) -> bytes:
        seen.append(arguments[1])
        return real(*arguments)

    monkeypatch.setattr(compiler, "object_code", counted)
    return seen


def again(kernel: Kernel = EXP) -> None:
    """Run a kernel as in a new process."""
    build._cache.clear()
    compiled.compile.cache_clear()
    x = np.linspace(-1, 1, 77)
    np.testing.assert_allclose(call(kernel, (77,), [x])[0], np.exp(x), rtol=1e-15)


def stored(folder: Path) -> list[Path]:
    return sorted((folder / "code").iterdir())


def test_the_second_process_does_not_compile(tmp_path: Path, compiles: list[str]) -> None:
    with config(cache_dir=tmp_path / "new" / "folder"):
        again()
        again()
    assert len(compiles) == 1
    (file,) = stored(tmp_path / "new" / "folder")
    assert file.stat().st_mode & 0o777 == 0o600
    for folder in (file.parent, file.parent.parent):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_code_from_disk_needs_no_llvm(tmp_path: Path) -> None:
    program = """
import sys, numpy as np
import tilewise as tw
tw.config(eager_bytes=0, machine="fixed")
x = tw.asarray(np.arange(1000.0))
assert ((x * 2 + 1).compute() == np.arange(1000.0) * 2 + 1).all()
print("llvmlite.binding" in sys.modules)
"""
    environment = {**os.environ, "TILEWISE_CACHE_DIR": str(tmp_path)}
    told = [
        subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stdout.strip() for run in told] == ["True", "False"]


@pytest.mark.skipif(not X86, reason="levels are x86's")
def test_a_lesser_cpu_has_code_of_its_own(tmp_path: Path, compiles: list[str]) -> None:
    with config(cache_dir=tmp_path):
        again()
        build._cache.clear()
        call(EXP, (5,), [np.ones(5)], width=16)
    assert compiles == ["", cpu.level(16).cpu] and len(stored(tmp_path)) == 2


@pytest.mark.parametrize(
    "harm",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1],
        lambda data: data + b"\0",
        lambda data: data[:200] + bytes([data[200] ^ 1]) + data[201:],
        lambda data: b"x" + data[1:],
        lambda data: os.urandom(len(data)),
    ],
    ids=["empty", "half", "cut", "longer", "one bit", "magic", "noise"],
)
def test_damaged_files_are_written_again(tmp_path: Path, compiles: list[str], harm: Callable[[bytes], bytes]) -> None:
    with config(cache_dir=tmp_path):
        again()
        (file,) = stored(tmp_path)
        good = file.read_bytes()
        file.write_bytes(harm(good))
        again()
        assert len(compiles) == 2 and file.read_bytes() == good
        again()
        assert len(compiles) == 2


def test_code_under_a_wrong_name_is_not_run(tmp_path: Path, compiles: list[str]) -> None:
    """A file copied over another is whole, but not what its name says."""
    other = Kernel(("float64",), (), (Instr("negative", (0,), "float64"),), (Output(1),), (False,))
    with config(cache_dir=tmp_path):
        call(other, (5,), [np.ones(5)])
        (foreign,) = stored(tmp_path)
        again()
        (file,) = [f for f in stored(tmp_path) if f != foreign]
        file.write_bytes(foreign.read_bytes())
        again()
    assert len(compiles) == 3


def goes_on(folder: Path, says: str) -> None:
    """A kernel and its neighbour run, with one warning in all."""
    with config(cache_dir=folder):
        with pytest.warns(PerformanceWarning, match=says) as told:
            again()
        assert len(told) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again()
            call(EXP, (5, ), [np.ones(5)], width=0)  # fmt: skip


def test_a_folder_that_others_may_write_to(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code").chmod(0o777)
    goes_on(tmp_path, "others may write to it .mode 777.")
    assert not stored(tmp_path)


def test_a_folder_of_someone_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    goes_on(tmp_path, "belongs to someone else")
    assert not stored(tmp_path)


def test_a_link_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "code").symlink_to(tmp_path / "elsewhere")
    goes_on(tmp_path, "compiled code is not kept in")
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    goes_on(tmp_path / "taken", "compiled code is not kept in")


def test_a_folder_that_cannot_be_made() -> None:
    goes_on(Path("/proc/nobody/here"), "compiled code is not kept in")


def test_a_read_only_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def read_only(path: Any, flags: int, *rest: Any, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        return real(path, flags, *rest, **options)

    monkeypatch.setattr(os, "open", read_only)
    goes_on(tmp_path, "Read-only file system")


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files fails a write in the middle, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
    try:
        goes_on(tmp_path, "File too large")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not stored(tmp_path)  # no part is left


def test_a_folder_removed_meanwhile_comes_back(tmp_path: Path, compiles: list[str]) -> None:
    with config(cache_dir=tmp_path):
        again()
        (file,) = stored(tmp_path)
        file.unlink()
        file.parent.rmdir()
        again()
        assert file.exists()
        again()
    assert len(compiles) == 2


def test_files_of_others_are_not_run(tmp_path: Path, compiles: list[str]) -> None:
    with config(cache_dir=tmp_path):
        again()
        (file,) = stored(tmp_path)
        file.chmod(0o666)
        again()
    assert len(compiles) == 2 and file.stat().st_mode & 0o777 == 0o600


def test_the_oldest_go_when_there_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "LIMIT_BYTES", 5000)
    monkeypatch.setattr(disk, "TRIM_EVERY", 1)
    now = time.time()
    for k in range(8):
        disk.put(tmp_path, f"code{k}", bytes(1000))
        os.utime(tmp_path / f"code{k}", (now + k - 100, now + k - 100))
    left = sorted(f.name for f in tmp_path.iterdir())
    assert left == ["code4", "code5", "code6", "code7"]
    (tmp_path / f"{files.PART}1-1").write_bytes(b"left by a crash")
    os.utime(tmp_path / f"{files.PART}1-1", (now - 2 * disk.OLD_S,) * 2)
    (tmp_path / f"{files.PART}2-1").write_bytes(b"being written")
    disk.put(tmp_path, "code8", b"")
    assert {f.name for f in tmp_path.iterdir()} == {*left, "code8", f"{files.PART}2-1"}


def test_use_keeps_a_file_young(tmp_path: Path) -> None:
    disk.put(tmp_path, "code", b"abc")
    old = time.time() - 2 * disk.OLD_S
    os.utime(tmp_path / "code", (old, old))
    assert disk.get(tmp_path, "code") == b"abc"
    assert (tmp_path / "code").stat().st_mtime > old + disk.OLD_S


def test_many_processes_at_once(tmp_path: Path) -> None:
    program = """
import numpy as np, warnings
warnings.simplefilter("error")
from tests.kernel.support import call, one_op
for fn in ("negative", "square", "sqrt", "exp"):
    x = np.arange(100.0)
    (y,) = call(one_op(fn, ("float64",), "float64"), (100,), [x])
    np.testing.assert_allclose(y, getattr(np, fn)(x), rtol=1e-15)
"""
    environment = {**os.environ, "TILEWISE_CACHE_DIR": str(tmp_path)}
    started = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert len(stored(tmp_path)) == 4 and not list((tmp_path / "code").glob(f"{files.PART}*"))


def test_names_change_with_all_that_makes_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.py").write_text("one")
    before = key.sources((tmp_path,))
    assert before == key.sources((tmp_path,))
    (tmp_path / "a.py").write_text("two")
    assert key.sources((tmp_path,)) != before
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.py").write_text("")
    assert key.sources((tmp_path,)) != before

    def name() -> str:
        key._maker.cache_clear()
        return key.name_of((EXP,), "")

    names = {name(), name()}
    assert len(names) == 1 and key.name_of((EXP,), "x86-64") not in names
    with monkeypatch.context() as change:
        change.setattr(key, "fingerprint", lambda: "another CPU")
        names.add(name())
    with monkeypatch.context() as change:
        change.setattr(key, "compiler_version", lambda: "0.0")
        names.add(name())
    with monkeypatch.context() as change:
        change.setattr(key, "DATA_OFFSET", 99)
        names.add(name())
    assert len(names) == 4
    key._maker.cache_clear()
    with pytest.raises(AssertionError, match="by its address"):
        key.name_of((object(),), "")


def test_every_folder_of_passes_and_emitters_is_hashed() -> None:
    """Else code that another version has made would be found."""
    emitters = [key.LLVM / name for name in key.EMITTERS]
    for known, made_from in ((kept.FOLDERS, [kept.KERNEL]), (key.FOLDERS, emitters)):
        assert {source.parent for top in made_from for source in top.rglob("*.py")} <= set(known)


def test_without_sources_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiles: list[str]) -> None:
    monkeypatch.setattr(key, "sources", lambda: (_ for _ in ()).throw(FileNotFoundError("only bytecode")))
    key._maker.cache_clear()
    with config(cache_dir=tmp_path):
        again()
        again()
    key._maker.cache_clear()
    assert len(compiles) == 2 and not (tmp_path / "code").exists()


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code goes when nobody holds it; what a launch holds stays and runs."""
    monkeypatch.setattr(build, "CODES", 2)
    freed = []
    real = linker.linked

    class Owner:
        def __init__(self, owner: object) -> None:
            self.owner = owner

        def __del__(self) -> None:
            freed.append(1)

    def noted(code: bytes, name: str) -> tuple[int, object]:
        address, owner = real(code, name)
        return address, Owner(owner)

    monkeypatch.setattr(linker, "linked", noted)
    with config(cache_dir=tmp_path):
        held = compiled.compile(EXP)
        x = np.arange(5.0)
        out = np.empty(5)
        held((5,), [x], (), [out])
        for fn in ("negative", "square", "sqrt", "floor"):
            compiled.compile.cache_clear()
            call(Kernel(("float64",), (), (Instr(fn, (0,), "float64"),), (Output(1),), (False,)), (5,), [x])
        assert len(build._cache) == 2 and len(freed) == 2  # of five: one is held, two are remembered
        held((5,), [x], (), [out])
        np.testing.assert_allclose(out, np.exp(x), rtol=1e-15)
