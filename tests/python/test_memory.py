"""What compiled loops allocate goes back: by the end of a call, or with the array that was returned."""

import resource
import weakref

import numpy as np
import pytest

import tilewise as tw

MIB = 1 << 20


def grows_and_shrinks(n, turns):
    x = np.ones(n)
    for k in range(turns):
        y = np.full((n, 2), float(k))
        x = 0.5 * x + y[:, 1]
        if k == 10_000:
            raise ValueError("far")
    return x


@pytest.mark.parametrize("turns", [300, 10_001])
def test_memory_does_not_grow(turns: int) -> None:
    f = tw.jit(grows_and_shrinks, strict=True)

    def call() -> None:
        try:
            assert f(4096, turns).shape == (4096,)
        except ValueError:
            assert turns > 10_000

    call()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(30 if turns < 1000 else 3):
        call()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < 16 * MIB  # one turn takes 128 KiB


def parts(n):
    x = np.zeros(n)
    for i in range(n):
        x[i] = i
    return x, x[1:], x


@pytest.mark.parametrize("n", [4, 10_000])
def test_results_that_share_memory(n: int) -> None:
    whole, rest, again = tw.jit(parts, strict=True)(n)
    whole[2] = -1.0
    assert rest[1] == again[2] == -1.0
    del whole, again
    assert rest.tolist() == [1.0, -1.0, *range(3, n)]


def tries(a):
    try:
        return a[0]
    except IndexError:
        return 0


def test_what_is_refused_holds_no_arguments() -> None:
    f = tw.jit(tries)
    gone = []
    with tw.config(fallback="silent"):
        for _ in range(3):
            a = np.ones(4)
            gone.append(weakref.ref(a))
            assert f(a) == 1.0
    del a
    assert [r() for r in gone] == [None] * 3
