"""Expressions that run as one loop (array/chains/): NumPy's bits and warnings, and nobody sees that they waited."""

from __future__ import annotations

import dis
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import tilewise as tw
from tilewise.array.chains import chain as chains
from tilewise.array.chains import consumer, launch
from tilewise.array.schedule.promote import promotion
from tilewise.array.slots import takeover

N = 40_000  # elements: more than 256 KiB of float64


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Operators wait from the first one on, and there is code for the first run of a loop."""
    monkeypatch.setattr(chains.chains, "seen", chains.LONG)
    monkeypatch.setattr(launch, "AGAIN", 1)
    monkeypatch.setattr(launch, "_loops", {})
    monkeypatch.setattr(launch, "_launches", {})
    monkeypatch.setattr(consumer, "_places", {})
    begun = consumer.at_once.begun
    consumer.at_once.forget()
    consumer.at_once.begin()
    with tw.config(wait_for_native=True):
        yield
    consumer.at_once.forget()
    consumer.at_once.begin(begun)


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that ran as native loops."""
    done: list[str] = []
    run = launch.Launch.run

    def counted(self: Any, code: Any, out: Any, arrays: Any, numbers: Any) -> bool:
        ok = run(self, code, out, arrays, numbers)
        done.append("done" if ok else "told")
        return ok

    monkeypatch.setattr(launch.Launch, "run", counted)
    return done


def inputs(kind: str, *shape: int, seed: int = 0) -> Any:
    rng = numpy.random.default_rng(seed)
    if kind == "int64":
        return rng.integers(-(1 << 40), 1 << 40, shape)
    return (rng.random(shape) * 4 - 2).astype(kind)


def same(found: Any, expected: Any) -> None:
    found = numpy.asarray(found)
    assert found.dtype == expected.dtype and found.shape == expected.shape and found.strides == expected.strides
    assert found.tobytes() == expected.tobytes()


def stencil(np: Any, x: Any, y: Any) -> Any:
    y[1:-1] = 3 * (x[:-2] + x[1:-1] + x[2:])
    return y


def in_place(np: Any, x: Any, y: Any) -> Any:
    y[1:] -= 2 * (x[1:] - x[:-1])
    x[1:-1] = x[:-2] - x[1:-1] * 3 + y[2:]
    return x - 2 * y


def signs(np: Any, x: Any, y: Any) -> Any:
    z = -(x + y) * 2 - -x
    return z - (y - 5) * (x * y - (7 - x))


def written_backwards(np: Any, x: Any, y: Any) -> Any:
    y[::-1] = x * 2 + x - 1
    y[::2] = x[::2] + x[1::2] - 3
    return y


@pytest.mark.parametrize("kind", ["float64", "float32", "int64"])
@pytest.mark.parametrize("program", [stencil, in_place, signs, written_backwards])
def test_vectors(program: Callable[..., Any], kind: str, native: list[str]) -> None:
    n = N * 2 if kind == "float32" else N
    given = inputs(kind, n), inputs(kind, n, seed=1)
    for _ in range(2):
        expected = program(numpy, *(x.copy() for x in given))
        same(program(tw, *map(tw.array, given)), expected)
    assert "done" in native


def planes(np: Any, x: Any, y: Any, row: Any, column: Any) -> Any:
    y[1:-1, 1:-1] = 0.2 * (x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[2:, 1:-1] + x[:-2, 1:-1]) / 1.5
    z = x * row + y * column - 1.0
    w = (x**2 + y**2) * 0.5
    x[:, ::2] = z[:, ::2] + w[:, 1::2] - x[:, 1::2]
    x.T[1:, :] = x.T[1:, :] * 2.0 - y.T[1:, :]
    return z + x * np.sqrt(w) - row


def test_planes(native: list[str]) -> None:
    given = (
        inputs("float64", 200, 220),
        inputs("float64", 200, 220, seed=1),
        inputs("float64", 220),
        inputs("float64", 200, 1),
    )
    expected = planes(numpy, *(x.copy() for x in given))
    same(planes(tw, *map(tw.array, given)), expected)
    assert native.count("done") >= 4


def test_orders() -> None:
    """Arrays in Fortran's order, and of more axes than a loop has, are NumPy's: the result lies as there."""
    x = numpy.asfortranarray(inputs("float64", 200, 220))
    y = inputs("float64", 2, 3, 2, 3, 2, 3, 2, 300)
    same(tw.array(x) * 2.0 + tw.array(x) - 1.0, x * 2.0 + x - 1.0)
    same(tw.array(x) * 2.0 + tw.array(x.copy("C")) - 1.0, x * 2.0 + x.copy("C") - 1.0)
    same(tw.array(x)[::-1] * 2.0 + tw.array(x)[:, ::-1] - tw.array(x), x[::-1] * 2.0 + x[:, ::-1] - x)
    a = tw.array(y)[::2, ::2, :, ::2, :, ::2, :]
    b = y[::2, ::2, :, ::2, :, ::2, :]
    same(a * 2.0 + a - 1.0, b * 2.0 + b - 1.0)


def test_special_values(native: list[str]) -> None:
    x = inputs("float64", N)
    x[:7] = [numpy.nan, numpy.inf, -numpy.inf, -0.0, 0.0, 5e-324, 1.7e308]
    y = numpy.roll(x, 3)

    def program(x: Any, y: Any) -> Any:
        return -x * 2.0 + y / 3.0 - x / y

    with numpy.errstate(all="ignore"):
        expected = program(x, y)
        found = numpy.asarray(program(tw.array(x), tw.array(y)))
    assert (numpy.isnan(found) == numpy.isnan(expected)).all() and "told" in native
    assert (found.view("i8") == expected.view("i8"))[~numpy.isnan(expected)].all()


def warned(run: Callable[[], Any]) -> list[tuple[str, str, int]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    return [(str(w.message), w.filename, w.lineno) for w in caught]


def test_warnings() -> None:
    """Those of NumPy, of each operator, at the user's line; then results are NumPy's again and again."""
    x = inputs("float64", N)
    y = x.copy()
    y[5] = 0.0
    x[7] = 1e308

    def program(x: Any, y: Any) -> Any:
        return 1.0 + x * 100.0 / y - 2.0

    a, b = tw.array(x), tw.array(y)
    expected = warned(lambda: program(x, y))
    assert len(expected) == 2
    for _ in range(6):
        assert warned(lambda: program(a, b)) == expected
    with numpy.errstate(divide="raise", over="ignore"), pytest.raises(FloatingPointError, match="divide"):
        program(a, b)
    target = tw.zeros(N)

    def written() -> None:
        target[:] = 1.0 + a * 0.5 / b

    assert [text for text, *_ in warned(written)] == ["divide by zero encountered in divide"]
    with numpy.errstate(divide="ignore"):
        assert (numpy.asarray(target) == 1.0 + x * 0.5 / y).all()


class Failing:
    """Gives `zero` by which all is divided, and calls that end an expression."""

    def __init__(self, np: Any, n: int = N) -> None:
        self.x, self.zero, self.target = np.ones(n), np.zeros(n), np.full(n, 3.0)
        self.kept: dict[str, Any] = {}
        self.called = 0

    def call(self, raises: bool = False) -> float:
        self.called += 1
        if raises:
            raise KeyError("raised")
        return 2.0

    def quiet(self) -> float:
        numpy.seterr(divide="ignore")
        return 1.0

    def in_a_dict(self) -> Any:
        with numpy.errstate(divide="ignore"):
            self.kept["quiet"] = self.x / self.zero + self.x
        self.kept["told"] = self.x / self.zero + self.x
        return "stored"

    def read(self) -> Any:
        return self.kept["quiet"] * 2.0 + self.kept["told"]

    def call_inside(self) -> Any:
        return self.x / self.zero + self.call()

    def call_raises(self) -> Any:
        return self.x / self.zero + self.call(raises=True)

    def call_sets_state(self) -> Any:
        return self.x / self.zero + self.quiet()

    def no_such_axis(self) -> None:
        self.target[0, 1:] = self.x / self.zero + 1.0

    def lines(self) -> Any:
        # fmt: off
        z = (self.x +
             self.x / self.zero)
        self.target[1:] = (
            self.x[1:]
            * 1e308 * 10.0 -
            z[1:] / self.zero[1:]
        )
        # fmt: on
        return self.target

    def underflow(self) -> Any:
        with tw.errstate(under="warn"):
            return self.x * 1e-300 * 1e-300 + self.x

    def write(self, by: Any = None) -> None:
        self.target[:] = 1.0 + self.x / (self.x if by is None else by)

    def write_zero(self) -> None:
        self.write(self.zero)


STEPS = "in_a_dict read call_inside call_raises call_sets_state no_such_axis lines underflow write_zero".split()


def told(f: Failing, name: str, action: Any) -> tuple[Any, ...]:
    """What becomes of a step: result or exception, warnings with their lines, calls, and what is written to."""
    f.target[:] = 3.0
    with warnings.catch_warnings(record=True) as caught, numpy.errstate():
        warnings.simplefilter(action)
        try:
            found = getattr(f, name)()
        except (RuntimeWarning, KeyError, IndexError) as error:
            found = repr(error)
    result = found if found is None or isinstance(found, str) else numpy.asarray(found).tobytes()
    said = [(str(w.message), w.filename, w.lineno) for w in caught]
    return result, said, f.called, numpy.asarray(f.target).tobytes()


@pytest.mark.parametrize("action", ["always", "error"])
def test_nobody_sees_it_by_warnings(action: Any) -> None:
    """As NumPy's in number, order and line, whatever is called, kept or written to; as exceptions, too."""
    ours, theirs = Failing(tw), Failing(numpy)
    for f in (ours, theirs):
        f.kept = {"quiet": f.x, "told": f.x}
        f.write()  # the place is known to write to an array
        f.write()
    for _ in range(2):
        for name in STEPS:
            assert told(ours, name, action) == told(theirs, name, action), name


def test_others_write_meanwhile() -> None:
    """A call inside of an expression writes to operands that wait."""

    def program(np: Any, x: Any, y: Any) -> Any:
        def write() -> int:
            x[3] = 77
            y[:] = 1
            return 2

        z = (x + y) * write() - y
        z[1:] = (x[1:] - y[1:]) * write() + z[:-1]
        return z

    for kind in ("float64", "int64"):  # floats do not wait for calls
        x, y = inputs(kind, N), inputs(kind, N, seed=1)
        a, b = tw.array(x), tw.array(y)
        expected = program(numpy, x, y)
        same(program(tw, a, b), expected)
        same(a, x)


def test_kept_by_others() -> None:
    """Lists, dicts and arrays of objects get a result that waits: it is what it was, however often it is read."""
    x, y = inputs("float64", N), inputs("float64", N, seed=1)
    a, b = tw.array(x), tw.array(y)
    kept: Any = [None, None]
    named: dict[str, Any] = {}
    objects = numpy.empty(1, object)
    kept[0] = a + b
    named["d"] = a * b - 1.0
    objects[0] = a - b
    a[0] = 100.0
    twice = kept[0] * 2.0 + kept[0]
    same(twice, (x + y) * 2.0 + (x + y))
    named["d"] = named["d"] * 2.0 + named["d"]
    same(named["d"], (x * y - 1.0) * 2.0 + (x * y - 1.0))
    more = objects * 2.0 + objects
    same(more[0], (x - y) * 2.0 + (x - y))
    same(objects[0], x - y)
    b[1:] = kept[0][1:]
    b[:] = kept[0]
    same(kept[0], x + y)
    b[:] = 0.0
    same(kept[0], x + y)


def test_one_memory() -> None:
    """What is read and written at once overlaps; views of others see what is written, exports see what was."""
    x = inputs("float64", N)
    a = tw.array(x)
    view, out = a[1:], numpy.asarray(a)
    before = x.copy()
    for z in (x, a):
        z[1:] = z[:-1] * 2.0 + z[1:]
        z[: N // 2] = z[N // 2 :] + 1.0 - z[: N // 2]
        z[...] = z + z * 0.5
        z += z * 0.5 - z[::-1]
    same(a, x)
    same(view, x[1:])
    assert (out == before).all()


def test_complaints() -> None:
    """NumPy's exceptions, and what they leave."""
    x = inputs("float64", N)
    a = tw.array(x)
    locked = tw.array(x)
    locked.flags.writeable = False
    for z, fixed in ((x, x.copy()), (a, locked)):
        if z is x:
            fixed.flags.writeable = False
        with pytest.raises(ValueError, match="broadcast"):
            z * 2.0 + z[1:] - 1.0
        with pytest.raises(ValueError, match="broadcast"):
            z[1:] = z * 2.0 + 1.0
        with pytest.raises(IndexError):
            z[0, 1:] = z * 2.0 + 1.0
        with pytest.raises(ValueError, match="read-only"):
            fixed[:] = z * 2.0 + 1.0
        with pytest.raises(TypeError):
            z * 2.0 + "text"
        with pytest.raises(ValueError, match="sequence"):
            z[0] = z[1:] * 2.0 + 1.0
    same(a, x)


def test_numbers() -> None:
    """NumPy's scalars decide dtypes as they do there, numbers too large are NumPy's."""
    for kind in ("float64", "float32", "int64"):
        x = inputs(kind, N * 2)
        a = tw.array(x)
        for number in (
            2,
            True,
            2.5,
            numpy.float32(0.1),
            numpy.float64(0.1),
            numpy.int64(3),
            1 << 60,
            tw.float64(0.1),
            2j,
        ):
            same(number * (a + a) - a, number * (x + x) - x)
        same((a + a[0]) * a.sum() - a.max(), (x + x[0]) * numpy.asarray(a.sum())[()] - x.max())


def test_machine_code() -> None:
    """The same where machine code has taken over the operators of handles."""
    before = takeover.slots().installed
    if not takeover.install():
        pytest.skip("no machine code for this interpreter")
    try:
        test_one_memory()
        test_others_write_meanwhile()
    finally:
        if not before:
            takeover.slots().remove()


def test_what_never_waits_is_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python is asked once for each place; there, NumPy's bits and warnings come of machine code."""
    before = takeover.slots().installed
    if not takeover.install():
        pytest.skip("no machine code for this interpreter")
    monkeypatch.setattr(promotion, "starts", set())
    promotion.ended(False)
    asked: list[Any] = []
    looked_up = consumer.place_of
    monkeypatch.setattr(consumer, "place_of", lambda frame: asked.append(frame.f_lasti) or looked_up(frame))
    x, y = inputs("float64", N), inputs("float64", N, seed=1)
    table = inputs("float64", 200, 200)
    names = {"x": x, "y": y, "t": table, "c": table.max(axis=1, keepdims=True), "n": 2.5, "z": x.copy()}
    rows = {
        "r = x + y": 1,
        "r = t - c": 1,
        "r = t / c.copy()": 1,  # a small one without a name
        "r = x[1:] * y[:-1]": 1,
        "r = x.copy() * y": 6,  # a large one without a name: NumPy writes over it
        "r = n / x": 1,
        "r = -x": 1,
        "r = x ** 2": 1,
        "r = x ** -1.5": 0,
        "r = x / 0.0": 1,
        "r = x + y + 1": 12,
        "r = -(x ** 2)": 12,
        "z -= x": 0,
    }
    try:
        for line, times in rows.items():
            code = compile(line, "line", "exec")
            theirs = dict(names)
            ours = {k: tw.array(v) if isinstance(v, numpy.ndarray) else v for k, v in names.items()}
            asked.clear()
            for _ in range(6):
                told = []
                for scope in (theirs, ours):
                    with warnings.catch_warnings(record=True) as caught:
                        warnings.simplefilter("always")
                        exec(code, scope)
                    told.append([str(w.message) for w in caught])
                assert told[0] == told[1]
            found = "z" if line.startswith("z") else "r"
            same(ours[found], theirs[found])
            assert len(asked) == times, line
        entries = consumer.at_once._entries
        assert entries is not None and any(entries)
        consumer.at_once.forget()
        assert not any(entries)
    finally:
        if not before:
            takeover.slots().remove()


def test_places() -> None:
    """Who takes the result of the first operator of a line."""
    rows = {
        "z = x + y": None,
        "z = x + y + 1": "BINARY_OP",
        "z = (x + y) @ u": None,
        "z = 2 * (x + y)": "BINARY_OP",
        "z = -(x + y)": "UNARY_NEGATIVE",
        "z = (x + y) + f(u, v[1:], k=2).t": "BINARY_OP",
        "z = f(x + y)": None,
        "z = (x + y).sum()": None,
        "z = (x + y)[1:]": None,
        "z = v[x + y]": None,
        "v[1:, 2] = x + y": "STORE_SUBSCR",
        "v[x + y] = u": None,
        "z += x + y": "BINARY_OP",
        "v[1:] *= x + y": "BINARY_OP",
        "z = (w := x + y) * w": None,
        "z = x + y if u else v": None,
        "z = (x + y) < u": None,
        "z = [x + y, u]": None,
    }
    for line, expected in rows.items():
        code = compile(line, "line", "exec")
        instructions = {i.offset: i for i in dis.get_instructions(code)}
        at = next(o for o, i in instructions.items() if i.opname == "BINARY_OP")
        following = consumer._looked_up(code, at)[0]
        assert (instructions[following].opname if following >= 0 else None) == expected, line
