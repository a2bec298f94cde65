"""Lanes that the vector code leaves to others: a branch that is hardly ever taken, to the C library a call per lane.

In: a mask of hard lanes, the values of the other lanes, what makes those of the hard ones. Out: all lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilewise.backend.llvm.emit.text import BITS, Function, Val, anywhere, apart, highest, lowest, vtype
from tilewise.kernel.family import ARM

RARELY = 1_000_000  # the number of a line of metadata, beyond those that loops have


def by_libm_where(hard: Val, libm: str, y: Val, *operands: Val) -> Val:
    """y, but libm's value where hard."""
    return rarely(anywhere(hard), y, lambda: hard.select(_each_lane(libm, operands), y))


def rarely(hard: Val, y: Val, otherwise: Callable[[], Val]) -> Val:
    """y, or, if a condition holds that hardly ever does, another value."""
    return rarely_all(hard, (y,), lambda: (otherwise(),))[0]


def rarely_all(hard: Val, values: Sequence[Val], otherwise: Callable[[], Sequence[Val]]) -> list[Val]:
    """The same for some values at once."""
    fn = values[0].fn
    slow, done = fn.fresh("slow"), fn.fresh("done")
    before = fn.block
    fn.do(f"br {hard.text}, label %{slow}, label %{done}, !prof !{RARELY}")
    fn.helpers["rarely"] = f'!{RARELY} = !{{!"branch_weights", i32 1, i32 1000000}}'
    fn.label(slow)
    exact = otherwise()
    after = fn.block
    fn.do(f"br label %{done}")
    fn.label(done)
    both = zip(values, exact, strict=True)
    return [y.make(f"phi {vtype(y.ty, y.lanes)} [ {y.name}, %{before} ], [ {e.name}, %{after} ]") for y, e in both]


def outside(
    x: Val,
    low: int,
    span: int,
    *,
    signed: bool = False,
    also: Val | None = None,
    nan: Val | None = None,
    but: Val | None = None,
) -> Val:
    """Whether the bits of any lane (signed: but for the sign) are not from `low` to `low + span`, or it is in a mask.

    Or some other numbers are NaN, one for all lanes or one for each; those that are not have fewer bits than the span.
    Lanes of the last mask do not count. ARM has no test of all lanes of a mask; and the upper halves of doubles tell as
    much, in half as many vectors.
    """
    bits, span = x.bits(), span << signed
    if not ARM or x.lanes == 1:
        far = _distance(bits, low, signed).cmp("ugt", span)
        far = far if but is None else far & ~but
        if nan is not None:
            bad = nan.cmp("uno", nan)
            far = far | (bad if bad.lanes == x.lanes else bad.splat(x.lanes))
        return anywhere(far if also is None else far | also)
    if x.ty == "double":
        bits, low, span = apart(x.halves())[1], low >> 32, span >> 32
    distance = _distance(bits, low, signed)
    distance = distance if but is None else but.select(distance.const(0), distance)
    distance = distance if also is None else also.select(distance.const(-1), distance)
    if nan is not None and nan.lanes > 1:
        distance = distance.intrinsic("umax", apart(nan.halves())[1] if nan.ty == "double" else nan.bits())
    most = highest(distance)
    enough = most.const(span + 1)
    if nan is not None and nan.lanes == 1:
        enough = nan.cmp("uno", nan).select(most.const(0), enough)
    return most.cmp("uge", enough)


def nearly_zero(x: Val, power: int) -> Val:
    """Whether any lane is less than a power of two, but not zero."""
    least = bits_of_power(x.ty, power)
    before = x.bits() - 1  # of a zero: the highest there is, without the sign
    if not ARM or x.lanes == 1:
        return anywhere((before + before).cmp("ult", 2 * least))
    if x.ty == "double":
        before, least = before.op("lshr", 32).convert("trunc", "i32"), least >> 32
    return lowest(before + before).cmp("ult", 2 * least)


def bits_of_power(ty: str, power: int) -> int:
    """The bits of a power of two."""
    return (power + 1023) << 52 if ty == "double" else (power + 127) << 23


def _distance(bits: Val, low: int, signed: bool) -> Val:
    """How far bits are from the lowest (signed: twice as far)."""
    return bits + bits - 2 * low if signed else bits - low


def _each_lane(libm: str, operands: tuple[Val, ...]) -> Val:
    """A libm function on all lanes, in memory: one call in a loop, so that it costs little to compile."""
    fn, ty, lanes = operands[0].fn, operands[0].ty, operands[0].lanes
    places = [fn.hoist(f"alloca {vtype(ty, lanes)}, align 64") for _ in operands]
    for place, operand in zip(places, operands, strict=True):
        fn.do(f"store {operand.text}, ptr {place}, align 64")
    name = _loop(fn, libm, ty, len(operands))
    fn.do(f"call void @{name}({', '.join(f'ptr {p}' for p in places)}, i64 {lanes})")
    return Val(fn, fn.let(f"load {vtype(ty, lanes)}, ptr {places[0]}, align 64"), ty, lanes)


def _loop(fn: Function, libm: str, ty: str, count: int) -> str:
    """The function that overwrites its first array by libm's values."""
    name, called = f"each_{libm}_{ty}", libm if ty == "double" else libm + "f"
    step = [f"%p{j} = getelementptr {ty}, ptr %a{j}, i64 %i\n  %x{j} = load {ty}, ptr %p{j}, align {BITS[ty] // 8}"
            for j in range(count)]  # fmt: skip
    operands = ", ".join(f"{ty} %x{j}" for j in range(count))
    fn.declares.add(f"declare {ty} @{called}({', '.join([ty] * count)})")
    fn.helpers[name] = "\n  ".join([
        f"define internal void @{name}({', '.join(f'ptr %a{j}' for j in range(count))}, i64 %n) {{\nentry:",
        "br label %turn\nturn:",
        "%i = phi i64 [ 0, %entry ], [ %next, %turn ]",
        *step,
        f"%y = call {ty} @{called}({operands})",
        f"store {ty} %y, ptr %p0, align {BITS[ty] // 8}",
        "%next = add i64 %i, 1",
        "%more = icmp slt i64 %next, %n",
        "br i1 %more, label %turn, label %out\nout:",
        "ret void\n}",
    ])  # fmt: skip
    return name
