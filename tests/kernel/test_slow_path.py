"""`rarely`: the meaning of `where` in every loop form, and code that jumps over what only rare points need."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernel.support import ND, WIDTHS, call, meaning, same_bits
from tilewise.backend.llvm.call.listing import listing
from tilewise.backend.llvm.emit.bodies import is_light, rare_arms
from tilewise.backend.llvm.emit.spec import UNIT
from tilewise.kernel.loops import Instr, Kernel, Output

F, U = "float64", "uint32"
# 0, 1: inputs. 2: a limit. 4: rare where the low word of 0 is small. 5, 6: what is rare; 7: used by all, too.
BODY = (
    Instr("const:49", (), U), Instr("low_word", (0,), U), Instr("less_equal", (3, 2), "bool"), Instr("sqrt", (1,), F),
    Instr("exp", (5,), F), Instr("multiply", (0, 1), F),
    Instr("add", (6, 7), F), Instr("rarely", (4, 8, 7), F), Instr("add", (9, 7), F),
)  # fmt: skip
MAP = Kernel((F, F), (), BODY, (Output(10),), (False,))


def operands(n: int, share: float) -> list[ND]:
    """Two arrays; of the first, that share of all low words is small."""
    rng = np.random.default_rng(3)
    words = np.where(rng.random(n) < share, rng.integers(0, 50, n), rng.integers(1 << 10, 1 << 32, n))
    whole = (rng.random(n).view(np.uint64) >> np.uint64(32) << np.uint64(32)) | words.astype(np.uint64)
    return [whole.view(F), rng.random(n) + 1]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 1.0])
def test_all_points_few_points_and_none(share: float, width: int | None) -> None:
    for n in (1, 7, 16, 1000, 1003):
        inputs = operands(n, share)
        (got,), (want,) = call(MAP, (n,), inputs, width=width), meaning(MAP, (n,), inputs)
        np.testing.assert_array_max_ulp(got, want, 2)


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
def test_every_form(width: int | None) -> None:
    x, y = (a.reshape(60, 50) for a in operands(3000, 0.1))
    whole = Instr("rint", (10,), F)  # sums of whole numbers do not round
    key = Instr("cast", (11,), "int64")
    for reduced in ((False, True), (True, False), (True, True)):
        for output in (Output(11, "add"), Output(11, "argmax"), Output(11, "add", key=12)):
            kernel = Kernel((F, F), (), (*BODY, whole, key), (output,), reduced)
            (got,) = call(kernel, x.shape, [x, y], width=width)
            assert same_bits(got, meaning(kernel, x.shape, [x, y])[0]), (reduced, output)


def test_what_is_computed_for_rare_points_alone() -> None:
    assert rare_arms(MAP) == {9: (5, 6, 8)}
    both = Kernel(MAP.inputs, MAP.params, (*BODY, Instr("add", (10, 6), F)), (Output(11),), (False,))
    assert rare_arms(both) == {9: (8,)}, "what others use is computed for all"
    stored = Kernel(MAP.inputs, MAP.params, BODY, (Output(10), Output(8)), (False,))
    assert rare_arms(stored) == {}
    inside = (*BODY[:5], Instr("rarely", (4, 6, 5), F), Instr("multiply", (0, 1), F), Instr("rarely", (4, 7, 8), F))
    assert rare_arms(Kernel(MAP.inputs, MAP.params, inside, (Output(9),), (False,))) == {9: (5, 6, 7)}


def test_a_body_is_as_light_as_what_all_points_need() -> None:
    assert is_light(MAP, (UNIT, UNIT, UNIT))


def test_rare_values_are_behind_a_branch() -> None:
    body = (*BODY[:3], Instr("floor", (1,), F), Instr("rarely", (4, 5, 0), F))
    text = listing(Kernel((F, F), (), body, (Output(6),), (False,)), (1000,)).ir
    before = text[text.index("define") :].partition("slow")[0]
    assert text.count("branch_weights") == 1 and "floor" in text and "floor" not in before
