"""What is recorded: these calls leave a pending result and never hand work to NumPy (fallback="error" would refuse)."""

from __future__ import annotations

import warnings

import numpy
import pytest

import tilewise
from tests.api.support import OPERANDS, rows

UFUNCS = {f.__name__: f for f in vars(numpy).values() if isinstance(f, numpy.ufunc) and f.signature is None}
DATES = {"isnat"}
REDUCING = "add multiply minimum maximum fmin fmax logical_and logical_or logical_xor hypot logaddexp".split()


def recorded(text: str) -> str | None:
    """Why a call is not recorded, or None."""
    scope = {"np": tilewise, "nd": numpy}
    with warnings.catch_warnings(), tilewise.config(eager_bytes=0, fallback="error", flush=False):
        warnings.simplefilter("ignore")
        scope |= {n: eval(code, scope) for n, code in OPERANDS.items()}
        try:
            result = eval(text, scope)
        except Exception as error:
            return repr(error)
    for x in result if isinstance(result, tuple) else (result,):
        if type(x) is not tilewise.Array or x._cell.node is None:
            return "was computed"
    return None


def differing(calls: list[str]) -> list[str]:
    return [f"{text}: {why}" for text in calls if (why := recorded(text))]


@pytest.mark.parametrize("text", rows("native"))
def test_recorded(text: str) -> None:
    assert recorded(text) is None


def test_every_ufunc_is_recorded() -> None:
    calls = []
    for name, f in UFUNCS.items():
        if name not in DATES:
            whole = not any(t.startswith("d" * f.nin) or t.startswith("d") for t in f.types)
            first, second = ("k", "k") if whole or name == "ldexp" else ("u", "w")
            calls.append(f"np.{name}({', '.join((first, second)[: f.nin])})")
    assert not differing(calls)


def test_reductions_of_ufuncs_are_recorded() -> None:
    calls = [f"np.{f}.{how}" for f in REDUCING for how in ("reduce(A)", "reduce(A, axis=1)")]
    calls += [f"np.{f}.accumulate(v)" for f in REDUCING if not f.startswith("logical")]
    assert not differing(calls)


def test_what_is_not_recorded_warns_once_per_line_or_is_refused() -> None:
    x = tilewise.ones((600, 600)) + 1.0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            tilewise.linalg.eigvals(x[:4, :4])
    assert [w.category for w in seen] == [tilewise.FallbackWarning]
    assert seen[0].filename == __file__ and "eigvals" in str(seen[0].message) and "bytes" in str(seen[0].message)
    with tilewise.config(fallback="error"), pytest.raises(tilewise.FallbackError):
        tilewise.linalg.eigvals((x + 1.0)[:4, :4])


def test_other_kinds_of_values_go_through_numpy_at_once() -> None:
    with tilewise.config(eager_bytes=0, fallback="error"):
        names = tilewise.array(["b", "a"])
        assert tilewise.sort(names).tolist() == ["a", "b"]
        days = tilewise.array(["2020-01-02", "2020-01-01"], dtype="M8[D]")
        assert (days + 1).max().item().day == 3
        things = tilewise.array([1, "x", None], dtype=object)
        assert (things == "x").tolist() == [False, True, False]
        records = tilewise.zeros(2, dtype=[("a", int), ("b", float)])
        records["a"] = [1, 2]
        assert records["a"].tolist() == [1, 2]
