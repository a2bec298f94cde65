"""Warnings of floats name the user's line, once per line, as NumPy's do; errors come with one traceback."""

from __future__ import annotations

import subprocess
import sys
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.fuzz.settings import Fault, faults

PROGRAM = """
import {module} as np
x = np.array([1.0, 0.0])
y = x / 0.0
z = np.log(x - 1)
w = np.sqrt(-x)
for k in range(3):
    q = x / 0
np.array([1e308]) * 10
np.array([200], "u1").astype("f2") * np.float16(60000)
np.divide(x, 0.0)
x /= 0.0
c = np.array([1.0, 2j, 3.0])
c.astype(float)
c.astype(bool)
x[:] = c[1:]
np.array(c, dtype="f4")
np.asarray(c, dtype=int)
np.array([c, c]).astype("i2")
np.zeros(3).std() / np.zeros(3).sum()
"""


def said(module: str, path: Path) -> list[str]:
    path.write_text(PROGRAM.format(module=module))
    run = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
    return run.stderr.splitlines()


def test_a_program_warns_as_it_does_with_numpy(tmp_path: Path) -> None:
    ours, numpys = said("tilewise", tmp_path / "program.py"), said("numpy", tmp_path / "program.py")
    assert ours == numpys and len(numpys) > 12


def lines(run: Any) -> list[tuple[str, int, str]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run()
    return [(w.filename, w.lineno, str(w.message)) for w in seen]


def test_recorded_warnings_have_the_line() -> None:
    def program(np: Any) -> None:
        x = np.asarray([1.0, 0.0, -1.0])
        x / 0.0
        np.log(x)
        np.sqrt(x).sum()

    ours = lines(lambda: program(tw))
    assert ours == lines(lambda: program(np)) and {f for f, _, _ in ours} == {__file__}


def test_numpys_own_work_warns_as_ever() -> None:
    def program() -> None:
        np.array([1.0]) / 0.0
        np.mean(np.array([]))

    found = lines(program)
    assert found[0][0] == __file__ and found[0][2] == "divide by zero encountered in divide"
    assert any("numpy" in f for f, _, _ in found), "a warning inside of NumPy is NumPy's"


def test_states_look_as_numpys() -> None:
    assert tw.geterr() == {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
    assert tw.geterrcall() is None
    x = tw.array([1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tw.errstate(divide="ignore"):
            x / 0.0
        with np.errstate(divide="ignore"):
            x / 0.0
        with tw.errstate(divide="raise"), pytest.raises(FloatingPointError):
            x / 0.0
        with tw.errstate(divide="warn"), pytest.raises(RuntimeWarning):
            x / 0.0
        before = tw.seterr(divide="ignore")
        x / 0.0
        assert tw.seterr(**before)["divide"] == "ignore" and tw.geterr() == before
        with pytest.raises(RuntimeWarning, match="divide by zero encountered in divide"):
            x / 0.0


def test_a_call_of_the_users_is_kept() -> None:
    heard: list[str] = []
    with tw.errstate(all="call", call=lambda kind, flag: heard.append(kind)):
        tw.array([1.0]) / 0.0
    assert heard == ["divide by zero"]


def test_threads_warn_too() -> None:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(lines(lambda: tw.array([1.0]) / 0.0)))
    thread.start()
    thread.join()
    assert [text for _, _, text in found] == ["divide by zero encountered in divide"]


def test_one_traceback() -> None:
    with pytest.raises(np.linalg.LinAlgError) as caught:
        tw.linalg.inv(tw.zeros((2, 2)))
    assert caught.value.__context__ is None and caught.value.__cause__ is None
    assert "During handling" not in "".join(traceback.format_exception(caught.value))


OBJECTS = """
import warnings
import {module} as np
warnings.simplefilter("always")


class Log:
    def write(self, text):
        print("told", text.strip())


def call(kind, flag):
    print("called", kind)


def divided():
    try:
        np.array([1.0]) / 0.0
        np.array([0.0]) / 0.0
        np.array([1e308]) * 10
    except (NameError, FloatingPointError) as error:
        print(type(error).__name__)


for ways in ({{"call": call}}, {{"invalid": "call", "call": call}}, {{"divide": "log", "call": Log()}},
             {{"divide": "log"}}, {{"all": "call", "call": call}}, {{"all": "warn"}},
             {{"all": "raise", "over": "ignore"}}):
    with np.errstate(**ways):
        divided()
    divided()
before = np.seterrcall(call)
print(before, np.seterr(divide="call"))
divided()
print(np.seterrcall(before) is call, np.seterr(divide="warn"))
divided()
print(np.geterrcall(), np.geterr(), np.seterr("ignore"))
divided()
"""


def test_objects_that_are_told_are_told_as_by_numpy(tmp_path: Path) -> None:
    found = []
    for module in ("numpy", "tilewise"):
        (tmp_path / "program.py").write_text(OBJECTS.format(module=module))
        run = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=True)
        warned = [line.rpartition(": ")[2] for line in run.stderr.splitlines() if "Warning" in line]
        found.append((run.stdout, warned))
    assert found[0] == found[1] and len(found[0][1]) > 10


def moments_of_little(xp: Any, x: Any) -> None:
    """Each line of it warns with NumPy."""
    none, row = x > 100, x[:, 0]
    np.asarray(x[none].mean())
    np.asarray(x[none].var())
    np.asarray(x[none].std() * 2 > 1)  # nobody has the standard deviation itself
    np.asarray(x[row > 100].mean(0, keepdims=True))
    np.asarray(x[row > 100].var(0, ddof=1))
    np.asarray(x[row > 19].var(0, ddof=1))
    np.asarray(xp.mean(x[none]) + xp.std(x[none]))
    np.asarray(x.astype("i4")[none].mean())
    np.asarray(x[:0].mean())
    np.asarray(x[:1].std(0, ddof=2))
    np.asarray(xp.nanmean(x[:, :0]))


@pytest.mark.parametrize("settings", [{}, {"eager_bytes": 0}, {"eager_bytes": 0, "backend": "reference"}], ids=str)
def test_means_of_empty_selections_warn_at_their_line(settings: dict[str, Any]) -> None:
    a = np.arange(24.0).reshape(6, 4)
    wanted = lines(lambda: moments_of_little(np, a))
    with tw.config(**settings):
        ours = lines(lambda: moments_of_little(tw, tw.asarray(a)))
    slices = [(line, text) for file, line, text in ours if "slice" in text and file == __file__]
    first = moments_of_little.__code__.co_firstlineno
    assert sorted({line - first for line, _ in slices}) == list(range(3, 14))
    assert sorted(text for _, text in slices) == sorted(text for *_, text in wanted if "slice" in text)
    divided = [(line, text) for file, line, text in ours if "encountered" in text and file == __file__]
    assert {line - first for line, _ in divided} >= {3, 4, 5, 6, 7, 9, 10}  # of no elements at all
    assert {text for _, text in divided} == {text for *_, text in wanted if "encountered" in text}


def test_means_of_selections_that_are_not_empty_do_not_warn() -> None:
    a = np.arange(24.0).reshape(6, 4)
    with tw.config(eager_bytes=0), warnings.catch_warnings():
        warnings.simplefilter("error")
        x = tw.asarray(a)
        assert float(x[x > 22].mean()) == 23 and float(x[x > 21].var(ddof=1)) == 0.5
        dropped = x[x > 100].mean()
        del dropped
        np.asarray(x[x > 22] - 1)
        with tw.errstate(invalid="ignore"), pytest.warns(RuntimeWarning, match="Mean of empty slice") as told:
            warnings.simplefilter("always")
            np.asarray(x[x > 100].mean())
        assert len(told) == 1


def test_means_of_nothing_warn_when_they_are_made_after_a_failure() -> None:
    with tw.config(eager_bytes=0, native=False):
        x = tw.asarray(np.arange(24.0))
        mean = x[x > 100].mean()
        with pytest.raises(Fault), faults(1):
            float(mean)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert np.isnan(float(mean))
        assert [str(w.message) for w in told][:1] == ["Mean of empty slice"]


ONCE = """
import warnings
import numpy
import {module} as np

shown = []
def show(text, kind, file, line, *more):
    shown.append((line, str(text)) if file == __file__ else file)
warnings.showwarning = show
x, y = np.asarray(numpy.full((3, 4), numpy.nan)), np.asarray(numpy.array([1.0, 2.0]))
for _ in range(3):
    y / 0
    np.nanmean(x)
    np.nanvar(x, axis=0)
    y.mean(where=y > 5)
    np.nanmax(x)
    np.nanmedian(x)
    np.cov(y[:1])
    y.var(ddof=2.5)
    np.median(y[:0])
    with np.errstate(invalid="raise"):
        try:
            y[:0].mean()
        except FloatingPointError:
            pass
for line in shown:
    print(line)
"""


def test_lines_that_run_again_warn_once(tmp_path: Path) -> None:
    found = []
    for module in ("numpy", "tilewise"):
        (tmp_path / "program.py").write_text(ONCE.format(module=module))
        run = subprocess.run([sys.executable, tmp_path / "program.py"], capture_output=True, text=True, check=True)
        found.append(run.stdout.splitlines())
    assert {line for line in found[0] if line.startswith("(")} <= set(found[1])  # NumPy names files of its own, too
    assert all(line.startswith("(") for line in found[1]) and len(set(found[1])) == len(found[1])
