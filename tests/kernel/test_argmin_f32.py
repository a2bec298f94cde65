"""Positions by scores in float32: always those of float64, whatever the data; and which scores there are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Retune, Some
from tests.kernel.guards import guarded
from tests.kernel.support import ND, RUNNABLE
from tilewise.backend.llvm.call import prepare
from tilewise.backend.llvm.call.compiled import Compiled
from tilewise.backend.llvm.compile import build
from tilewise.backend.llvm.compile.cpu import host_machine, level
from tilewise.backend.llvm.emit.bodies import vector_lanes
from tilewise.backend.llvm.emit.spec import UNIT, ZERO, VectorUnit
from tilewise.backend.llvm.patterns import argmin_f32
from tilewise.backend.llvm.patterns.argmin_pattern import Score, score
from tilewise.backend.llvm.products import nested as nested_form
from tilewise.backend.llvm.products import panels
from tilewise.kernel.loops import Instr, Kernel, Output, nested

F = "float64"
PRODUCT = (Instr("multiply", (0, 1), F),)
SQUARES = (Instr("subtract", (0, 1), F), Instr("square", (2,), F))
# Inputs are the sums inside, a number for each row, one for each lane; values 3 and on are of the body.
PLAIN = ()
TERMS = (Instr("const:-2.0", (), F), Instr("multiply", (3, 0), F), Instr("add", (1, 4), F), Instr("add", (5, 2), F))


def kernel(inside: tuple[Instr, ...], after: tuple[Instr, ...], reduce: str = "argmin") -> Kernel:
    inner = Kernel((F, F), (), inside, (Output(1 + len(inside), "add"),), (False, False, True))
    value = 2 + len(after) if after else 0
    inputs = (F, F, F) if after else (F,)
    return nested(inner, Kernel(inputs, (), after, (Output(value, reduce),), (False, True)), 0)


def read(inside: tuple[Instr, ...], after: tuple[Instr, ...], reduce: str = "argmin") -> Score | None:
    """The score of a kernel whose inputs are rows and lanes, then a term of each."""
    made = kernel(inside, after, reduce)
    varies, classes = (True, False, True, False), (ZERO, UNIT, ZERO, UNIT)
    return score(made, varies[: len(made.inputs)], classes[: len(made.inputs)])


def test_scores_that_are_read() -> None:
    assert read(PRODUCT, PLAIN) == Score(0, 1, False, 1.0, (), (), True)
    assert read(SQUARES, PLAIN, "argmax") == Score(0, 1, True, 1.0, (), (), False)
    found = read(PRODUCT, TERMS)
    assert found is not None and found.factor == -2.0 and found.rows == ((2, 1.0),) and found.lanes == ((3, 1.0),)


@pytest.mark.parametrize(
    "after",
    [
        (Instr("square", (0,), F),),  # not in order
        (Instr("add", (0, 0), F),),  # twice
        (Instr("multiply", (1, 2), F), Instr("add", (0, 3), F)),  # a term of rows and lanes
        (Instr("multiply", (0, 2), F),),  # a factor of each lane
        (Instr("const:1e+200", (), F), Instr("multiply", (0, 3), F)),  # a factor that may overflow
        (Instr("cast", (0,), "float32"),),
    ],
)
def test_scores_that_are_not(after: tuple[Instr, ...]) -> None:
    assert read(PRODUCT, after) is None


def test_only_positions_are_looked_for() -> None:
    assert read(PRODUCT, PLAIN, "minimum") is None


def data(kind: str, rows: int, lanes: int, steps: int) -> tuple[ND, ND]:
    """Rows and lanes, for whose scores rounding matters in some way."""
    rng = np.random.default_rng(7)
    X, C = rng.random((rows, steps)), rng.random((lanes, steps))
    if kind == "offset":
        return X + 1e5, C + 1e5
    if kind == "opposite":
        return X, -C
    if kind.startswith("opposite of "):
        return X * float(kind[12:]), C * -float(kind[12:])
    if kind == "integers":
        return np.floor(3 * X), np.floor(3 * C)
    if kind == "ties":
        return X, C[np.arange(lanes) // 2]
    if kind == "nearly ties":  # between two lanes, and a few units of the last place beside
        a, b = rng.integers(0, lanes, (2, rows))
        return (C[a] + C[b]) / 2 * (1 + rng.integers(-9, 10, (rows, 1)) * 2.0 ** rng.integers(-53, -18, (rows, 1))), C
    if kind == "twins":  # close to each other, and in other vectors
        signs = rng.choice((-1, 1), (lanes // 2, 1))
        C[lanes - lanes // 2 :] = C[: lanes // 2] * (1 + signs * 2.0 ** -rng.integers(13, 25, (lanes // 2, 1)))
        return X, C
    if kind == "strange":
        X[::5, 0], X[1::7, -1], X[2::9] = np.nan, np.inf, 1e300
        return X, C
    if kind == "a NaN":
        C[2, 0] = np.nan
        return X, C
    if kind == "a large lane":
        C[5] = 1e200
        return X, C
    return X * float(kind), C * float(kind)


KINDS = "offset", "opposite", "integers", "ties", "nearly ties", "twins", "strange", "a NaN", "a large lane"
SIZES = "1", "1e-19", "1e-22", "1e-23", "1e-30", "1e-42", "1e-160", "1e30", "1e160"
NEAR_OVERFLOW = [f"{opposite}{size}e18" for size in (2.5, 3.5, 4.5, 5.5, 9, 18) for opposite in ("", "opposite of ")]
FORMS = {
    "squares": (SQUARES, PLAIN, "argmin"),
    "farthest": (SQUARES, PLAIN, "argmax"),
    "products": (PRODUCT, PLAIN, "argmax"),
    "terms": (PRODUCT, TERMS, "argmin"),
    "large terms": (PRODUCT, TERMS, "argmin"),  # of which float64 keeps no difference
}
# The last two have too many lanes for one panel, which is all there is of masked vectors.
SHAPES = [(203, 64, 50), (64, 24, 7), (131, 8, 3), (32, 12, 4), (70, 100, 129), (400, 252, 3)]


def operands(form: str, X: ND, C: ND) -> list[ND]:
    squares = (X * X).sum(1)[:, None, None]
    terms = [squares if form == "terms" else 1e17 + squares, (C * C).sum(1)[:, None]] if "terms" in form else []
    return [X[:, None, :], C, *terms]


@pytest.fixture(autouse=True)
def _worth_it(retune: Retune) -> None:
    retune(argmin_least_ns=0)


def machine_of(width: int | None) -> VectorUnit:
    return host_machine() if width is None else level(width)


def positions(form: str, X: ND, C: ND, width: int | None) -> ND:
    """What the code for some vectors finds, with its output at a guard page."""
    out = guarded((len(X),), "int64", (8,), "right")
    with np.errstate(all="ignore"):
        inputs = operands(form, X, C)
    Compiled(kernel(*FORMS[form]), machine_of(width))((len(X), *C.shape), inputs, (), [out])
    return out


def fits(form: str, shape: tuple[int, ...], machine: VectorUnit) -> bool:
    """Whether there is code for so many lanes."""
    one = kernel(*FORMS[form])
    return panels.nested_tile(one, shape[2], shape[1], machine, vector_lanes(one, machine.vector_bytes)) is not None


# Without instructions that multiply and add, nothing is guessed.
@pytest.mark.quick_code
@pytest.mark.parametrize("width", [w for w in RUNNABLE if w != 0 and machine_of(w).fuses])
@pytest.mark.parametrize("form", FORMS)
def test_positions_are_those_of_float64(
    form: str, width: int | None, monkeypatch: pytest.MonkeyPatch, some: Some
) -> None:
    pays, guessed = argmin_f32.pays, list[bool]()
    for shape in (s for s in SHAPES if fits(form, s, machine_of(width))):
        for kind in some((*KINDS, *SIZES, *NEAR_OVERFLOW)):
            X, C = data(kind, *shape)
            monkeypatch.setattr(argmin_f32, "pays", lambda *a: guessed.append(pays(*a)) or guessed[-1])
            found = positions(form, X, C, width)
            monkeypatch.setattr(argmin_f32, "pays", lambda *_: False)
            np.testing.assert_array_equal(found, positions(form, X, C, width), err_msg=f"{shape} {kind}")
    assert all(guessed) and guessed


def only_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the code for rows that are uncertain."""
    monkeypatch.setattr(nested_form._Tile, "emit", lambda *_: None)
    native = build.native
    monkeypatch.setattr(prepare, "native", lambda what, *more, **how: native(("only guesses", what), *more, **how))
    monkeypatch.setattr(build.disk, "get", lambda *_: None)
    monkeypatch.setattr(build.disk, "put", lambda *_: None)


def test_a_call_that_meets_many_uncertain_rows_guesses_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    only_guesses(monkeypatch)
    X, C = data("1", 4000, 64, 50)
    X[::16] = (C[0] + C[1]) / 2  # few of them
    assert 250 <= (positions("squares", X, C, None) < 0).sum() < 350
    X[::4] = (C[0] + C[1]) / 2
    assert (positions("squares", X, C, None) < 0).sum() > 1500


@pytest.mark.parametrize("form", [f for f in FORMS if f != "large terms"])
def test_most_are_certain(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without code for the others, these have no position."""
    only_guesses(monkeypatch)
    for kind in ("1", "1e-12", "1e12", "opposite"):
        for lanes in (64, 20):
            missing = positions(form, *data(kind, 4000, lanes, 50), None) < 0
            assert missing.sum() < 200, kind
    shape = (4000, 64, 50)
    missing = positions(form, *data("ties", *shape), None) < 0
    assert missing.all()
    X, C = data("offset", *shape)
    assert (positions(form, X, C, None) < 0).all() == (form in ("products", "terms"))


def direct(np: Any, X: Any, C: Any) -> Any:
    return ((X[:, None, :] - C) ** 2).sum(-1).argmin(1)


def expanded(np: Any, X: Any, C: Any) -> Any:
    return ((X * X).sum(1)[:, None] - 2 * (X @ C.T) + (C * C).sum(1)).argmin(1)


def alike(np: Any, X: Any, C: Any) -> Any:
    return (X @ C.T).argmax(1)


@pytest.mark.parametrize("program", [direct, expanded, alike])
def test_programs(program: Callable[..., Any], no_plans: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pays, guessed = argmin_f32.pays, list[bool]()
    monkeypatch.setattr(argmin_f32, "pays", lambda *a: guessed.append(pays(*a)) or guessed[-1])
    rng = np.random.default_rng(3)
    X, C = rng.random((3000, 40)), rng.random((24, 40))
    for tile in (1, 7, None):
        with tw.config(eager_bytes=0, tile=tile):
            found = program(tw, tw.asarray(X), tw.asarray(C)).compute()
        np.testing.assert_array_equal(found, program(np, X, C))
    assert any(guessed)


SMALL_STACK = """
import threading
threading.stack_size(128 * 1024)
import numpy as np
import tilewise as tw
X, C = np.random.default_rng(0).random((20000, 119)), np.random.default_rng(1).random((256, 119))
want = (X @ C.T).argmax(1)
def work():
    with tw.config(eager_bytes=0):
        assert ((tw.asarray(X) @ tw.asarray(C).T).argmax(1).compute() == want).all()
work()
thread = threading.Thread(target=work)
thread.start()
thread.join()
"""


def test_threads_with_small_stacks() -> None:
    done = subprocess.run([sys.executable, "-c", SMALL_STACK], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
