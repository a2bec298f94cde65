"""Arrays of points: code is made for their number of coordinates, and for no other."""

import numpy as np
import pytest

import tilewise as tw
from tests.kernel.test_program_passes import program_of
from tilewise.kernel.program.ir import Const, For
from tilewise.kernel.program.walk import statements
from tilewise.python.specialise import POINTS, WIDEST

RNG = np.random.default_rng(8)


def lengths(points, others):
    out = np.zeros((len(points), len(others)))
    for i in range(points.shape[0]):
        for j in range(others.shape[0]):
            d = 0.0
            for k in range(points.shape[1]):
                d += (points[i, k] - others[j, k]) ** 2
            out[i, j] = np.sqrt(d)
    return out


def written(points, others):
    n, d = points.shape
    for i in range(n):
        row = points[i]
        for k in range(d - 1):
            row[k] += row[k + 1] * others[0, k]
    points = points[::2, 1:]
    return points.sum(), points.shape


def out_of_range(points, others):
    for i in range(len(points)):
        points[i, 2] = i
    return points


def known(program):
    """Whether the loops over coordinates have a known number of iterations."""
    return all(isinstance(s.stop, Const) for s in statements(program.body) if isinstance(s, For) and s.name[0] == "k")


@pytest.mark.quick_code
@pytest.mark.parametrize("f", [lengths, written, out_of_range], ids=lambda f: f.__name__)
@pytest.mark.parametrize("d", [1, 2, 3, WIDEST, WIDEST + 1])
def test_results(f, d, agree):
    n = POINTS * d
    for rows in (n, n - 1, 3):
        agree(f, RNG.random((rows, d)), RNG.random((5, d)))
    agree(f, np.asfortranarray(RNG.random((n, d))), RNG.random((5, d)))
    agree(f, RNG.random((n, 2 * d))[:, ::2], RNG.random((n, d))[::-1])


def test_each_width_has_code_of_its_own():
    f = tw.jit(lengths, strict=True)
    others = {d: RNG.random((7, d)) for d in range(1, 20)}
    for d in (3, 2, 3, 19, 3, 16, 1, 2, 2, 3):
        for n in (POINTS * d, 2, 80):
            x = RNG.random((n, d))
            assert np.allclose(f(x, others[d]), lengths(x, others[d]), rtol=1e-14), (n, d)
            assert np.allclose(f(x, others[d]), lengths(x, others[d]), rtol=1e-14), (n, d)


def test_only_arrays_of_points_have_widths():
    tall, small = np.ones((100, 3)), np.ones((4, 3))
    assert program_of(lengths, tall, small).params[0].width == 3
    assert known(program_of(lengths, tall, small))
    for other in (small, np.ones((400, 1)), np.ones((1000, WIDEST + 1)), np.ones((0, 3))):
        assert program_of(lengths, other, small).params[0].width == 0
    assert not known(program_of(lengths, small, small))


def test_images_and_arrays_from_outside():
    image, weights = RNG.random((20, 20, 3)), RNG.random((60, 2))

    @tw.jit(strict=True)
    def grey(x):
        out = np.zeros(x.shape[:2])
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                for c in range(x.shape[2]):
                    out[i, j] += x[i, j, c] * weights[c, 1]
        return out

    assert np.allclose(grey(image), image @ weights[:3, 1])
    kept = weights[:3, 1].copy()
    weights.shape = (40, 3)  # the same object
    try:
        assert np.allclose(grey(image), image @ weights[:3, 1])
    finally:
        weights.shape = (60, 2)
    assert np.allclose(grey(image), image @ kept)


def test_explain_shows_the_width():
    said = str(tw.explain(tw.jit(lengths), np.ones((100, 3)), np.ones((4, 3))))
    assert "points: float64[:,3]" in said and "others: float64[:,:]" in said
