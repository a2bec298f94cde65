"""Operators of handles as machine code do what Python's functions do, and what NumPy does."""

import gc
import operator
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.array import indexing
from tilewise.array.handle import Array
from tilewise.array.slots import layout, takeover
from tilewise.backend.handles import METHODS

pytestmark = pytest.mark.skipif(not takeover.install(), reason="no such code here")

BINARY = "add sub mul truediv floordiv mod and_ or_ xor lt le eq ne gt ge pow matmul".split()
IN_PLACE = "iadd isub imul itruediv ifloordiv imod iand ior ixor".split()
SHAPES: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (5,), (3, 5), (3, 1), (2, 3, 5), (0, 5), (5, 3))
DTYPES = "float64 float32 int64 uint8 bool complex128".split()
ODD = (2, -1, 0.5, 0, True, 1j, np.float64(1.5), np.float32(2.5), np.int64(3), None, "text", [1.0, 2.0, 3.0, 4.0, 5.0])


@pytest.fixture
def as_python() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """Runs something with Python's functions."""

    def run(what: Callable[[], Any]) -> Any:
        takeover.slots().remove()
        try:
            return what()
        finally:
            assert takeover.install()

    yield run


def values(shape: tuple[int, ...], dtype: str, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 9, shape).astype(dtype)
    if a.size > 3 and a.dtype.kind in "fc":
        a.reshape(-1)[:4] = [np.nan, np.inf, -0.0, -2.5]
    return a


def outcome(run: Callable[[], Any]) -> Any:
    """What a call gives: class, dtype, shape and bytes, or the error."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run()
    except Exception as error:
        return type(error), str(error)
    if isinstance(found, Array | np.generic):
        nd = np.asarray(found)
        content = str(nd.tolist()) if nd.dtype.hasobject else nd.tobytes()
        return type(found), nd.dtype, nd.shape, nd.strides if nd.size else (), content
    return found


def pairs() -> Iterator[tuple[Any, Any]]:
    """Operands: arrays of all shapes and dtypes, views, numbers of ours, and other things, on both sides."""
    arrays = [tw.array(values(s, "float64", k)) for k, s in enumerate(SHAPES)]
    kinds = [tw.array(values((3, 5), d, k)) for k, d in enumerate(DTYPES)]
    views = [arrays[4].T, arrays[4][:, ::-1], arrays[5][:, 0], tw.array(np.asfortranarray(values((3, 5), "float64")))]
    numbers = [arrays[3].sum(), kinds[2].sum(), kinds[1].max()]
    for group in (arrays, kinds, [*views, *numbers, arrays[4]]):
        for a in group:
            for b in (*group, *(x for x in ODD if a is group[-1])):
                yield a, b
                yield b, a


@pytest.mark.parametrize("name", BINARY)
def test_binary_operators(name: str, as_python: Any) -> None:
    op = getattr(operator, name)
    every = list(pairs())
    ours = [outcome(lambda a=a, b=b: op(a, b)) for a, b in every]
    assert ours == as_python(lambda: [outcome(lambda a=a, b=b: op(a, b)) for a, b in every])
    plain = [tuple(x.compute() if type(x) is Array else x for x in pair) for pair in every]
    theirs = [outcome(lambda a=a, b=b: op(a, b)) for a, b in plain]
    for found, expected in zip(ours, theirs, strict=True):
        if isinstance(expected, tuple) and len(expected) == 2:
            assert found[0] is expected[0]  # an error of the same kind
        elif isinstance(expected, tuple) and name != "matmul":
            assert found[1:] == expected[1:]


@pytest.mark.parametrize("name", IN_PLACE)
def test_operators_in_place(name: str, as_python: Any) -> None:
    op = getattr(operator, name)

    def run() -> list[Any]:
        found = []
        for a, b in pairs():
            if type(a) is Array:
                x = a.copy() if a.ndim else a
                seen = x[...] if x.ndim else x
                found.append((outcome(lambda x=x, b=b: op(x, b)), outcome(lambda seen=seen: seen)))
        return found

    assert run() == as_python(run)


def test_unary_operators_and_powers(as_python: Any) -> None:
    def run() -> list[Any]:
        every = [tw.array(values(s, d)) for s in SHAPES for d in DTYPES]
        found = [outcome(lambda x=x, op=op: op(x)) for x in every for op in (operator.neg, operator.abs)]
        x: Any = every[18]
        found += [outcome(lambda e=e: x**e) for e in (2, 2.0, 0.5, -1, 3, np.float64(1.5), x, None)]
        found += [outcome(lambda e=e: e**x) for e in (2, 2.0, -1, [1, 2, 3, 4, 5])]
        return found + [outcome(lambda a=a: pow(*a)) for a in ((x, 2, 3), (2, x, 3), (2, 3, x), (x, x, x))]

    assert run() == as_python(run)


KEYS: tuple[Any, ...] = (
    0, -1, 7, -8, slice(1, 3), slice(None, None, -2), (1, 2), (1, -1), (3, 9), (slice(None), 1), (None, 1), (..., 2),
    (0, slice(1, 4)), (), ..., None, (1, 2, 3), np.int64(1), (np.int64(1), 2), True, (True, 1), [0, 2], (1, [0, 2]),
    np.array([0, 1]), 1.5, "f", (slice(0, 2), slice(1, 2)), slice(0, 0),
)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "uint8", "O", "i4,f8"])
def test_keys(dtype: str, as_python: Any) -> None:
    def run() -> list[Any]:
        found = []
        for key in KEYS:
            for value in (2, 1.5, np.float64(3.5), tw.arange(4.0).sum(), tw.arange(5), [1, 2, 3], tw.ones((4, 5)), "x"):
                x = tw.array(values((4, 5), "float64").astype(dtype))
                view = x[1:, ::-1]
                found.append(outcome(lambda x=x, key=key: x[key]))
                found.append(outcome(lambda view=view, key=key: view[key]))
                found.append(outcome(lambda view=view, key=key, value=value: view.__setitem__(key, value)))
                found.append(outcome(lambda x=x: x if dtype != "O" else x.tolist()))
        x = tw.array(values((4, 5), "float64"))
        return [*found, outcome(lambda: x.__delitem__(0)), outcome(lambda: x[0].__delitem__(1))]

    with np.errstate(all="ignore"):
        assert str(run()) == str(as_python(run))


def test_a_view_shares_its_cell_and_a_result_has_its_own() -> None:
    x = tw.arange(6.0)
    y = x[1:4]
    y += 10.0
    y[0] = 5.0
    z = x + 0.0
    z[0] = 99.0
    assert x.compute().tolist() == [0.0, 5.0, 12.0, 13.0, 4.0, 5.0]
    assert x[np.int64(1)] == 5.0 and type(x[1]) is np.float64


def test_what_others_hold_is_not_written_to() -> None:
    x = tw.arange(4.0)
    seen = np.asarray(x)
    x += 1.0
    x[0] = 7.0
    assert seen.tolist() == [0.0, 1.0, 2.0, 3.0] and x.compute().tolist() == [7.0, 2.0, 3.0, 4.0]
    with tw.config(eager_bytes=0):
        later = x * 2.0
    x[1] = -1.0
    x *= 3.0
    assert later.compute().tolist() == [14.0, 4.0, 6.0, 8.0] and x.compute().tolist() == [21.0, -3.0, 9.0, 12.0]
    fixed = tw.arange(3.0)
    fixed.flags.writeable = False
    for write in (lambda: fixed.__setitem__(0, 1.0), lambda: operator.iadd(fixed, 1.0)):
        with pytest.raises(ValueError, match="read-only"):
            write()


def test_the_limit_follows_the_settings() -> None:
    x, m = tw.arange(4.0), tw.ones((300, 300))
    for limit, recorded in ((0, True), ("2MiB", False), (16, True), ("2MiB", False)):
        with tw.config(eager_bytes=limit):
            pending = [(x + x)._cell.node is not None, (x < x)._cell.node is not None, (m @ m)._cell.node is not None]
            assert pending == [recorded] * 3
    with tw.config(eager_bytes="500kB"):
        assert (m @ m)._cell.node is not None and (m + m)._cell.node is not None and (x + x)._cell.node is None
    assert (x + x)._cell.node is None
    row, column = tw.ones((1, 2000)), tw.ones((2000, 1))
    assert (row + column)._cell.node is not None  # small operands, a large result


def test_nothing_is_lost_or_kept() -> None:
    """References and objects are as many as before, whatever happens on the way."""
    x, y, m, number = tw.arange(50.0), tw.ones(50), tw.ones((5, 10)), tw.ones(3).sum()

    def work() -> None:
        for _ in range(1000):
            x + y, 2.0 * x, x * number, number * x, -x, x**2, x < y, x[1:-1], x[3], m[1, 2], m[:, 1], m @ m.T, x @ y
            x.__iadd__(0.0)
            x[3] = number
            m[1] = y[:10]
            for wrong in (lambda: x + m, lambda: x[99], lambda: m.__setitem__((9, 9), 1.0), lambda: x @ m):
                with pytest.raises((ValueError, IndexError)):
                    wrong()

    def counts() -> list[int]:
        gc.collect()
        held = (None, False, 0, Array, np.ndarray, x, y, m, number, x._cell, x._nd, 2.0)
        return [len(gc.get_objects()), *map(sys.getrefcount, held)]

    work()
    before = counts()
    work()
    after = counts()
    most = takeover.KEPT + 100  # handles that stay at hand have a type, too
    assert all(abs(a - b) < most for a, b in zip(before, after, strict=True)), (before, after)


def test_threads() -> None:
    x = tw.arange(1000.0)
    wrong = []

    def work(k: int) -> None:
        own = tw.zeros(1000)
        for _ in range(300):
            own += x * 0.5
            own[1:-1] = own[1:-1] - 0.5 * x[1:-1]
        if own[1:-1].sum() != 0.0 or own[999] != 300 * 999 * 0.5:
            wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_removed_is_as_if_it_had_never_been(as_python: Any) -> None:
    assert type(Array.__dict__["__add__"]) is type(np.ndarray.__add__)
    found = as_python(lambda: [Array.__dict__[f"__{name}__"] for name in METHODS])
    assert {type(f) for f in found} == {FunctionType} and indexing.getitem in found


def test_other_layouts_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert layout.found() is not None and layout.operator_base("__add__") is not None
    assert layout.operator_base("__contains_no_such__") is None and layout.operator_base("sum") is None
    for name, wrong in (
        ("NDIM", 16), ("_DIMS", 24), ("DTYPE", 48), ("LENGTH", 8), ("_FLAGS", 24), ("_NUMBER", 24), ("VALUE", 8),
        ("_HANDLE", ("_cell", "_nd", "_gen")), ("_CELL", layout._CELL[1:]), ("OLDEST", (9, 0)), ("NEWEST", (3, 10)),
        ("NUMPY", 3),
    ):  # fmt: skip
        with monkeypatch.context() as patched:
            patched.setattr(layout, name, wrong)
            assert layout.found() is None, name
    with monkeypatch.context() as patched:
        patched.setattr(layout, "usual", lambda: False)
        assert layout.found() is None


def test_what_a_program_put_in_a_methods_place_stays(as_python: Any) -> None:
    def run() -> None:
        python = Array.__dict__["__add__"]
        try:
            Array.__add__ = lambda self, other: "patched"  # type: ignore[attr-defined]
            assert takeover.install()
            x: Any = tw.ones(3)
            assert x + 1 == "patched" and (1 + x).tolist() == [2.0] * 3 and (x - 1).tolist() == [0.0] * 3
            takeover.slots().remove()
            assert x + 1 == "patched"
        finally:
            Array.__add__ = python  # type: ignore[attr-defined]

    as_python(run)
    assert (tw.ones(3) + 1).tolist() == [2.0] * 3


def test_it_can_be_switched_off(as_python: Any) -> None:
    def run() -> bool:
        with tw.config(without="operators"):
            return takeover.install()

    assert as_python(run) is False and takeover.slots().installed


class Acting:
    """An index that does something when it is asked."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.act = act

    def __index__(self) -> int:
        self.act()
        return 1


@pytest.mark.parametrize("n", [5, 200_000])
def test_indices_that_change_the_array(n: int, as_python: Any) -> None:
    def run() -> list[Any]:
        x = tw.arange(float(n))
        seen: list[Any] = []

        def write() -> None:
            seen.append(np.asarray(x))
            operator.iadd(x, 1.0)  # gets memory of its own, as somebody else sees the old

        view = x[Acting(write) :]
        x[1] = 99.0
        found = [view[0], x[0]]
        value = x[1:] * 1.0
        x[Acting(write) :] = value
        for _ in range(3):
            x[Acting(lambda: operator.imul(value, 2.0)) :] = value
        return [*found, x[2], seen[0][1]]

    assert run() == as_python(run)
    assert run()[:2] == [99.0, 1.0]


def test_lengths_whose_product_has_no_room(as_python: Any) -> None:
    one = tw.ones((1, 1))
    column, row = tw.broadcast_to(one, (2**33, 1)), tw.broadcast_to(one, (1, 2**31))
    assert outcome(lambda: (column + row).shape) == as_python(lambda: outcome(lambda: (column + row).shape))


HARSH = """
import builtins, sys, weakref
import tilewise as tw
from tilewise.array.slots.takeover import install
assert install()

def error(what):
    try:
        what()
    except Exception as error:
        return type(error).__name__

empty = object.__new__(tw.Array)
print(*(error(each) for each in (lambda: empty + 1, lambda: empty[0], lambda: -empty, lambda: tw.ones(1) * empty)))

around = tw.array([None, 1], dtype=object)
around[0] = around
print(error(lambda: around + 1))

gone = []
class Last:
    def __del__(self):
        gone.append((tw.ones(3) + 1)[1:].sum())
x = tw.ones(1)
references = []
for k in range(30_000):
    outer = tw.array([None, Last() if k % 1000 == 0 else None], dtype=object)
    outer[0] = x
    x = outer
    references.append(weakref.ref(x))
del x, outer
print(len(gone), sum(r() is not None for r in references))

class AtTheEnd:
    def __init__(self):
        self.x = tw.ones(3)
    def __del__(self):
        self.x + self.x, self.x[1:]
builtins.kept = [AtTheEnd(), *(tw.ones(3) + k for k in range(1000))]
"""


def test_nothing_crashes_the_interpreter() -> None:
    """Handles without a cell, that hold themselves, in one another to any depth, and that outlive all modules."""
    settings = {**os.environ, "TILEWISE_WAIT_FOR_NATIVE": "1"}
    done = subprocess.run([sys.executable, "-c", HARSH], capture_output=True, text=True, env=settings)
    empty = " ".join(["AttributeError"] * 4)
    assert (done.returncode, done.stdout) == (0, f"{empty}\nRecursionError\n30 0\n"), done.stderr


LONG = """
import sys
import tilewise as tw
from tilewise.array.handle import Array
from tilewise.array.slots.takeover import OPERATIONS
x = tw.arange(5.0)
kinds = []
for k in range(OPERATIONS // 4 + 1):
    kinds.append(type(Array.__dict__["__sub__"]).__name__)
    x[1] = x[0] - 1.0
    x = x + 0.0
    x[1:]
    -x
print(kinds[0], kinds[-2], type(Array.__dict__["__sub__"]).__name__, "tilewise.backend.llvm" in sys.modules)
"""


@pytest.mark.parametrize(("native", "then"), [("1", "wrapper_descriptor True"), ("0", "function False")])
def test_long_programs_fetch_the_code(native: str, then: str) -> None:
    settings = {**os.environ, "TILEWISE_WAIT_FOR_NATIVE": "1", "TILEWISE_NATIVE": native}
    done = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, env=settings)
    kinds = "function function" if native == "0" else "function wrapper_descriptor"
    assert done.stdout.strip() == f"{kinds} {then}", done.stderr
