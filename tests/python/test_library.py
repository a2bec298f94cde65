"""Library calls inside of compiled loops, against plain Python."""

import copy
import math
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tilewise as tw
from tests.python import library_functions as f
from tests.python.conftest import ended, same

A = np.array([[4.0, 1.0, -2.0], [1.0, 5.0, 0.5], [-2.0, 0.5, 6.0]])

ROWS: list[tuple[Any, ...]] = [
    (f.sorted_rows, A),
    (f.sorted_rows, np.zeros((0, 3))),
    (f.sorted_rows, np.array([[2, 1], [0, -1]])),
    (f.sorts_in_place, A.astype(np.float32)),
    (f.sorts_in_place, A.T[::-1]),
    (f.factorisations, A),
    (f.transforms, np.arange(5.0)),
    (f.transforms, np.arange(4).astype(np.complex64)),
    (f.reshaped, A[:2].copy()),
    (f.reshaped, A[:, :2]),
    (f.joined, np.arange(3), 2),
    (f.joined, np.array([1.5, np.nan, -0.0]), 0),
    (f.grids, 3),
    (f.fails, A),
    (f.drawn, 20, 7),
    (f.drawn_from_argument, np.random.default_rng(2), 5),
    (f.drawn_from_argument, np.random.RandomState(2), 3),
    (f.drawn_from_all, 4),
    (f.surprising, A[:1], 2),
    (f.surprising, A, 2),
    (f.by_masks, np.array([1.0, -2.0, 5.0, np.nan, np.inf]), 2),
    (f.by_masks, np.zeros(2), 1),
    (f.by_masks, np.arange(6.0, dtype=np.float32).reshape(2, 3)[::-1, ::2], 1),
    (f.rows_by_masks, A, np.array([True, False, True])),
    (f.rows_by_masks, A, np.array([True, False])),
    (f.wrong_masks, np.ones(3), 3),
    (f.wrong_masks, np.ones(3), 2),
    (f.wrong_masks, np.ones(3), 1),
    (f.several_axes, np.arange(24.0).reshape(2, 3, 4)),
    (f.several_axes, np.zeros((2, 1, 3))),
    (f.several_axes, np.arange(8, dtype=np.uint8).reshape(2, 2, 2)),
    (f.zero_dimensional, np.array(2.5), 3),
    (f.zero_dimensional, np.array(2), np.array(1.5, np.float32)),
    (f.complex_powers, np.complex128(1 + 2j), 3),
    (f.complex_powers, np.array([1j, 2.0]), 3),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_library_calls_are_made_where_python_makes_them(agree, row):
    agree(*row)


def test_a_generator_from_outside_goes_on_where_it_was():
    before = copy.deepcopy(f.GENERATOR)
    got = tw.jit(f.drawn_from_global, strict=True)(5)
    then = f.GENERATOR.random()
    f.GENERATOR.bit_generator.state = before.bit_generator.state
    want = f.drawn_from_global(5)
    assert (got, then) == (want, f.GENERATOR.random())


def test_what_was_drawn_is_not_drawn_again():
    """An integer beyond 64 bits after a first draw: Python could not begin anew."""

    def grows(rng, n):
        p, s = 1, 0.0
        for _ in range(n):
            s += rng.random()
            p *= 3
        return p, s

    rng = np.random.default_rng(1)
    with pytest.raises(OverflowError):
        tw.jit(grows, strict=True)(rng, 50)
    other = np.random.default_rng(1)
    [other.random() for _ in range(40)]
    assert rng.random() == other.random()


def test_arrays_of_ours_give_ours():
    x = tw.asarray(A.copy())
    got = ended(tw.jit(f.sorted_rows, strict=True), (x,))
    want = ended(f.sorted_rows, (A.copy(),))
    assert type(got[1][1]) is tw.Array
    assert same((got[1][0], np.asarray(got[1][1])), want[1])


@pytest.mark.parametrize("replaced", [False, True])
def test_printing(replaced, capsys, monkeypatch):
    plain = print
    if replaced:  # as by Ray
        monkeypatch.setattr("builtins.print", lambda *args, **options: plain("*", *args, **options))

    @tw.jit(strict=True)
    def says(n):
        for i in range(n):
            print("i =", i, i / 2)

    says(2)
    star = "* " if replaced else ""
    assert capsys.readouterr().out == f"{star}i = 0 0.0\n{star}i = 1 0.5\n"


def test_arrays_that_nobody_has_room_for():
    @tw.jit(strict=True)
    def large(n, m):
        s = 0.0
        for _ in range(2):
            s += np.empty((n, m))[0, 0]
        return s

    with pytest.raises(MemoryError):
        large(10**9, 10**9)
    with pytest.raises(ValueError, match="array is too big"):
        large(10**15, 10**15)
    with pytest.raises(ValueError, match="negative dimensions"):
        large(-1, 2)


def test_arguments_by_name_take_the_short_way_too():
    @tw.jit(strict=True)
    def power(a, n, /, scale, *, of=2):
        s = 0
        for i in range(n):
            s += a[i] ** of * scale
        return s

    a = np.arange(4)
    for _ in range(2):
        assert power(a, 3, scale=5) == 25 and power(a, 3, 5) == 25 and power(a, 3, scale=1, of=3) == 9
    with pytest.raises(tw.TilewiseError, match="other arguments than it takes"):
        power(a, n=3, scale=1)

    @tw.jit(strict=True)
    def plain(a, n):
        for i in range(n):
            a[i] += 1
        return a[0]

    b = np.zeros(3)
    assert [plain(b, n=2), plain(n=2, a=b), plain(b, 2)] == [1.0, 2.0, 3.0]
    assert len(plain._source._codes) == 1


def test_shapes_are_assigned(agree: Any) -> None:
    agree(f.shapes_assigned, 3, 4)
    assert agree(f.shape_that_does_not_fit, 6)[0] == "returned"
    assert agree(f.shape_that_does_not_fit, 7)[0] == "ValueError"
    with tw.config(fallback="silent"):
        assert tw.jit(f.shape_under_two_names)(4) == 2
    with pytest.raises(tw.TilewiseError, match="other names"):
        tw.jit(f.shape_under_two_names, strict=True)(4)


def test_strict_functions_without_loops_take_our_arrays():
    @tw.jit(strict=True)
    def shares(x, w):
        return np.histogram(x, 4, weights=w)[0] / np.histogram(x, 4)[0]

    @tw.jit(strict=True)
    def factor(A):
        A[:] = np.linalg.cholesky(A) + np.triu(A, k=1)

    x, w = np.arange(12.0), np.arange(12.0) ** 2
    made = shares(tw.asarray(x), tw.asarray(w))
    assert type(made) is tw.Array and made.tolist() == shares.__wrapped__(x, w).tolist()
    A = np.eye(3) * 4 + 1
    B = tw.asarray(A.copy())
    factor(B)
    factor.__wrapped__(A)
    assert B.tolist() == A.tolist()


def test_functions_that_a_program_has_put_into_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """As tests do. What was compiled before is not used any more."""

    @tw.jit
    def roots(n):
        total = 0.0
        for i in range(n):
            total += math.sqrt(i) + np.hypot(3.0, i)
        return total

    replaced: list[tuple[Any, str, Any]] = [
        (math, "sqrt", lambda x: x + 0.5),
        (np, "hypot", lambda x, y: x - y),
        (np, "hypot", mock.Mock(return_value=2.0)),
    ]
    for _ in range(2):
        assert roots(4) == roots.__wrapped__(4)
        for module, name, other in replaced:
            with monkeypatch.context() as patched:
                patched.setattr(module, name, other)
                with tw.config(fallback="silent"):
                    assert roots(4) == roots.__wrapped__(4), name
