"""A fixed sample of random programs (`make fuzz` runs many more), and the fuzzer's own parts."""

from __future__ import annotations

import ast
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

import tilewise
from tests.fuzz import jitted
from tests.fuzz.__main__ import check, minimal
from tests.fuzz.generate import generate
from tests.fuzz.program import Line, Loop, compare, lines_of, model, permitted, source
from tests.fuzz.settings import Fault, context
from tests.fuzz.thresholds import OF_CODE, THRESHOLDS

CASES = 72  # `make fuzz` has thousands
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    for case in range(part, CASES, PARTS):
        bad = check(case, native=1 / 24, without="workers")
        if bad is not None:
            name, program, setting, found = bad
            small, found = minimal(program, setting, found, seconds=10)
            pytest.fail(f"case {case}: {found}\n{source(small, name)}")


FAILED = [868, 15_933, 32_790, 504_892, 2_000_681, 2_010_626, 3_001_913, 3_002_371, 4_003_660, 4_013_103]


@pytest.mark.parametrize("case", FAILED)
def test_programs_that_once_failed_on_workers(case: int) -> None:
    """Indices in Fortran order, inputs with two copies in one layout, signs of zeros of blocks without elements, rows
    picked from what is cut into pieces along another axis."""
    assert check(case, only="workers") is None


def test_rounding_is_permitted_where_exact_results_have_none() -> None:
    """A mean that comes with a variance is combined from the means of blocks; a wrong last bit elsewhere fails."""
    mean = (
        Line("data(683, (3,), 'int64', False)", "a"),
        Line("np.sign(a)", "x"),
        Line("np.var(x)", "r"),
        Line("np.mean(x)", "m"),
    )
    here = context(eager_bytes=0, native=False, layouts=1_114_687, workers=2)
    found = compare(mean, model(mean), here)
    assert found is not None and found.kind == "rounding"
    assert permitted(mean, model(mean), here, found, Fault)
    other = (*mean[:2], Line("x / 3.0", "m"))
    nudged = (*mean[:2], Line("np.nextafter(x / 3.0, 9.0)", "m"))
    found = compare(nudged, model(other), here)
    assert found is not None and found.kind == "rounding"
    assert not permitted(nudged, model(other), here, found, Fault)


@pytest.mark.parametrize("part", range(2))
def test_small_arrays_go_the_ways_of_large_ones(part: int) -> None:
    for case in range(140_000_000 + part, 140_000_008, 2):
        bad = check(case, small=True, without="workers")
        if bad is not None:
            name, program, setting, found = bad
            small, found = minimal(program, setting, found, seconds=10)
            pytest.fail(f"case {case}: {found}\n{source(small, name)}")


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_random_functions(part: int, small: bool) -> None:
    for case in range(part, 8 if small else 20, 4):
        bad = jitted.check(case, small)
        if bad is not None:
            pytest.fail(f"case {case}: {bad[1]}\n{bad[0]}")


def test_every_module_that_imports_a_threshold_is_told() -> None:
    """Else a small number would hold in some modules and not in others."""
    package = Path(tilewise.__file__).parent
    imports: dict[tuple[str, str], set[str]] = defaultdict(set)
    for path in package.rglob("*.py"):
        own = ".".join(path.relative_to(package).with_suffix("").parts).removesuffix(".__init__")
        text = path.read_text()
        if not any(t.name in text for t in (*THRESHOLDS, *OF_CODE)):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    imports[node.module, alias.name].add(own)
    for t in (*THRESHOLDS, *OF_CODE):
        assert imports[f"tilewise.{t.module}", t.name] == set(t.also), t
        assert hasattr(import_module(f"tilewise.{t.module}"), t.name), t


@pytest.mark.soak
@pytest.mark.parametrize("part", range(200))
def test_many_random_programs(part: int) -> None:
    for case in range(1_000_000 + part * 100, 1_000_000 + part * 100 + 100):
        assert check(case) is None


def test_a_seed_is_a_program() -> None:
    assert generate(7) == generate(7)
    assert any(isinstance(part, Loop) for seed in range(20) for part in generate(seed))


def test_a_difference_is_found_and_made_small() -> None:
    wrong = Line("np.zeros(3) + (1.0 if np.__name__ == 'numpy' else 2.0)", "v9")
    program = (*generate(3), wrong)
    setting = context()
    found = compare(program, model(program), setting, Fault)
    assert found is not None
    assert found.kind == "values"
    small, _ = minimal(program, setting, found)
    assert [line.target for line in lines_of(small)] == ["v9"]
    assert "v9 = np.zeros(3)" in source(small, "default")
