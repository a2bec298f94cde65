"""Where the user is: the innermost place outside of the package, by the files that code is from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tilewise.array.schedule import sites
from tilewise.array.schedule.sites import NUMPY, NUMPYS, OURS, PACKAGE, USERS, outside, spot


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
    monkeypatch.setattr(sites, "_owners", sites._Owners())
    mine, ours, numpys = "/home/me/a.py", f"{PACKAGE}/a.py", f"{NUMPY}/a.py"
    sites._owners[__file__] = OURS  # what asks
    assert called_from(mine, ours, ours).line == (mine, 2)
    assert called_from("/home/me/b.py", mine, ours).line == (mine, 2)
    assert not called_from(mine, ours).inner
    inner = called_from(mine, ours, numpys, ours)
    assert inner.line == (numpys, 2) and inner.inner
    assert [sites._owners[x] for x in (mine, ours, numpys)] == [USERS, OURS, NUMPYS]


def test_the_users_line_behind_code_of_numpy() -> None:
    found: list[Any] = []
    names: dict[str, Any] = {"ask": lambda frame: found.append(outside(frame))}
    exec(compile("import sys\ndef f():\n  ask(sys._getframe())", f"{NUMPY}/a.py", "exec"), names)
    names["f"]()
    assert found == [(__file__, found[0][1])]


def test_files_do_not_pile_up() -> None:
    owners = sites._Owners()
    for k in range(3 * sites.MAX_FILES):
        assert owners[f"<cell {k}>"] == USERS
    assert len(owners) <= sites.MAX_FILES
