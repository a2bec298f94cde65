"""Plans, kernels and exchanges of the programs are what their texts say (README.md beside this file)."""

from __future__ import annotations

import difflib
import shutil
from pathlib import Path

import pytest

from tests.golden.programs import PROGRAMS, Program
from tests.golden.rendering import SETTINGS, golden

TEXTS = Path(__file__).parent / "texts"


def difference(expected: str, found: str) -> str:
    """The lines that differ, as a diff; nothing if none does."""
    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), "golden", "now", lineterm="", n=2)
    return "\n".join(lines)


def check(program: Program, texts: Path, update: bool) -> None:
    """Compare a program with its text, or write the text."""
    found, path = golden(program), texts / f"{program.name}.txt"
    if update:
        path.write_text(found, encoding="utf-8")
    changed = difference(path.read_text(encoding="utf-8") if path.exists() else "", found)
    if changed:
        pytest.fail(f"{program.name} (if it is meant: pytest tests/golden --update-goldens)\n{changed}", pytrace=False)


@pytest.mark.usefixtures("no_plans")
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=list(PROGRAMS))
def test_plan_is_the_golden_one(program: Program, request: pytest.FixtureRequest) -> None:
    check(program, TEXTS, request.config.getoption("--update-goldens"))


def test_every_text_has_a_program(request: pytest.FixtureRequest) -> None:
    left = [path for path in TEXTS.glob("*") if path.name not in {f"{name}.txt" for name in PROGRAMS}]
    if request.config.getoption("--update-goldens"):
        for path in left:
            path.unlink()
    else:
        assert not left


@pytest.mark.usefixtures("no_plans")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("4 workers: ", "4 workers: 1 exchange more, "),
        ("tiled ", "pass "),
        ("out0[i]", "out0[j]"),
        (" bytes; frees", ""),
    ],
)
def test_a_changed_text_fails(tmp_path: Path, old: str, new: str) -> None:
    program = PROGRAMS["logistic_gradient"]
    shutil.copy(TEXTS / f"{program.name}.txt", tmp_path)
    check(program, tmp_path, update=False)
    path = tmp_path / f"{program.name}.txt"
    path.write_text(path.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    with pytest.raises(pytest.fail.Exception, match=r"(?m)^-"):
        check(program, tmp_path, update=False)
    path.unlink()
    with pytest.raises(pytest.fail.Exception, match=r"(?m)^\+"):
        check(program, tmp_path, update=False)


@pytest.mark.usefixtures("no_plans")
def test_a_changed_plan_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "fusion", False)
    with pytest.raises(pytest.fail.Exception, match=r"\+1 worker: 6 steps, 0 passes"):
        check(PROGRAMS["sums_share_a_pass"], TEXTS, update=False)
