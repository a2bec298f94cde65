"""Where the user is: the innermost place outside of the package, by the files that code is from."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

import tilewise as tw
from tilewise.array.schedule import sites
from tilewise.array.schedule.sites import NUMPY, PACKAGE, outside, spot


def called_from(*files: str) -> Any:
    """What functions of these files find, each of which calls the next one; the last one asks."""

    def ask() -> Any:
        return spot(0)

    call: Callable[[], Any] = ask
    for file in reversed(files):
        names: dict[str, Any] = {"call": call}
        exec(compile("def f():\n  return call()", file, "exec"), names)
        call = names["f"]
    return call()


def test_the_innermost_place_that_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, ours, numpys = "/home/me/a.py", f"{PACKAGE}a.py", f"{NUMPY}a.py"
    monkeypatch.setitem(sites._ours, __file__, True)  # what asks
    assert called_from(mine, ours, ours).line == (mine, 2)
    assert called_from("/home/me/b.py", mine, ours).line == (mine, 2)
    assert not called_from(mine, ours).inner
    inner = called_from(mine, ours, numpys, ours)
    assert inner.line == (numpys, 2) and inner.inner
    assert [(sites._ours[x], sites._inner[x]) for x in (mine, ours, numpys)] == [
        (False, False),
        (True, True),
        (False, True),
    ]


def test_threads_of_which_all_frames_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Any] = []
    for file in (__file__, threading.__file__):
        for files in (sites._ours, sites._inner):
            monkeypatch.setitem(files, file, True)
    thread = threading.Thread(target=lambda: found.extend((spot(0).line[0], outside(sys._getframe())[0])))
    thread.start()
    thread.join()
    assert found == [threading.__file__] * 2


def test_the_users_line_behind_code_of_numpy() -> None:
    found: list[Any] = []
    names: dict[str, Any] = {"ask": lambda frame: found.append(outside(frame))}
    exec(compile("import sys\ndef f():\n  ask(sys._getframe())", f"{NUMPY}a.py", "exec"), names)
    names["f"]()
    assert found == [(__file__, found[0][1])]


def test_files_do_not_pile_up() -> None:
    files = sites._Files(PACKAGE)
    for k in range(3 * sites.MAX_FILES):
        assert not files[f"<cell {k}>"]
    assert len(files) <= sites.MAX_FILES


def test_files_of_packages_whose_names_begin_alike() -> None:
    for package in (tw, numpy):
        folder = Path(package.__path__[0])
        assert sites._inner[str(folder / "a.py")]
        assert not sites._inner[str(folder.with_name(f"{folder.name}_of_mine") / "a.py")]


def test_a_package_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "tilewise").symlink_to(tw.__path__[0])
    program = """
import warnings
import tilewise as tw
with tw.config(eager_bytes=0):
    print(*tw.mean(tw.arange(4.0))._cell.node.site)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    tw.asarray([1.0, 0.0]) / 0.0
print(*{(w.filename, w.lineno) for w in caught})
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines() == ["<string> 5", "('<string>', 8)"]
