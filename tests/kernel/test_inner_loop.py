"""Parts of a body that run for many turns: in vectors or one by one, the same bits in every form and width."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernel.support import ND, WIDTHS, call, meaning, same_bits
from tilewise.backend.llvm.emit.bodies import one_by_one
from tilewise.backend.llvm.emit.spec import VectorUnit
from tilewise.kernel.loops import Instr, Kernel, Output

NEON, AVX2 = VectorUnit(16, False, 32, True, True), VectorUnit(32, False, 16, False, False)


def collatz(dtype: str, turns: int, outputs: tuple[Output, ...], reduced: tuple[bool, ...]) -> Kernel:
    """Halved or tripled and one more until it is 1; how often; the sum with another input, from turn to turn."""
    t, b = dtype, "bool"
    body = (
        Instr("const:0", (), t), Instr("const:1", (), t), Instr("const:2", (), t), Instr("const:3", (), t),
        Instr(f"const:{turns}", (), "int64"), Instr("iterations", (6,), "int64"), Instr("carried", (2,), t),
        Instr("carried", (0,), t), Instr("carried", (1,), t), Instr("not_equal", (9, 3), b),
        Instr("remainder", (9, 4), t), Instr("equal", (12, 2), b), Instr("floor_divide", (9, 4), t),
        Instr("multiply", (9, 5), t), Instr("add", (15, 3), t), Instr("where", (13, 14, 16), t),
        Instr("where", (11, 17, 9), t), Instr("cast", (11,), t), Instr("add", (8, 19), t), Instr("add", (10, 9), t),
        Instr("where", (11, 21, 10), t), Instr("carry", (8, 20), t), Instr("carry", (9, 18), t),
        Instr("carry", (10, 22), t), Instr("add", (23, 24), t), Instr("cast", (23,), "int64"),
    )  # fmt: skip
    return Kernel((t, t), (), body, outputs, reduced)


def operands(dtype: str, shape: tuple[int, ...]) -> list[ND]:
    rng = np.random.default_rng(0)
    return [rng.integers(1, 100, shape).astype(dtype) for _ in range(2)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["int64", "uint64", "int32", "float64"])
@pytest.mark.parametrize("turns", [1, 2, 7, 130])
def test_maps(turns: int, dtype: str, width: int | None) -> None:
    kernel = collatz(dtype, turns, (Output(23), Output(24), Output(25), Output(26)), (False,))
    for n in (1, 2, 3, 4, 5, 8, 31, 67):
        inputs = operands(dtype, (n,))
        for got, want in zip(call(kernel, (n,), inputs, width=width), meaning(kernel, (n,), inputs), strict=True):
            assert same_bits(got, want)


@pytest.mark.quick_code
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("reduced", [(False, True), (True, False), (True, True)])
def test_reductions(reduced: tuple[bool, bool], width: int | None) -> None:
    outputs = (Output(26, "add"), Output(25, "maximum"), Output(24, "argmin"), Output(23, "add", key=27))
    for output in outputs:
        kernel = collatz("int64", 40, (output,), reduced)
        for shape in ((3, 5), (40, 67), (67, 4)):
            inputs = operands("int64", shape)
            (got,), (want,) = call(kernel, shape, inputs, width=width), meaning(kernel, shape, inputs)
            assert same_bits(got, want)


def mixed(*fns: str, dtype: str = "int64") -> Kernel:
    """Turns of some functions, one after the other, of the state and a number."""
    body = [Instr("const:5", (), dtype), Instr("iterations", (1,), "int64"), Instr("carried", (0,), dtype)]
    body += [Instr(fn, (3 + k, 1), dtype) for k, fn in enumerate(fns)]
    body += [Instr("carry", (3, 3 + len(fns)), dtype)]
    return Kernel((dtype,), (), tuple(body), (Output(4 + len(fns)),), (False,))


def test_integers_go_one_by_one_where_vectors_cost_more() -> None:
    kernel = collatz("int64", 9, (Output(23),), (False,))
    assert one_by_one(kernel, NEON) and not one_by_one(kernel, AVX2)
    assert not one_by_one(collatz("float64", 9, (Output(23),), (False,)), NEON)
    assert not one_by_one(collatz("int32", 9, (Output(23),), (False,)), NEON), "vectors have more lanes of these"
    assert not one_by_one(mixed("add", "bitwise_xor"), NEON), "vectors do these as well"
    assert one_by_one(mixed("multiply", "add"), NEON)
    assert not one_by_one(Kernel(("int64",), (), (Instr("multiply", (0, 0), "int64"),), (Output(1),), (False,)), NEON)
