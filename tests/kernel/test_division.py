"""Division by what is the same along a row: by its reciprocal and corrections, with the bits of a division."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import Some
from tests.kernel.support import ND, RUNNABLE, call, one_op
from tilewise.backend.llvm.emit.bodies import divisors as have_inverses
from tilewise.backend.llvm.emit.bodies import row_divisors
from tilewise.backend.llvm.emit.spec import VectorUnit
from tilewise.kernel.loops import Instr, Kernel, Output

DTYPES = ["float64", "float32"]
INTEGER = {"float64": np.int64, "float32": np.int32}
SIZES = [(0, 64), (1, 1), (1, 64), (3, 63), (7, 65), (40, 301)]


def dividends(dtype: str, shape: tuple[int, int]) -> ND:
    """Any bits, numbers near 1, whole numbers, zeros of both signs, infinities: in turn by rows."""
    rng, info = np.random.default_rng(5), np.iinfo(INTEGER[dtype])
    kinds = [
        rng.integers(info.min, info.max, shape, INTEGER[dtype], endpoint=True).view(dtype),
        (1 + rng.integers(0, 64, shape) * np.finfo(dtype).eps).astype(dtype),
        rng.integers(-1000, 1000, shape).astype(dtype),
        rng.choice([0.0, -0.0, 1.5, -2.5, np.inf, np.nan, np.finfo(dtype).tiny / 8], shape).astype(dtype),
        rng.normal(size=shape).astype(dtype),
    ]
    return np.where(np.arange(shape[0])[:, None] % 2, kinds[rng.integers(5)], kinds[rng.integers(4)])


def divisors(dtype: str, rows: int) -> ND:
    rng, info = np.random.default_rng(6), np.iinfo(INTEGER[dtype])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, -3.0, 1 - np.finfo(dtype).eps / 2, np.finfo(dtype).tiny / 2, 3.0]
    found = np.where(rng.random(rows) < 0.5, rng.random(rows), 1 + rng.integers(0, 64, rows) * np.finfo(dtype).eps)
    found = found.astype(dtype)
    found[: rows // 2] = rng.choice(special, rows // 2)
    found[rows // 2 : rows // 2 + 3] = rng.integers(info.min, info.max, 3, INTEGER[dtype]).view(dtype)[: rows // 2 + 1]
    return found[:, None]


def same_bits(a: ND, b: ND) -> bool:
    ints = INTEGER[a.dtype.name]
    return bool(np.all((a.view(ints) == b.view(ints)) | (np.isnan(a) & np.isnan(b))))


@pytest.mark.parametrize("width", RUNNABLE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_by_a_number_each(dtype: str, width: int | None) -> None:
    kernel = one_op("divide", (dtype, dtype), dtype, rank=2)
    for shape in SIZES:
        for x in (dividends(dtype, shape), np.asfortranarray(dividends(dtype, shape))):
            s = divisors(dtype, shape[0])
            (got,) = call(kernel, shape, [x, s], width=width)
            with np.errstate(all="ignore"):
                assert same_bits(got, x / s), shape


@pytest.mark.quick_code
@pytest.mark.parametrize("width", RUNNABLE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_all_by_one_number(dtype: str, width: int | None, some: Some) -> None:
    for size in (1, 2, 63, 64, 1003):
        x = dividends(dtype, (4, size)).ravel()
        for s in some(divisors(dtype, 40).ravel()):
            given = Kernel((dtype,), (dtype,), (Instr("divide", (0, 1), dtype),), (Output(2),), (False,))
            constant = Instr(f"const:{float(s)!r}", (), dtype)
            known = Kernel((dtype,), (), (constant, Instr("divide", (0, 1), dtype)), (Output(2),), (False,))
            with np.errstate(all="ignore"):
                want = x / s
            assert same_bits(call(given, x.shape, [x], [s], width=width)[0], want), s
            if size == 1003:
                assert same_bits(call(known, x.shape, [x], width=width)[0], want), s


@pytest.mark.parametrize("width", RUNNABLE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_by_a_number_each(dtype: str, width: int | None) -> None:
    kernel = one_op("divide", (dtype, dtype), dtype, rank=2)
    for shape in [(16, 1), (15, 9), (16, 9), (30, 50), (3, 1024), (17, 1024), (17, 1025)]:
        x, s = dividends(dtype, shape), divisors(dtype, shape[1]).ravel()
        with np.errstate(all="ignore"):
            want = x / s
        for y in (x, np.asfortranarray(x), np.repeat(x, 2, 0)[::2]):
            assert same_bits(call(kernel, shape, [y, s], width=width)[0], want), shape
    deep = one_op("divide", (dtype, dtype), dtype, rank=3)
    x, s = dividends(dtype, (60, 7)).reshape(5, 12, 7), divisors(dtype, 84).reshape(12, 7)
    with np.errstate(all="ignore"):
        assert same_bits(call(deep, x.shape, [x, s], width=width)[0], x / s)
        assert same_bits(call(deep, x.shape, [x, s[0]], width=width)[0], x / s[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_zeros_among_others_keep_their_sign(dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = (rng.normal(size=4001) * rng.choice([0, 1, -1], 4001)).astype(dtype)
    kernel = Kernel((dtype,), (dtype,), (Instr("divide", (0, 1), dtype),), (Output(2),), (False,))
    for s in np.array([3, -3, 0.1, -7e-9, 1e20], dtype):
        assert same_bits(call(kernel, x.shape, [x], [s])[0], x / s)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_divisor_that_is_computed_and_a_reduction(dtype: str) -> None:
    body = (Instr("sqrt", (1,), dtype), Instr("divide", (0, 2), dtype), Instr("divide", (3, 3), dtype))
    kernel = Kernel((dtype, dtype), (), body, (Output(3), Output(4), Output(3, "maximum")), (False, True))
    rng = np.random.default_rng(1)
    for shape in ((1, 64), (9, 200), (2, 5000)):
        x, s = rng.normal(size=shape).astype(dtype), rng.random((shape[0], 1)).astype(dtype)
        outs = [np.empty(shape, dtype), np.empty(shape, dtype), np.empty(shape[0], dtype)]
        got, ones, most = call(kernel, shape, [x, s], outs=outs)
        want = x / np.sqrt(s)
        assert same_bits(got, want) and np.all(ones == 1) and same_bits(most, want.max(1))


def test_many_random_quotients_have_the_bits_of_a_division() -> None:
    kernel, rng = one_op("divide", ("float64",) * 2, "float64", rank=2), np.random.default_rng(7)
    for _ in range(5):
        x, s = rng.random((200, 5000)), rng.random((200, 1))
        assert same_bits(call(kernel, x.shape, [x, s])[0], x / s)


def test_quotients_as_close_to_the_middle_of_two_numbers_as_can_be() -> None:
    """x / s = m / 2**54 -+ 1 / (s 2**54) with an odd m of 54 bits: without the correction some are rounded wrongly."""
    rng, pairs = np.random.default_rng(9), []
    for s in (rng.integers(2**52, 2**53, 4000) | 1).tolist():
        for off in (1, -1):
            m = -off * pow(s, -1, 2**54) % 2**54
            if m >= 2**53:
                pairs.append(((s * m + off) // 2**54, s))
    x, s = np.array(pairs[:3072], float).T.reshape(2, 3, 1024)
    kernel = one_op("divide", ("float64",) * 2, "float64", rank=2)
    for k in range(3):
        rows = np.repeat(x[k][None], 16, 0)
        assert same_bits(call(kernel, rows.shape, [rows, s[k]])[0], rows / s[k])  # one row for all rows
    tall, by = np.repeat(x[0][:, None], 64, 1), s[0][:, None]
    assert same_bits(call(kernel, tall.shape, [tall, by])[0], tall / by)  # a number for each row


def short_divisors(dtype: str) -> ND:
    """Of few bits, as most that are written down; and some that just are not."""
    most = 2.0 ** (32 if dtype == "float64" else 12)
    written = [1, 3, 5, 6, 7, 9, 10, 12, 49, 60, 100, 255, 360, 1000, 4095, 0.75, 2.5, 1.25, 1e-3, 0.1, 8, 0.5]
    return np.array(
        [*written, most - 1, most, most + 1, most / 2 + 1, 1 / most, 1.5 / most, 0.5 / most, most * 2], dtype
    )


def hard_dividends(dtype: str, s: float) -> ND:
    """Any bits, every binary exponent, specials, and what is closest to the middle of two numbers."""
    rng, info, limits = np.random.default_rng(4), np.iinfo(INTEGER[dtype]), np.finfo(dtype)
    bits = rng.integers(info.min, info.max, 20_000, INTEGER[dtype], endpoint=True).view(dtype)
    powers = np.ldexp(rng.random(9000) + 0.5, rng.integers(limits.minexp - 60, limits.maxexp, 9000)).astype(dtype)
    few = (rng.integers(0, 2000, 2000) * limits.smallest_subnormal).astype(dtype)
    quotients = np.ldexp(rng.integers(2**limits.nmant, 2 ** (limits.nmant + 1), 20_000).astype(float), -limits.nmant)
    middles = ((quotients + limits.eps / 2) * s).astype(dtype)
    below = np.nextafter(middles, np.array(0, dtype))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, limits.min, limits.tiny], dtype)
    return np.concatenate([bits, powers, few, -few, middles, below, special])


@pytest.mark.parametrize("width", RUNNABLE)
@pytest.mark.parametrize("dtype", DTYPES)
def test_short_divisors(dtype: str, width: int | None) -> None:
    kernel = Kernel((dtype,), (dtype,), (Instr("divide", (0, 1), dtype),), (Output(2),), (False,))
    for s in short_divisors(dtype):
        x = hard_dividends(dtype, float(s))
        with np.errstate(all="ignore"):
            assert same_bits(call(kernel, x.shape, [x], [s], width=width)[0], x / s), s
            pairs = x[: x.size // 2 * 2].reshape(2, -1)
            for y in (pairs, np.sort(pairs)):  # alone among others, and all together
                by = np.array([[s], [s * 3]])
                got = call(one_op("divide", (dtype, dtype), dtype, rank=2), y.shape, [y, by], width=width)[0]
                assert same_bits(got, y / by), s


def test_who_is_divided_by_inverses() -> None:
    """By the divider: of ARM for doubles, of AVX-512; not by powers of two, which have exact reciprocals anyway."""
    arm, avx2, avx512 = (
        VectorUnit(16, False, 32, True, True),
        VectorUnit(32, False, 16, False, False),
        VectorUnit(64, True, 32, False, False),
    )

    def by_number(dtype: str, constant: float | None = None) -> Kernel:
        known = () if constant is None else (Instr(f"const:{constant!r}", (), dtype),)
        params = (dtype,) if constant is None else ()
        return Kernel((dtype,), params, (*known, Instr("divide", (0, 1), dtype)), (Output(2),), (False,))

    plain, row = ("unit", "unit"), one_op("divide", ("float64",) * 2, "float64", rank=2)
    for machine, wide in ((arm, {1}), (avx2, set()), (avx512, {1})):
        assert have_inverses(by_number("float64"), plain, machine) == wide
        assert have_inverses(by_number("float64", 3.0), plain, machine) == wide
        assert not have_inverses(by_number("float64", 4.0), plain, machine)
        assert have_inverses(row, ("unit", "zero", "unit"), machine) == wide
        assert set(row_divisors(row, ("unit",) * 3, machine)) == wide
    assert not have_inverses(by_number("float32"), plain, arm) and have_inverses(by_number("float32"), plain, avx512)
    long = tuple(Instr("exp", (k,), "float64") for k in range(2, 5))
    body = Kernel(("float64",), ("float64",), (Instr("divide", (0, 1), "float64"), *long), (Output(5),), (False,))
    assert not have_inverses(body, plain, arm)
