"""What all tests share: how many examples properties are tried on, and settings that do not leak."""

import gc
import importlib
import signal
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tilewise import compiler
from tilewise.array.schedule import loop_flush
from tilewise.array.slots import takeover
from tilewise.config import config
from tilewise.tuning import tuned, using

Retune = Callable[..., None]
Some = Callable[..., Sequence[Any]]

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job that a shell runs in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests interrupt themselves

# Compiling a kernel takes longer than any useful deadline for one example.
settings.register_profile("ci", derandomize=True, max_examples=15, deadline=None)
settings.register_profile("soak", max_examples=2000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("ci")
compiler.checked = True


# What is compiled is compiled quickly, with the same bits, but in the tests of code itself; and there, too, where a
# test sweeps dtypes and shapes (`quick_code`), but for one row in eight: `make fuzz` runs all of those with good code.
GOOD_CODE = ("tests/kernel/", "tests/backend/", "tests/bits/", "tests/test_same_bits", "tests/test_processes")
llvm = importlib.import_module("tilewise.backend.llvm.compile.compiler")


def turn_of(request: pytest.FixtureRequest) -> int:
    """A number by which a test takes other rows than the next one, the same on every run."""
    return zlib.crc32(request.node.nodeid.encode())


@pytest.fixture(autouse=True)
def quick_code(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the suite's time would else be LLVM's."""
    sweeps = request.node.get_closest_marker("quick_code") is not None
    good = request.config.getoption("--hypothesis-profile") == "soak" or turn_of(request) % 8 == 0
    quickly = sweeps and not good
    if quickly or not request.node.nodeid.startswith(GOOD_CODE):
        monkeypatch.setattr(llvm, "object_code", partial(_object_code, level=llvm.QUICK))


_object_code = llvm.object_code


takeover.install()  # as in a program that has run for a while; the others are tests of what Python's operators decide
PYTHON_OPERATORS = ("tests/test_reuse",)


@pytest.fixture(autouse=True)
def operators_of_handles(request: pytest.FixtureRequest) -> Iterator[None]:
    """Small operations run as machine code, where there is any, but in some tests."""
    if not request.node.nodeid.startswith(PYTHON_OPERATORS):
        yield
        return
    takeover.slots().remove()
    yield
    takeover.install()


@pytest.fixture(autouse=True)
def same_settings_after_each_test() -> Iterator[None]:
    before = config()
    yield
    config(**asdict(before))


@pytest.fixture(autouse=True)
def same_numbers_for_each_test(request: pytest.FixtureRequest) -> None:
    """A test draws the same numbers from its module's generator whichever tests ran before it in its process."""
    for value in vars(request.module).values():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = _first_states.setdefault(id(value), value.bit_generator.state)


@pytest.fixture(autouse=True)
def nothing_recorded_before_a_test() -> None:
    """What an earlier test recorded and never evaluated is no part of a later test's loops."""
    loop_flush.nothing_pending()


_first_states: dict[int, Mapping[str, Any]] = {}


def pytest_collection_finish() -> None:
    """The garbage collector need not look through the tests themselves."""
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def short_collections() -> Iterator[None]:
    """The garbage collector looks through what a module has left (plans, code) once: tests that call it, and there are
    many, would else take seconds each by the end."""
    yield
    gc.collect()
    gc.freeze()


def pytest_itemcollected(item: pytest.Item) -> None:
    if "some" in getattr(item, "fixturenames", ()):
        item.add_marker("sampled")


@pytest.fixture
def some(request: pytest.FixtureRequest) -> Some:
    """Every second row of a sweep (or so), of another test others; `make soak` runs all of them."""
    turn = turn_of(request)

    def taken(rows: Any, share: int = 2) -> Sequence[Any]:
        rows = list(rows)
        whole = request.config.getoption("--hypothesis-profile") == "soak"
        return rows if whole else [r for k, r in enumerate(rows) if (k + turn) % min(share, len(rows)) == 0]

    return taken


@pytest.fixture
def no_plans() -> Iterator[None]:
    """Plans are kept for graphs of all sizes: those that other tests have made may not be the best for a test's."""
    compiler.forget_plans()
    yield
    compiler.forget_plans()


@pytest.fixture
def retune() -> Iterator[Retune]:
    """Change figures of the tuning in force, until the test ends: `retune(split_at_ns=0)`."""
    with ExitStack() as stack:
        yield lambda **figures: stack.enter_context(using(replace(tuned(), **figures)))
