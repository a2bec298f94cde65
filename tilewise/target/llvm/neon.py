"""Instructions of ARM without a general name in LLVM. In: `Val`s of floats. Out: a `Val`, a register at a time."""

from __future__ import annotations

from tilewise.target.llvm.text import Val, joined, vtype

BITS, LANES = 128, 2  # of a register, doubles in one


def suits(x: Val) -> bool:
    """Whether a square root of a value is to be made of multiplications."""
    return x.fn.rooting and x.ty == "double" and x.lanes % LANES == 0


def rsqrt8(x: Val) -> Val:
    """1 / sqrt(x) with a relative error of up to 2**-8."""
    name = "llvm.aarch64.neon.frsqrte.v2f64"
    x.fn.declares.add(f"declare <2 x double> @{name}(<2 x double>)")
    pairs = [x if x.lanes == LANES else x.shuffle(k, LANES) for k in range(0, x.lanes, LANES)]
    return joined([two.make(f"call <2 x double> @{name}({two.text})") for two in pairs])


def kept(x: Val) -> Val:
    """The same value, made here. LLVM moves what makes it behind branches that follow, next to its use: of a sum that a
    loop carries, all divisions then come at the end of a turn, where no other unit has work any more."""
    lanes = BITS // x.lane_bits
    if x.ty not in ("double", "float") or x.lanes % lanes:
        return x
    registers = [x if x.lanes == lanes else x.shuffle(k, lanes) for k in range(0, x.lanes, lanes)]
    made = [r.make(f'call {vtype(r.ty, lanes)} asm sideeffect "", "=w,0"({r.text})') for r in registers]
    return joined(made)
