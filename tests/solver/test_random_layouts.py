"""Random programs in random layouts: NumPy's results, and as many bytes as plans say, on every kind of mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.fuzz.__main__ import minimal
from tests.fuzz.generate import generate
from tests.fuzz.program import compare, model, source
from tests.fuzz.settings import MESHES, Fault, context

ROWS = [(mesh, blocks) for mesh in MESHES for blocks in (1, 3)]


def agree(case: int, mesh: Any, blocks: int, **more: Any) -> None:
    program = generate(case)
    setting = context(eager_bytes=0, native=False, workers=mesh, blocks=blocks, **more)
    found = compare(program, model(program), setting, Fault)
    if found is not None:
        small, found = minimal(program, setting, found, seconds=10)
        pytest.fail(f"case {case}: {found}\n{source(small, f'mesh {mesh}, {blocks} blocks, {more}')}")


@pytest.mark.parametrize(("mesh", "blocks"), ROWS, ids=str)
def test_a_sample(mesh: Any, blocks: int) -> None:
    first = 40_000 + 100 * ROWS.index((mesh, blocks))
    for case in range(first, first + 2):
        agree(case, mesh, blocks, layouts=case)
    case = first + 6 + first // 100 % 2
    agree(case, mesh, blocks, objective=("bytes", "time")[case % 2])


@pytest.mark.soak
@pytest.mark.parametrize(("mesh", "blocks"), ROWS, ids=str)
def test_the_full_cross(mesh: Any, blocks: int) -> None:
    for case in range(60_000, 60_200):
        agree(case, mesh, blocks, layouts=case)
        agree(case, mesh, blocks, objective=("bytes", "time")[case % 2])


def test_blocks_of_nothing_beside_what_is_repeated() -> None:
    """A worker that has no part of what is updated may have none of an operand of one element, either."""
    kept = []

    def program(xp: Any) -> Any:
        x, factor = xp.array(np.arange(8.0).reshape(2, 2, 2) + 1), xp.array(np.full(1, 3.0))
        x[:, :1:3, :] *= factor
        kept.append(np.asarray(x))
        x[-2, :, :] %= factor.astype("float16").reshape((1,))
        return x

    settings: dict[str, Any] = {"native": False, "objective": "bytes", "exact": True, "blocks": 3}
    with tw.config(eager_bytes=0, **settings), tw.session(engine="virtual", workers=8):
        found = np.asarray(program(tw))
    np.testing.assert_array_equal(found, program(np))
