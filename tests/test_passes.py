"""The compiler's recipe: passes by name, timed, verified, left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import compiler
from tilewise.errors import ConfigError
from tilewise.plan.draft import Draft
from tilewise.plan.verify import verify
from tilewise.rewrite import RULE_NAMES
from tilewise.stage.steps import Tiled

NAMES = [p.name for p in compiler.PASSES]
OPTIONAL = [p.name for p in compiler.PASSES if p.optional]


def gradient(np: Any, X: Any, w: Any) -> Any:
    """Three passes that share tiles."""
    return X.T @ (1 / (1 + np.exp(-(X @ w))))


def loop(np: Any, X: Any, w: Any) -> Any:
    """A long body that repeats itself."""
    for _ in range(30):
        X = X * X * 0.5 - 0.25
    return X


def halves(np: Any, X: Any, w: Any) -> Any:
    """Exchanges that can share a round, and rules that fire."""
    return (X - X.mean(0)) / X.std(0), ((X * X) @ w).sum(), (X * 1) @ w


PROGRAMS = (gradient, loop, halves)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("workers", [None, 4])
@pytest.mark.parametrize("without", [*OPTIONAL, ",".join(OPTIONAL), ",".join(RULE_NAMES)])
def test_every_pass_can_be_left_out(program: Callable[..., Any], workers: int | None, without: str) -> None:
    rng = np.random.default_rng(0)
    X, w = rng.random((300, 20)), rng.random(20)
    session = {} if workers is None else {"engine": "virtual", "workers": workers}
    with tw.session(**session), tw.config(eager_bytes=0, without=without):
        made = program(tw, tw.asarray(X), tw.asarray(w))
        got = tw.compute(*made) if isinstance(made, tuple) else (made.compute(),)
    want = program(np, X, w)
    for a, b in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_pass_that_is_left_out_does_not_run(no_plans: None) -> None:
    X = tw.asarray(np.ones((40_000, 20)))
    w = tw.asarray(np.ones(20))

    def plan(without: str) -> str:
        with tw.config(eager_bytes=0, without=without):
            return tw.explain(gradient(tw, X, w)).steps_text()

    assert "tiled" in plan("") and "tiled" not in plan("tile")


def test_passes_are_named_and_timed(no_plans: None) -> None:
    X, w = tw.asarray(np.ones((300, 20))), tw.asarray(np.ones(20))
    with tw.config(eager_bytes=0):
        made = gradient(tw, X, w) * 3
        here = tw.explain(made, detail="passes")
        there = tw.explain(made, workers=4, detail="passes")
        assert [name for name, _ in here.passes] == ["rewrite", *NAMES]
        assert [name for name, _ in there.passes] == ["rewrite", "solve", *NAMES]
        assert all(seconds >= 0 for _, seconds in there.passes)
        assert "liveness" in str(here) and "solve" in str(there)
        assert "liveness" not in str(tw.explain(made))
        assert "pass K1" in str(tw.explain(made, detail="steps"))
        compiler.forget_plans()
        with tw.profile() as seen:
            made.compute()
        assert set(NAMES) <= set(seen.passes) and "planning" in str(seen)
    with pytest.raises(ConfigError, match="no detail"):
        tw.explain(made, detail="kernels")


def test_unknown_passes_are_refused() -> None:
    with pytest.raises(ConfigError, match="Did you mean tile"):
        tw.config(without="tiles")
    with pytest.raises(ConfigError, match="names of compiler passes"):
        tw.config(without=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no compiler pass 'fuse'"):  # nothing runs without
        tw.config(without=["fuse"])
    with tw.config(without=["tile", "roll"]) as settings:
        assert settings.without == {"tile", "roll"}


def test_plans_are_verified_after_every_pass() -> None:
    X, w = tw.asarray(np.ones((40_000, 20))), tw.asarray(np.ones(20))
    with tw.config(eager_bytes=0):
        program = gradient(tw, X, w)
        at, _, _ = compiler.graph_of([program._cell.node])
    nodes = list(at)
    draft = Draft(nodes, [n is program._cell.node for n in nodes], fusion=True, merge=True)
    done, _ = compiler.compile_stages(draft, frozenset())
    assert any(isinstance(s, Tiled) for s in done.steps)
    verify(done, "all")
    with pytest.raises(AssertionError, match="broken: nothing makes"):
        verify(replace(done, steps=()), "broken")
    with pytest.raises(AssertionError, match="broken: two steps make"):
        verify(replace(done, steps=(*(replace(s, frees=()) for s in done.steps), done.steps[-1])), "broken")
    with pytest.raises(AssertionError, match=r"which is not there|what is not there"):
        verify(replace(done, steps=done.steps[::-1]), "broken")
