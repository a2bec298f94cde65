"""A sample of the random loops of `python -m tests.fuzz.parfor`: no conflict is missed."""

from __future__ import annotations

import pytest

from tests.fuzz.parfor.__main__ import check
from tests.fuzz.parfor.running import difference


def test_random_loops() -> None:
    independent = alarms = dependent = 0
    for seed in range(7000, 7090):
        found = check(seed)
        if found is None:
            continue
        case, (clash, verdict) = found
        assert clash is None or not verdict.independent, f"{clash}\n{case.source}"
        assert verdict.test != "not followed", f"{verdict}\n{case.source}"
        independent += clash is None
        dependent += clash is not None
        alarms += clash is None and not verdict.independent
    assert dependent > 10 and independent > 25
    assert alarms <= 0.1 * independent


@pytest.mark.parametrize(("mode", "seeds"), [("processes", range(20, 34)), ("threads", range(34, 54))])
def test_random_loops_that_run(mode: str, seeds: range) -> None:
    found = [difference(seed, mode, 2 + seed % 3) for seed in seeds]
    assert not any(found), next(filter(None, found))
    assert found.count("") > 5
