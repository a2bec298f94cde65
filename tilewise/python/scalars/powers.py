"""x**y. In: two numbers. Out: their power, by products where the exponent is small and known."""

from __future__ import annotations

import math

from tilewise.kernel.program.ir import BOOL, CALL, INT, Const, Expr, Fail, If, Op, Pick
from tilewise.python.build import Builder, Scalar, compare, either
from tilewise.python.refuse import Refused
from tilewise.python.scalars import arithmetic
from tilewise.python.types import LEAST, MOST, PY_COMPLEX, PY_FLOAT, ints

MOST_PRODUCTS = 100  # Python and NumPy multiply complex numbers up to this exponent


def of_constant(b: Builder, x: Scalar, y: Scalar, line: int) -> Scalar | None:
    """Small whole powers of NumPy's numbers, as products, and roots."""
    if not isinstance(y.e, Const) or not y.t.py or x.t.dtype == BOOL:
        return None
    if y.e.value == 0.5 and x.t.dtype == "float64":
        e = b.held(x.e)
        root = Op("add", "float64", (Op("sqrt", "float64", (e,)), Const("float64", 0.0)))  # of -0.0, it is 0.0
        infinite = Const("float64", math.inf)  # so is the power of -inf
        return Scalar(x.t, Pick(compare("equal", e, Const("float64", -math.inf)), infinite, root, "float64"))
    if y.e.value not in ((2, 3, 4) if x.t.dtype[0] == "c" else (2,)) or (y.t.dtype == "float64" and x.t.whole):
        return None
    held = Scalar(x.t, b.held(x.e))
    made = arithmetic.ufunc(b, "multiply", (held, held), line)
    if y.e.value == 2:
        return made
    made = Scalar(made.t, b.held(made.e))
    return arithmetic.ufunc(b, "multiply", (made, held if y.e.value == 3 else made), line)


def of_floats(b: Builder, x: Scalar, y: Scalar, line: int) -> Scalar:
    """A power that is a float; one that would be complex is a fault."""
    p, q = arithmetic.plain_float(b, x, line), arithmetic.plain_float(b, y, line)
    name = "float_square" if isinstance(q, Const) and q.value == 2.0 else "libm:pow"
    return Scalar(PY_FLOAT, Op(name, "float64", (p, q), b.fault(CALL + "float_power", "", line)))


def of_integers(b: Builder, x: Scalar, y: Scalar, line: int) -> Scalar:
    if y.t.hi < 0:
        return of_floats(b, x, y, line)
    if isinstance(y.e, Const) and y.e.value <= 4:
        made, base = arithmetic.constant(1), Scalar(x.t, b.held(x.e))
        for _ in range(y.e.value):
            made = arithmetic.binary(b, "*", made, base, line)
        if y.e.value == 2:  # a square is not negative
            made = Scalar(ints(max(0, made.t.lo), made.t.hi), made.e)
        return made
    lo = 1 if x.t.lo >= 1 else 0 if x.t.lo >= 0 else LEAST
    return Scalar(ints(lo, MOST), Op("int_power", INT, (x.e, y.e), arithmetic.rerun(b, line)))


def of_complex(b: Builder, x: Scalar, y: Scalar, line: int) -> Scalar:
    """A power of Python's complex numbers, multiplied out as Python does; the exponent must be known."""
    known = y.e.value if isinstance(y.e, Const) else None
    if known is None or complex(known).imag or complex(known).real != int(complex(known).real):
        raise Refused("a power of complex numbers whose exponent is not a known integer", line)
    n = int(complex(known).real)
    if abs(n) > MOST_PRODUCTS:
        raise Refused(f"a power of complex numbers with an exponent beyond {MOST_PRODUCTS}", line)

    def times(p: Expr, q: Expr) -> Expr:
        return b.keep(Op("complex_multiply", "complex128", (p, q)))

    power: Expr = b.held(arithmetic.cast(x.e, "complex128"))
    made: Expr = Const("complex128", 1 + 0j)
    rest = abs(n)
    while rest:
        if rest & 1:
            made = times(made, power)
        rest >>= 1
        if rest:
            power = times(power, power)
    if n < 0:
        zero = b.fault("ZeroDivisionError", _ZERO_POWER, line)
        made = b.keep(Op("complex_divide", "complex128", (Const("complex128", 1 + 0j), made), zero))
    parts = [Op(part, "float64", (made,)) for part in ("real", "imag")]
    huge = either(*(compare("equal", Op("absolute", "float64", (p,)), Const("float64", float("inf"))) for p in parts))
    b.emit(If(huge, (Fail(b.fault("OverflowError", "complex exponentiation", line)),)))
    return Scalar(PY_COMPLEX, made)


def _zero_power() -> str:
    """What this Python says of a negative power of zero."""
    try:
        print(0j**-1)
    except ZeroDivisionError as error:
        return str(error)
    raise AssertionError


_ZERO_POWER = _zero_power()
