"""Calls of compiled functions by machine code do what plain Python does, and leave nothing behind."""

import contextlib
import gc
import os
import resource
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.api.functions.call_cache import MISSED
from tilewise.api.functions.native_call import ENTRY
from tilewise.api.functions.quick_call import FEW
from tilewise.array.slots import entry_layout

RATE = 2.0


@pytest.fixture(autouse=True)
def there() -> Iterator[None]:
    with tw.config(wait_for_native=True, fallback="silent"):
        if not ENTRY.ask():
            pytest.skip("no such code here")
        yield


def by_code(f: Any, *args: Any) -> Any:
    """The result of a call, when machine code takes such calls."""
    f(*args)
    for _ in range(2):
        found = f(*args)
        assert type(f._source.quick).__name__ == "builtin_function_or_method"
    return found


def kinds(found: Any) -> Any:
    return tuple(map(kinds, found)) if type(found) is tuple else type(found)


@tw.jit
def total(a, start):
    for i in range(len(a)):
        start += a[i]
    return start


@tw.jit
def filled(a, value):
    for i in range(len(a)):
        a[i] = value


@tw.jit
def scaled(a):
    made = np.empty_like(a)
    for i in range(len(a)):
        made[i] = a[i] * RATE
    return made


@tw.jit
def itself(a, n):
    for i in range(n):
        a[i] += 1.0
    return a


@tw.jit
def half(a):
    for i in range(len(a)):
        a[i] += 1.0
    return a[::2]


@tw.jit
def divided(a, n):
    for i in range(n):
        a = a / i
    return a


@tw.jit
def element(a, n):
    s = 0.0
    for i in range(n):
        s += a[i]
    return s


@tw.jit
def power(n, times):
    for _ in range(times):
        n = n * n
    return n


@tw.jit
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def test_numbers_of_all_kinds() -> None:
    @tw.jit
    def all_of_them(a, n, x, z, b, f, i, t, c, u):
        for k in range(n):
            x += a[k]
        return a[0], n, (x, z, not b), f, i, t, c, u, None, (), x > 0.0

    f, i, t, c, u = np.float32(0.1), np.int8(-3), np.bool_(True), np.complex64(1 + 2j), np.uint16(65535)
    for args in (
        (np.arange(4.0), 3, 1.5, 2 - 3j, True, f, i, t, c, u),
        (np.arange(4.0), 0, -0.0, 1j, False, f, i, ~t, c, u),
    ):
        found, expected = by_code(all_of_them, *args), all_of_them.__wrapped__(*args)
        assert found == expected and kinds(found) == kinds(expected)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "int8", "uint64", "bool", "complex128", "complex64"])
def test_results_that_are_arrays(dtype: str) -> None:
    @tw.jit
    def turned(a):
        made = np.empty_like(a)
        for i in range(len(a)):
            made[i] = a[len(a) - 1 - i]
        return made

    for n in (0, 1, 5, 200, 40_000):
        a = (np.arange(n) % 7).astype(dtype)
        found = by_code(turned, a)
        assert type(found) is np.ndarray and found.dtype == a.dtype and found.tobytes() == a[::-1].tobytes()
        assert found.flags.writeable and found.flags.c_contiguous


def test_large_results_keep_their_memory_as_long_as_somebody_looks() -> None:
    @tw.jit
    def counted(n, m, from_end):
        made = np.empty((n, m))
        for i in range(n):
            for j in range(m):
                made[i, j] = i * m + j
        return made[from_end:, :] if from_end else made

    for n, m, from_end in ((100, 300, 0), (1, 100_000, 0), (300, 100, 2), (70_000, 1, 0)):
        found = by_code(counted, n, m, from_end)
        part = found[:, ::2]
        expected = np.arange(float(n * m)).reshape(n, m)[from_end:]
        assert np.array_equal(found, expected) and found.flags.c_contiguous and found.flags.writeable
        del found
        others = [counted(n, m, from_end) for _ in range(20)]
        others[3][:] = -1.0
        assert np.array_equal(part, expected[:, ::2]) and np.array_equal(others[4], expected)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(400):
        counted(1000, 1000, 0)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # KiB; all of them are 3 GB


def test_results_that_are_arguments_or_parts_of_them() -> None:
    a = np.zeros(6)
    assert by_code(itself, a, 2) is a and a.tolist() == [3.0, 3.0, 0.0, 0.0, 0.0, 0.0]
    found = by_code(half, a)
    assert found.base is not None and np.shares_memory(found, a) and found.strides == (16,)
    found[0] = 9.0
    assert a[0] == 9.0


def test_two_axes() -> None:
    @tw.jit
    def transposed(a):
        made = np.empty((a.shape[1], a.shape[0]))
        for i in range(a.shape[0]):
            for j in range(a.shape[1]):
                made[j, i] = a[i, j]
        return made

    a = np.arange(6.0).reshape(2, 3)
    for x in (a, a.T, a[:, ::2], a[:0]):
        assert np.array_equal(by_code(transposed, np.ascontiguousarray(x)), x.T) and np.array_equal(transposed(x), x.T)


def test_other_arguments_than_before() -> None:
    class Mine(np.ndarray):
        pass

    a = np.arange(5.0)
    assert by_code(total, a, 1.0) == 11.0
    fixed = a.copy()
    fixed.flags.writeable = False
    rows = [a[::2], a[::-1], fixed, a.view(Mine), a.astype(np.float32), a.astype(">f8"), tw.asarray(a), list(a)]
    for x in (*rows, tuple(a)):
        for start in (1.0, 1, True, np.float64(1), 1j, 2**70):
            assert total(x, start) == total.__wrapped__(x, start)
        assert total(a, 1.0) == 11.0
    with pytest.raises(ValueError, match="read-only"):
        filled(fixed, 1.0)
    assert total(start=1.0, a=a) == 11.0 and total(a, start=2.0) == 12.0
    for wrong in ((), (a,), (a, 1.0, 2.0)):
        with pytest.raises(TypeError, match="argument"):
            total(*wrong)
    with pytest.raises(TypeError):
        total(np.array(3.0), 1.0)


def test_names_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.ones(3)
    assert by_code(scaled, a).tolist() == [2.0] * 3
    monkeypatch.setitem(globals(), "RATE", 3.0)
    assert scaled(a).tolist() == [3.0] * 3
    monkeypatch.setitem(globals(), "RATE", 2)
    assert by_code(scaled, a).tolist() == [2.0] * 3
    monkeypatch.delitem(globals(), "RATE")
    with pytest.raises(NameError):
        scaled(a)
    monkeypatch.setitem(globals(), "len", lambda a: 1)
    monkeypatch.setitem(globals(), "RATE", 5.0)
    assert scaled(a)[0] == 5.0


def test_cells_and_functions_that_change() -> None:
    factor = 2.0

    def inner(x, plus=1.0):
        return x * factor + plus  # noqa: F821

    @tw.jit
    def outer(x, n):
        for _ in range(n):
            x = inner(x)
        return x

    assert by_code(outer, 1.0, 2) == 7.0
    factor = 3.0
    assert by_code(outer, 1.0, 2) == 13.0
    inner.__defaults__ = (2.0,)
    assert by_code(outer, 1.0, 2) == 17.0
    inner.__code__ = (lambda x, plus: x + factor).__code__  # noqa: F821
    assert outer(1.0, 2) == 7.0
    del factor
    with pytest.raises(NameError):
        outer(1.0, 2)


def test_settings_hold() -> None:
    a = np.arange(3.0)
    assert by_code(total, a, 0.0) == 3.0
    quick = total._source.quick
    for setting in ({"without": "entry"}, {"engine": "numpy"}, {"native": False}):
        with tw.config(**setting):
            assert total(a, 0.0) == 3.0
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        by_numpy(np.array([1e308, 1e308]))
    assert total(a, 0.0) == 3.0 and quick((a, 0.0)) == 3.0


def test_error_states_that_do_not_raise() -> None:
    """Other error states of NumPy (each `with np.errstate` and each thread has one) are fine unless they raise."""
    found: list[Any] = []

    def short(*args: Any) -> None:
        found.append(total._source.quick(args))

    a = np.arange(3.0)
    assert by_code(total, a, 0.0) == 3.0
    with np.errstate(all="ignore"):
        short(a, 1.0)
        with np.errstate(over="raise"):
            short(a, 1.0)
        short(a, 2.0)
    before = np.seterr(divide="ignore")
    try:
        short(a, 3.0)
    finally:
        np.seterr(**before)
    short(a, 4.0)
    assert found == [4.0, MISSED, 5.0, 6.0, 7.0]


@tw.jit
def by_numpy(a):
    s = a[0]
    for i in range(len(a)):
        s = s + a[i]
    return s


def test_exceptions_name_the_line() -> None:
    by_code(element, np.ones(4), 4)
    with pytest.raises(IndexError) as caught:
        element(np.ones(4), 5)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.name == "element" and last.line == "s += a[i]"
    assert by_code(divided, 1.0, 0) == 1.0
    with pytest.raises(ZeroDivisionError):
        divided(1.0, 2)
    assert by_code(divided, 1.0, 0) == 1.0


def test_integers_that_grow() -> None:
    assert by_code(power, 3, 2) == 81
    assert power(3, 6) == 3**64 and power(3, 2) == 81


def test_recursion() -> None:
    assert by_code(fib, 20) == 6765

    @tw.jit
    def deep(n):
        return 0 if n == 0 else 1 + deep(n - 1)

    assert by_code(deep, 50) == 50
    with pytest.raises(RecursionError):
        deep(10**6)


def test_functions_of_python_that_call_again() -> None:
    seen = []

    def told(x):
        seen.append(x)
        return element(np.ones(3), 3) + x

    @tw.jit
    def asks(n):
        s = 0.0
        for i in range(n):
            s += i
        return s

    by_code(element, np.ones(3), 3)
    assert told(1.0) == 4.0 and by_code(asks, 3) == 3.0 and seen == [1.0]


def test_methods() -> None:
    class Bag:
        @staticmethod
        def of(x, n):
            for _ in range(n):
                x += 1.0
            return x

        @classmethod
        def named(cls, x):
            return cls.__name__, x

    tw.jit(Bag)
    assert by_code(Bag.of, 1.0, 2) == 3.0 and Bag.of(1, n=2) == 3.0 and Bag().of(2.0, 1) == 3.0
    assert Bag.named(1) == ("Bag", 1)


def test_an_interrupt_is_heard() -> None:
    @tw.jit
    def flat(a, n):
        for i in range(n):
            a[i % 8] += 1.0
        return n

    a = np.zeros(8)
    assert by_code(flat, a, 10) == 10
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        flat(a, 10**12)
    timer.join()
    assert by_code(flat, a, 10) == 10 and a[0] > 100


def test_threads_at_once() -> None:
    a, wrong = np.arange(50.0), []

    def run(k: int) -> None:
        for _ in range(2000):
            x = np.full(20, float(k))
            if total(a, float(k)) != 1225.0 + k or scaled(x)[3] != RATE * k or fib(8) != 21:
                wrong.append(k)

    by_code(total, a, 1.0), by_code(scaled, a), by_code(fib, 3)
    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_nothing_is_left_behind() -> None:
    def again(run: Callable[[], Any], watched: list[Any]) -> tuple[list[int], int]:
        for _ in range(20_000):
            run()
        gc.collect()
        return [sys.getrefcount(x) for x in watched], sys.getallocatedblocks()

    @tw.jit
    def several(a, x, f, n):
        for i in range(n):
            x += a[i]
        return x, n, (f, None, n > 2), x * 1j

    a, long, x, f = np.arange(9.0), np.arange(5e3), 1234.5, np.float32(0.1)
    watched = [a, x, f, None, True, a.dtype, np.ndarray, tuple, np.float32, np.dtype("float32")]
    runs: list[Callable[[], Any]] = [
        lambda: several(a, x, f, 4),
        lambda: scaled(a),
        lambda: scaled(long),
        lambda: itself(a, 1),
        lambda: filled(a, x),
        lambda: fib(4),
        lambda: half(a),
    ]
    for run in runs:
        for _ in range(FEW):
            run()
        before, blocks = again(run, watched)
        after, more = again(run, watched)
        assert all(abs(p - q) < 20 for p, q in zip(before, after, strict=True)) and abs(more - blocks) < 100


def test_errors_leave_nothing_behind() -> None:
    a = np.ones(4)

    def fail() -> None:
        with contextlib.suppress(IndexError):
            element(a, 5)
        power(3, 6)
        total(a, 1)

    by_code(element, a, 4), by_code(power, 3, 2)
    for _ in range(300):
        fail()
    gc.collect()
    before, blocks = sys.getrefcount(a), sys.getallocatedblocks()
    for _ in range(500):
        fail()
    gc.collect()
    assert sys.getrefcount(a) == before and abs(sys.getallocatedblocks() - blocks) < 100


def test_functions_go_when_nobody_needs_them() -> None:
    import weakref

    def made() -> Any:
        @tw.jit
        def short(x, n):
            for _ in range(n):
                x += 1.0
            return x

        by_code(short, 1.0, 2)
        return weakref.ref(short)

    reference = made()
    gc.collect()
    assert reference() is None


def test_the_code_is_fetched_after_some_calls() -> None:
    @tw.jit
    def often(x, n):
        for _ in range(n):
            x += 1.0
        return x

    with tw.config(without="entry"):
        often(1.0, 1)
        assert type(often._source.quick).__name__ == "function"
    for _ in range(FEW + 2):
        assert often(1.0, 1) == 2.0
    assert type(often._source.quick).__name__ == "builtin_function_or_method"


def test_other_layouts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert entry_layout.found() is not None
    for name, wrong in (
        ("NDIM", 16), ("DTYPE", 48), ("LENGTH", 8), ("VALUE", 8), ("_DATA", 24), ("_ROOM", 24),
    ):  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(entry_layout, name, wrong)
            assert entry_layout.found() is None, name


def test_types_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    @tw.jit
    def raised(x, n):
        for _ in range(n):
            x = x * RATE
        return x

    rows = [(1, 2), (1.5, 2), (True, 2), (np.float32(2), 1), (1j, 3), (np.float64(0.5), 2), (1.5, 0)]
    for rate in (2.0, 3, 2.0):
        monkeypatch.setitem(globals(), "RATE", rate)
        for _ in range(3):
            for args in rows:
                found, expected = raised(*args), raised.__wrapped__(*args)
                assert found == expected and type(found) is type(expected)
            with tw.config(without="entry"):
                assert raised(1.5, 2) == 1.5 * rate**2
