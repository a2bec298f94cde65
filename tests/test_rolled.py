"""Loops whose turns are alike run in one kernel with a loop over turns: the same bits, fewer kernels."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some
from tilewise import compiler
from tilewise.array.schedule import loop_flush as loops
from tilewise.array.schedule.promote import TRIES, promotion
from tilewise.backend import llvm
from tilewise.kernel import interpret
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.plan.roll import rolled

SIZES = (1, 7, 100, 1003)


def same(a: Any, b: Any) -> None:
    """Equal to the last bit; of NaNs, that they are."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype and a.shape == b.shape
    np.testing.assert_array_equal(a, b)
    if a.dtype.kind in "fc":
        parts = [(a, b)] if a.dtype.kind == "f" else [(a.real, b.real), (a.imag, b.imag)]
        for x, y in parts:
            np.testing.assert_array_equal(np.signbit(x[~np.isnan(x)]), np.signbit(y[~np.isnan(y)]))


# -- programs ------------------------------------------------------------------------------------------------------


def escape(np: Any, x: Any, y: Any, turns: int) -> Any:
    """Points that leave a circle; the last turn's plane is nobody's."""
    a, b = x * 0, y * 0
    count = np.zeros(x.shape, dtype=np.int64)
    for _ in range(turns):
        inside = a * a + b * b <= 4
        count = count + inside
        a, b = np.where(inside, a * a - b * b + x, a), np.where(inside, 2 * a * b + y, b)
    return (count,)


def collatz(np: Any, x: Any, y: Any, turns: int) -> Any:
    n = np.abs(x * 1000).astype(np.int64) + 1
    steps = np.zeros(x.shape, dtype=np.int64)
    for _ in range(turns):
        going = n != 1
        n = np.where(going, np.where(n % 2 == 0, n // 2, 3 * n + 1), n)
        steps = steps + going
    return n, steps


def wrapping(np: Any, x: Any, y: Any, turns: int) -> Any:
    n = (x * 100).astype(np.int8)
    for _ in range(turns):
        n = n * n - 3
    return (n,)


def pulses(np: Any, x: Any, y: Any, turns: int) -> Any:
    """A number that is another in each turn."""
    z = x * 0.5
    for k in range(turns):
        x, y = y * 0.3 - x, x + y * 0.9
        y, z = (0.25 + k / 7) * y - z, z * (0.125 + k / 9) + y
    return x, y, z


def newton(np: Any, x: Any, y: Any, turns: int) -> Any:
    """Comes to rest long before the end; a sum at last."""
    a = np.abs(x) + 0.5
    r = a
    for _ in range(turns):
        r = 0.5 * (r + a / r)
    return r, (r * y).sum(axis=0)


def chebyshev(np: Any, x: Any, y: Any, turns: int) -> Any:
    """The turn before the last one counts, too."""
    before, now = x * 0 + 1, x
    for _ in range(turns):
        before, now = now, 2.5 * x * now - before
    return (now * y,)


def in_place(np: Any, x: Any, y: Any, turns: int) -> Any:
    x, y = x * 1.5, y * 1.5
    for _ in range(turns):
        x *= 0.99
        y += x
        x -= 0.01
    return x, y


def strange(np: Any, x: Any, y: Any, turns: int) -> Any:
    """NaN, -0.0 and infinities are states as others are."""
    z = np.where(x > 0.5, np.nan, np.where(x > 0, -0.0, np.where(x > -0.5, np.inf, x)))
    flips = np.zeros(x.shape)
    for _ in range(turns):
        flips = flips + np.copysign(1.0, z)
        z = -z
    return z, flips


def held(np: Any, x: Any, y: Any, turns: int) -> Any:
    """Values on the way that somebody keeps."""
    kept = []
    for k in range(turns):
        x = x * 0.75 + y
        y = y * 1.25 - x
        if k % 11 == 5:
            kept.append(x)
    return (x, y, *kept)


def plane(np: Any, x: Any, y: Any, turns: int) -> Any:
    """Complex numbers."""
    c = x + 1j * y
    z = c * 0
    for _ in range(turns):
        z = np.where(z.real * z.real + z.imag * z.imag <= 4, z * z + c, z)
    return (z,)


def nested(np: Any, x: Any, y: Any, turns: int) -> Any:
    for k in range(turns // 5):
        for j in range(5):
            x = x * (0.9 + j / 100) + y
        y = y * 0.5 + x * (0.1 + k / 50)
    return x, y


PROGRAMS: list[Callable[..., Any]] = [
    escape, collatz, wrapping, pulses, newton, chebyshev, in_place, strange, held, plane, nested,
]  # fmt: skip


@pytest.mark.parametrize("tile", [1, 7, None])
@pytest.mark.parametrize("turns", [3, 20, 61, 400])
@pytest.mark.parametrize("program", PROGRAMS, ids=[p.__name__ for p in PROGRAMS])
def test_loops_give_numpys_bits(program: Callable[..., Any], turns: int, tile: int | None, some: Some) -> None:
    rng = np.random.default_rng(turns)
    for shape in some([(5,), (3, 67)]):
        x, y = rng.uniform(-2, 2, shape), rng.uniform(-2, 2, shape)
        with np.errstate(all="ignore"):
            want = program(np, x, y, turns)
        with tw.config(eager_bytes=0, fallback="silent", tile=tile):
            got = tw.evaluate(*program(tw, tw.array(x), tw.array(y), turns))
        got = got if isinstance(got, tuple) else (got,)
        for g, w in zip(got, want, strict=True):
            if program is newton and w.shape != shape:
                np.testing.assert_allclose(g, w, rtol=1e-12)
            else:
                same(g, w)


@pytest.mark.parametrize("program", [escape, collatz, newton, in_place, chebyshev], ids=lambda p: p.__name__)
def test_a_loop_is_one_kernel_of_few_instructions(program: Callable[..., Any]) -> None:
    x = np.random.default_rng(1).uniform(-2, 2, 500)

    def run(turns: int) -> Any:
        return tw.evaluate(*program(tw, tw.array(x), tw.array(x), turns))

    with tw.config(eager_bytes=0, fallback="silent"):
        run(40)
        before = llvm.compiled_count()
        run(41)
        run(43)
        assert llvm.compiled_count() == before  # how often it turns is no part of the code
        plans = compiler.planned_count
        run(40)
        run(43)
        assert (compiler.planned_count, llvm.compiled_count()) == (plans, before)


def test_turns_that_are_not_alike_are_flushed_as_before() -> None:
    arrays = [tw.array(np.full(1000, 0.5 + k)) for k in range(200)]
    with tw.config(eager_bytes=0, fallback="silent"):
        acc = tw.zeros(1000)
        lengths = []
        for a in arrays:
            acc = acc + a
            lengths.append(loops.pending.recorded - loops.pending.began)
        assert max(lengths) <= loops.LONGEST + 1
        assert float(acc[3]) == sum(0.5 + k for k in range(200))


def steps(np: Any, n: Any, turns: int) -> Any:
    count = np.zeros_like(n)
    for _ in range(turns):
        going = n != 1
        n = np.where(going, np.where(n % 2 == 0, n // 2, 3 * n + 1), n)
        count = count + going
    return count


def checked(np: Any, x: Any, turns: int) -> Any:
    """Asks for a number in every turn."""
    for _ in range(turns):
        x = x * 0.5 + 0.25
        if float(x.sum()) < 0:
            break
    return x


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was done at once so far."""
    for name, value in (("count", 0), ("start", None), ("starts", set()), ("refused", 0)):
        monkeypatch.setattr(promotion, name, value)


@pytest.mark.usefixtures("fresh")
def test_long_loops_over_middling_arrays_are_recorded_in_the_end() -> None:
    n = np.arange(1, 50_001)
    want = steps(np, n, 60)
    plans = []
    for _ in range(5):
        got = steps(tw, tw.array(n), 60)
        same(np.asarray(got), want)
        plans.append(compiler.planned_count)
    assert len(promotion.starts) == 1 and not promotion.refused
    assert plans[0] < plans[-1] and plans[-3] == plans[-1]


@pytest.mark.usefixtures("fresh")
def test_loops_that_ask_for_numbers_are_soon_left_alone() -> None:
    x = np.random.default_rng(0).random(50_000)
    want = checked(np, x, 3000)
    same(checked(tw, tw.array(x), 3000), want)
    assert not promotion.starts and promotion.refused <= TRIES


def test_choices_have_numpys_dtypes() -> None:
    m = np.arange(6) % 2 == 0
    values = [np.arange(6).astype(t) for t in ("int8", "int64", "float32", "float64", "complex64", "bool")]
    with tw.config(eager_bytes=0, fallback="silent"):
        for a in values:
            for b in (*values, 3, 2.5, 1j, True):
                want = np.where(m, a, b)
                same(tw.where(tw.array(m) & True, tw.array(a), tw.array(b) if isinstance(b, np.ndarray) else b), want)
                same(tw.where(tw.array(a) > 2, tw.array(a) + 0, b), np.where(a > 2, a + 0, b))
        same(tw.where(tw.array(m) & True, tw.array(values[0]), 300), np.where(m, values[0], 300))


def test_parts_of_pending_complex_numbers() -> None:
    for kind in ("complex64", "complex128"):
        c = (np.arange(12) - 1j * np.arange(12)[::-1]).astype(kind).reshape(3, 4)
        for a in (c, np.asfortranarray(c)):
            with tw.config(eager_bytes=0, fallback="silent"):
                z = tw.array(a) * 2
                same(z.real + z.imag, (a * 2).real + (a * 2).imag)
                same(z.real[1:] * 2, (a * 2).real[1:] * 2)
                same(z.imag.T + 1, (a * 2).imag.T + 1)
                z.real = z.imag * 3
                w = a * 2
                w.real = w.imag * 3
                same(z, w)


# -- bodies --------------------------------------------------------------------------------------------------------

FUNCTIONS = {
    "float64": (("add", 2), ("subtract", 2), ("multiply", 2), ("maximum", 2), ("negative", 1), ("where", 3)),
    "int64": (("add", 2), ("subtract", 2), ("multiply", 2), ("bitwise_xor", 2), ("negative", 1), ("where", 3)),
    "int8": (("add", 2), ("multiply", 2), ("minimum", 2), ("where", 3)),
    "complex128": (("add", 2), ("subtract", 2), ("multiply", 2), ("where", 3)),
}


def body_of(seed: int) -> Kernel:
    """A random turn, again and again, with states, inputs and numbers; perhaps something before and after."""
    draw = random.Random(seed)
    kind = draw.choice(sorted(FUNCTIONS))
    states, turns, each = draw.randint(1, 4), draw.randint(4, 30), draw.randint(3, 9)
    inputs = (kind,) * draw.randint(1, 3)
    tables = draw.random() < 0.4
    params = (kind,) * (1 + (turns if tables else 0))
    body: list[Instr] = []
    base = len(inputs) + len(params)

    def add(fn: str, args: tuple[int, ...], dtype: str = kind) -> int:
        body.append(Instr(fn, args, dtype))
        return base + len(body) - 1

    recipe = [(draw.choice(FUNCTIONS[kind]), [draw.random() for _ in range(4)]) for _ in range(each)]
    state = [draw.randrange(base - (turns if tables else 0)) for _ in range(states)]
    if draw.random() < 0.5:
        state[0] = add("multiply", (state[0], 0))
    picks = [draw.random() for _ in range(states)]
    for turn in range(turns):
        known = [*state, *range(len(inputs)), len(inputs) + (turn + 1 if tables else 0)]
        for (fn, count), at in recipe:
            args = tuple(known[int(r * len(known))] for r in at[:count])
            if fn == "where":
                args = (add("less", (args[0], known[int(at[3] * len(known))]), "bool"), *args[1:])
            known.append(add(fn, args))
        new = known[-each:]
        state = [new[int(p * each)] for p in picks]
    if draw.random() < 0.5:
        state[-1] = add("add", (state[-1], 0))
    outputs = tuple(Output(v) for v in dict.fromkeys(state))
    return Kernel(inputs, params, tuple(body), outputs, (False, False))


@pytest.mark.parametrize("seed", range(60))
def test_rolled_bodies_give_the_same_bits(seed: int) -> None:
    for draw in range(8 * seed, 8 * seed + 8):  # some are short, or much of them is the same in all turns
        kernel = body_of(draw)
        found = rolled(kernel)
        if found is not None:
            break
    assert found is not None
    made, turns = found
    rng = np.random.default_rng(seed)

    def numbers(dtype: str, shape: Any) -> Any:
        if dtype == "complex128":
            return rng.uniform(-1.2, 1.2, shape) + 1j * rng.uniform(-1.2, 1.2, shape)
        return rng.uniform(-1.2, 1.2, shape) if dtype == "float64" else rng.integers(-100, 100, shape).astype(dtype)

    params = [numbers(t, ()) for t in kernel.params]
    tables = [np.array([params[k] for k in row], t) for row, t in zip(turns.tables, made.tables, strict=True)]
    given = [*(params[k] for k in turns.numbers), turns.count, *tables]
    for n in SIZES:
        shape = (3, n)
        inputs = [numbers(t, shape) for t in kernel.inputs]
        want = [np.empty(shape, t) for t in kernel.out_dtypes]
        interpret.run(kernel, shape, inputs, params, want)
        by_numpy = [np.empty(shape, t) for t in kernel.out_dtypes]
        interpret.run(made, shape, inputs, given, by_numpy)
        native = [np.empty(shape, t) for t in kernel.out_dtypes]
        llvm.compile(made, (None, 0, 16, 32)[seed % 4])(shape, inputs, given, native)
        for w, a, b in zip(want, by_numpy, native, strict=True):
            same(a, w)
            same(b, w)
    assert len(made.body) < len(kernel.body)


@pytest.mark.parametrize("turns", [100, 250, 300])
def test_nothing_is_computed_that_nobody_reads(turns: int) -> None:
    def collatz(np: Any, x: Any) -> Any:
        count = np.zeros(x.shape, "i8")
        for _ in range(turns):
            x = np.where(x % 2 == 0, x // 2, 3 * x + 1)
            count = count + (x != 1)
        return x, count

    start = np.random.default_rng(0).integers(1, 1000, 1000)
    for repeat in range(2):
        with tw.config(eager_bytes=0):
            ours = collatz(tw, tw.asarray(start))
            for a, b in zip(ours if repeat else ours[::-1], collatz(np, start)[:: 1 if repeat else -1], strict=True):
                np.testing.assert_array_equal(np.asarray(a), b)


@pytest.mark.usefixtures("fresh")
def test_a_place_that_another_thread_has_given_up() -> None:
    promotion.start = (1, 2)  # no longer among the places where recording begins
    promotion.ended(rolled=False)
    assert promotion.start is None and promotion.refused == 1
