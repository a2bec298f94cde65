"""How `tw.jit` uses a function's source: what it looks at, what it refuses and says, and what it leaves as it was."""

import functools
import pickle
import traceback
import warnings
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import loop_functions

SCALE = 2.0


def scaled_sum(a):
    s = 0.0
    for i in range(len(a)):
        s += SCALE * a[i]
    return s


def test_a_global_that_changes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    f, a = tw.jit(scaled_sum), np.arange(4.0)
    assert [f(a), f(a)] == [12.0, 12.0]
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert [f(a), f(a)] == [18.0, 18.0]


def test_a_closure_and_a_default_that_change_are_seen() -> None:
    step = 1

    def f(a, by=1.0):
        for i in range(len(a)):
            a[i] += step * by
        return a

    g = tw.jit(f, strict=True)
    assert g(np.zeros(2)).tolist() == [1.0, 1.0]
    step = 5
    assert g(np.zeros(2)).tolist() == [5.0, 5.0]
    f.__defaults__ = (2.0,)
    assert g(np.zeros(2)).tolist() == [10.0, 10.0]
    assert g(np.zeros(2), by=3.0).tolist() == [15.0, 15.0]


@pytest.mark.parametrize("changed", [{"shape": (2, 2)}, {"dtype": np.int64}], ids=str)
def test_an_array_from_outside_that_changes_in_place_is_seen(changed: dict[str, Any]) -> None:
    table = np.arange(4.0)

    def f(a):
        s = 0.0
        for i in range(len(a)):
            s += a[i] + table[i]
        return s

    g = tw.jit(f)
    assert [g(np.ones(2)), g(np.ones(2))] == [3.0, 3.0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, v in changed.items():
            setattr(table, name, v)
        got, want = g(np.ones(2)), f(np.ones(2))
    assert np.array_equal(got, want) and type(got) is type(want)


def shifted(a, b):
    for i in range(1, len(a)):
        a[i] = b[i - 1] + 1.0
    return a


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_arguments_that_overlap(offset: int) -> None:
    mine, theirs = np.arange(12.0), np.arange(12.0)
    f = tw.jit(shifted, strict=True)
    for _ in range(2):
        assert f(mine[offset : offset + 8], mine[2:10]).base is not None
        shifted(theirs[offset : offset + 8], theirs[2:10])
        assert mine.tolist() == theirs.tolist()


def test_a_returned_argument_is_the_same_object() -> None:
    a, b = np.zeros(3), np.ones(3)
    f = tw.jit(shifted, strict=True)
    assert f(a, b) is a and f(a, b) is a


def window(a, k):
    for i in range(k):
        a[i] = -1.0
    return a[k:]


def test_a_returned_view_shares_memory() -> None:
    a = np.arange(5.0)
    v = tw.jit(window, strict=True)(a, 2)
    a[3] = 100.0
    assert v.tolist() == [2.0, 100.0, 4.0]


def test_a_read_only_argument_raises_as_in_python() -> None:
    a = np.zeros(3)
    a.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        tw.jit(shifted, strict=True)(a, np.ones(3))


def test_arrays_of_ours_are_written_and_returned() -> None:
    a, b = tw.zeros(4), tw.ones(4)
    with tw.config(eager_bytes=0):
        pending = b + 1.0
    f = tw.jit(shifted, strict=True)
    assert f(a, pending) is a
    assert a.tolist() == [0.0, 3.0, 3.0, 3.0]
    assert pending.tolist() == [2.0] * 4

    def made(n):
        out = tw.zeros(n)
        for i in range(n):
            out[i] = i
        return out

    got = tw.jit(made, strict=True)(3)
    assert type(got) is tw.Array and got.tolist() == [0.0, 1.0, 2.0]


def test_a_copy_on_write_is_kept_apart() -> None:
    a = tw.arange(3.0)
    with tw.config(eager_bytes=0):
        later = a * 10.0
    tw.jit(window, strict=True)(a, 2)
    assert later.tolist() == [0.0, 10.0, 20.0]
    assert a.tolist() == [-1.0, -1.0, 2.0]


def test_the_traceback_names_the_users_line() -> None:
    def f(a):
        for i in range(9):
            a[i] = 1.0

    with pytest.raises(IndexError) as caught:
        tw.jit(f, strict=True)(np.zeros(3))
    last = traceback.extract_tb(caught.tb)[-1]
    assert (last.filename, last.name, last.line) == (__file__, "f", "a[i] = 1.0")


def calls_elsewhere(a):
    for _ in range(2):
        loop_functions.divides(a, 1)


def calls_inside(a):
    def inner(k):
        return a[k]

    for i in range(9):
        a[0] += inner(i)


@pytest.mark.parametrize("f", [calls_elsewhere, calls_inside])
def test_the_traceback_names_the_function_that_is_called(f: Any) -> None:
    last = []
    for function in (f, tw.jit(f, strict=True)):
        with pytest.raises((ZeroDivisionError, IndexError)) as caught:
            function(np.zeros(3))
        last.append(traceback.extract_tb(caught.tb)[-1])
    assert [(t.filename, t.name, t.line) for t in last[:1]] == [(t.filename, t.name, t.line) for t in last[1:]]


def elsewhere_refused(a):
    for _ in range(2):
        loop_functions.listed(a, 1.0)


def test_a_refusal_names_the_file_of_the_function_that_is_called() -> None:
    with pytest.raises(tw.TilewiseError, match=r"loop_functions\.py:"):
        tw.jit(elsewhere_refused, strict=True)(np.zeros(2))


def test_partial_pickled_and_decorated() -> None:
    f = tw.jit(strict=True)(scaled_sum)
    assert f.strict and f(np.ones(2)) == 4.0
    assert tw.jit(functools.partial(shifted, b=np.ones(3)))(np.zeros(3)).tolist() == [0.0, 2.0, 2.0]
    again = pickle.loads(pickle.dumps(f))
    assert again(np.ones(2)) == 4.0


# -- refusals --------------------------------------------------------------------------------------------------------


def tries(a):
    for i in range(len(a)):
        try:
            a[i] = 1.0
        except IndexError:
            a[0] = 2.0


def sets(a):
    found = {1}
    for i in range(len(a)):
        for x in found:
            a[i] = x


def dicts(a):
    table = {"k": 1.0}
    for i in range(len(a)):
        a[i] = table["k"]


def generates(a):
    for i in range(len(a)):
        yield a[i]


def deletes(a):
    for i in range(len(a)):
        x = a[i]
        del x


REFUSALS = [
    (tries, "try", 2), (sets, "a loop over a set", 3), (dicts, "str as a key or an item", 1), (deletes, "del", 3),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSALS, ids=lambda r: r[0].__name__)
def test_what_cannot_be_compiled_is_named_with_its_line(row: tuple[Any, str, int]) -> None:
    f, what, line = row
    place = f"{__file__}:{f.__code__.co_firstlineno + line}"
    with pytest.raises(tw.TilewiseError, match=what) as caught:
        tw.jit(f, strict=True)(np.zeros(2))
    assert place in str(caught.value)
    assert what in str(tw.explain(f, np.zeros(2))) and not tw.explain(f, np.zeros(2)).compiled


def test_it_runs_as_plain_python_and_says_so_once() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f, a = tw.jit(tries), np.zeros(2)
        for _ in range(2):
            f(a)
    assert a.tolist() == [1.0, 1.0]
    texts = [str(w.message) for w in caught if issubclass(w.category, tw.PerformanceWarning)]
    assert len(texts) == 1 and "try" in texts[0] and "plain Python" in texts[0]
    with tw.config(fallback="silent"), warnings.catch_warnings():
        warnings.simplefilter("error")
        tw.jit(deletes)(a)
    with tw.config(fallback="error"), pytest.raises(tw.FallbackError, match="del"):
        tw.jit(deletes)(a)


def test_arguments_that_cannot_be() -> None:
    with pytest.raises(tw.TilewiseError, match="an argument that is a list"):
        tw.jit(scaled_sum, strict=True)([1.0, 2.0])
    with pytest.raises(tw.TilewiseError, match="float16"):
        tw.jit(scaled_sum, strict=True)(np.zeros(2, np.float16))


def test_lists_of_numbers_are_left_to_python_at_once() -> None:
    def total(rows, start):
        for row in rows:
            for x in row:
                start = start + x
        return start

    f = tw.jit(total)
    with tw.config(fallback="silent"):
        assert f([[1, 2.5], [True]], 1) == 5.5 and f.traces == 0
        assert f([[np.ones(2)], [1.0]], 1).tolist() == [3.0, 3.0]


def test_loops_over_whole_arrays_are_traced_on_a_mesh_or_where_the_source_is_refused() -> None:
    @tw.jit
    def smoothed(x):
        for _ in range(3):
            x = 0.5 * (x + x[::-1])
        return x

    @tw.jit
    def spectrum(x):
        for _ in range(2):
            x = (lambda *y: tw.fft.fft(y[0]).real)(x)  # any number of arguments
        return x

    want = smoothed.__wrapped__(np.arange(4.0)).tolist()
    for traces, settings in ((0, {}), (1, {"without": "source"}), (1, {"blocks": 2})):
        with tw.config(**settings):
            made = smoothed(tw.arange(4.0))
            assert type(made) is tw.Array and made.tolist() == want and smoothed.traces == traces, settings
    assert type(smoothed(np.arange(4.0))) is np.ndarray
    np.testing.assert_allclose(spectrum(tw.arange(4.0)), spectrum.__wrapped__(np.arange(4.0)))
    assert spectrum.traces == 1


def test_explain_shows_types_and_loops() -> None:
    text = str(tw.explain(shifted, np.zeros(3), np.zeros(3)))
    assert "a: float64[:]" in text and "i: int" in text
    assert f"line {shifted.__code__.co_firstlineno + 1}: for i: 1 subscript, " in text
    assert "loops with vectors: 1" in text
