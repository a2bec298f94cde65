"""What bodies are like. In: a kernel, the classes of its operands' innermost strides. Out: what emitters ask of it."""

from __future__ import annotations

import math

import numpy as np

from tilewise.backend.llvm.emit.memory import PART
from tilewise.backend.llvm.emit.spec import STRIDED, UNIT, ZERO, VectorUnit
from tilewise.backend.llvm.math.neon import REGISTERS
from tilewise.backend.llvm.math.table import COSTLY
from tilewise.kernel.loops import CARRIED, CARRY, ITERATIONS, TABLE, Kernel, const_value

LIGHT_BODY = 24  # instructions; larger bodies, and COSTLY functions, keep the units busy without unrolling
MAX_LANES = 64
# Square roots of ARM: cycles of one by the divider, and by multiplications; cycles that one other instruction takes of
# these in four registers.
ROOT_CYCLES, PRODUCT_CYCLES, BESIDE_CYCLES = 14, 10, 3
HELD_BYTES = 256  # of row accumulators of narrow vectors that registers hold
PAIR_BYTES, LEAST_SUM_BYTES = 512, 32  # of the accumulators of two outputs, and at least of each
UNITS, VECTOR_UNITS = 3, 2  # of a core: for integers, for vectors
WORD_LANES = 2  # of 64 bits, in a narrow vector
# Instructions for such vectors, where these are more than one: it is taken apart, or a register is lost.
WORD_COSTS = {"multiply": 6, "floor_divide": 6, "remainder": 6, "where": 2, "not_equal": 2}


def is_light(kernel: Kernel, classes: tuple[str, ...]) -> bool:
    """Whether a body is small, without gathers and without functions that cost more than a few instructions."""
    rare = {v for arm in rare_arms(kernel).values() for v in arm}
    body = [i for v, i in enumerate(kernel.body, len(kernel.inputs) + len(kernel.params)) if v not in rare]
    return len(body) <= LIGHT_BODY and STRIDED not in classes and not any(i.fn in COSTLY for i in body)


def rare_arms(kernel: Kernel) -> dict[int, tuple[int, ...]]:
    """By the number of each "rarely": what is computed for its rare points alone (constants aside), in order."""
    if kernel.loop_body is not None or not any(i.fn == "rarely" for i in kernel.body):
        return {}
    first = len(kernel.inputs) + len(kernel.params)
    users: dict[int, set[int]] = {v: {-1} for o in kernel.outputs for v in (o.value, o.key) if v is not None}
    arms: dict[int, list[int]] = {}
    for v, instr in reversed(list(enumerate(kernel.body, first))):
        only = users.get(v, {-1})  # the "rarely" that it is for; -1: all points
        mine = next(iter(only)) if len(only) == 1 else -1
        if mine >= 0 and instr.args:
            arms.setdefault(mine, []).append(v)
        for place, a in enumerate(instr.args):
            rare = mine < 0 and instr.fn == "rarely" and place == 1
            users.setdefault(a, set()).add(v if rare else mine)
    return {v: tuple(reversed(arm)) for v, arm in arms.items()}


def vector_lanes(kernel: Kernel, vector_bytes: int) -> int:
    """Lanes of the widest dtype in one vector."""
    return min(MAX_LANES, max(1, vector_bytes // widest(kernel)))


def tree_lanes(kernel: Kernel, machine: VectorUnit) -> int:
    """Lanes of a row accumulator: a property of the kernel, so that machines of a kind sum in the same order.

    Where vectors are narrow, accumulators are what registers hold, so that a row is gone over once. One output or two
    have all lanes: a sum is the same beside another as it is alone.
    """
    lanes = min(MAX_LANES, 4 * (64 // widest(kernel)))
    if not machine.by_lane:
        return lanes
    most = PAIR_BYTES if len([o for o in kernel.outputs if o.reduce]) <= 2 else HELD_BYTES
    while lanes * _sum_bytes(kernel) > most and lanes * widest(kernel) > LEAST_SUM_BYTES:
        lanes //= 2
    return lanes


def goes_once(kernel: Kernel, machine: VectorUnit) -> bool:
    """Whether a row is gone over once, where it is summed with narrow vectors."""
    return tree_lanes(kernel, machine) * _sum_bytes(kernel) <= HELD_BYTES


def _sum_bytes(kernel: Kernel) -> int:
    """Of one lane of all accumulators."""
    own = [t for t, o in zip(kernel.out_dtypes, kernel.outputs, strict=True) if o.reduce]
    return sum(np.dtype(t).itemsize for t in (*own, *beside(kernel)))


def beside(kernel: Kernel) -> tuple[str, ...]:
    """The dtypes of the arrays beside positions and scans, in the order of the outputs."""
    dtypes = kernel.dtypes
    return tuple(dtypes[o.value] for o in kernel.outputs if o.is_arg or o.scan)


def has_positions(kernel: Kernel) -> bool:
    """Whether a kernel looks for positions."""
    return any(o.is_arg for o in kernel.outputs)


def is_constant(kernel: Kernel, v: int) -> bool:
    """Whether a value that is no input is a param or a number."""
    at = v - len(kernel.inputs) - len(kernel.params)
    return at < 0 or kernel.body[at].fn.startswith("const:")


def one_by_one(kernel: Kernel, machine: VectorUnit) -> bool:
    """Whether the part that runs for many iterations is quicker for single points than for vectors.

    Narrow vectors cannot multiply integers of 64 bits, and a core has more units for single integers.
    """
    if kernel.loop_body is None or machine.vector_bytes != WORD_LANES * 8:
        return False
    body = [i for k in kernel.loop_body if (i := kernel.body[k]).fn not in (ITERATIONS, CARRIED, CARRY)]
    if any(i.dtype not in ("int64", "uint64", "bool") for i in body):
        return False
    body = [i for i in body if i.fn != "cast" and not i.fn.startswith(TABLE)]
    shifts = [i for i in body if i.fn in ("floor_divide", "remainder") and _power_of_two(kernel, i.args[1])]
    costs = [1 if i in shifts else WORD_COSTS.get(i.fn, 1) for i in body]
    return len(body) / UNITS < sum(costs) / (WORD_LANES * VECTOR_UNITS)


def uniform_values(kernel: Kernel, classes: tuple[str, ...]) -> tuple[int, ...]:
    """The values that do not change along the innermost dim (constants aside), in order."""
    n, found = len(kernel.inputs), []
    part = kernel.loop_body or range(0)
    for v in range(len(kernel.dtypes)):
        if v < n:
            same = classes[v] == ZERO
        elif v - n - len(kernel.params) in part or is_constant(kernel, v):
            continue
        else:
            args = kernel.body[v - n - len(kernel.params)].args
            same = all(a in found or (a >= n and is_constant(kernel, a)) for a in args)
        if same:
            found.append(v)
    return tuple(found)


def divisors(kernel: Kernel, classes: tuple[str, ...], machine: VectorUnit) -> frozenset[int]:
    """The values by which others are divided, and which have an inverse: they do not change along the innermost dim.

    The divider of ARM is slow, and with AVX-512 it has eight lanes to do; with AVX2, a test of the range costs as much.
    Long bodies of ARM keep other units busy.
    """
    light, uniform = is_light(kernel, classes), uniform_values(kernel, classes)
    if not (machine.masked or (machine.by_lane and light)):
        return frozenset()
    n = len(kernel.inputs)
    return frozenset(
        by
        for v, by in _divisions(kernel, machine)
        if v not in uniform
        and (by in uniform or (light and by >= n and is_constant(kernel, by) and not _power_of_two(kernel, by)))
    )


def row_divisors(kernel: Kernel, classes: tuple[str, ...], machine: VectorUnit) -> tuple[int, ...]:
    """The inputs that change along the innermost dim, and by which others are divided: their inverses could be kept."""
    if not (machine.masked or machine.by_lane) or not is_light(kernel, classes):
        return ()
    found = {by for _, by in _divisions(kernel, machine) if by < len(kernel.inputs) and classes[by] == UNIT}
    return tuple(sorted(found))


def _divisions(kernel: Kernel, machine: VectorUnit) -> list[tuple[int, int]]:
    """Quotients that keep the divider busy (ARM's: not those of float32), and what they are divided by."""
    first = len(kernel.inputs) + len(kernel.params)
    wide = ("float64", "float32") if machine.masked else ("float64",)
    return [(v, i.args[1]) for v, i in enumerate(kernel.body, first) if i.fn == "divide" and i.dtype in wide]


def rooted(kernel: Kernel, classes: tuple[str, ...]) -> int:
    """How many of four registers of square roots ARM makes of multiplications, while its divider makes the others.

    All if there are divisions, too; otherwise as many as even out the work of small bodies that store what they make.
    """
    wide = [i.fn for i in kernel.body if i.dtype == "float64"]
    roots = wide.count("sqrt")
    if not roots or not is_light(kernel, classes):
        return 0
    if "divide" in wide:
        return REGISTERS
    if not all(o.stored for o in kernel.outputs):
        return 0
    others = len([i for i in kernel.body if i.args]) - roots
    return max(0, round((REGISTERS * ROOT_CYCLES - BESIDE_CYCLES * others / roots) / (ROOT_CYCLES + PRODUCT_CYCLES)))


def guarded(kernel: Kernel, classes: tuple[str, ...], machine: VectorUnit) -> int:
    """How many quotients and roots are made of multiplications, each with a branch for numbers that want another way.

    Where vectors can be masked, there are no branches.
    """
    if machine.masked:
        return 0
    inverses = divisors(kernel, classes, machine)
    roots = sum(i.fn == "sqrt" and i.dtype == "float64" for i in kernel.body) if rooted(kernel, classes) else 0
    return sum(by in inverses for _, by in _divisions(kernel, machine)) + (roots if machine.by_lane else 0)


def _power_of_two(kernel: Kernel, v: int) -> bool:
    """Whether a value is known to have an exact reciprocal."""
    at = v - len(kernel.inputs) - len(kernel.params)
    if at < 0 or not kernel.body[at].fn.startswith("const:"):
        return False
    return abs(math.frexp(float(const_value(kernel.body[at].fn).real))[0]) == 0.5


def lanes_before_sums(kernel: Kernel, vector_bytes: int) -> int:
    """Lanes of the widest dtype in one vector, but for values that are made wider only to be reduced.

    >>> from tilewise.kernel.loops import Instr, Kernel, Output
    >>> counted = Kernel(("uint8",), (), (Instr("cast", (0,), "uint64"),), (Output(1, "add"),), (True,))
    >>> lanes_before_sums(counted, 16), vector_lanes(counted, 16)
    (16, 2)
    """
    first = len(kernel.inputs) + len(kernel.params)
    used = {a for i in kernel.body for a in i.args} | {o.value for o in kernel.outputs if not o.reduce or o.is_arg}
    last = {v for v, i in enumerate(kernel.body, first) if i.fn == "cast" and v not in used}
    sizes = [np.dtype(PART.get(t, t)).itemsize for v, t in enumerate(kernel.dtypes) if v not in last]
    return min(MAX_LANES, max(1, vector_bytes // max(sizes, default=1)))


def widest(kernel: Kernel) -> int:
    return max((np.dtype(PART.get(t, t)).itemsize for t in kernel.dtypes), default=1)
