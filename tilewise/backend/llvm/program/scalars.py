"""Operations of programs that kernels have not. In: `Val`s of one lane. Out: `Val`s, and what is wrong, if anything.

Each gives its result and a condition (an i1 `Val`, or None) under which there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tilewise.backend.llvm.emit.text import BITS, Function, Val, pair
from tilewise.backend.llvm.math import integer, scalar, trig
from tilewise.kernel.program.ir import INT, Const, Expr, Op

Made = tuple[Val, Val | None]
OVERFLOW = {"add": "sadd", "subtract": "ssub", "multiply": "smul"}
LEAST = -(1 << 63)
MOST = (1 << 63) - 1
EXACT = 1 << 53  # integers up to here are floats
LARGE_EXPONENT = 709.0  # e**x is finite up to here
BEYOND_INT64 = 0x43E0000000000000 << 1  # the bits of 2.0**63 without a sign, to be compared with others of its kind


def overflowing(fn: str, a: Val, b: Val) -> Made:
    """a + b, a - b, a * b and whether they overflow."""
    name = f"llvm.{OVERFLOW[fn]}.with.overflow.i64"
    f = a.fn
    f.declares.add(f"declare {{ i64, i1 }} @{name}(i64, i64)")
    both = f.let(f"call {{ i64, i1 }} @{name}({a.text}, {b.text})")
    return Val(f, f.let(f"extractvalue {{ i64, i1 }} {both}, 0"), "i64", 1), Val(
        f, f.let(f"extractvalue {{ i64, i1 }} {both}, 1"), "i1", 1
    )


def multiple(x: Op) -> tuple[Expr, int, int] | None:
    """e, a and b of a * e + b that is made of products and sums with numbers, products among them; all may overflow."""
    if x.fault < 0:
        return None
    times, more, products = 1, 0, 0
    e: Expr = x
    while isinstance(e, Op) and e.fn in OVERFLOW and e.dtype == INT and e.fault == x.fault:
        left, right = e.args
        if isinstance(left, Const) and not isinstance(right, Const):
            number, rest = left.value, right
        elif isinstance(right, Const) and not isinstance(left, Const):
            number, rest = right.value, left
        else:
            break
        if e.fn == "multiply":
            times, products = times * number, products + 1
        elif e.fn == "add":
            more += times * number
        else:
            more, times = more + times * (number if rest is right else -number), -times if rest is right else times
        e = rest
    return (e, times, more) if products and 0 < abs(times) < 1 << 31 and abs(more) < 1 << 31 else None


def _divided(fn: str) -> Callable[[Val, Val], Made]:
    def act(a: Val, b: Val) -> Made:
        zero = b.cmp("oeq" if b.is_float else "eq", 0)
        dtype = "float64" if b.is_float else "int64"
        return scalar.apply(fn, (dtype, dtype), dtype, [a, b]), zero

    return act


PLAIN = {"floor_divide": "udiv", "remainder": "urem", "left_shift": "shl nsw", "right_shift": "ashr"}  # if exact


def branching_division(unlikely: int, fn: str, a: Val, b: Val, nonzero: bool) -> Val:
    """a // b or a % b: as they are mostly asked for, of numbers that are not negative, or else by the general way."""
    f = a.fn
    quick, general, after = f.fresh("quick"), f.fresh("general"), f.fresh("divided")
    low = a | b if nonzero else a | b | (b - 1)  # negative, unless the quick way will do
    f.do(f"br i1 {low.cmp('slt', 0).name}, label %{general}, label %{quick}, !prof !{unlikely}")
    f.label(general)
    slow = scalar.apply(fn, ("int64", "int64"), "int64", [a, b])
    ended = f.block
    f.do(f"br label %{after}")
    f.label(quick)
    fast = a.op(PLAIN[fn], b)
    f.do(f"br label %{after}")
    f.label(after)
    return a.make(f"phi i64 [ {fast.name}, %{quick} ], [ {slow.name}, %{ended} ]")


def _negatable(a: Val, b: Val) -> Made:
    return integer.divmod_(True, a, b)[0], b.cmp("eq", -1) & a.cmp("eq", LEAST)


def _shifted(a: Val, b: Val) -> Made:
    inside = b.cmp("ult", 63)
    count = inside.select(b, 0)
    made = a.op("shl", count)
    back = made.op("ashr", count).cmp("ne", a)
    return made, (~inside & a.cmp("ne", 0)) | back


def _exact_float(a: Val) -> Made:
    made = a.convert("sitofp", "double")
    inside = made.cmp("olt", 2.0**63)
    back = inside.select(made, 0.0).convert("fptosi", "i64")
    return made, ~inside | back.cmp("ne", a)


def _square(a: Val, _: Val) -> Made:
    made = a * a
    inf = float("inf")
    return made, made.cmp("oeq", inf) & a.intrinsic("fabs").cmp("olt", inf)


def _beyond_float(a: Val) -> Made:
    """a less the float that it becomes."""
    made = a.convert("sitofp", "double")
    inside = made.cmp("olt", 2.0**63)
    return a - inside.select(inside.select(made, 0.0).convert("fptosi", "i64"), LEAST), None


def _float_bits(a: Val) -> Made:
    return a.bits(), None


def _ones(a: Val) -> Made:
    made = a.intrinsic("ctpop")
    return made if made.ty == "i64" else made.convert("zext", "i64"), None


def _nonzero(a: Val) -> Made:
    return a, a.cmp("eq", 0)


def _natural(a: Val) -> Made:
    return a, a.cmp("slt", 0)


def _subscript(i: Val, n: Val) -> Made:
    at = i.cmp("slt", 0).select(i + n, i)
    return at, at.cmp("uge", n)


def _real_sqrt(a: Val) -> Made:
    return a.intrinsic("sqrt"), a.cmp("olt", 0.0)


def _complex(re: Val, im: Val) -> Made:
    return pair(re, im), None


def _complex_multiply(a: Val, b: Val) -> Made:
    (ar, ai), (br, bi) = a.parts, b.parts
    return pair(ar * br - ai * bi, ar * bi + ai * br), None


def _complex_divide(a: Val, b: Val) -> Made:
    """By Smith's algorithm, as Python does."""
    (ar, ai), (br, bi) = a.parts, b.parts
    flat = br.intrinsic("fabs").cmp("oge", bi.intrinsic("fabs"))
    large, small = flat.select(br, bi), flat.select(bi, br)
    ratio = small / large
    down = large + small * ratio
    x, y = flat.select(ar, ai), flat.select(ai, ar)
    re = (x + y * ratio) / down
    im = flat.select((ai - ar * ratio) / down, (ai * ratio - ar) / down)
    return pair(re, im), br.cmp("oeq", 0.0) & bi.cmp("oeq", 0.0)


def _complex_exp(a: Val) -> Made:
    re, im = a.parts
    large = re.cmp("ogt", LARGE_EXPONENT)  # then e**re may overflow where its product with a small sine does not
    less = large.select(re.const(LARGE_EXPONENT), 0.0)
    size, cos = (scalar.apply(f, ("float64",), "float64", [x]) for f, x in (("exp", re - less), ("cos", im)))
    sin = trig.sin_beside_cos(im)
    times = large.select(re.const(math.exp(LARGE_EXPONENT)), 1.0)
    x, y = cos * times * size, sin * times * size
    # Angles that are not finite say nothing of an infinity or of the zero that e**-inf is.
    lost = (im - im).cmp("uno", 0.0) & re.intrinsic("fabs").cmp("oeq", math.inf)
    x, y = lost.select(size, x), (lost & re.cmp("olt", 0.0)).select(size.intrinsic("copysign", im), y)
    real = im.cmp("oeq", 0.0)  # its sign stays
    return pair(x, real.select(im, y)), None


def _power(a: Val, b: Val) -> Made:
    """a**b of integers, and whether it overflows or is no integer."""
    f = a.fn
    f.declares.add("declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)")
    f.helpers["int_power"] = _INT_POWER
    both = f.let(f"call {{ i64, i1 }} @int_power({a.text}, {b.text})")
    return Val(f, f.let(f"extractvalue {{ i64, i1 }} {both}, 0"), "i64", 1), Val(
        f, f.let(f"extractvalue {{ i64, i1 }} {both}, 1"), "i1", 1
    )


_INT_POWER = """define internal { i64, i1 } @int_power(i64 %a, i64 %b) {
entry:
  %negative = icmp slt i64 %b, 0
  br label %head
head:
  %r = phi i64 [ 1, %entry ], [ %r2, %next ]
  %x = phi i64 [ %a, %entry ], [ %x2, %next ]
  %k = phi i64 [ %b, %entry ], [ %k2, %next ]
  %bad = phi i1 [ %negative, %entry ], [ %bad3, %next ]
  %more = icmp sgt i64 %k, 0
  br i1 %more, label %next, label %done
next:
  %odd = and i64 %k, 1
  %isodd = icmp ne i64 %odd, 0
  %m = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %r, i64 %x)
  %mv = extractvalue { i64, i1 } %m, 0
  %mo = extractvalue { i64, i1 } %m, 1
  %r2 = select i1 %isodd, i64 %mv, i64 %r
  %mbad = and i1 %isodd, %mo
  %k2 = lshr i64 %k, 1
  %again = icmp ne i64 %k2, 0
  %s = call { i64, i1 } @llvm.smul.with.overflow.i64(i64 %x, i64 %x)
  %x2 = extractvalue { i64, i1 } %s, 0
  %so = extractvalue { i64, i1 } %s, 1
  %sbad = and i1 %again, %so
  %bad2 = or i1 %bad, %mbad
  %bad3 = or i1 %bad2, %sbad
  br label %head
done:
  %one = insertvalue { i64, i1 } poison, i64 %r, 0
  %both = insertvalue { i64, i1 } %one, i1 %bad, 1
  ret { i64, i1 } %both
}"""

SPECIAL: dict[str, Callable[..., Made]] = {
    "floor_divide": _divided("floor_divide"),
    "remainder": _divided("remainder"),
    "divide": _divided("divide"),
    "negatable_divide": _negatable,
    "left_shift": _shifted,
    "exact_float": _exact_float,
    "float_square": _square,
    "beyond_float": _beyond_float,
    "float_bits": _float_bits,
    "ones": _ones,
    "natural": _natural,
    "nonzero": _nonzero,
    "subscript": _subscript,
    "real_sqrt": _real_sqrt,
    "complex": _complex,
    "complex_exp": _complex_exp,
    "complex_multiply": _complex_multiply,
    "complex_divide": _complex_divide,
    "int_power": _power,
}
ALWAYS = frozenset(SPECIAL) - {"floor_divide", "remainder", "divide", "left_shift"}  # kernels have those, too


def fitted(target: str, a: Val) -> Made:
    """An integer as one of another dtype, and whether it is not one of these."""
    ty, bits = scalar.IR_TYPE[target], BITS[scalar.IR_TYPE[target]]
    if a.ty == "i64" and target == "int64":  # from uint64
        return a, a.cmp("slt", 0)
    if target == "uint64":
        return a, a.cmp("slt", 0)
    made = a.convert("trunc", ty)
    back = made.convert("sext" if target[0] == "i" else "zext", "i64")
    assert bits < 64
    return made, back.cmp("ne", a)


def whole(target: str, a: Val, checked: bool) -> Made:
    """A float cut to an integer, and whether that does not fit; if that is checked, nobody looks at it then."""
    limit = 2.0**63 if target in ("int64", "uint64") else 0.0
    if limit:
        inside = a.cmp("olt", limit) & a.cmp("oge", -limit)
        made = (a if checked and target == "int64" else inside.select(a, 0.0)).convert("fptosi", "i64")
        return made, ~inside if target == "int64" else ~inside | made.cmp("slt", 0)
    bits, signed = BITS[scalar.IR_TYPE[target]], target[0] == "i"
    top, low = (2.0 ** (bits - 1), -(2.0 ** (bits - 1))) if signed else (2.0**bits, 0.0)
    inside = a.cmp("olt", top) & a.cmp("ogt", low - 1.0)
    made = (a if checked else inside.select(a, 0.0)).convert("fptosi", "i64")
    return made.convert("trunc", scalar.IR_TYPE[target]), ~inside


def libm(name: str, args: list[Val]) -> Made:
    """A function of the C library; no value where it is infinite though its operands are not, or NaN though no
    operand is: the sine of an infinity."""
    f = args[0].fn
    f.declares.add(f"declare double @{name}({', '.join(['double'] * len(args))}) #1")
    made = args[0].make(f"call double @{name}({', '.join(a.text for a in args)})")
    bad, nan = (made - made).cmp("une", 0.0), made.cmp("uno", made)
    for a in args:
        asked = nan.select(a, a - a)  # NaN: the operand says why
        bad = bad & asked.cmp("ord", asked)
    return made, bad


def wrapping_power(a: Val, b: Val, signed: bool) -> Made:
    """a**b of integers that wrap; b must not be negative."""
    return integer.power(a, b), b.cmp("slt", 0) if signed else None


_ = Function
