"""One number at a time from NumPy's generators: the streams are NumPy's, the generators are let go."""

import _thread
import threading
from unittest import mock

import numpy as np
import pytest

import tilewise as tw
from tests.python import draw_functions as f
from tests.python.conftest import same
from tilewise.backend.llvm.program import draws, host

BITS = [np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64]
SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1


def rng(seed=3):
    return np.random.default_rng(seed)


ROWS = [
    (f.defaults, rng(), 9),
    (f.integers, rng(), 9, 0, 10),
    (f.integers, rng(), 9, -5, 1 << 40),
    (f.integers, rng(), 9, SMALLEST, LARGEST),
    (f.integers, rng(), 9, -(1 << 31), 1 << 31),
    (f.integers, rng(), 9, 4, 4),
    (f.integers, rng(), 9, 0, SMALLEST),
    (f.integers, rng(), 9, 3, 1),
    (f.kinds, rng(), 5),
    (f.by_state, np.random.RandomState(4), 9, -1.0, 2.5),
    (f.by_state, np.random.RandomState(4), 9, 1, np.inf),
    (f.by_all, 9),
    (f.made_inside, 5, 3),
    (f.made_inside, 0, 3),
    (f.of_two, rng(1), rng(2), 6),
    (f.in_a_function, rng(), 30),
    (f.in_a_recursion, rng(), 5),
    (f.beside_python, rng(), 5),
    (f.filled, rng(), np.zeros((3, 4))),
    (f.filled, rng(), np.zeros((3, 0))),
    *[(f.wrong, rng(), 9, x) for x in (-1.0, -0.0, 0.0, 2.0, np.nan, np.inf, -np.inf, 1e308)],
    *[(f.wrong_integers, rng(), low, high) for low, high in ((3, 3), (3, SMALLEST), (LARGEST, LARGEST), (0, 1))],
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_draws_are_numpys(agree, row):
    agree(*row)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("values", [(0.5, 1.5), (-1.0, 0.25), (0.0, 40.0)])
def test_every_method_has_the_bits_of_numpy(bits, values):
    mine, theirs = (np.random.Generator(bits(6)) for _ in range(2))
    got = tw.jit(f.every_method, strict=True)(mine, 40, *values)
    want = f.every_method(theirs, 40, *values)
    assert got.tobytes() == want.tobytes()
    assert same(mine, theirs)


def test_no_draw_goes_through_python():
    asked = []
    run = host.Table._run

    def watched(self, which, room):
        asked.append(which)
        return run(self, which, room)

    with mock.patch.object(host.Table, "_run", watched):
        tw.jit(f.every_method, strict=True)(rng(), 10, 0.5, 1.5)
        tw.jit(f.integers, strict=True)(rng(), 10, 0, 5)
    assert asked == [draws.BEGIN, draws.END] * 2


class Doubled(np.random.Generator):
    def random(self, *args, **options):
        f.CALLS[0] += 1
        return 2.0 * super().random(*args, **options)


def test_methods_of_a_users_class_are_called(agree):
    f.CALLS[0] = 0
    compiled = tw.jit(f.of_two, strict=True)
    made = [Doubled(np.random.PCG64(5)) for _ in range(2)]
    assert compiled(made[0], rng(), 7) == f.of_two(made[1], rng(), 7)
    assert f.CALLS[0] == 14


def free(generator):
    """Whether another thread could draw."""
    found = []
    lock = generator.bit_generator.lock
    thread = threading.Thread(target=lambda: found.append(lock.acquire(blocking=False) and (lock.release() or True)))
    thread.start()
    thread.join()
    return found[0]


def test_generators_are_let_go():
    g = rng()
    tw.jit(f.in_a_function, strict=True)(g, 10)
    assert free(g)
    with pytest.raises(ValueError):
        tw.jit(f.wrong, strict=True)(g, 10, -1.0)
    assert free(g)
    with pytest.raises(RecursionError):
        tw.jit(f.depth, strict=True)(g, 2.0, 1 << 40)
    assert free(g)


def test_generators_are_let_go_after_an_interrupt():
    g = rng()
    compiled = tw.jit(f.in_a_function, strict=True)
    compiled(g, 1)
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        compiled(g, 1 << 40)
    timer.join()
    assert free(g)


def test_threads_share_a_generator():
    n = 20_000
    g = rng(9)
    compiled = tw.jit(f.filled, strict=True)
    compiled(rng(), np.zeros((1, 1)))
    parts = [np.zeros((10, n // 40)) for _ in range(4)]
    threads = [threading.Thread(target=compiled, args=(g, p)) for p in parts]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    drawn = np.sort(np.concatenate([p.ravel() for p in parts]))
    assert np.array_equal(drawn, np.sort(rng(9).random(drawn.size)))


def test_threads_with_two_generators_do_not_wait_for_each_other():
    a, b = rng(1), rng(2)
    compiled = tw.jit(f.of_two, strict=True)
    compiled(a, b, 1)
    threads = [threading.Thread(target=lambda p=p: [compiled(*p, 2000) for _ in range(200)]) for p in ((a, b), (b, a))]
    for t in threads:
        t.daemon = True
        t.start()
    for t in threads:
        t.join(60)
        assert not t.is_alive()


def test_a_generator_of_the_module_is_drawn_from():
    state = f.SHARED.bit_generator.state
    want = f.of_shared(20)
    f.SHARED.bit_generator.state = state
    assert tw.jit(f.of_shared, strict=True)(20) == want


def test_numpy_without_its_functions_is_called_through_python(monkeypatch):
    monkeypatch.setattr(draws, "address_of", lambda function: 0)
    assert tw.jit(f.in_a_function, strict=True)(rng(), 12) == f.in_a_function(rng(), 12)
