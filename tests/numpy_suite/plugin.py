"""What pytest needs to run copies of NumPy's tests. In: the environment. Out: a line of JSON for each test."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

import tilewise

TARGET = Path(os.environ.get("NUMPY_SUITE_OUTCOMES", os.devnull))  # a line for each test
LONGEST_S = int(os.environ.get("NUMPY_SUITE_LONGEST", "120"))  # seconds that a test may take


def pytest_configure() -> None:
    """Random examples without limits of time: the first of them compiles kernels."""
    hypothesis.settings.register_profile("numpy_suite", deadline=None, derandomize=True)
    hypothesis.settings.load_profile("numpy_suite")


@pytest.fixture(autouse=True)
def _recording() -> Iterator[None]:
    native = os.environ["NUMPY_SUITE_NATIVE"] == "1"
    with tilewise.config(eager_bytes=int(os.environ["NUMPY_SUITE_EAGER"]), fallback="silent", native=native):
        yield


def _too_long(*_: Any) -> None:
    raise TimeoutError(f"longer than {LONGEST_S} seconds")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """End tests that take too long."""
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)


def _tell(report: Any, outcome: str) -> None:
    line = [report.nodeid.rpartition("/")[2], outcome, str(report.longrepr)[-3000:] if outcome == "failed" else ""]
    with TARGET.open("a") as file:
        file.write(json.dumps(line) + "\n")


def pytest_runtest_logreport(report: Any) -> None:
    """What became of a test, and its last words."""
    if report.failed or report.skipped or report.when == "call":
        _tell(report, report.outcome)


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be read is one failure."""
    if report.failed:
        _tell(report, "failed")
