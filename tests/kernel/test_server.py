"""The compiler's own process: LLVM's library by itself gives what llvmlite gives, and llvmlite takes its place."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import tilewise as tw
from tilewise.backend.llvm.call import call_table, helpers, parallel_for
from tilewise.backend.llvm.compile import build, compiler, helper, llvm_library, server

HERE = Path(server.__file__).parent


@pytest.fixture(scope="module")
def packages() -> str:
    found = importlib.util.find_spec("llvmlite")
    assert found is not None and found.origin is not None
    return str(Path(found.origin).parents[1])


def test_the_same_code(packages: str) -> None:
    library = llvm_library.Library(packages)
    library.ready()
    assert (library.QUICK, library.GOOD) == (compiler.QUICK, compiler.GOOD)
    assert [name.decode() for name in llvm_library.JUMPS_TORN] == [*compiler.JUMPS_TORN]
    assert llvm_library.JUMPS_WHOLE.decode() == compiler.JUMPS_WHOLE
    for made in (call_table.build, parallel_for.build, helpers.build_wait):
        module = made("kernel").module()
        for level in (compiler.QUICK, compiler.GOOD):
            assert library.object_code(module, level=level) == compiler.object_code(module, level=level)
    named = "generic"
    assert library.object_code(module, named) == compiler.object_code(module, named)


def test_errors_are_said(packages: str) -> None:
    library = llvm_library.Library(packages)
    with pytest.raises(RuntimeError, match="expected top-level entity"):
        library.object_code("nonsense")
    with pytest.raises(RuntimeError, match="Instruction does not dominate all uses"):
        library.object_code("define i64 @f() {\n  %a = add i64 %b, 1\n  %b = add i64 %a, 1\n  ret i64 %b\n}")
    assert library.object_code("define void @f() {\n  ret void\n}")  # it goes on


def opened(packages: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(HERE))
    try:
        return server.opened(packages)
    finally:
        for name in ("llvm_library", "compiler"):
            sys.modules.pop(name, None)


def test_this_version_is_known(packages: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it fails with another llvmlite: see whether its `binding` calls the functions as `_SIGNATURES` says."""
    assert llvm_library.usable(packages)
    assert type(opened(packages, monkeypatch)).__name__ == "Library"


@pytest.mark.parametrize("missing", ["version", "folder", "function"])
def test_llvmlite_in_its_place(missing: str, packages: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = importlib.util.spec_from_file_location("llvm_library", HERE / "llvm_library.py")
    assert found is not None and found.loader is not None
    changed: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(changed)
    if missing == "version":
        changed.VERSIONS = ("0.0.",)
    if missing == "function":
        changed._SIGNATURES = {**changed._SIGNATURES, "NoSuchFunction": (None,)}
    monkeypatch.setitem(sys.modules, "llvm_library", changed)
    used = opened(str(tmp_path) if missing == "folder" else packages, monkeypatch)
    assert used.__file__ == str(HERE / "compiler.py")
    assert used.object_code("define void @f() {\n  ret void\n}", "", level=used.QUICK)


@pytest.mark.parametrize("closed", ["()", "(0, 1)"])
def test_it_starts_with_the_backend(closed: str, tmp_path: Path) -> None:
    """Where no code is kept, whatever descriptors are free; it answers then."""
    program = f"""
import os
import tilewise as np
for each in {closed}:
    os.close(each)
from tilewise.backend import named
named("llvm")
from tilewise.backend.llvm.compile import helper
first = helper._server
assert first is not None
x = np.ones(500_000)
assert float((x * 2 + 1).sum()) == 1_500_000 and helper._server is first and helper._worked
open({str(tmp_path / "done")!r}, "w").close()
"""
    given = {**os.environ, "TILEWISE_CACHE_DIR": str(tmp_path), "TILEWISE_WAIT_FOR_NATIVE": "0"}
    subprocess.run([sys.executable, "-c", program], check=True, env=given)
    assert (tmp_path / "done").exists()


def test_good_code_has_been_through_llvms_passes(tmp_path: Path) -> None:
    """What asks for LLVM's passes gets them in the compiler's process, too: its loops are vectors."""
    module = """
define void @negate(ptr noalias %out, ptr %x, i64 %n) nounwind "passes"="standard" {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %at = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %at
  %r = fneg double %v
  %to = getelementptr double, ptr %out, i64 %i
  store double %r, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""
    there, found = threading.Event(), []

    def arrived(code: bytes) -> None:
        found.append(code)
        there.set()

    with tw.config(cache_dir=tmp_path, wait_for_native=False):
        if not helper.usable():
            pytest.skip("there is no process that compiles")
        build.good_code("test", module, arrived)
        assert there.wait(60.0)
    assert found == [compiler.object_code(module)]
    plain = module.replace(' "passes"="standard"', "")
    assert len(found[0]) > len(compiler.object_code(plain))  # a vector loop and one for the rest
