"""Draws from Python's own generators: the same numbers, and generators that go on where they were left."""

import random
from unittest import mock

import numpy as np
import pytest

import tilewise as tw
from tests.python import random_functions as f
from tests.python.conftest import ended, same
from tilewise.backend.llvm.program import draws, host, twister

ROWS = [
    (f.by_name, 9),
    (f.every_method, random.Random(3), 700),
    (f.native_methods, random.Random(3), 300),
    (f.shuffled, random.Random(3), np.arange(10.0)),
    (f.shuffled, random.Random(3), np.arange(1)),
    (f.made_inside, 5),
    (f.made_inside, 0),
    (f.beside_numpy, random.Random(3), np.random.default_rng(4), 8),
    (f.in_a_function, random.Random(3), 50),
    *[
        (f.ranges, random.Random(1), 9, low, high)
        for low, high in (
            (0, 10),
            (-5, 1 << 40),
            (4, 5),
            (0, 1 << 32),
            (0, (1 << 32) + 1),
            (4, 4),
            (4, 0),
            (-(1 << 62), 1 << 62),
        )
    ],
    *[(f.bits, random.Random(1), k) for k in (0, 1, 31, 32, 33, 63, -1)],
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_draws_are_pythons(agree, row):
    agree(*row)


@pytest.mark.parametrize("draw", [f.area, f.seeded])
def test_the_generator_of_all(draw):
    for start in (1, 2):
        random.seed(start)
        want = draw(500), random.getstate() if draw is f.area else None
        random.seed(start)
        found = tw.jit(draw, strict=True)(500), random.getstate() if draw is f.area else None
        assert found == want


def test_no_draw_goes_through_python():
    asked = []
    run = host.Table._run

    def watched(self, which, room):
        asked.append(which)
        return run(self, which, room)

    with mock.patch.object(host.Table, "_run", watched):
        tw.jit(f.native_methods, strict=True)(random.Random(3), 700)
        tw.jit(f.shuffled, strict=True)(random.Random(3), np.arange(9.0))
    assert asked == [draws.BEGIN, draws.END] * 2


class Constant(random.Random):
    def random(self):
        return 0.25


def test_classes_of_users_draw_as_they_say(agree):
    agree(f.in_a_function, Constant(3), 10)
    rng, again = Constant(3), Constant(3)
    assert same(ended(tw.jit(f.native_methods), (rng, 5)), ended(f.native_methods, (again, 5)))


def test_where_the_state_lies_elsewhere_python_draws(agree):
    with (
        mock.patch.object(twister, "usable", lambda: False),
        mock.patch.object(draws, "address_of", draws.address_of.__wrapped__),
    ):
        agree(f.native_methods, random.Random(3), 20)


def test_the_same_generator_twice():
    rng, again = random.Random(3), random.Random(3)
    assert tw.jit(f.of_two, strict=True)(rng, rng, 9) == f.of_two(again, again, 9)
    assert rng.getstate() == again.getstate()


def test_nothing_to_choose():
    mine, theirs = random.Random(3), random.Random(3)
    found = ended(tw.jit(f.nothing_to_choose, strict=True), (mine, np.zeros(0)))
    assert found[:2] == ended(f.nothing_to_choose, (theirs, np.zeros(0)))[:2]
    assert found[3] == f.__file__
    assert mine.getstate() == theirs.getstate()
