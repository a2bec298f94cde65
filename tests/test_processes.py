"""Which tests share a process under `-n`: the cases of a function, and all that start Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def conftest(request: pytest.FixtureRequest) -> Any:
    """The conftest.py of the repository, as pytest has it."""
    (found,) = [p for p in request.config.pluginmanager.get_plugins() if hasattr(p, "scope_of")]
    return found


def test_scopes(conftest: Any) -> None:
    assert conftest.scope_of("tests/engine/test_cluster.py::test_closed_sessions[ray-1]") == "ray"
    assert conftest.scope_of("tests/api/test_tiles.py::test_on_ray") == "ray"
    assert conftest.scope_of("tests/api/test_tiles.py::test_a[2]") == "tests/api/test_tiles.py::test_a"
    assert conftest.scope_of("tilewise/api/calibrate.py::tilewise.api.calibrate") != "ray"


def test_names_are_those_of_tests(conftest: Any) -> None:
    """Those of another file would be grouped with nobody, without a word."""
    for name in conftest.RAY:
        path, _, function = name.partition("::")
        assert (ROOT / path).exists()
        assert not function or f"def {function}(" in (ROOT / path).read_text()


def test_all_that_start_ray_are_named(conftest: Any) -> None:
    starts = {str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob("test_*.py") if 'engine="ray"' in p.read_text()}
    starts |= {str(p.relative_to(ROOT)) for p in (ROOT / "tests").rglob("test_*.py") if '("ray", ' in p.read_text()}
    assert starts - {"tests/test_processes.py"} <= {name.partition("::")[0] for name in conftest.RAY}
