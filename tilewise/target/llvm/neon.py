"""Instructions of ARM without a general name in LLVM. In: `Val`s of doubles. Out: a `Val`, two lanes at a time."""

from __future__ import annotations

from tilewise.target.llvm.text import Val, joined

LANES = 2


def suits(x: Val) -> bool:
    """Whether a square root of a value is to be made of multiplications."""
    return x.fn.rooting and x.ty == "double" and x.lanes % LANES == 0


def rsqrt8(x: Val) -> Val:
    """1 / sqrt(x) with a relative error of up to 2**-8."""
    name = "llvm.aarch64.neon.frsqrte.v2f64"
    x.fn.declares.add(f"declare <2 x double> @{name}(<2 x double>)")
    pairs = [x if x.lanes == LANES else x.shuffle(k, LANES) for k in range(0, x.lanes, LANES)]
    return joined([two.make(f"call <2 x double> @{name}({two.text})") for two in pairs])
