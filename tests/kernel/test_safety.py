"""Generated code touches its operands and nothing else; what is random or may crash runs in a child process."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

from tests.effort import SOME_OR_ALL
from tests.kernel import fuzz_kernels
from tests.kernel.guards import guarded

SAMPLE = 40


def child(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.kernel.guarded_forms", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("whole", SOME_OR_ALL)
def test_every_form_stays_between_guard_pages(whole: bool) -> None:
    done = child() if whole else child("--some")
    last = done.stdout.splitlines()[-1:]
    assert last == ["through"], f"{last} ended with {done.returncode}\n{done.stderr[-3000:]}"


def test_guards_stop_code_that_runs_too_far() -> None:
    assert child("--overrun").returncode == -signal.SIGSEGV


def test_random_kernels() -> None:
    reports = fuzz_kernels.outside(0, SAMPLE)
    assert not reports, "\n".join(reports)


def test_the_fuzzer_reports_a_crash_and_goes_on() -> None:
    """A child that dies is not the end of the run, and its kernel is named."""
    wrong = fuzz_kernels.describe(fuzz_kernels.make(3))
    assert "case 3:" in wrong and "out %" in wrong
    code = "import os, signal; print(3, flush=True); os.kill(os.getpid(), signal.SIGSEGV)"
    first = [sys.executable, "-c", code]
    runs = iter([first, [sys.executable, "-c", "print(4); print('through')"]])
    real = subprocess.run

    def fake(command: list[str], **options: bool) -> subprocess.CompletedProcess[str]:
        return real(next(runs), **options)  # type: ignore[call-overload, no-any-return]

    subprocess.run = fake  # type: ignore[assignment]
    try:
        (report,) = fuzz_kernels.outside(3, 2)
    finally:
        subprocess.run = real
    assert wrong in report and f"ended with {-signal.SIGSEGV}" in report


def test_where_guarded_arrays_lie() -> None:
    for strides in ((80, 8), (8, 24), (-80, 8), (-160, -16)):
        for side in ("left", "right"):
            array = guarded((3, 10), "float64", strides, side)
            array[...] = np.arange(30).reshape(3, 10)
            assert array.strides == strides and (array == np.arange(30).reshape(3, 10)).all()
