"""What pytest must not collect, where tests keep compiled code, which tests share a process, and golden texts anew.

The package's namespace shows NumPy's docstrings, whose examples are NumPy's. Tests inject faults into the compiler, so
they share a folder of their own, which goes with them. The cases of one function share a process, for they share plans,
code and fixtures; so do all tests that start Ray, and files whose fixtures take long.
"""

import atexit
import os
import shutil
import tempfile
from typing import Any

import pytest

collect_ignore = ["tilewise/__init__.py"]

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have it from the process that started them
    os.environ["TILEWISE_WAIT_FOR_NATIVE"] = "1"  # tests look at code, and leave no process behind
    os.environ["TILEWISE_CACHE_DIR"] = tempfile.mkdtemp(prefix="tilewise-tests-")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # tests start hundreds of processes that load the package
    atexit.register(shutil.rmtree, os.environ["TILEWISE_CACHE_DIR"], ignore_errors=True)


RAY = (
    "tests/engine/test_cluster.py",
    "tests/engine/test_ray_door.py",
    "tests/engine/test_bad_sessions.py",
    "tests/engine/test_nodes.py",
    "tests/api/test_tiles.py::test_on_ray",
    "tests/out_of_core/test_stolen_turns_on_ray.py",
    "tests/parfor/test_on_cluster.py",
    "tests/parfor/test_use_cases.py::test_on_a_cluster",
)


WHOLE = ("tests/test_coverage.py",)


def scope_of(test: str) -> str:
    """What a test shares a process with."""
    if test.startswith(WHOLE):
        return test.split("::")[0]
    return "ray" if test.startswith(RAY) else test.split("[")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Several processes (`-n`): who runs what. (Marks `xdist_group` are lost under pytest 9.)"""
    from xdist.scheduler import LoadScopeScheduling

    class ByFunction(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scope_of(nodeid)

    return ByFunction(config, log)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the texts in tests/golden/texts anew")
