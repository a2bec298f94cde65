"""Several vectors at once, for bodies with functions and long ones: the bits of one at a time, in all forms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import Retune, Some
from tests.kernel.support import ND, empty_outs, views
from tilewise.backend.llvm.call import prepare
from tilewise.backend.llvm.call.compiled import Compiled
from tilewise.backend.llvm.compile.cpu import host_machine
from tilewise.kernel.loops import Instr, Kernel, Output

SHAPES = [(1000,), (2049,), (3, 200), (40, 131), (5, 7), (2, 600), (700, 9)]


def bodies(dtype: str) -> dict[str, tuple[Instr, ...]]:
    """Bodies of one input with one function, with one that is no mathematical one, and with several."""
    turns = [
        Instr(fn, (k, max(k - 2, 0)), dtype) for k, fn in enumerate(("add", "multiply", "maximum", "subtract") * 8)
    ]
    return {
        "long": tuple(turns),
        "exp": (Instr("exp", (0,), dtype),),
        "log of a square": (Instr("multiply", (0, 0), dtype), Instr("log", (1,), dtype)),
        "remainder": (Instr("const:0.3", (), dtype), Instr("remainder", (0, 1), dtype)),
        "several": (Instr("sin", (0,), dtype), Instr("exp", (1,), dtype), Instr("divide", (2, 0), dtype)),
    }


def results(kernel: Kernel, x: ND) -> list[bytes]:
    """What new code gives (a compiled kernel keeps its launches)."""
    outs = empty_outs(kernel, x.shape)
    Compiled(kernel, host_machine())(x.shape, [x], [], outs)
    return [out.tobytes() for out in outs]


@pytest.mark.quick_code
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", bodies("float64"))
def test_bits(name: str, dtype: str, retune: Retune, some: Some) -> None:
    body = bodies(dtype)[name]
    last, rng = len(body), np.random.default_rng(4)
    for shape in some(SHAPES):
        kept, along = (False,) * len(shape), (*(False,) * (len(shape) - 1), True)
        kernels = [
            Kernel((dtype,), (), body, (Output(last),), kept),
            Kernel((dtype,), (), body, (Output(last), Output(last, "add")), along),
            Kernel((dtype,), (), body, (Output(last, "add"), Output(last, "maximum")), (True,) * len(shape)),
        ]
        made = rng.normal(size=shape).astype(dtype)
        for x in views(made) if len(shape) > 1 else [made, np.repeat(made, 2)[::2]]:
            for kernel in kernels:
                retune(abreast_at_ns=1e12, abreast_long_at_ns=1e12)
                one = results(kernel, x)
                retune(abreast_at_ns=0, abreast_long_at_ns=0)
                assert results(kernel, x) == one, (shape, x.strides)


ENDS = {
    "float64": Kernel(("float64",), (), (Instr("exp", (0,), "float64"),), (Output(1),), (False, False)),
    "float32": Kernel(("float32",), (), (Instr("exp", (0,), "float32"),), (Output(1),), (False, False)),
    "complex128": Kernel(
        ("complex128",),
        (),
        (Instr("absolute", (0,), "float64"), Instr("exp", (1,), "float64")),
        (Output(2), Output(0)),
        (False, False),
    ),
    "bool": Kernel(
        ("float64",), (), (Instr("log", (0,), "float64"), Instr("isnan", (1,), "bool")), (Output(2),), (False, False)
    ),
}


@pytest.mark.parametrize("kernel", ENDS.values(), ids=ENDS)
def test_what_is_left_of_a_row(kernel: Kernel) -> None:
    """It goes through the code of whole vectors: the same bits wherever a row ends, and nothing beyond it."""
    x = np.random.default_rng(2).normal(size=(3, 40)).astype(kernel.inputs[0])
    code = Compiled(kernel, host_machine())
    whole = empty_outs(kernel, x.shape)
    code(x.shape, [x], [], whole)
    for n in range(1, 20):
        rooms = [np.zeros_like(out) for out in whole]
        code((3, n), [x[:, :n]], [], [room[:, :n] for room in rooms])
        for room, out in zip(rooms, whole, strict=True):
            assert room[:, :n].tobytes() == out[:, :n].tobytes(), n
            assert not room[:, n:].any(), n
        if len(whole) == 1 and whole[0].dtype == x.dtype:
            own = x.copy()
            code((3, n), [own[:, :n]], [], [own[:, :n]])
            assert own[:, :n].tobytes() == whole[0][:, :n].tobytes(), n
            assert (own[:, n:] == x[:, n:]).all(), n


def test_who_has_several(retune: Retune) -> None:
    """Long rows have, if there is enough to do; short ones, whose rest is done one by one, do not without masks."""
    machine, kernel = host_machine(), Kernel(("float64",), (), bodies("float64")["several"], (Output(3),), (False,))
    preparer = prepare.Preparer(kernel, machine)
    found = []
    for size, enough in ((4096, 0), (4096, 1e12), (16, 0)):
        retune(abreast_at_ns=enough)
        found.append(preparer._abreast(preparer._nest((size,), [(8,), (8,)], ()), 1.0))
    assert found == ([2, 1, 2 if machine.masked else 1] if machine.registers == 32 else [1, 1, 1])
