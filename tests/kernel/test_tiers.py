"""Quick code first, good code later: the same bytes whichever runs, and whenever one takes the place of the other."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import compiler as plans
from tilewise.backend.llvm.call import compiled, parallel_for
from tilewise.backend.llvm.compile import build, compiler, helper, linker, server
from tilewise.backend.llvm.compile.relocation import RULES
from tilewise.backend.llvm.compile.switch import CELL, Switch

pytestmark = pytest.mark.skipif(RULES is None, reason="our linker does not know this CPU")
N = 3001


def inputs() -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, 7))
    x[5, 2], x[6, 3], x[7, 1], x[8, 0] = np.nan, np.inf, -np.inf, -0.0
    return x, np.abs(x.astype(np.float32)) + np.float32(0.1), rng.integers(-100, 100, (N, 7), dtype=np.int16)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "map": lambda np, x, f, i: np.exp(-x * x) * 2 + np.sin(f) - i,
    "sums": lambda np, x, f, i: (x * 3 + 1).sum(axis=1),
    "one sum": lambda np, x, f, i: (f * f).sum(),
    "columns": lambda np, x, f, i: f.std(axis=0),
    "standardise": lambda np, x, f, i: (f - f.mean(axis=0)) / f.std(axis=0),
    "softmax": lambda np, x, f, i: (
        np.exp(f - f.max(axis=1, keepdims=True)) / np.exp(f - f.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
    ),
    "products": lambda np, x, f, i: f.T @ np.tanh(f @ np.ones(7, np.float32)),
    "integers": lambda np, x, f, i: np.where(i > 3, i // 7, i % 5) ** 2,
    "extremes": lambda np, x, f, i: (x + 1).argmax(axis=1),
    "scan": lambda np, x, f, i: np.cumsum(x[:, 4] * 0.5),
    "complex": lambda np, x, f, i: (x[:, 4:] + 1j * f[:, 4:]) * (2 - 3j),
    "shifted": lambda np, x, f, i: x[1:-1] * 2 - x[:-2] - x[2:],
}
SIGNS: dict[str, Callable[..., Any]] = {  # of NaNs: good code turns some, and quick code none
    "negative": lambda np, x, f, i: -x[:, 2] + i[:, 2],
    "negative float32": lambda np, x, f, i: -f[:, 2] + i[:, 2].astype(np.float32),
    "product": lambda np, x, f, i: x[:, 2] * -1.0 + i[:, 2],
    "quotient": lambda np, x, f, i: x[:, 2] / -1.0 + i[:, 2],
    "conjugate": lambda np, x, f, i: np.conj(x[:, 2] + 1j * x[:, 2]) + i[:, 2] * 1j,
    "map": PROGRAMS["map"],
}


@pytest.fixture
def later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, no_plans: None, request: pytest.FixtureRequest
) -> Iterator[list[Callable[[], None]]]:
    """Quick code in this process, and a call for each kernel that brings its good code."""
    waiting: list[Callable[[], None]] = []
    firsts: list[int] = []

    def quick(module: str, cpu: str, folder: Path, name: str, arrived: helper.Arrived, first: int) -> bytes:
        firsts.append(first)
        waiting.append(lambda: arrived(compiler.object_code(module, cpu)))
        return compiler.object_code(module, cpu, level=compiler.QUICK if first == server.QUICKLY else compiler.GOOD)

    def forget() -> None:
        build._cache.clear()
        compiled.compile.cache_clear()
        plans.forget_plans()

    monkeypatch.setattr(helper, "compiled", quick)
    forget()
    with tw.config(wait_for_native=False, cache_dir=tmp_path, eager_bytes=0, tune=False):
        yield waiting
    signs = request.node.callspec.params.get("program") in SIGNS if hasattr(request.node, "callspec") else False
    assert signs or set(firsts) <= {server.QUICKLY}, "there is little to do"
    forget()


def result(program: str) -> bytes:
    found: bytes = np.asarray({**PROGRAMS, **SIGNS}[program](tw, *map(tw.asarray, inputs()))).tobytes()
    return found


@pytest.mark.parametrize("program", {**PROGRAMS, **SIGNS})
def test_the_same_bytes_with_any_code(program: str, later: list[Callable[[], None]]) -> None:
    chance = random.Random(program)
    with np.errstate(all="ignore"):
        first = result(program)
        assert later, "nothing was compiled"
        waiting = chance.sample(later, len(later))
        seen = [result(program)]
        while waiting:
            for _ in range(chance.randint(1, 2)):
                if waiting:
                    waiting.pop()()
            seen.append(result(program))
        again = len(later)
    assert set(seen) == {first}
    assert len(later) == again, "compiled once"


def test_quick_code_is_other_code(later: list[Callable[[], None]]) -> None:
    levels = []
    real = compiler.object_code
    text = "define i64 @kernel(i64 %x) {\n %y = mul i64 %x, 24\n %z = add i64 %y, 0\n ret i64 %z\n}"
    for level in (compiler.QUICK, compiler.GOOD):
        levels.append(real(text, level=level))
    assert levels[0] != levels[1]


def test_codes_to_begin_with() -> None:
    if not helper.usable():
        pytest.skip("no process to compile in")
    text = parallel_for.build("kernel").module()
    arrived = threading.Event()
    found: list[bytes] = []

    def keep(code: bytes) -> None:
        found.append(code)
        arrived.set()

    try:
        with build.lock:
            wanted = (server.QUICKLY, server.NEARLY_GOOD, server.NOTHING)
            *codes, nothing = [
                helper.compiled(text, "", Path("."), "", keep if first == server.NOTHING else lambda code: None, first)
                for first in wanted
            ]
        quick, near = codes
        assert arrived.wait(60) and not nothing
        assert quick == compiler.object_code(text, level=compiler.QUICK)
        assert found == [compiler.object_code(text)] and near not in (quick, found[0])
    finally:
        helper.stop()


def test_switches_lead_to_the_latest_code() -> None:
    def code(value: int) -> tuple[int, object]:
        text = f"define i64 @kernel() {{\n ret i64 {value}\n}}"
        return linker.linked(compiler.object_code(text), "kernel")

    call = ctypes.CFUNCTYPE(ctypes.c_int64)
    made = [code(value) for value in range(3)]
    switches = [Switch(*made[k % 3]) for k in range(2 * 4096 // CELL + 1)]  # more than one page has
    assert [call(s.address)() for s in switches] == [k % 3 for k in range(len(switches))]
    switches[5].lead(*code(77))
    assert [call(s.address)() for s in switches[4:7]] == [1, 77, 0]


PROGRAM = """
import sys, time, os, warnings
warnings.simplefilter("error")
import numpy
import tilewise as np
from tilewise.backend.llvm.compile import helper
if "SERVE" in os.environ:
    helper.SERVE = os.environ["SERVE"]
    helper.stop()  # the process that started with the package
x = np.linspace(0.0, 1.0, 400_000)
y = numpy.asarray(np.exp(x) * 2 + 1)
assert numpy.allclose(y, numpy.exp(numpy.linspace(0.0, 1.0, 400_000)) * 2 + 1)
print("llvmlite.binding" in sys.modules, helper._server is not None, hash(y.tobytes()) if len(sys.argv) < 2 else "")
if len(sys.argv) > 1:
    exec(sys.argv[1])
"""


def run(folder: Path, *more: str, **variables: str) -> list[str]:
    environment = {**os.environ, "TILEWISE_CACHE_DIR": str(folder), "PYTHONHASHSEED": "0", **variables}
    environment.pop("TILEWISE_WAIT_FOR_NATIVE", None)
    command = [sys.executable, "-c", PROGRAM, *more]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


WAIT = """
z = numpy.asarray(np.log1p(x) - 3)
time.sleep(0.1)
z = numpy.asarray(np.sqrt(x) * np.sin(x))
assert helper._server._count > 3, "one process for all"
while helper._server._waiting:
    time.sleep(0.01)
again = numpy.asarray(np.exp(x) * 2 + 1)
assert again.tobytes() == y.tobytes()
assert os.listdir(os.environ["TILEWISE_CACHE_DIR"] + "/code")
"""


def test_another_process_compiles(tmp_path: Path) -> None:
    assert run(tmp_path, WAIT)[:2] == ["False", "True"]
    assert run(tmp_path)[:2] == ["False", "False"]  # all code is on disk


BUSY = """
from dataclasses import replace
from tilewise import tuning
from tilewise.backend.llvm.compile import server
asked, real = [], helper.compiled
helper.compiled = lambda *given: (asked.append(given[-1]), real(*given))[1]
m = np.asarray(numpy.random.default_rng(1).normal(size=(20_000, 30)))
def found():
    return [numpy.asarray(r).tobytes() for r in (m.T @ m, (m @ m[:40].T).argmin(axis=1), m.T @ m[:, :3])]
seen = []
for least in (0.0, 1e18):
    with tuning.using(replace(tuning.tuned(), nearly_good_at_ns=least)):
        build._cache.clear()
        with np.config(cache_dir=f"{os.environ['TILEWISE_CACHE_DIR']}/{least}"):
            seen.append(found())
        assert (server.NEARLY_GOOD in asked) == (least == 0.0), asked
        asked.clear()
with tuning.using(tuning.tuned()), np.config(wait_for_native=True):
    build._cache.clear()
    seen.append(found())
assert not asked and seen[0] == seen[1] == seen[2]
"""


def test_work_in_registers_begins_with_better_code_and_the_same_bytes(tmp_path: Path) -> None:
    assert run(tmp_path, "from tilewise.backend.llvm.compile import build\n" + BUSY)[:2] == ["False", "True"]


AHEAD = """
from tilewise import tuning
from tilewise.backend.llvm.compile import build
waited, used, real, given = [], [], helper.compiled, helper.Ticket.compiled
helper.compiled = lambda *a: (waited.append(a), real(*a))[1]
helper.Ticket.compiled = lambda self, arrived: (used.append(self), given(self, arrived))[1]
a = np.asarray(numpy.random.default_rng(1).normal(size=(300, 2000)))
def found():
    rows = np.cumsum((a - a.mean(axis=0)) / a.std(axis=0), axis=1)
    several = np.sort(rows, axis=0)[::2] * 2.0 + 1.0, rows.argmax(axis=1), (a.T * 3).sum()
    return [numpy.asarray(r).tobytes() for r in np.compute(*several)]
first = found()
assert len(used) >= 3 and len(waited) < len(used), (len(used), len(waited))
assert not build._asked, "all of it was wanted"
waited.clear(), used.clear()
picked = a[np.sqrt(a * a + 1.0) < 1.5]  # a length that nobody knows
assert numpy.isfinite(numpy.asarray(np.exp(picked) * 0.5 + np.log1p(picked * picked))).all()
most = max((len(module) for module, *_ in waited), default=0)
assert len(used) >= 2 and most < 8000 and not build._asked, (len(used), most)
build._cache.clear()
helper.stop()
used.clear()
with tuning.using(tuning.tuned()), np.config(wait_for_native=True):
    assert found() == first and not used
"""


def test_code_of_a_whole_plan_is_asked_for_at_once(tmp_path: Path) -> None:
    assert run(tmp_path, AHEAD)[:2] == ["False", "True"]


LOST = """
reads, writes = os.pipe()
os.dup2(reads, helper._server._answers), os.close(writes)  # as if the process had ended
z = numpy.asarray(np.log1p(x) - 3)
assert numpy.allclose(z, numpy.log1p(numpy.linspace(0.0, 1.0, 400_000)) - 3)
"""


def test_a_process_that_ended_is_started_again(tmp_path: Path) -> None:
    assert run(tmp_path, LOST)[:2] == ["False", "True"]


def test_a_process_that_cannot_run_is_done_without(tmp_path: Path) -> None:
    assert run(tmp_path, SERVE="raise SystemExit(3)")[:2] == ["True", "False"]


def test_an_interrupt_leaves_no_answer_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "define void @kernel() {\n ret void\n}"
    if not helper.usable():
        pytest.skip("no process to compile in")
    try:
        with build.lock:
            assert helper.compiled(module, "", Path("."), "", lambda code: None)
            with monkeypatch.context() as patched:

                def interrupted(pipe: int, count: int) -> bytes:
                    raise KeyboardInterrupt

                patched.setattr(helper, "_exactly", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    helper.compiled(module, "", Path("."), "", lambda code: None)
            assert helper._server is None
            assert helper.compiled(module, "", Path("."), "", lambda code: None)
    finally:
        helper.stop()


FORKED = """
child = os.fork()
if not child:
    assert helper._server is None
    z = numpy.asarray(np.log1p(x) - 3)
    os._exit(0 if numpy.allclose(z, numpy.log1p(numpy.linspace(0.0, 1.0, 400_000)) - 3) else 3)
assert os.waitpid(child, 0)[1] == 0
assert helper._server is not None
"""


def test_a_forked_child_has_a_process_of_its_own(tmp_path: Path) -> None:
    assert run(tmp_path, FORKED)[:2] == ["False", "True"]


def test_an_error_of_the_compiler_comes_back() -> None:
    if not helper.usable():
        pytest.skip("no processes here")
    try:
        with build.lock, pytest.raises(RuntimeError, match="expected"):
            helper.compiled("this is no IR", "", Path("nowhere"), "", lambda code: None)
        with build.lock:
            assert helper.compiled("define void @kernel() {\n ret void\n}", "", Path("."), "", lambda code: None)
    finally:
        helper.stop()
