"""Everything a program can do with names, views, writes and exports, in any order, beside NumPy."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, precondition, rule

import tilewise as tw
from tests.fuzz.program import _same_bits, data, quiet

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)
DTYPES = st.sampled_from(["float64", "float64", "int32", "uint8", "float32", "bool", "complex64"])
NUMBERS = st.integers(0, 4)
PAIRS = st.integers(0, 10_000)


class Pair:
    """NumPy's array, and ours. `sized` is False while a mask decides the shape and nobody has asked."""

    def __init__(self, nd: Any, x: Any, sized: bool = True) -> None:
        self.nd, self.x, self.sized = nd, x, sized

    def __repr__(self) -> str:
        return f"<{self.nd.dtype}{self.nd.shape}>"


def both(*operands: Any) -> tuple[list[Any], list[Any]]:
    """Arguments for NumPy, and for us."""
    theirs = [p.nd if isinstance(p, Pair) else p for p in operands]
    return theirs, [p.x if isinstance(p, Pair) else p for p in operands]


class Machine(RuleBasedStateMachine):
    """The rules. Subclasses say under which settings they run."""

    options: ClassVar[dict[str, Any]] = {}
    arrays = Bundle("arrays")

    def __init__(self) -> None:
        super().__init__()
        self.before = asdict(tw.config())
        tw.config(fallback="silent", **self.options)  # for the whole process: other threads see it too
        self.alive: list[Pair] = []
        self.exports: list[tuple[Any, Any]] = []
        self.errors = quiet()
        self.errors.__enter__()

    def teardown(self) -> None:
        try:
            for p in self.alive:
                self.agree(p)
            self.same_aliases()
            self.exports_unchanged()
        finally:
            self.errors.__exit__(None, None, None)
            tw.config(**self.before)

    def made(self, nd: Any, x: Any, sized: bool = True) -> Any:
        if not isinstance(nd, np.ndarray):
            return multiple()
        pair = Pair(nd, x, sized)
        self.alive.append(pair)
        return pair

    def apply(self, f: Callable[..., Any], *operands: Any, sized: bool = True, thread: bool = False) -> Any:
        """The same call on both sides; both raise, or both give a value."""
        theirs, ours = both(*operands)
        try:
            want = f(np, *theirs)
        except (ValueError, IndexError, TypeError) as error:
            with pytest.raises((type(error), ValueError)):
                got = f(tw, *ours)
                if isinstance(got, tw.ndarray):
                    got.compute()
            return multiple()
        found: list[Any] = []
        if thread:
            worker = threading.Thread(target=lambda: found.append(f(tw, *ours)))
            worker.start()
            worker.join()
        else:
            found.append(f(tw, *ours))
        return self.made(want, found[0], sized)

    # -- rules ------------------------------------------------------------------------------------------------------

    @rule(target=arrays, shape=SHAPES, dtype=DTYPES, seed=st.integers(0, 99), fortran=st.booleans())
    def create(self, shape: Any, dtype: str, seed: int, fortran: bool) -> Any:
        nd = np.array(data(seed, shape, dtype), order="F" if fortran else "C")
        return self.made(nd, tw.array(nd, order="F" if fortran else "C"))

    @rule(target=arrays, shape=SHAPES, seed=st.integers(0, 99))
    def of_foreign(self, shape: Any, seed: int) -> Any:
        source = data(seed, shape, "float64")
        x = tw.asarray(source)
        want = source.copy()
        source[...] = -9
        return self.made(want, x)

    @rule(target=arrays, p=arrays, chosen=st.data())
    def slice(self, p: Pair, chosen: Any) -> Any:
        key = chosen.draw(hnp.basic_indices(p.nd.shape, allow_newaxis=True, max_dims=4))
        return self.apply(lambda m, a: a[key], p)

    @rule(
        target=arrays,
        p=arrays,
        kind=st.sampled_from(["T", "reshape", "ravel", "diagonal", "real", "imag", "swap", "view", "pair"]),
    )
    def view(self, p: Pair, kind: str) -> Any:
        forms: dict[str, Callable[[Any], Any]] = {
            "T": lambda a: a.T,
            "reshape": lambda a: a.reshape(-1, 1),
            "ravel": lambda a: a.ravel(),
            "diagonal": lambda a: a.diagonal(),
            "real": lambda a: a.real,
            "imag": lambda a: a.imag,
            "swap": lambda a: a.swapaxes(0, -1),
            "view": lambda a: a.view(),
            "pair": lambda a: a.reshape(2, -1),
        }
        if kind == "imag" and p.nd.dtype.kind != "c":
            return multiple()
        return self.apply(lambda m, a: forms[kind](a), p)

    @rule(target=arrays, p=arrays)
    def alias(self, p: Pair) -> Any:
        return self.made(p.nd, p.x)

    @precondition(lambda self: self.alive)
    @rule(p=arrays, value=NUMBERS, chosen=st.data())
    def write(self, p: Pair, value: int, chosen: Any) -> None:
        key = chosen.draw(hnp.basic_indices(p.nd.shape, max_dims=4))

        def put(m: Any, a: Any) -> None:
            a[key] = value

        self.apply(put, p)

    @rule(p=arrays, q=arrays)
    def write_array(self, p: Pair, q: Pair) -> None:
        if q.nd.dtype.kind == "c" and p.nd.dtype.kind != "c":
            return
        if p.nd.dtype.kind == "u" and q.nd.dtype.kind == "f" and not (q.nd >= 0).all():
            return  # what becomes of them depends on the processor's instruction that NumPy happens to use

        def put(m: Any, a: Any, b: Any) -> None:
            a[...] = b

        self.apply(put, p, q)

    @rule(p=arrays, value=NUMBERS)
    def write_mask(self, p: Pair, value: int) -> None:
        def put(m: Any, a: Any) -> None:
            a[a > 2] = value

        if p.nd.dtype.kind != "c":
            self.apply(put, p)

    @rule(p=arrays, index=st.lists(st.integers(-4, 4), max_size=3), value=NUMBERS)
    def write_fancy(self, p: Pair, index: list[int], value: int) -> None:
        def put(m: Any, a: Any) -> None:
            a[index] = value

        self.apply(put, p)

    @rule(p=arrays, q=st.one_of(arrays, NUMBERS))
    def in_place(self, p: Pair, q: Any) -> None:
        def change(m: Any, a: Any, b: Any) -> None:
            if a.ndim and a.dtype.kind in "fiu":
                a += b
                a %= 97  # small, so that sums stay exact

        self.apply(change, p, q)

    @rule(target=arrays, p=arrays, q=st.one_of(arrays, NUMBERS), kind=st.integers(0, 5), thread=st.booleans())
    def record(self, p: Pair, q: Any, kind: int, thread: bool) -> Any:
        if p.nd.dtype.kind == "c":
            return multiple()
        forms: list[Callable[..., Any]] = [
            lambda m, a, b: m.maximum(a, b),
            lambda m, a, b: (a + b) % 11,
            lambda m, a, b: m.where(a > b, a, b),
            lambda m, a, b: a == b,
            lambda m, a, b: m.minimum(a * 2, b) % 5,
            lambda m, a, b: a - m.add.reduce(a * (a == b), axis=None),
        ]
        return self.apply(forms[kind], p, q, thread=thread)

    @rule(
        target=arrays,
        p=arrays,
        axis=st.integers(-1, 2),
        keep=st.booleans(),
        name=st.sampled_from(["sum", "max", "any", "cumsum", "argmin"]),
    )
    def reduce(self, p: Pair, axis: int, keep: bool, name: str) -> Any:
        if p.nd.dtype.kind == "c":
            return multiple()
        more = {"keepdims": keep} if name != "cumsum" else {}
        return self.apply(lambda m, a: getattr(m, name)(a, axis=axis, **more), p)

    @rule(target=arrays, p=arrays, q=arrays)
    def product(self, p: Pair, q: Pair) -> Any:
        if max(float(np.abs(np.nan_to_num(a.nd)).max(initial=0)) for a in (p, q)) > 1000 or "float16" in (
            p.nd.dtype,
            q.nd.dtype,
        ):
            return multiple()
        return self.apply(lambda m, a, b: m.matmul(a, b), p, q)

    @rule(target=arrays, p=arrays, index=st.lists(st.integers(-3, 3), max_size=3))
    def fancy(self, p: Pair, index: list[int]) -> Any:
        return self.apply(lambda m, a: a[index], p)

    @rule(target=arrays, p=arrays)
    def mask(self, p: Pair) -> Any:
        return self.apply(lambda m, a: a[a != 0], p, sized=False)

    @rule(target=arrays, p=arrays, kind=st.sampled_from(["copy", "pickle", "deepcopy", "copy.copy", "astype"]))
    def duplicate(self, p: Pair, kind: str) -> Any:
        forms: dict[str, Callable[[Any], Any]] = {
            "copy": lambda a: a.copy(),
            "pickle": lambda a: pickle.loads(pickle.dumps(a)),
            "deepcopy": copy.deepcopy,
            "copy.copy": copy.copy,
            "astype": lambda a: a.astype("complex128"),
        }
        return self.apply(lambda m, a: forms[kind](a), p)

    @rule(p=arrays, thread=st.booleans())
    def force(self, p: Pair, thread: bool) -> None:
        if thread:
            worker = threading.Thread(target=p.x.compute)
            worker.start()
            worker.join()
        self.agree(p)

    @rule(p=arrays)
    def export(self, p: Pair) -> None:
        seen = np.asarray(p.x)
        assert not seen.flags.writeable
        self.exports.append((seen, p.nd.copy()))

    @rule(p=arrays)
    def compute(self, p: Pair) -> None:
        own = p.x.compute()
        assert own.flags.writeable
        own[...] = 1
        self.agree(p)

    @rule(p=consumes(arrays))
    def drop(self, p: Pair) -> None:
        self.alive = [q for q in self.alive if q is not p]

    # -- what must hold ---------------------------------------------------------------------------------------------

    @invariant()
    def exports_unchanged(self) -> None:
        for seen, want in self.exports:
            assert _same_bits(seen, want)

    @invariant()
    def same_types(self) -> None:
        for p in self.alive:
            if p.sized:
                assert p.x.dtype == p.nd.dtype
                assert p.x.shape == p.nd.shape
                assert p.x.flags.writeable == p.nd.flags.writeable
                if p.nd.size:
                    assert p.x.flags.c_contiguous == p.nd.flags.c_contiguous
                    assert p.x.flags.f_contiguous == p.nd.flags.f_contiguous
                    long = [i for i, d in enumerate(p.nd.shape) if d > 1]
                    assert [p.x.strides[i] for i in long] == [p.nd.strides[i] for i in long]

    def agree(self, p: Pair) -> None:
        assert p.x.dtype == p.nd.dtype
        assert p.x.shape == p.nd.shape
        assert _same_bits(p.x.compute(), p.nd), f"{p.x!r} instead of {p.nd!r}"
        p.sized = True

    def same_aliases(self) -> None:
        some = self.alive[-8:]
        shown = [np.asarray(p.x) for p in some]
        for i, p in enumerate(some):
            for j in range(i):
                assert np.shares_memory(shown[i], shown[j]) == np.shares_memory(p.nd, some[j].nd)


def _machine(**options: Any) -> Any:
    made = type("Machine", (Machine,), {"options": options})
    case = made.TestCase
    most = min(settings.default.max_examples, 400)  # of some 25 steps each: enough for an hour of `make soak`
    case.settings = settings(stateful_step_count=25, max_examples=most)
    return case


TestDefault = _machine()
TestRecorded = _machine(eager_bytes=0, native=False)
TestMixed = _machine(eager_bytes=64, native=False)
TestUnfused = _machine(eager_bytes=0, fusion=False)
TestNoFlush = _machine(eager_bytes=0, native=False, flush=False)
TestNative = _machine(eager_bytes=0)
