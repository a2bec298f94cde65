"""Loops of our own for operators on small arrays of float64: NumPy's bits, layouts, warnings and errors."""

import operator
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.array.number import CLASSES
from tilewise.array.slots import takeover
from tilewise.backend.handles import SCRATCH

pytestmark = pytest.mark.skipif(not takeover.install(), reason="no such code here")

BINARY = (operator.add, operator.sub, operator.mul, operator.truediv)
IN_PLACE = (operator.iadd, operator.isub, operator.imul, operator.itruediv)
NUMBERS = (2, -3, 0.1, 0.0, np.float64(1.5), 2**53, 2**53 + 1, 2**70, True, np.float32(0.5), float("inf"), float("nan"))
SHAPES = ((), (1,), (7,), (8,), (33,), (1, 33), (33, 1), (9, 33), (33, 9), (33, 3), (3, 1), (4, 9, 33), (0,), (0, 33))


def operands() -> list[Any]:
    """Arrays of many shapes and of all kinds of steps, with numbers that have nothing to tell."""
    rng = np.random.default_rng(4)
    whole = [rng.standard_normal(s) for s in SHAPES]
    m = rng.standard_normal((33, 70))
    parts = [
        m[:, 3],
        m[:, :33],
        m[:, :33].T,
        m[::2, 1:34],
        m[5:14, ::2][:, :33],
        m[::-1, 2],
        m[0, 33::-1],
        m[:9, 33:66],
    ]
    parts += [np.broadcast_to(m[0, :33], (9, 33)), np.broadcast_to(m[:9, :1], (9, 33)), np.asfortranarray(m[:9, :33])]
    apart = np.zeros(33 * 9 + 1, np.uint8)[1:]  # its float64 lie at odd addresses
    return [*whole, *parts, apart[: 33 * 8].view(np.float64), m[:9, :33].astype(np.float32), np.arange(33)]


def shown(run: Callable[[], Any]) -> Any:
    """The bytes, shape, steps and class of a result with what was warned of, or the error."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            r = run()
        except Exception as error:
            return type(error), str(error)
    nd = np.asarray(r)
    return nd.tobytes(), nd.dtype, nd.shape, nd.strides if nd.size else (), [str(w.message) for w in told]


def pairs(xs: list[Any]) -> Iterator[tuple[Any, Any]]:
    for x in xs:
        for y in (*xs, *NUMBERS):
            yield x, y
            if not isinstance(y, np.ndarray):
                yield y, x


def ours(x: Any) -> Any:
    """The same operand with the same steps, as an Array."""
    if not isinstance(x, np.ndarray):
        return x
    base = x if x.base is None else x.base
    while base.base is not None:
        base = base.base
    made = tw.array(base)
    if x is base or base.dtype != x.dtype or 0 in x.strides:
        return tw.array(x) if x.flags.c_contiguous or x.dtype != base.dtype else tw.broadcast_to(tw.array(x), x.shape)
    offset = x.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return tw.lib.stride_tricks.as_strided(made.reshape(-1)[offset // 8 :], x.shape, x.strides) if x.size else made[:0]


@pytest.mark.parametrize("op", BINARY)
def test_bits_and_layouts(op: Any) -> None:
    for x, y in pairs(operands()):
        found, expected = shown(lambda x=x, y=y: op(ours(x), ours(y))), shown(lambda x=x, y=y: op(x, y))
        assert found[:3] == expected[:3], (np.shape(x), np.shape(y))
        if len(found) > 2 and all(isinstance(z, float | int) or ours(z).strides == z.strides for z in (x, y)):
            assert found[3:] == expected[3:], (np.shape(x), np.shape(y))


def test_unary_and_squares() -> None:
    for x in operands():
        for one in (operator.neg, operator.abs, lambda v: v**2, lambda v: v**2.0, lambda v: v ** np.float64(2)):
            assert shown(lambda x=x, one=one: one(ours(x)))[:3] == shown(lambda x=x, one=one: one(x))[:3]


@pytest.mark.parametrize("op", IN_PLACE)
def test_in_place(op: Any) -> None:
    for x, y in pairs([x for x in operands() if not (x.ndim and 0 in x.strides)]):
        if isinstance(x, np.ndarray) and x.ndim:
            a, b = x.copy(), ours(x.copy())
            seen, expected = shown(lambda a=a, y=y: op(a, y)), shown(lambda b=b, y=y: op(b, ours(y)))
            assert seen[:3] == expected[:3] and a.tobytes() == np.asarray(b).tobytes()


@pytest.mark.parametrize("n", [40, SCRATCH, SCRATCH + 1])
def test_parts_of_one_array_may_overlap(n: int) -> None:
    a = np.linspace(1.0, 2.0, n + 3)
    x = tw.array(a)
    for v in (a, x):
        v[1:n] += v[: n - 1]
        v[: n - 1] *= v[1:n]
        v[::2] -= v[::2][::-1]
        m = v[:36].reshape(4, 9)
        m[:, 1:] /= m[:, :-1]
        m[1:] += m[0]
    assert x.compute().tobytes() == a.tobytes()


TOLD = {
    "divide by zero": (operator.truediv, [1.0, 2.0], [0.0, 1.0]),
    "invalid": (operator.sub, [np.inf, 2.0], [np.inf, 1.0]),
    "overflow": (operator.mul, [1e200, 1.0], [1e200, 1.0]),
    "underflow": (operator.mul, [1e-200, 1.0], [1e-200, 1.0]),
}


@pytest.mark.parametrize("told", TOLD)
def test_warnings_errors_and_settings_are_numpys(told: str) -> None:
    op, *values = TOLD[told]
    a, b = (np.tile(v, 20) for v in values)
    x, y = tw.array(a), tw.array(b)
    for state in ("warn", "ignore", "raise"):
        with np.errstate(all=state):
            assert shown(lambda: op(x, y)) == shown(lambda: op(a, b))
            assert shown(lambda: op(x[3:], b[0].item())) == shown(lambda: op(a[3:], b[0].item()))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        getattr(operator, "i" + op.__name__)(z := tw.array(a), y)
    with np.errstate(all="ignore"):
        same = shown(lambda: getattr(operator, "i" + op.__name__)(tw.array(a), y))
    assert same == shown(lambda: op(a, b)) or told in str(shown(lambda: op(a, b)))
    del z
    quiet = shown(lambda: x + 1.0)  # what an operation has left in the CPU's flags is not told by the next
    assert quiet[-1] == []


def test_what_is_read_only_or_shared_stays() -> None:
    x: Any = tw.arange(20.0)
    held = np.asarray(x)
    x += 1.0
    assert held[0] == 0.0 and x[0] == 1.0
    x.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        x += 1.0
    assert x[0] == 1.0


Number = CLASSES[np.float64]


@pytest.mark.parametrize("op", BINARY)
def test_numbers(op: Any) -> None:
    values = (1.5, -0.0, 0.0, 1e-290, 1e200, 1e308, float("nan"), float("-inf"), 3)
    for a in values:
        for b in values:
            for p, q in ((Number, Number), (Number, float), (float, Number), (np.float64, Number), (Number, int)):
                if q is int and not isinstance(b, int):
                    continue
                left, right = p(a), q(b)
                with np.errstate(all="ignore"):
                    found, expected = op(left, right), op(np.float64(a), np.float64(b))
                assert (type(found) is Number and found.tobytes() == expected.tobytes()) or np.isnan(expected), (a, b)
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                op(Number(a), Number(b))
            mine = [str(w.message) for w in told]
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                op(np.float64(a), np.float64(b))
            assert mine == [str(w.message) for w in told]


def test_numbers_beside_other_things() -> None:
    n, x = tw.arange(4.0).sum(), tw.arange(3.0)

    class Derived(Number):  # type: ignore[misc,valid-type]
        pass

    class Other:
        def __radd__(self, other: Any) -> str:
            return "asked"

        __rmul__ = __radd__

    assert (n * x).tolist() == (x * n).tolist() == [0.0, 6.0, 12.0] and type(n * x) is tw.Array
    assert n + Other() == n * Other() == "asked"
    assert Derived(1.5) + 1.0 == 2.5 == 1.0 + Derived(1.5) and 2.0 * n == n * 2 == 12.0
    assert (n + np.arange(2)).tolist() == [6.0, 7.0] and n + 1j == 6 + 1j
    with pytest.raises(TypeError):
        n + "text"


CALLS = (np.sqrt, np.exp, np.isfinite, np.negative, np.add, np.maximum, np.hypot, np.less, np.ldexp, np.divmod, np.modf)


def test_calls_of_elementwise_functions() -> None:
    """Beside what Python's method gives for the same."""

    def run() -> list[Any]:
        a, n = tw.array(np.linspace(-1.0, 4.0, 12)), tw.array([2.0, 4.0]).sum()
        xs = (
            a,
            a[::2],
            a.reshape(3, 4),
            a[3],
            n,
            Number(-2.0),
            tw.arange(5),
            tw.array(2.0),
            2.5,
            [1.0, 4.0],
            "text",
            None,
        )
        found = []
        for f in CALLS:
            ours = getattr(tw, f.__name__)
            found += [shown(lambda ours=ours, x=x: ours(x)) for x in xs]
            found += [shown(lambda ours=ours, x=x, y=y: ours(x, y)) for x in xs for y in (a, 3, n, [1, 2], None)]
            found += [shown(lambda ours=ours: ours()), shown(lambda ours=ours: ours(a, a, a, a))]
            found += [shown(lambda ours=ours: ours(a, out=tw.zeros(12))), shown(lambda ours=ours: ours(a, other=3))]
            found += [type(r) for r in (tw.sqrt(n), tw.exp(a), tw.isfinite(n))]
        return found

    mine = run()
    takeover.slots().remove()
    try:
        assert str(mine) == str(run())
    finally:
        assert takeover.install()
    assert tw.sqrt(Number(4.0)) == 2.0 and type(tw.sqrt(Number(4.0))) is Number
    pending = tw.ones((600, 600)) + 1.0
    assert tw.sqrt(pending)._cell.node is not None
