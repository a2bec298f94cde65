"""The compiler: verified IR, lesser CPUs, other linkers, listings; and what happens when it fails."""

from __future__ import annotations

import builtins
import ctypes
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kernel.support import alike, call, one_op, reduction, same_bits
from tests.kernel.test_program_passes import program_of
from tilewise.backend import llvm
from tilewise.backend.llvm.call import compiled
from tilewise.backend.llvm.compile import build, compiler, cpu, linker, relocation
from tilewise.backend.llvm.emit.spec import Spec, VectorUnit
from tilewise.backend.llvm.emit.text import Function
from tilewise.backend.llvm.loops import combine, forms
from tilewise.backend.llvm.loops.reducers import Reducer
from tilewise.backend.llvm.program.emit import emitted
from tilewise.config import config
from tilewise.errors import PerformanceWarning
from tilewise.kernel import interpret
from tilewise.kernel import native_support as native
from tilewise.kernel.family import X86
from tilewise.kernel.loops import Instr, Kernel, Output

F = "float64"
MIXED = Kernel(
    (F, F), (F,),
    (Instr("subtract", (0, 1), F), Instr("multiply", (3, 3), F), Instr("exp", (3,), F), Instr("floor", (0,), F),
     Instr("remainder", (1, 2), F), Instr("less", (0, 1), "bool"), Instr("where", (8, 4, 7), F),
     Instr("cast", (9,), "float32")),
    (Output(4, "add"), Output(9), Output(10), Output(5, "maximum")), (False, True),
)  # fmt: skip


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[None]:
    """Nothing compiled yet, nothing warned of yet."""
    build._cache.clear()
    compiled.compile.cache_clear()
    compiled._causes.clear()
    with config(cache_dir=tmp_path):
        yield
    build._cache.clear()
    compiled.compile.cache_clear()
    compiled._causes.clear()


def arrays() -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(33, 70)), rng.normal(size=70)]


def test_every_level_gives_the_same_bits() -> None:
    results = [call(MIXED, (33, 70), arrays(), [1.5], width=width) for width in alike(None)]
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert same_bits(a, b)


@pytest.mark.skipif(not X86, reason="levels are x86's")
@pytest.mark.parametrize(("width", "has", "lacks"), [
    (64, "zmm", "none of these"), (32, "ymm", "zmm"), (16, "xmm", "ymm"), (0, "xmm", "ymm"),
])  # fmt: skip
def test_a_level_uses_its_own_instructions(width: int, has: str, lacks: str) -> None:
    if cpu.host_machine().vector_bytes < width:
        pytest.skip("this machine cannot run them")
    text = llvm.listing(MIXED, (33, 70), vector_bytes=width).assembly
    assert has in text and lacks not in text
    assert ("vfmadd" in text) == (width >= 32)  # before AVX2 the C library multiplies and adds


def test_levels_are_llvms() -> None:
    assert (cpu.level(64).masked, cpu.level(32).masked) == (True, False)
    assert cpu.host_machine().cpu == "" and cpu.host_machine().vector_bytes in (16, 32, 64)


@pytest.mark.parametrize(("text", "features"), [
    ("processor\t: 0\nmodel\t: 85\nflags\t: fpu avx2\n\nprocessor\t: 1\nflags\t: none\n", {"fpu", "avx2"}),
    ("processor : 0\nFeatures : fp asimd\nCPU part : 0xd0c\n", {"fp", "asimd"}),
    ("", set()),
])  # fmt: skip
def test_reading_what_a_cpu_has(text: str, features: set[str]) -> None:
    assert cpu.described(text)[1] == features


def test_the_system_and_llvm_agree() -> None:
    if X86 and cpu.CPUINFO.exists():
        assert cpu.AVX512.issubset(cpu.host()[1]) == cpu.AVX512.issubset(compiler.host()[1])
        assert ("avx2" in cpu.host()[1]) == ("avx2" in compiler.host()[1])


def test_where_the_system_is_silent_llvm_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cpu, "CPUINFO", tmp_path / "nothing")
    assert cpu.host.__wrapped__() == compiler.host()


NEON = VectorUnit(16, masked=False, registers=32, follows=True, by_lane=True)


@pytest.mark.parametrize("form", ["map", "rows", "columns"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint32", "bool"])
def test_neon_is_selected(form: str, dtype: str) -> None:
    """Not run here: LLVM must find instructions for all of it."""
    body = (Instr("maximum", (0, 1), dtype), Instr("exp" if dtype.startswith("f") else "absolute", (2,), dtype))
    outputs = (Output(3),) if form == "map" else (Output(3, "maximum"), Output(2))
    reduced = {"map": (False, False), "rows": (False, True), "columns": (True, False)}[form]
    kernel = Kernel((dtype, dtype), (), body, outputs, reduced)
    for classes in (("unit",) * 4, ("strided", "zero", "unit", "unit")):
        spec = Spec(form, 2, classes[: 2 + len(outputs)], NEON)
        text = compiler.assembly(forms.build(kernel, spec, "kernel").module(), "generic", "aarch64-unknown-linux-gnu")
        assert "kernel:" in text
    wide = compiler.assembly(
        combine.build(Reducer("maximum", dtype), 4, "kernel").module(), "generic", "aarch64-unknown-linux-gnu"
    )
    assert "v0." in wide or "v1." in wide or "q0" in wide


def test_listing() -> None:
    plain = llvm.listing(one_op("add", (F, F), F), (1000,))
    assert "define void @kernel" in plain.ir and "fadd" in plain.ir and "kernel:" in plain.assembly
    x = np.ones((50, 60))
    strided = llvm.listing(one_op("add", (F, F), F, 2), (50, 30), [x[:, ::2], x[:, ::2]], [np.empty((50, 30))])
    assert "gather" in strided.ir and "gather" not in plain.ir
    assert "ptr %objs" in llvm.listing(MIXED, (33, 70)).ir


# Linkers


def test_llvms_linker_runs_the_same_code(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    """What our linker does not know goes to LLVM's."""
    want = call(MIXED, (33, 70), arrays(), [1.5])
    build._cache.clear()
    compiled.compile.cache_clear()

    def refuses(code: bytes, name: str) -> tuple[int, object]:
        raise relocation.Unknown("anything")

    monkeypatch.setattr(linker, "linked", refuses)
    for _ in range(2):
        for a, b in zip(want, call(MIXED, (33, 70), arrays(), [1.5]), strict=True):
            assert same_bits(a, b)
        build._cache.clear()
        compiled.compile.cache_clear()


@pytest.mark.skipif(relocation.RULES is None, reason="our linker does not know this CPU")
@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("@state = global i64 7\n", "data that is written"),
        ("@other = external global i64\ndefine ptr @address() { ret ptr @other }\n", "the function other"),
        ("declare void @missing_function()\ndefine void @f() { call void @missing_function() ret void }\n", "missing"),
    ],
)
def test_our_linker_refuses_what_it_does_not_know(more: str, why: str) -> None:
    function = Function("kernel", "ptr %a, ptr %b")
    function.declares.add(more)
    with pytest.raises(relocation.Unknown, match=why):
        linker.linked(compiler.object_code(function.module()), "kernel")


@pytest.mark.skipif(relocation.RULES is None, reason="our linker does not know this CPU")
def test_our_linker_knows_tables_of_addresses() -> None:
    function = Function("kernel", "ptr %a, ptr %b")
    function.declares.add(
        "@numbers = internal constant [3 x i64] [i64 5, i64 6, i64 7]\n"
        "declare double @cos(double)\n"
        "define double @entry(i64 %i) {\n"
        "  %p = getelementptr [3 x i64], ptr @numbers, i64 0, i64 %i\n  %n = load i64, ptr %p\n"
        "  %x = sitofp i64 %n to double\n  %c = call double @cos(double %x)\n  ret double %c\n}\n"
    )
    address, owner = linker.linked(compiler.object_code(function.module()), "entry")
    call_it = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(address)
    assert [call_it(i) for i in range(3)] == [float(np.cos(v)) for v in (5.0, 6.0, 7.0)]
    del owner


@pytest.mark.parametrize("code", [b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(200), bytes(64), b"x" * 5000])
def test_our_linker_refuses_noise(code: bytes) -> None:
    with pytest.raises(relocation.Unknown):
        linker.linked(code, "kernel")


# Failures


def answers(says: str) -> None:
    """Kernels give NumPy's answer, with one warning in all."""
    x = np.linspace(0.1, 2, 1000).reshape(20, 50)
    with pytest.warns(PerformanceWarning, match=says) as told:
        for _ in range(2):
            assert same_bits(call(one_op("exp", (F,), F, 2), x.shape, [x])[0], np.exp(x))
            assert same_bits(call(reduction("maximum", F, (True, False)), x.shape, [x])[0], x.max(0))
            np.testing.assert_allclose(call(reduction("add", F, (False, True)), x.shape, [x])[0], x.sum(1), rtol=1e-14)
    assert len(told) == 1, [str(t.message) for t in told]


def test_an_error_of_llvm(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    def fails(*arguments: Any) -> bytes:
        raise RuntimeError("LLVM gave up")

    monkeypatch.setattr(compiler, "object_code", fails)
    answers("could not be compiled: RuntimeError: LLVM gave up")


def test_wrong_ir_is_not_run(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    """The verifier sees a value used where it is not defined; LLVM would compile it."""

    def wrong(self: Function) -> str:
        return (
            self.head + " {\nentry:\n  br i1 true, label %a, label %b\na:\n  %x = add i64 1, 2\n  br label %b\n"
            "b:\n  %y = add i64 %x, 1\n  ret void\n}"
        )

    monkeypatch.setattr(Function, "text", wrong)
    answers("Instruction does not dominate all uses")


def test_ir_that_does_not_parse(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    monkeypatch.setattr(Function, "text", lambda self: "define nonsense")
    answers("could not be compiled: RuntimeError: LLVM IR parsing error")


def test_an_emitter_that_fails(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    def fails(*arguments: Any) -> Function:
        raise KeyError("no such rule")

    monkeypatch.setattr(forms, "build", fails)
    answers("could not be compiled: KeyError: 'no such rule'")


@pytest.mark.parametrize("error", [ImportError("no module named llvmlite"), OSError("libllvmlite.so: wrong ELF class")])
def test_llvmlite_missing_or_broken(error: Exception, monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.startswith("llvmlite"):
            raise error
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "tilewise.backend.llvm.compile.compiler")
    monkeypatch.setattr(builtins, "__import__", without)
    answers(str(error))


def test_a_process_without_llvmlite(tmp_path: Path) -> None:
    (tmp_path / "llvmlite").mkdir()
    (tmp_path / "llvmlite" / "__init__.py").write_text("raise ImportError('llvmlite is not there')")
    program = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
import numpy as np, tilewise as tw
tw.config(eager_bytes=0, cache_dir=sys.argv[1] + "/cache")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    x = tw.asarray(np.arange(5000.0))
    assert float((x * 2 + 1).sum()) == 25_000_000.0
    assert (np.asarray(x * 3) == np.arange(5000.0) * 3).all()
(only,) = told
print(only.message)
"""
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False)
    assert "llvmlite is not there" in done.stdout, done.stderr


def test_one_failure_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch, fresh: None) -> None:
    real = compiler.object_code

    def sometimes(module: str, *rest: Any) -> bytes:
        if "fsub" in module:
            raise RuntimeError("not this one")
        return real(module, *rest)

    monkeypatch.setattr(compiler, "object_code", sometimes)
    x, y = np.random.default_rng(0).normal(size=(2, 1000))
    with pytest.warns(PerformanceWarning, match="not this one"):
        assert same_bits(call(one_op("subtract", (F, F), F), (1000,), [x, y])[0], x - y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        before = build.compiled_count()
        assert same_bits(call(one_op("add", (F, F), F), (1000,), [x, y])[0], x + y)
        assert build.compiled_count() == before + 1
        assert same_bits(call(one_op("subtract", (F, F), F), (1000,), [x, y])[0], x - y)


def test_every_row_compiles_for_the_least_cpu() -> None:
    """Each operation on each dtype runs without the instructions of later CPUs."""
    for fn, ins, out in sorted(native._SUPPORTED)[::7]:
        kernel = one_op(fn, ins, out)
        args = [np.ones(5, t) for t in ins]
        (got,) = call(kernel, (5,), args, width=16)
        want = np.empty(5, out)
        interpret.run(kernel, (5,), args, (), [want])
        np.testing.assert_allclose(got, want, rtol=1e-6)


def distances(X, Y):
    out = np.zeros((len(X), len(Y)))
    for i in range(len(X)):
        for j in range(len(Y)):
            s = 0.0
            for k in range(X.shape[1]):
                d = X[i, k] - Y[j, k]
                s += d * d
            out[i, j] = np.sqrt(s)
    return out


def test_loops_gather_nothing() -> None:
    """Sums that are done side by side are vectors of elements that are loaded one by one."""
    program = program_of(distances, np.ones((5, 3)), np.ones((6, 3)))
    made = build.optimised(emitted(program, build.ENTRY))
    assert "masked.gather" not in made or not X86
