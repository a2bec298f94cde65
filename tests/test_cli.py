"""The command line: what it prints, and what it refuses."""

import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tilewise
from tilewise.cli import DEMO_PLACES, main


def test_info(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    names = [line.split()[0] for line in lines if line]
    assert {"python", "numpy", "cores", "memory", "eager_bytes"} <= set(names)


def test_unknown_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["fly"])
    assert "invalid choice: 'fly'" in capsys.readouterr().err


def test_a_missing_demonstration_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tilewise.cli.DEMO_PLACES", (Path("/missing"),))
    assert main(["demo"]) == 1
    assert capsys.readouterr().err.startswith("tilewise: the demonstration is not installed, ")


def test_demo(capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (place for place in DEMO_PLACES if place.exists())
    runpy.run_path(str(path))["main"](300_000)  # Above eager_bytes: planned and compiled.
    assert "All 300,000 prices agree." in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tilewise {tilewise.__version__}\n"


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "tilewise", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"tilewise {tilewise.__version__}\n"


def test_the_version_is_said_once() -> None:
    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"] and "version" not in project["project"]
    assert (Path(__file__).parent.parent / project["tool"]["hatch"]["version"]["path"]).exists()
