"""Numbers as elements of arrays. In: numbers, dtypes. Out: expressions, with a fault where a number does not fit."""

from __future__ import annotations

import numpy as np

from tilewise.kernel.program.ir import BOOL, CALL, INT, Const, Expr, Op
from tilewise.python.build import Builder, Scalar
from tilewise.python.refuse import Refused
from tilewise.python.scalars.arithmetic import EXACT, TOO_LARGE, cast, weak
from tilewise.python.types import MOST


def holds(x: Scalar, dtype: str) -> bool:
    """Whether a number is the same as one of this dtype."""
    if x.t.dtype in (dtype, BOOL):
        return True
    if not x.t.whole:  # constants such as 0.0 are numbers of every precision
        with np.errstate(all="ignore"):
            return np.can_cast(x.t.dtype, dtype) or (
                isinstance(x.e, Const) and dtype[0] in "fc" and x.e.value == np.dtype(dtype).type(x.e.value).item()
            )
    if dtype[0] in "fc":
        limit = EXACT if dtype in ("float64", "complex128") else 1 << 24
    else:
        limit = int(np.iinfo(dtype).max)
    low, high = (x.t.lo, x.t.hi) if x.t.py else (int(np.iinfo(x.t.dtype).min), int(np.iinfo(x.t.dtype).max))
    return high <= limit and (low >= 0 or (dtype[0] != "u" and low >= -limit - (dtype[0] == "i")))


def stored(b: Builder, x: Scalar, dtype: str, line: int) -> Expr:
    """A number as an element of an array of this dtype."""
    if x.t.dtype[0] == "c" and dtype[0] != "c":
        raise Refused(f"a complex number as an element of {dtype}", line)
    if x.t.dtype[0] == "f" and (dtype[0] == "i" or (dtype[0] == "u" and x.t.py)):
        fault = b.fault(CALL + "int", dtype, line)
        return Op(f"whole:{dtype}", dtype, (cast(x.e, "float64"),), fault)
    if x.t.whole and not x.t.py and dtype[0] == "i":
        return _fitted(b, x.e, dtype, line)
    return cast(x.e, dtype) if dtype == BOOL else weak(b, x, dtype, line)


def converted(b: Builder, x: Scalar, dtype: str, line: int) -> Expr:
    """As `stored`, where NumPy's integers wrap."""
    return cast(x.e, dtype) if x.t.whole and not x.t.py else stored(b, x, dtype, line)


def _fitted(b: Builder, e: Expr, dtype: str, line: int) -> Expr:
    """An integer of NumPy's as an element of signed integers: it goes through Python's, which must fit."""
    if np.can_cast(e.dtype, dtype):
        return cast(e, dtype)
    if e.dtype == "uint64":
        e = Op("fit:int64", INT, (e,), b.fault("OverflowError", _TOO_LONG, line))
    if dtype == INT:
        return e
    fault = b.fault("OverflowError", f"Python integer {{0}} out of bounds for {dtype}", line)
    return Op(f"fit:{dtype}", dtype, (cast(e, INT),), fault)


def _message_of_long() -> str:
    """What NumPy says of an integer of more than 63 bits as an element."""
    try:
        np.zeros(1, np.int64)[0] = np.uint64(MOST + 1)
    except OverflowError as error:
        return str(error)
    return TOO_LARGE


_TOO_LONG = _message_of_long()
