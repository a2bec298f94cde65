"""Code of other pending results is asked for while that of the first is waited for, and changes nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import compiler as plans
from tilewise.array.evaluation import here, next_code
from tilewise.backend import while_waiting
from tilewise.backend.llvm.call import compiled
from tilewise.backend.llvm.compile import build, helper
from tilewise.backend.llvm.compile.relocation import RULES

pytestmark = pytest.mark.skipif(RULES is None, reason="our linker does not know this CPU")
N = 40_000


def series(np: Any, x: Any) -> list[Any]:
    """Results that share costly values, of which each is asked for by itself."""
    prices = 100 * np.exp(np.cumsum(x * 1e-3))
    returns = np.diff(prices) / prices[:-1]
    peaks = np.maximum.accumulate(prices)
    return [
        prices.mean(),
        ((prices - peaks) / peaks).min(),
        returns.mean() / returns.std(),
        np.percentile(prices[50:] / prices[:-50] - 1.0, [5.0, 50.0, 95.0]),
    ]


def matrices(np: Any, x: Any) -> list[Any]:
    """Results with intermediate values that the program holds, too."""
    a = x.reshape(400, 100)
    scaled = (a - a.mean(axis=0)) / a.std(axis=0)
    gram = scaled.T @ scaled
    return [np.trace(gram), (scaled * scaled).sum(axis=1), np.sqrt(np.abs(gram)).sum(), scaled, gram]


PROGRAMS: dict[str, Callable[..., list[Any]]] = {"series": series, "matrices": matrices}


@pytest.fixture
def cold(tmp_path: Path, no_plans: None) -> Iterator[None]:
    """No code and no plans, and a process that compiles."""

    def forget() -> None:
        build._cache.clear()
        build._asked.clear()
        compiled.compile.cache_clear()
        plans.forget_plans()
        helper.stop()

    forget()
    settings = tw.config(wait_for_native=False, cache_dir=tmp_path, eager_bytes=0, tune=False)
    with settings, tw.session():  # what other tests have left pending belongs to another session
        helper.usable()
        helper.start()
        yield
    forget()


@contextmanager
def at_once(pieces: Iterator[Any]) -> Iterator[None]:
    """All that may be done while code is waited for, before anything runs."""
    for _ in pieces:
        pass
    yield


def values(program: str) -> list[bytes]:
    x = np.random.default_rng(7).normal(size=N)
    return [np.asarray(r).tobytes() for r in PROGRAMS[program](tw, tw.asarray(x))]


def test_nothing_is_left_to_plan_or_to_ask_for(cold: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but what depends on a run (code that copies the edges of tiles, say)."""
    results = series(tw, tw.asarray(np.random.default_rng(7).normal(size=N)))
    monkeypatch.setattr(here, "offered", at_once)
    float(results[0])
    made, asked = plans.planned_count, len(build._asked)
    assert asked >= 6
    sent: list[int] = []
    ask = helper._Server.ask

    def counted(*args: Any) -> int:
        sent.append(1)
        return ask(*args)

    monkeypatch.setattr(helper._Server, "ask", counted)
    for r in results[1:]:
        np.asarray(r)
    assert plans.planned_count == made
    assert len(sent) <= 1
    keys: list[Any] = list(build._asked)
    unused = [what for what, _ in keys if not isinstance(what, str)]
    assert len(unused) <= 1, "code that nobody wanted"  # what starts threads has a name, and may be there already


@pytest.mark.parametrize("program", PROGRAMS)
def test_bytes_are_those_of_a_program_that_never_waits(
    program: str, cold: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tw.config(wait_for_native=True):
        expected = values(program)
    for seed in range(4):
        plans.forget_plans()
        build._cache.clear()
        build._asked.clear()
        compiled.compile.cache_clear()
        chance = random.Random(seed)

        @contextmanager
        def some(pieces: Iterator[Any], chance: random.Random = chance) -> Iterator[None]:
            while chance.random() < 0.8 and next(pieces, 0) is None:
                pass
            with while_waiting.offered(pieces):
                yield

        monkeypatch.setattr(here, "offered", some)
        assert values(program) == expected


def test_the_programs_own_graph_stays_as_it_is(cold: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays keep their values, may be written to, and are computed once."""
    monkeypatch.setattr(here, "offered", at_once)
    x = np.random.default_rng(7).normal(size=N)
    a = tw.asarray(x.copy())
    b, c = (a * 2).sum(), np.exp(a) + 1
    total = (c * a).sum()
    assert float(b) == float((x * 2).sum())
    a[:10] = 0.0
    y = x.copy()
    y[:10] = 0.0
    assert np.array_equal(np.asarray(a), y)
    np.testing.assert_allclose(float(total), ((np.exp(x) + 1) * x).sum(), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(c), np.exp(x) + 1, rtol=1e-14)


def test_no_room_to_look_ahead_is_no_error(cold: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "offered", at_once)

    def full(node: Any) -> Any:
        raise MemoryError

    monkeypatch.setattr(next_code, "_array_like", full)
    x = np.random.default_rng(7).normal(size=N)
    a = tw.asarray(x)
    first = np.exp(a) + 1
    total, more = (first * a).sum(), np.sqrt(np.abs(first))
    assert float(total) == pytest.approx(((np.exp(x) + 1) * x).sum(), rel=1e-12)
    np.testing.assert_allclose(np.asarray(more), np.sqrt(np.exp(x) + 1), rtol=1e-14)


def test_what_cannot_be_planned_ahead_is_left_alone(cold: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(here, "offered", at_once)
    x = tw.asarray(np.random.default_rng(7).normal(size=N))
    first, chosen = (x * 3).sum(), x[x > 0.5]
    mean, wrong = chosen.mean(), x[(x * 0).astype(int) + N]
    del chosen
    float(first)
    nd = np.asarray(x)
    assert float(mean) == pytest.approx(nd[nd > 0.5].mean(), rel=1e-13)
    with pytest.raises(IndexError):
        np.asarray(wrong)


def test_pieces_are_done_one_at_a_time_and_not_within_another() -> None:
    done: list[Any] = []

    def pieces() -> Iterator[None]:
        for k in range(3):
            done.append((k, while_waiting.do_a_piece()))
            yield

    assert not while_waiting.do_a_piece()
    with while_waiting.offered(pieces()):
        assert while_waiting.do_a_piece() and done == [(0, False)]
        while while_waiting.do_a_piece():
            pass
        assert not while_waiting.do_a_piece()
    assert done == [(0, False), (1, False), (2, False)]
