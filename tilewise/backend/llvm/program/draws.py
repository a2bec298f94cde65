"""Draws from NumPy's generators by NumPy's own C functions. In: HostCalls with a `Draw`. Out: IR; a block of words.

NumPy's generators show their state to C (NEP 19), and the functions that their methods are made of can be called. So a
draw gives the same numbers as the method does, without Python. What is unusual (an argument that raises, a class of the
user's) goes through Python.

A call of a program has a block: whether it holds the locks of its generators, addresses of C functions, and of each
generator the address that these want: 0 as long as Python was not asked for it, BY_PYTHON if there is none.
"""

from __future__ import annotations

import _thread
import ctypes
import random
import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.backend.llvm.emit.control import either, when, word_at
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import layout, twister
from tilewise.backend.llvm.program.environment import ask
from tilewise.kernel.program import raised
from tilewise.kernel.program.ir import Draw, Host, HostCall, Program
from tilewise.kernel.program.walk import statements

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

BEGIN, END = -1, -2  # what is asked of Python beside HostCalls: to take the generators, to let them go
BY_PYTHON = 1  # in place of an address
HELD, FUNCTIONS = 0, 1  # places in the block
BOUNDED = "random_bounded_uint64_fill"
_MOST = {"finite": float("inf"), "rate": 1e18}  # NumPy's own limit of rates is a little above
_RESULT = {"float64": "double", "int64": "i64"}


class Used:
    """The C functions and the generators of a program, and its functions: each has its place in the block."""

    def __init__(self, program: Program) -> None:
        bodies = (program.body, *(p.body for p in program.functions))
        every = [s.draw for body in bodies for s in statements(body) if isinstance(s, HostCall) and s.draw]
        self.functions = sorted({d.function for d in every if d.function})
        self.generators = sorted({d.generator for d in every if d.function})

    @property
    def first(self) -> int:
        """Where the generators begin."""
        return FUNCTIONS + len(self.functions)

    def block(self) -> Any:
        """A new one."""
        return (ctypes.c_int64 * (self.first + len(self.generators)))(0, *map(address_of, self.functions))


class Draws:
    """IR for the draws of a program, or of a function of it."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.used: Used = Used(em.p) if em.main is None else em.main.draws.used

    def _block(self) -> str:
        return self.em.fn.let(f"load ptr, ptr {self.em.out(layout.DRAWS)}")

    def begin(self) -> None:
        """Nothing is known of the generators."""
        em = self.em
        if em.main is None and self.used.generators:
            block = self._block()
            for k in (HELD, *range(self.used.first, self.used.first + len(self.used.generators))):
                em.put(word_at(em.fn, block, k), em.number(0))

    def end(self) -> None:
        """Let the generators go."""
        em = self.em
        if em.main is None and self.used.generators:
            block = self._block()
            with when(em.fn, em.word(word_at(em.fn, block, HELD)).cmp("ne", 0).name):
                ask(em, END, block)

    def made(self, d: Draw) -> None:
        """A generator was made anew: its address is not known."""
        em = self.em
        if d.generator in self.used.generators:
            em.put(self._place(self._block(), d), em.number(0))

    def drawn(self, s: HostCall, numbers: Sequence[Val], room: str, by_python: Callable[[], None]) -> None:
        """A number into a room, by a C function, or by Python where that would not do."""
        em, fn, d = self.em, self.em.fn, s.draw
        assert d is not None
        block = self._block()
        place = self._place(block, d)
        with when(fn, em.word(place).cmp("eq", 0).name):
            em.fail_if(ask(em, BEGIN, block).cmp("ne", 0), s.fault)
        address, args = em.word(place), numbers[len(numbers) - len(d.needs) :]
        fits = address.cmp("ugt", BY_PYTHON)
        for v, need in zip(args, d.needs, strict=True):
            fits = fits & _is(v, need) if need else fits
        if d.function == BOUNDED:
            low, high, closed, masked = args
            fits = fits & (low.cmp("slt", high) | (closed & low.cmp("eq", high)))
            span = high - low - closed.select(em.number(0), 1)
            given = f"{low.text}, {span.text}, i64 1, i1 zeroext {masked.name}, ptr {room}"
        else:
            given = ", ".join(v.text for v in args)
        generator = fn.let(f"inttoptr {address.text} to ptr")
        function = fn.let(f"load ptr, ptr {word_at(fn, block, FUNCTIONS + self.used.functions.index(d.function))}")

        def here() -> None:
            if d.function in twister.FUNCTIONS:
                number = twister.drawn(fn, d.function, generator, args)
                fn.do(f"store {twister.FUNCTIONS[d.function]} {number}, ptr {room}")
                return
            if d.function == BOUNDED:
                fn.do(f"call void {function}(ptr {generator}, {given})")
                return
            ty = _RESULT[em.p.names[s.results[0]]]
            found = fn.let(f"call {ty} {function}(ptr {generator}{', ' * bool(given)}{given})")
            fn.do(f"store {ty} {found}, ptr {room}")

        either(fn, fits.name, here, by_python)

    def _place(self, block: str, d: Draw) -> str:
        return word_at(self.em.fn, block, self.used.first + self.used.generators.index(d.generator))


def _is(v: Val, need: str) -> Val:
    """Whether a number is as a function needs it."""
    if need == "positive":
        return v.cmp("ogt", 0.0)
    if need == "count":
        return v.cmp("sgt", 0)
    if need == "bits":
        return (v - 1).cmp("ult", 63)
    most = v.cmp("olt", _MOST[need]) if need in _MOST else v.cmp("oge", 0.0)
    return most & v.bits().cmp("sge", 0)  # -0.0 is negative here


@cache
def _library() -> Any:
    return ctypes.CDLL(np.random._generator.__file__)


@cache
def address_of(function: str) -> int:
    """The address of one of NumPy's C functions; 0: this NumPy does not show it."""
    if function in twister.FUNCTIONS:
        return int(twister.usable())
    try:
        return ctypes.cast(getattr(_library(), function), ctypes.c_void_p).value or 0
    except (AttributeError, OSError):
        return 0


class Held:
    """What Python does for the draws of a program: addresses of generators, and their locks.

    The locks are held until the call ends, as no other thread may draw meanwhile. All are taken at once, in the same
    order everywhere, so that calls do not wait for each other.
    """

    def __init__(self, used: Used, host: Sequence[Host]) -> None:
        self.used, self.host = used, host
        self._calls = _Calls()

    def begin(self, block: int) -> None:
        """Write the addresses of all generators into a block."""
        try:
            found = [_bits_of(self.host[g]([])[0]) for g in self.used.generators]
            if not all(map(address_of, self.used.functions)):
                found = [(BY_PYTHON, None)] * len(found)
            if not ctypes.c_int64.from_address(block).value:
                self._calls.held.append([])
                ctypes.c_int64.from_address(block).value = 1
                for _, b in sorted({id(b): b for _, b in found if b is not None}.items()):
                    b.lock.acquire()
                    self._calls.held[-1].append(b)
            words = (ctypes.c_int64 * len(found)).from_address(block + 8 * self.used.first)
            words[:] = [a for a, _ in found]
        except BaseException as error:
            raised.keep(error)
            raise

    def end(self, block: int) -> None:
        """Let the locks go."""
        held = self._calls.held.pop()
        while held:
            try:
                held.pop().lock.release()
            except KeyboardInterrupt:
                _thread.interrupt_main()


class _Calls(threading.local):
    """Of each call in this thread that has taken generators: what it holds."""

    def __init__(self) -> None:
        self.held: list[list[Any]] = []


def _bits_of(generator: Any) -> tuple[int, Any]:
    """The address that C functions want, and the bit generator that has it."""
    try:
        if type(generator) is np.random.Generator:
            bits = generator.bit_generator
        elif type(generator) is np.random.RandomState:
            bits = generator._bit_generator
        elif type(generator) is random.Random:
            return twister.address(generator), None
        else:
            return BY_PYTHON, None
        return bits.ctypes.bit_generator.value, bits
    except (AttributeError, ImportError):
        return BY_PYTHON, None
