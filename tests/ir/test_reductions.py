"""The table of reductions: identities of every dtype, contributions of parts, order and bits of combining, pickling."""

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewise as tw
from tilewise.ir.reductions import POSITION, SPLITTING, Combining, Reduction, by_name, every, user_reduction
from tilewise.layout import Partial

NUMBERS = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
TIMES = ["m8[s]", "M8[D]"]


def samples(dtype: str) -> Any:
    """Values of a dtype, with those at its ends."""
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return np.array([True, False])
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        return np.array([limits.min, limits.max, 0, 1, 5], kind)
    if kind.kind in "mM":
        return np.array([3, -4, "NaT", np.iinfo(np.int64).max, np.iinfo(np.int64).min + 1], kind)
    special = [1.5, -2.0, np.inf, -np.inf, np.nan, 0.0]
    if kind.kind == "c":
        special += [complex(np.inf, 5), complex(np.inf, np.inf), complex(-np.inf, -3), complex(-np.inf, -np.inf)]
    return np.array(special, kind)


def has(row: Reduction, dtype: str) -> bool:
    """Whether NumPy reduces values of this dtype by it, to values of the same dtype."""
    try:
        made = row.ufunc.reduce(np.ones(2, dtype))  # type: ignore[union-attr]
    except TypeError:
        return False
    return made.dtype == row.kind(np.dtype(dtype)) or np.dtype(dtype).kind in "biu"


UFUNC_ROWS = [r for r in every() if r.name in SPLITTING]


@pytest.mark.parametrize("dtype", [*NUMBERS, *TIMES])
@pytest.mark.parametrize("row", UFUNC_ROWS, ids=lambda r: r.name)
def test_an_identity_changes_nothing(row: Reduction, dtype: str) -> None:
    kind = row.kind(np.dtype(dtype))
    if not has(row, dtype):
        if kind == np.dtype(dtype) and np.dtype(dtype).kind == "M":
            with pytest.raises(TypeError, match="no identity"):
                row.identity(kind)
        return
    x = samples(dtype)
    if row.name == "multiply" and x.dtype.kind == "c":
        x = x[np.isfinite(x)]  # one times what is infinite is NaN, and is so in NumPy's own products
    values = row.lift(x, np.arange(len(x)))
    nothing = row.identity(kind)
    assert nothing.dtype == kind == values.dtype
    filled = np.full(values.shape, nothing)
    for pair in ((filled, values), (values, filled)):
        made = row.combine(*pair)
        if row.name in ("fmin", "fmax") and made.dtype.kind == "c":  # which NaN is not said
            made, values = (np.where(np.isnan(x), np.nan, x) for x in (made, values))
        np.testing.assert_array_equal(made, values)
    if row.ufunc is not None and row.ufunc.identity is not None:
        np.testing.assert_array_equal(nothing, row.ufunc.reduce(np.empty(0, dtype), dtype=None).astype(kind))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor"])
def test_bits_of_floats_have_no_identity(name: str) -> None:
    with pytest.raises(TypeError, match="no identity"):
        by_name(name).identity("float64")


@pytest.mark.parametrize("dtype", [*NUMBERS, *TIMES])
@pytest.mark.parametrize("name", ["argmin", "argmax"])
@given(seed=st.integers(0, 1000))
def test_positions_of_parts(name: str, dtype: str, seed: int) -> None:
    row, rng = by_name(name), np.random.default_rng(seed)
    x = rng.choice(samples(dtype), rng.integers(1, 9))
    parts = row.lift(x, np.arange(len(x)))
    parts = np.concatenate([parts, np.full(3, row.identity(parts.dtype))])  # nothing, at any place
    rng.shuffle(parts)  # positions say which was first
    made = row.lower(np.asarray(row.combined(parts.reshape(-1, 1))))
    assert made.dtype == POSITION and made[0] == getattr(np, name)(x)


def spread(parts: list[Any]) -> Any:
    row = by_name("moments")
    return row.combined([row.combined(row.lift(p, np.arange(len(p)))) for p in parts])


@pytest.mark.parametrize("dtype", ["int32", "float32", "float64", "complex128"])
def test_moments_of_parts(dtype: str) -> None:
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((101, 4)) * 50).astype(dtype)
    if dtype == "complex128":
        x = x + 1j * rng.standard_normal(x.shape)
    made = spread([x[:7], x[7:7], x[7:90], x[90:]])
    assert (made["count"] == 101).all()
    wide = x.astype(np.complex128 if dtype == "complex128" else np.float64)
    np.testing.assert_allclose(made["mean"], wide.mean(0), rtol=1e-13)
    np.testing.assert_allclose(by_name("moments").lower(made), wide.var(0) * 101, rtol=1e-12)


@pytest.mark.parametrize("offset", [1e6, 1e9, -1e12])
def test_moments_of_ill_conditioned_data(offset: float) -> None:
    """Means that are far larger than deviations: squares of the values would lose all digits."""
    rng = np.random.default_rng(4)
    off = rng.integers(-1000, 1000, (1000, 3)).astype(float)
    made = spread(np.array_split(off + offset, 16))
    np.testing.assert_allclose(made["squares"] / 1000, off.var(0), rtol=2e-16 * abs(offset) + 1e-12)
    assert (spread(np.array_split(np.full((100, 2), offset), 7))["squares"] == 0).all()


def test_moments_keep_what_is_not_finite() -> None:
    x = np.array([[1.0, np.inf, np.nan], [2.0, 1.0, 1.0]])
    made = spread([x[:1], x[1:], x[:0]])
    assert np.isnan(made["squares"]).tolist() == [False, True, True] and made["count"].tolist() == [2, 2, 2]
    row = by_name("moments")
    alone = row.lift(x[0], np.arange(3))
    nothing = np.full(3, row.identity(alone.dtype))
    for pair in ((alone, nothing), (nothing, alone)):
        np.testing.assert_array_equal(row.combine(*pair)["mean"], x[0])


@given(st.integers(1, 40), st.sampled_from([1, 2, 4, 8]), st.integers(0, 99))
def test_bits_do_not_depend_on_who_combines(blocks: int, run: int, seed: int) -> None:
    """Runs of 1, 2, 4 or 8 contributions that are combined elsewhere give the bits of all in one place."""
    rng = np.random.default_rng(seed)
    row = by_name("add")
    parts: list[Any] = [rng.standard_normal(3) if rng.random() < 0.9 else None for _ in range(blocks)]
    kept = [None if p is None else p.copy() for p in parts]
    whole = row.combined(parts)
    there = row.combined([row.combined(parts[k : k + run]) for k in range(0, blocks, run)], np.empty(3))
    if whole is None:
        assert there is None
    else:
        assert there is not None and whole.tobytes() == there.tobytes()
    for before, after in zip(kept, parts, strict=True):
        np.testing.assert_array_equal(before, after)  # contributions may be someone else's memory


def test_only_a_branch_of_each_height_is_kept() -> None:
    tree = Combining(by_name("add"))
    for k in range(1000):
        tree.add(np.full(1, float(k)))
    assert len(tree._branches) <= 10
    assert tree.result() == 999 * 500


@pytest.mark.parametrize("row", every(), ids=lambda r: r.name)
def test_rows_are_sent_by_name(row: Reduction) -> None:
    text = pickle.dumps(Partial(row))
    assert len(text) < 120 and pickle.loads(text) == Partial(row) == Partial(row.name)
    assert pickle.loads(text).op is row


def last(a: Any, b: Any) -> Any:
    """Associative, not commutative: the last that is positive, or the first of all."""
    return np.where(b > 0, b, a)


def test_a_users_function_is_a_reduction() -> None:
    row = user_reduction("last", ("last", 1), last)
    assert user_reduction("last", ("last", 1), last) is row
    assert pickle.loads(pickle.dumps(Partial(row))) == Partial(row) != Partial("add")
    values = row.lift(np.array([[-1, 5], [2, 4], [3, -3], [-7, -8]]), np.arange(4))
    nothing = np.full(2, row.identity(values.dtype))
    made = row.combined([nothing, values[0], nothing, row.combined([values[1], values[2]]), nothing, values[3]])
    assert made is not None and row.lower(made).tolist() == [3, 4]
    assert not row.combine(nothing, nothing)["there"].any()
    some = values[:2, 0].copy()
    some["there"][0] = False
    assert row.lower(row.combine(some, values[2:, 0])).tolist() == [3, 2]


@pytest.mark.parametrize("mesh", [2, 3, 5, (2, 2)])
@pytest.mark.parametrize("rows", [1, 2, 7, 60])
def test_folds_along_the_axis_that_is_cut(rows: int, mesh: Any) -> None:
    """A user's function is reduced by an exchange, in the order of blocks: what crosses is what was announced."""
    x = np.random.default_rng(rows).integers(-9, 9, (rows, 3))
    for blocks in (1, 3):
        with tw.config(eager_bytes=0, objective="bytes", blocks=blocks), tw.session(engine="virtual", mesh=mesh) as s:
            y = tw.fold(lambda a, b: np.where(b > 0, b, a), tw.asarray(x).relayout(0))
            want = x[0]
            for row in x[1:]:
                want = np.where(row > 0, row, want)
            np.testing.assert_array_equal(np.asarray(y), want)
            assert s.cluster is not None
            now = s.cluster.counters
            assert now.network_bytes == now.predicted_bytes


@pytest.mark.parametrize("initial", [2.5, -0.0, np.nan])
@pytest.mark.parametrize("mesh", [1, 3, 4, (2, 2)])
def test_a_first_value_counts_once(mesh: Any, initial: float) -> None:
    """Whatever the blocks, some of them empty; and it comes first."""
    for shape in ((1, 3), (5, 3), (40, 7), (9,), (6, 0), (0, 4)):
        x = (np.arange(np.prod(shape)) % 11 - 4.0).reshape(shape) / 8
        for blocks in (1, 2):
            with tw.config(eager_bytes=0, blocks=blocks), tw.session(engine="virtual", mesh=mesh) as session:
                y = tw.asarray(x).relayout(0) if len(x) else tw.asarray(x)
                last = np.asarray(tw.fold(lambda a, b: b, y, initial=initial))
                first = np.asarray(tw.fold(lambda a, b: a, y, initial=initial))
                made = np.asarray(tw.fold(lambda a, b: a + b + a * b, y, initial=initial))
                counted = session.cluster.counters if session.cluster is not None else None
                assert counted is None or counted.network_bytes == counted.predicted_bytes
            np.testing.assert_array_equal(first, np.full(shape[1:], initial))
            np.testing.assert_array_equal(last, x[-1] if len(x) else np.full(shape[1:], initial))
            np.testing.assert_allclose(made, (np.prod(1 + x, 0)) * (1 + initial) - 1, atol=1e-12)
            assert made.dtype == np.float64


def test_a_fold_with_a_first_value_sends_contributions_only() -> None:
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        x = tw.evaluate(tw.asarray(np.ones((4000, 3))).relayout(0))
        plain, begun = (tw.explain(tw.fold(lambda a, b: a + b + a * b, x, initial=i)) for i in (None, 2.0))
        assert begun.network_bytes == plain.network_bytes == 12 * 3 * 9  # from each to each


def test_a_fold_sends_contributions_only() -> None:
    x = np.random.default_rng(0).standard_normal((4000, 3))
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=4):
        y = tw.asarray(x).relayout(0)
        tw.evaluate(y)
        made = tw.fold(lambda a, b: a + b + a * b, y * 0.001)
        assert tw.explain(made).network_bytes <= 2 * 3 * 3 * 9
        np.testing.assert_allclose(np.asarray(made), np.prod(1 + x * 0.001, axis=0) - 1, rtol=1e-10)


# -- what had drifted apart: each of these was wrong, or raised, on a mesh or in a user's function --------------------


def on_mesh(program: Any, x: Any, workers: int = 4) -> Any:
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(engine="virtual", workers=workers):
        return np.asarray(program(tw.asarray(x).relayout(0)))


@pytest.mark.parametrize("dtype", ["uint8", "int64", "bool"])
def test_bits_in_all_rows_of_fewer_rows_than_workers(dtype: str) -> None:
    x = np.array([[7, 5, 255], [3, 5, 254]]).astype(np.uint8).astype(dtype)
    np.testing.assert_array_equal(
        on_mesh(lambda x: np.bitwise_and.reduce(x, axis=0), x), np.bitwise_and.reduce(x, axis=0)
    )


@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_of_complex_numbers_of_fewer_rows_than_workers(name: str) -> None:
    x = np.array([[complex(np.inf, 5), complex(-np.inf, -5)]] * 2)
    np.testing.assert_array_equal(on_mesh(lambda x: getattr(np, name)(x, axis=0), x), getattr(np, name)(x, axis=0))


@pytest.mark.parametrize("accum", ["fmin", "fmax"])
def test_updates_of_nan_alone_stay_nan(accum: str) -> None:
    x = np.full((4, 2), np.nan)
    x[:, 1] = range(4)
    got = np.asarray(tw.join_update(lambda t: t.max(0), (x,), axes=(0,), shape=(2,), accum=accum))
    np.testing.assert_array_equal(got, [np.nan, 3])


@pytest.mark.parametrize("accum", ["minimum", "maximum"])
def test_updates_of_complex_numbers(accum: str) -> None:
    x = np.array([1 + 2j, 3 - 1j])
    made = np.asarray(tw.join_update(lambda t: getattr(np, accum).reduce(t, 0), (x[:, None],), (0,), (1,), accum))
    assert made == getattr(np, accum).reduce(x)


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_extremes_of_booleans_by_key(name: str) -> None:
    x = np.array([True, False, True, True])
    keys = np.array([0, 0, 1, 1])
    with tw.config(eager_bytes=0):
        out = tw.zeros(3, bool) if name == "maximum" else tw.ones(3, bool)
        getattr(np, name).at(out, keys, tw.asarray(x))
        want = np.zeros(3, bool) if name == "maximum" else np.ones(3, bool)
        getattr(np, name).at(want, keys, x)
        np.testing.assert_array_equal(np.asarray(out), want)


def test_sums_have_the_same_bits_whoever_holds_the_blocks() -> None:
    """Eight blocks on one, two, four and eight workers."""
    x = np.random.default_rng(5).standard_normal((800, 5))
    found = set()
    for workers, blocks in ((1, 8), (2, 4), (4, 2), (8, 1)):
        with tw.config(eager_bytes=0, blocks=blocks), tw.session(engine="virtual", workers=workers):
            found.add(np.asarray((tw.asarray(x).relayout(0) * 3).sum(0)).tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("shape", [(0, 2), (1,), (7, 3), (9001,)])
@pytest.mark.parametrize("name", ["add", "maximum", "argmin", "count", "moments"])
def test_folds_by_rows_of_the_table(name: str, shape: tuple[int, ...], workers: int) -> None:
    x = np.random.default_rng(3).integers(-5, 5, shape).astype(float)
    numpy: Any = {
        "add": np.add.reduce,
        "maximum": np.maximum.reduce,
        "argmin": np.argmin,
        "count": np.count_nonzero,
        "moments": lambda v, axis: v.var(axis) * len(v),
    }[name]
    with tw.config(eager_bytes=0), tw.session("virtual", workers=workers) as session:
        found = np.asarray(tw.fold(name, tw.asarray(x)))
        counters = session.cluster.counters  # type: ignore[union-attr]
        assert counters.network_bytes == counters.predicted_bytes
    if len(x) or name in ("add", "count"):
        np.testing.assert_allclose(found, numpy(x, axis=0), atol=1e-9)
    else:  # what changes nothing
        row = by_name(name)
        assert (found == row.lower(np.asarray(row.identity(row.kind(x.dtype))))).all()


def test_a_fold_by_a_reduction_begins_with_its_identity() -> None:
    with pytest.raises(TypeError, match="begins with its identity"):
        tw.fold("add", tw.ones(3), initial=1.0)


def test_a_reduction_that_is_in_no_table_is_sent_by_its_parts() -> None:
    add = by_name("add")
    other = Reduction("mine", "mine", np.dtype, np.zeros(()).astype, np.add, np.add, np.positive, np.add)
    sent = pickle.loads(pickle.dumps(other))
    assert sent is not other and sent.name == "mine" and sent.ufunc is np.add
    assert pickle.loads(pickle.dumps(add)) is add
