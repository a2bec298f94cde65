"""Instructions of AVX-512 without a general name in LLVM. In: `Val`s of doubles. Out: a `Val`, eight lanes at a time.

Only for functions whose `avx512` is set, and for a multiple of eight lanes (see `suits`).
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.text import Val, joined, vtype

LANES = 8


def suits(x: Val) -> bool:
    """Whether a value can be an operand."""
    return x.fn.avx512 and x.ty == "double" and x.lanes % LANES == 0


def scalef(x: Val, k: Val) -> Val:
    """x * 2**k for a whole k, rounded once."""
    return _called("llvm.x86.avx512.mask.scalef.pd.512", "i8 -1, i32 4", "i8, i32", x, k)


def rsqrt14(x: Val) -> Val:
    """1 / sqrt(x) with a relative error of up to 2**-14."""
    return _called("llvm.x86.avx512.rsqrt14.pd.512", "i8 -1", "i8", x)


def _called(name: str, rest: str, types: str, *operands: Val) -> Val:
    """An intrinsic of the operands, what masked lanes keep (none are masked), and further arguments."""
    fn, vec, parts = operands[0].fn, vtype("double", LANES), []
    fn.declares.add(f"declare {vec} @{name}({', '.join([vec] * (len(operands) + 1))}, {types})")
    for first in range(0, operands[0].lanes, LANES):
        eight = [v if v.lanes == LANES else v.shuffle(first, LANES) for v in operands]
        given = ", ".join(v.text for v in (*eight, eight[0]))
        parts.append(eight[0].make(f"call {vec} @{name}({given}, {rest})"))
    return joined(parts)
