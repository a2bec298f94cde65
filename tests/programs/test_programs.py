"""Every program of the collection gives under Tilewise what it gives under NumPy: values, dtypes, arguments."""

import importlib
import importlib.util
import types
from functools import cache
from pathlib import Path

import numpy as np
import pytest


def _runner():
    spec = importlib.util.spec_from_file_location("programs_runner", Path(__file__).with_name("runner.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


runner = _runner()
NAMES = runner.names()
SETTINGS = {"default": {}, "recorded": {"eager_bytes": 0}}
expected = cache(runner.run)


@pytest.fixture(scope="module")
def tilewise():
    return importlib.import_module("tilewise")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("settings", "inside"),
    [
        pytest.param(settings, inside, id=f"{settings}, inputs of {'tilewise' if inside else 'numpy'}", marks=marks)
        for settings, inside, marks in [
            ("default", False, ()), ("recorded", True, ()),
            ("default", True, pytest.mark.soak), ("recorded", False, pytest.mark.soak),
        ]
    ],
)  # fmt: skip
def test_program_agrees_with_numpy(tilewise, name, settings, inside):
    with tilewise.config(fallback="silent", **SETTINGS[settings]):
        got = runner.run(name, tilewise, inside=inside)
    runner.compare(expected(name), got)


@pytest.mark.parametrize("name", NAMES)
def test_program_is_the_same_each_time(name):
    program = runner.load(name)
    assert program.KIND in ("array", "element")
    assert 0 < program.SMALL <= program.MEDIUM
    runner.compare(expected(name), runner.run(name, inside=True))


def test_imports_of_numpy_are_answered_by_the_module(tmp_path, monkeypatch):
    source = "import math\nimport numpy as np\nimport numpy.linalg as la\nfrom numpy.linalg import norm\n"
    (tmp_path / "imports.py").write_text(source)
    monkeypatch.setattr(runner, "COLLECTION", tmp_path)
    module = types.SimpleNamespace(linalg=types.SimpleNamespace(norm="the norm"))
    loaded = runner.load("imports", module)
    assert loaded.np is module
    assert loaded.la is module.linalg
    assert loaded.norm == "the norm"
    assert loaded.math is importlib.import_module("math")


def test_an_argument_given_twice_stays_one_array():
    first, _, second = runner.inputs("views_and_aliases", np, 6)
    assert first is second
    wrapped = types.SimpleNamespace(array=np.array)
    first, _, second = runner.inputs("views_and_aliases", wrapped, 6)
    assert first is second


@pytest.mark.parametrize(
    ("want", "got", "says"),
    [
        (np.arange(3), np.arange(3.0), "dtype"),
        (np.float32(1), 1.0, "dtype"),
        (np.zeros(3), np.zeros((3, 1)), "shape"),
        (np.array([1, 2]), np.array([1, 3]), "values differ"),
        (np.array([1.0, 2.0]), np.array([1.0, 2.0 + 1e-8]), "values differ"),
        (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "values differ"),
        (np.array([1.0, np.inf]), np.array([1.0, -np.inf]), "values differ"),
        ((1, 2), [1, 2], "type"),
        ([1, 2], [1, 2, 3], "length"),
        ({"a": 1}, {"b": 1}, "keys"),
        ("a", "b", "expected 'a'"),
        (None, np.zeros(1), "expected None"),
    ],
)
def test_compare_sees(want, got, says):
    with pytest.raises(AssertionError, match=says):
        runner.compare((want, ()), (got, ()))
    with pytest.raises(AssertionError, match=says):
        runner.compare((None, (want,)), (None, (got,)))


def test_compare_lets_rounding_pass():
    want = np.array([1.0, np.nan, np.inf, 1e-17])
    runner.compare((want, (1, "a")), (want * (1 + 1e-13), (1, "a")))
