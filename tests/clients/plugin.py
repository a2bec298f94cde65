"""A plugin for pytest: test suites of libraries that take arrays by protocol run with ours, beside NumPy's. In: the
environment variable CLIENT_ARRAYS, "numpy" or "tilewise". Out: each test's outcome in the file CLIENT_OUTCOMES.
"""

from __future__ import annotations

import importlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ARRAYS = os.environ.get("CLIENT_ARRAYS", "tilewise")
outcomes: dict[str, list[str]] = {}  # by the test's name: outcome, last line of what failed


def pytest_configure(config: pytest.Config) -> None:
    if ARRAYS == "tilewise":
        import tilewise as tw

        assert Path(tw.__file__).parents[1] == Path(__file__).parents[2], f"{tw.__file__} is of another checkout"
        warnings.filterwarnings("ignore", category=tw.FallbackWarning)
        config.addinivalue_line("filterwarnings", "ignore::tilewise.FallbackWarning")
    try:
        namespaces = importlib.import_module("sklearn.utils._array_api")
    except ImportError:
        return
    namespaces.yield_namespaces = lambda include_numpy_namespaces=True: iter([ARRAYS])  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """SciPy's fixture `xp`, and array-api-extra's `library`, have one value, the library that is tried."""
    if "library" in metafunc.fixturenames:
        for fixture in metafunc._arg2fixturedefs.get("library", ()):
            chosen: Any = fixture
            chosen.params, chosen.ids = (_known_to_extra(),), ("arrays",)
        return
    if "xp" in metafunc.fixturenames:
        for fixture in metafunc._arg2fixturedefs.get("xp", ()):  # what pytest has no public name for
            if fixture.params is not None:
                replaced: Any = fixture
                replaced.params, replaced.ids = (importlib.import_module(ARRAYS),), ("arrays",)
                _known_to_scipy()


def _known_to_extra() -> Any:
    """What stands for NumPy among the libraries that array-api-extra knows: its module is the one that is tried."""
    libraries: Any = importlib.import_module("array_api_extra._lib._backends").Backend
    libraries.modname = property(lambda given: ARRAYS if given is libraries.NUMPY else given.value.split(":")[0])
    return libraries.NUMPY


def _known_to_scipy() -> None:
    """Our numbers are NumPy's scalars where they are known: SciPy's tests take them for arrays of ours."""
    backends = importlib.import_module("scipy.conftest").xp_known_backends
    if ARRAYS in backends:
        return
    backends.add(ARRAYS)
    checks: Any = importlib.import_module("scipy._lib._array_api")
    matching = checks._assert_matching_namespace

    def match(actual: Any, desired: Any, xp: Any) -> None:
        if not isinstance(actual, np.generic) or not isinstance(desired, np.generic):
            matching(*(xp.asarray(x) if isinstance(x, np.generic) else x for x in (actual, desired)), xp)

    checks._assert_matching_namespace = match


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        text = str(report.longrepr).strip().splitlines() if report.failed else []
        cause = next((line for line in reversed(text) if line.startswith("E ")), text[-1] if text else "")
        name = report.nodeid.split("::", 1)[-1].replace(f"[{ARRAYS}", "[arrays")
        outcomes[f"{Path(report.nodeid.split('::', 1)[0]).stem}::{name}"] = [report.outcome, cause]


def pytest_sessionfinish() -> None:
    target = os.environ.get("CLIENT_OUTCOMES")
    if target and outcomes:
        Path(target).write_text(json.dumps(outcomes))
