"""What is done at once with small known arrays and numbers is what NumPy does, and what is recorded instead, too."""

import itertools
import json
import operator
import pickle
import threading
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import tilewise as tw

NUMBERS = (np.float64(2.5), np.float32(0.5), np.int64(-3), np.uint8(200), np.bool_(True), 2, 0.25, 1j)
OPERATORS = (
    operator.add, operator.sub, operator.mul, operator.truediv, operator.lt, operator.le, operator.eq, operator.ne,
    operator.gt, operator.floordiv, operator.mod,
)  # fmt: skip


def outcome(run: Callable[[], Any]) -> Any:
    try:
        with np.errstate(all="ignore"):
            result = np.asarray(run())
    except Exception as error:
        return type(error)
    return result.dtype, result.shape, result.tobytes()


@pytest.mark.parametrize("op", OPERATORS)
@pytest.mark.parametrize("dtype", ["float64", "float32", "int8", "uint8", "bool", "complex128"])
def test_numbers_with_scalars_and_arrays(op: Callable[[Any, Any], Any], dtype: str) -> None:
    row = np.array([3, 1, 2]).astype(dtype)
    ours, number = tw.array(row), tw.array(row).max()
    for other in (*NUMBERS, row, row.max()):
        for a, b in ((ours, row), (number, row.max())):
            assert outcome(lambda a=a, other=other: op(a, other)) == outcome(lambda b=b, other=other: op(b, other))
            assert outcome(lambda a=a, other=other: op(other, a)) == outcome(lambda b=b, other=other: op(other, b))
    assert outcome(lambda: op(number, ours)) == outcome(lambda: op(row.max(), row))
    assert outcome(lambda: op(ours, number)) == outcome(lambda: op(row, row.max()))
    assert outcome(lambda: op(number, number)) == outcome(lambda: op(row.max(), row.max()))


PROGRAMS: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda m, x, y: m.minimum.accumulate(x),
    lambda m, x, y: m.add.accumulate(x, 0),
    lambda m, x, y: m.add.outer(x, y),
    lambda m, x, y: m.divmod.outer(x, y)[1],
    lambda m, x, y: m.maximum(x, y),
    lambda m, x, y: m.maximum(x, y[:2]),
    lambda m, x, y: m.dot(x, y),
    lambda m, x, y: x @ y,
    lambda m, x, y: x @ y[:2],
    lambda m, x, y: (x[:1] * -0.0) @ y[:1],
    lambda m, x, y: m.dot(x[:1] * -0.0, y[:1]),
    lambda m, x, y: x[::-1] @ y,
    lambda m, x, y: m.empty_like(x).shape,
    lambda m, x, y: m.zeros_like(x, dtype="int8"),
    lambda m, x, y: m.ones_like(x),
    lambda m, x, y: m.zeros(3, "int16"),
    lambda m, x, y: m.zeros(-1),
    lambda m, x, y: m.eye(3) + m.eye(3, k=1),
    lambda m, x, y: m.outer(x, y).T,
    lambda m, x, y: m.outer(x, y).transpose().reshape(2, -1),
    lambda m, x, y: x.reshape(3, 1),
    lambda m, x, y: x[0, 1],
    lambda m, x, y: m.outer(x, y)[1, x > 1],
    lambda m, x, y: m.outer(x, y)[-1, y > 0],
    lambda m, x, y: m.outer(x, y)[3, x > 9],
    lambda m, x, y: m.outer(x, y)[1, m.array([True, False])],
    lambda m, x, y: m.outer(x, y)[1, m.array([2, 0])],
    lambda m, x, y: m.ones((2, 3, 2))[1, x > 1],
    lambda m, x, y: m.eye(0),
    lambda m, x, y: m.eye(-1),
    lambda m, x, y: m.concatenate([x, y]),
    lambda m, x, y: m.concatenate((x, x[:1], [7.0])),
    lambda m, x, y: m.concatenate([x, m.outer(x, y)]),
    lambda m, x, y: m.stack([x, y], axis=1),
    lambda m, x, y: m.vstack([x, 1, y]),
    lambda m, x, y: m.atleast_2d([x])[0],
    lambda m, x, y: m.linalg.solve(m.outer(x, y) + m.eye(3), x),
    lambda m, x, y: m.linalg.solve(m.outer(x, y), x),
    lambda m, x, y: m.linalg.solve(m.zeros((3, 3)), x),
    lambda m, x, y: m.linalg.solve(m.eye(3), x[:2]),
    lambda m, x, y: m.linalg.solve(m.eye(3) * m.nan, x),
    lambda m, x, y: m.linalg.solve(m.eye(3) + 1, [1.0, 2.0, 3.0]),
    lambda m, x, y: m.linalg.solve(m.eye(3), 3.0),
    lambda m, x, y: m.linalg.solve(m.eye(3)),
    lambda m, x, y: m.stack(3),
    lambda m, x, y: m.choose([m.outer(x, y), x], 1),
    lambda m, x, y: m.unique_values(x=[1, 2, 3]),
    lambda m, x, y: m.eye(3, k=0.0),
    lambda m, x, y: m.outer(x, y)[7, m.ones(2, dtype=bool)],
    lambda m, x, y: m.einsum("i,i->i", x[:1], y[:0]),
    lambda m, x, y: m.einsum("ij,jk->jk", m.outer(x, y)[:, :1], m.ones((0, 2))),
    lambda m, x, y: m.linalg.solve(m.eye(3), x.astype("float32")),
    lambda m, x, y: x[m.argmax(y)],
    lambda m, x, y: x.max().transpose(),
    lambda m, x, y: x.max()[()],
    lambda m, x, y: m.sqrt(x.max()) + abs(-x.max()),
    lambda m, x, y: m.add(m.array(5, object), 1) + 0,
)


@pytest.mark.parametrize("eager", [None, 0])
@pytest.mark.parametrize("program", PROGRAMS)
def test_programs(program: Callable[[Any, Any, Any], Any], eager: int | None) -> None:
    x, y = np.array([1.0, 4.0, 2.0]), np.array([3.0, -1.0, 0.5])
    want = outcome(lambda: program(np, x, y))
    with tw.config(fallback="silent", **({} if eager is None else {"eager_bytes": eager})):
        assert outcome(lambda: program(tw, tw.array(x), tw.array(y))) == want


def test_views_made_at_once_write_through() -> None:
    x = tw.arange(6.0)
    x.reshape(2, 3).T[2, 1] = 7.0
    x.reshape(2, 3)[0, 1] = x[5] - x.max()
    assert np.asarray(x).tolist() == [0.0, 0.0, 2.0, 3.0, 4.0, 7.0]


def test_known_numbers_are_numpys_with_our_methods() -> None:
    number = tw.arange(4.0).max()
    assert isinstance(number, np.float64) and isinstance(number, float) and repr(number) == "np.float64(3.0)"
    assert hash(number) == hash(3.0) and f"{number:.1f}" == "3.0" and json.dumps([number]) == "[3.0]"
    assert number.__array_namespace__() is tw.ones(1).__array_namespace__()
    found = number.compute()
    assert type(found) is np.ndarray and found.shape == () and found == 3.0
    assert type(tw.compute(number)) is np.ndarray and tw.evaluate(number) is number
    assert tw.explain(number).network_bytes == 0
    assert type(pickle.loads(pickle.dumps(number))) is np.float64
    for made in (number[None], number.reshape(1, 1), number.ravel(), number[...]):
        assert type(made) is tw.Array
    assert (tw.ones(2, "f4") * number).dtype == np.float64
    with pytest.raises(TypeError):
        number[()] = 1.0
    with pytest.raises(AttributeError, match="no attribute 'missing'"):
        _ = number.missing


@pytest.mark.parametrize("kind", "bhilqBHILQefdgFDG")
def test_numbers_of_every_kind(kind: str) -> None:
    number = tw.ones(3, kind).max()
    assert type(number).__base__ is np.dtype(kind).type and number.dtype == np.dtype(kind)
    assert repr(number) == repr(np.ones(3, kind).max()) and type(number + number) is type(number)
    assert not hasattr(number, "__iter__") and np.zeros(int(number.real)).shape == (1,)
    with pytest.raises(TypeError, match="not iterable"):
        list(number)


def test_truth_gets_memory_when_it_is_looked_at() -> None:
    truth = (tw.arange(4.0) > 2).any()
    assert type(truth) is tw.Array and hash(truth) == hash(True) and repr(truth) == "np.True_" and truth.nbytes == 1
    assert np.asarray(truth).flags.writeable is False
    assert pickle.loads(pickle.dumps(truth))
    with tw.config(eager_bytes=0):
        later = truth & True
        assert later._cell.node is not None and bool(later)


def test_a_number_looked_at_by_many_threads() -> None:
    for _ in range(50):
        number, seen = tw.arange(4.0).max(), []
        gate = threading.Barrier(4)

        def look(number: Any = number, seen: list[Any] = seen, gate: threading.Barrier = gate) -> None:
            gate.wait()
            seen.append((float(np.asarray(number)), float(number + 1.0), number.strides))

        threads = [threading.Thread(target=look) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert seen == [(3.0, 4.0, ())] * 4


@pytest.mark.parametrize(
    "axes", [0, 1, 2, -1, 3, ([1], [0]), ([-1, 0], [0, -1]), (1, 0), ((0, 0), (1, 1)), ([0], [2, 1]), ([5], [0]), None]
)
def test_tensordot_of_known_arrays(axes: Any) -> None:
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(24.0).reshape(4, 3, 2)[::-1]
    for x, y in ((a, b), (a[0].T, a[1]), (a[:, 0], 2.0), (np.zeros((0, 3)), np.zeros((3, 0)))):
        args = () if axes is None else (axes,)
        try:
            expected = np.tensordot(x, y, *args)
        except Exception as error:
            with pytest.raises(type(error)):
                tw.tensordot(tw.asarray(x), tw.asarray(y) if np.ndim(y) else y, *args)
            continue
        got = tw.tensordot(tw.asarray(x), tw.asarray(y) if np.ndim(y) else y, *args)
        assert got.shape == expected.shape and got.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(got), expected)


def test_results_that_are_arguments_or_show_their_memory_are_views() -> None:
    x = tw.arange(6.0)
    for name, args in (
        ("ravel", ()),
        ("reshape", ((2, 3),)),
        ("squeeze", ()),
        ("atleast_2d", ()),
        ("real", ()),
        ("flip", ()),
    ):
        y = getattr(tw, name)(x, *args)
        y[...] = y + 1
        assert float(x[0]) == float(np.asarray(y).min()), name


@pytest.mark.parametrize("eager", [0, 1 << 21])
def test_functions_that_write_into_numbers(eager: int) -> None:
    calls = {
        "put": lambda np, x: np.put(x, [0, 0], 3.0), "place": lambda np, x: np.place(x, [True], [3.0]),
        "copyto": lambda np, x: np.copyto(x, 3.0), "putmask": lambda np, x: np.putmask(x, True, 3.0),
    }  # fmt: skip
    for name, write in calls.items():
        with tw.config(eager_bytes=eager):
            number = tw.arange(5.0).sum()
            try:
                write(np, np.arange(5.0).sum())
            except Exception as error:
                with pytest.raises(type(error)):
                    write(tw, number)
            else:
                write(tw, number)
            assert float(number) == 10.0, name


def test_the_order_of_results_of_broadcast_views() -> None:
    x = np.arange(1.0, 4.0)
    for shape in ((2, 3), (4, 2, 3)):
        with tw.config(eager_bytes=0):
            y, z = tw.broadcast_to(tw.asarray(x), shape), np.broadcast_to(x, shape)
            t, u = tw.asarray(np.ones((5, 4)).T), np.ones((5, 4)).T
            for ours, theirs in (
                (y % y, z % z),
                (y.T + y.T, z.T + z.T),
                (t * t + t, u * u + u),
                (y + y + y, z + z + z),
            ):
                assert ours.strides == theirs.strides == np.asarray(ours).strides


@pytest.mark.parametrize("index", [[2, 0, -1], [], [5], [-5], [True, False, True, True], [True, False], [False] * 4])
@pytest.mark.parametrize("shape", [(4, 3), (4, 1), (4, 2, 2), (4, 0), (0, 3), (4,)])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("eager", [None, 0])
def test_rows_by_a_mask_or_an_index_array(index: list[Any], shape: tuple[int, ...], order: Any, eager: Any) -> None:
    """Values, complaints and the order in memory."""

    def run(m: Any) -> Any:
        at = m.asarray(np.asarray(index, np.intp if not index or type(index[0]) is int else bool))
        return m.asarray(np.arange(24.0)[: np.prod(shape)].reshape(shape, order=order))[at]

    want = outcome(lambda: run(np))
    with nullcontext() if eager is None else tw.config(eager_bytes=eager):
        assert outcome(lambda: run(tw)) == want
        if type(want) is tuple:
            assert run(tw).strides == run(np).strides


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "complex128"])
def test_small_products_have_numpys_bits(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        n, k, m = rng.integers(0, 6, 3)
        left, right, wide = (rng.standard_normal(s).astype(dtype) for s in ((n, k), (m, k), (2 * k, m)))
        theirs, ours = ([f(v) for v in (left, right, wide)] for f in (np.asarray, tw.asarray))
        for pick in (
            lambda a, b, c: (a, b.T),
            lambda a, b, c: (a, c[::2]),
            lambda a, b, c: (a, a.T),
            lambda a, b, c: (a, b[0]),
            lambda a, b, c: (a, c[::2, 0]),
            lambda a, b, c: (b, a.T),
            lambda a, b, c: (a, c[1:]),
        ):
            for product in (operator.matmul, np.dot):
                want, got = (
                    outcome(lambda pick=pick, product=product, of=of: product(*pick(*of))) for of in (theirs, ours)
                )
                assert got == want


@pytest.mark.parametrize("eager", [None, 0])
def test_an_array_without_axes_as_an_index_gives_a_copy(eager: Any) -> None:
    with nullcontext() if eager is None else tw.config(eager_bytes=eager):
        for key in (lambda m: m.array(1), lambda m: (m.array(0), slice(None)), lambda m: (slice(None), m.array(1))):
            theirs = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))
            ours = tw.asarray(theirs) + 0
            a, b = theirs[key(np)], ours[key(tw)]
            assert a.strides == b.strides and a.tolist() == b.tolist()
            b[0] = 99
            assert 99 not in np.asarray(ours)
        ours[tw.array([3, 1]).argmin()][0] = 99  # a number: a view
        assert 99 in np.asarray(ours)


KEYWORDS: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda np, x, m: np.sum(x, where=m), lambda np, x, m: np.bincount(m.astype(int), weights=x),
    lambda np, x, m: np.average(x, weights=x), lambda np, x, m: np.interp(0.3, xp=x, fp=x[::-1]),
    lambda np, x, m: np.clip(x, a_min=x[::-1], a_max=2), lambda np, x, m: np.sum(x, where=m, initial=x.max()),
    lambda np, x, m: np.diff(x, prepend=x), lambda np, x, m: np.broadcast_to(array=x, shape=(2, 4)),
    lambda np, x, m: np.bincount(m.astype(int), weights=x[:2]),
)  # fmt: skip


@pytest.mark.parametrize("eager", [None, 0])
@pytest.mark.parametrize("program", KEYWORDS)
def test_arrays_by_keyword(program: Callable[[Any, Any, Any], Any], eager: int | None) -> None:
    x, m = np.array([0.5, 1.5, 2.5, 3.0]), np.array([True, False, True, True])
    with nullcontext() if eager is None else tw.config(eager_bytes=eager, fallback="silent"):
        assert outcome(lambda: program(tw, tw.array(x), tw.array(m))) == outcome(lambda: program(np, x, m))
        pending = tw.array(x) * 1.0
        assert outcome(lambda: program(tw, pending, tw.array(m))) == outcome(lambda: program(np, x, m))


def test_powers_of_recorded_numbers() -> None:
    """A square has the right last bit; a root is what NumPy's scalars have, for which (-inf) ** 0.5 is inf."""
    for value in (3.7, -1e200, -np.inf, np.nan, -0.0):
        with tw.config(eager_bytes=0):
            number = tw.asarray(np.array([value, value])).min()
            found = np.asarray(number**2), np.asarray(number**0.5)
        with np.errstate(all="ignore"):
            want = np.float64(value) * np.float64(value), np.float64(value) ** 0.5
        assert [x.tobytes() for x in found] == [x.tobytes() for x in want], value


def test_float64_arithmetic_has_numpys_bits_and_warnings() -> None:
    """Python's operators stand in for NumPy's where nothing is to be told."""
    ours = type(tw.ones(2).sum())
    values = [0.0, -0.0, 1.5, -3.0, 1e-310, 1e-200, -1e200, 1e308, np.inf, -np.inf, np.nan, 0.1]

    def outcome(f: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            r = f(x, y)
        return isinstance(r, np.float64), "nan" if np.isnan(r) else r.tobytes(), [str(w.message) for w in caught]

    for f in (operator.add, operator.sub, operator.mul, operator.truediv):
        for a, b in itertools.product(values, values):
            expected = outcome(f, np.float64(a), np.float64(b))
            for x, y in ((ours(a), ours(b)), (ours(a), np.float64(b)), (ours(a), b), (a, ours(b))):
                assert outcome(f, x, y) == expected, (f, x, y)
            assert type(f(ours(1.5), 2.5)) is type(f(2.5, ours(1.5))) is ours
    with np.errstate(under="raise"), pytest.raises(FloatingPointError):
        ours(1e-200) * ours(1e-200)
