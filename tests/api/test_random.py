"""NumPy's streams exactly, and numbers by position: the same whatever the pieces, and random."""

from __future__ import annotations

import pickle
from typing import Any

import numpy
import pytest

import tilewise as tw
from tilewise.backend import ahead

N = 200_000
SEVERAL = 5.0  # standard errors; one test in a few million would fail by chance, but the numbers are fixed


def counter(seed: int = 1) -> tw.random.Generator:
    return tw.random.Generator(tw.random.Counter(seed))


STREAMS = """
r.random(5)
r.normal(1, 2, (2, 3))
r.integers(0, 10, 7)
r.uniform(-1, 1, 4)
r.choice(10, 3, replace=False)
r.permutation(6)
r.standard_normal((3,), dtype=np.float32)
r.exponential(2.0, 3)
r.poisson(3, 4)
r.shuffle(x) or x
r.random()
r.integers(5)
"""


LONG = 3 << 18  # numbers that several threads draw
DRAWS = [
    lambda r: r.random(LONG),
    lambda r: r.random((3, LONG // 3 + 1)),
    lambda r: r.uniform(-1.5, 2, size=LONG + 7),
    lambda r: r.integers(0, 10, 3, dtype="int32"),  # leaves half of a step
    lambda r: r.uniform(2, 5, LONG),
    lambda r: r.uniform(0.1, LONG),  # one number
    lambda r: r.random(2 * LONG, dtype="float32"),
    lambda r: r.integers(0, 10, 3, dtype="int32"),
]


@pytest.mark.parametrize("source", ["PCG64", "PCG64DXSM", "Philox", "MT19937"])
def test_long_draws_of_numpys_streams(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_opened", True)
    ours = tw.random.Generator(getattr(numpy.random, source)(5))
    theirs = numpy.random.Generator(getattr(numpy.random, source)(5))
    with tw.config(threads=3):
        for draw in DRAWS:
            assert numpy.asarray(draw(ours)).tobytes() == numpy.asarray(draw(theirs)).tobytes()
        with pytest.raises(OverflowError, match="exceeds valid bounds"):
            ours.uniform(-1e308, 1e308, LONG)
        assert ours.random() == theirs.random()


@pytest.mark.parametrize("text", [line for line in STREAMS.splitlines() if line])
def test_numpys_streams(text: str) -> None:
    for make in (
        "np.random.default_rng(42)",
        "np.random.Generator(np.random.PCG64(3))",
        "np.random.Generator(np.random.MT19937(3))",
    ):
        ours, theirs = (eval(text, {"np": m, "r": eval(make, {"np": m}), "x": m.arange(6)}) for m in (tw, numpy))
        assert numpy.array_equal(ours, theirs)


def test_the_legacy_functions_are_numpys() -> None:
    results = []
    for m in (tw, numpy):
        m.random.seed(5)
        results.append(
            [m.random.rand(3), m.random.randn(2, 2), m.random.randint(0, 9, 4), m.random.RandomState(1).normal(size=2)]
        )
    assert all(numpy.array_equal(a, b) for a, b in zip(*results, strict=True))


def test_position_decides() -> None:
    whole = counter().random(1000).compute()
    rng = counter()
    assert (
        numpy.concatenate([rng.random(300), rng.random((7, 100))[3:].reshape(-1)[:0], rng.random(0)]).tolist()
        == whole[:300].tolist()
    )
    with tw.config(eager_bytes=0):
        assert counter().random((10, 100)).reshape(-1).compute().tolist() == whole.tolist()
    assert counter().normal(size=50)[20:].tolist() == counter().normal(size=(50,)).tolist()[20:]
    again = pickle.loads(pickle.dumps(rng))
    assert again.random(5).tolist() == rng.random(5).tolist()


def test_a_large_draw_is_recorded() -> None:
    x = counter().random(10**6)
    assert x._cell.node is not None
    assert x[:10].tolist() == counter().random(10).tolist()


def test_uniform_is_uniform() -> None:
    x = counter().random(N).compute()
    assert x.min() >= 0.0 and x.max() < 1.0
    assert abs(x.mean() - 0.5) < SEVERAL / numpy.sqrt(12 * N)
    counts = numpy.bincount((x * 100).astype(int), minlength=100)
    chi = float(((counts - N / 100) ** 2 / (N / 100)).sum())
    assert 50 < chi < 160  # 99 degrees of freedom
    for lag in (1, 2, 17):
        r = numpy.corrcoef(x[:-lag], x[lag:])[0, 1]
        assert abs(r) < SEVERAL / numpy.sqrt(N)


def test_every_bit_is_fair_and_a_neighbour_flips_half_of_them() -> None:
    from tilewise.ops.random import bits

    x = bits((11, 12), 0, N)
    planes = numpy.unpackbits(x.view(numpy.uint8)).reshape(N, 64)
    assert numpy.abs(planes.mean(axis=0) - 0.5).max() < SEVERAL / (2 * numpy.sqrt(N))
    for other in (bits((11, 12), 1, N), bits((12, 12), 0, N), bits((11, 13), 0, N), bits((11, 12), 1 << 40, N)):
        flips = numpy.bitwise_count(x ^ other)
        assert abs(flips.mean() - 32) < SEVERAL * 4 / numpy.sqrt(N) and abs(flips.std() - 4) < 0.05


def test_seeds_and_children_are_independent() -> None:
    first, second = counter().spawn(2)
    draws = [counter(0), counter(1), counter(2), first, second]
    r = numpy.corrcoef([d.random(N).compute() for d in draws])
    assert numpy.abs(r - numpy.eye(5)).max() < SEVERAL / numpy.sqrt(N)


def test_normal_is_normal() -> None:
    x = counter().standard_normal(N).compute()
    for power, moment, spread in ((1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)):
        assert abs((x**power).mean() - moment) < SEVERAL * numpy.sqrt(spread / N)
    quantiles = numpy.quantile(x, [0.025, 0.5, 0.975])
    assert numpy.abs(quantiles - [-1.95996, 0.0, 1.95996]).max() < 0.03
    y = counter().normal(3.0, 0.5, N).compute()
    assert numpy.allclose(y, x * 0.5 + 3.0)


def test_integers_cover_their_range() -> None:
    x = counter().integers(-3, 4, N)
    counts = numpy.bincount(x.compute() + 3, minlength=7)
    assert len(counts) == 7 and numpy.abs(counts - N / 7).max() < SEVERAL * numpy.sqrt(N / 7)
    assert counter().integers(0, 5, 1000, endpoint=True).max() == 5
    assert counter().integers(0, 200, 10, dtype=numpy.uint8).dtype == numpy.uint8
    wide = counter().integers(-(2**63), 2**63, N).compute().astype(float)
    assert abs(wide.mean()) < SEVERAL * 2**63 / numpy.sqrt(3 * N)
    assert (counter().integers([0, 100], [10, 200], (50, 2)).compute() // 100 == [0, 1]).all()


WRONG = (
    "integers(5, 5)",
    "integers(0, 300, dtype=numpy.uint8)",
    "normal(0, -1)",
    "uniform(1, 0)",
    "random(-1)",
    "random(dtype=int)",
)


@pytest.mark.parametrize("text", WRONG)
def test_wrong_arguments(text: str) -> None:
    ours, theirs = [], []
    for make, into in ((counter, ours), (numpy.random.default_rng, theirs)):
        try:
            eval(f"r.{text}", {"r": make(), "numpy": numpy})
        except Exception as error:
            into.append(type(error))
    assert ours == theirs != []


def test_special_functions() -> None:
    special = pytest.importorskip("scipy.special")
    with tw.config(eager_bytes=0):
        x = tw.linspace(-2.0, 2.0, 101)
        both = tw.special.erf(x), special.erf(x)
        assert all(type(ours) is tw.Array and ours._cell.node is not None for ours in both)
        for ours in both:
            assert numpy.allclose(ours, special.erf(numpy.linspace(-2.0, 2.0, 101)), rtol=1e-14)
        y = tw.special.gammaln(x + 3.0) * 2.0
        assert numpy.allclose(y, special.gammaln(numpy.linspace(-2.0, 2.0, 101) + 3.0) * 2.0)
        assert numpy.allclose(pickle.loads(pickle.dumps(y)), y)
        assert numpy.allclose(special.xlogy(x, x + 3.0), special.xlogy(x.compute(), x.compute() + 3.0))
    assert float(tw.special.logsumexp(tw.array([1.0, 2.0]))) == pytest.approx(2.313261687518223)


@pytest.mark.parametrize("name", ["random", "standard_normal", "normal", "exponential"])
@pytest.mark.parametrize("size", [300_001, (400, 1000), (0, 400_000), 7])
def test_large_draws_are_the_same_stream(name: str, size: Any) -> None:
    """Some are drawn into pooled memory: the numbers, and those drawn after them, are NumPy's."""
    ours, theirs = tw.random.default_rng(3), numpy.random.default_rng(3)
    for _ in range(2):
        got, want = getattr(ours, name)(size=size), getattr(theirs, name)(size=size)
        assert got.shape == want.shape and got.dtype == want.dtype
        assert numpy.array_equal(numpy.asarray(got), want)
        got += 1  # it is the program's own
    assert ours.random() == theirs.random()


def test_draws_that_no_memory_holds_are_refused_as_by_numpy() -> None:
    calls = (
        "random((2**40, 2**40))",
        "uniform(0, 1, (2**40, 2**40))",
        "standard_normal(2**62)",
        "uniform(3, 1, 600_000)",
    )
    for call in calls:
        said = []
        for generator in (numpy.random.default_rng(3), tw.random.default_rng(3)):
            with pytest.raises((ValueError, OverflowError)) as error:
                eval(f"r.{call}", {"r": generator})
            said.append((error.type, str(error.value), generator.bit_generator.state))
        assert said[0] == said[1]
    with pytest.raises(ValueError, match="array is too big"):
        tw.empty((2**40, 2**40))
