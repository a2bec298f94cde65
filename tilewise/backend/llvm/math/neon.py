"""Instructions of ARM without a general name in LLVM. In: `Val`s of floats. Out: a `Val`, a register at a time."""

from __future__ import annotations

from tilewise.backend.llvm.emit.text import Val, joined, vtype

BITS, LANES = 128, 2  # of a register, doubles in one
REGISTERS = 4  # of which a kernel says how many are made otherwise than by one instruction


def rooted_lanes(x: Val) -> int:
    """Of how many lanes, the first ones, square roots are to be made of multiplications."""
    return x.fn.rooted * (x.lanes // LANES) // REGISTERS * LANES if x.ty == "double" and x.lanes % LANES == 0 else 0


def rsqrt8(x: Val) -> Val:
    """1 / sqrt(x) with a relative error of up to 2**-8."""
    return _by_registers("frsqrte", x)


def rsqrt_step(a: Val, b: Val) -> Val:
    """(3 - a b) / 2, rounded once."""
    return _by_registers("frsqrts", a, b)


def _by_registers(what: str, *operands: Val) -> Val:
    """An instruction on vectors of two doubles."""
    fn, name = operands[0].fn, f"llvm.aarch64.neon.{what}.v2f64"
    fn.declares.add(f"declare <2 x double> @{name}({', '.join(['<2 x double>'] * len(operands))})")
    made = []
    for k in range(0, operands[0].lanes, LANES):
        given = [x if x.lanes == LANES else x.shuffle(k, LANES) for x in operands]
        made.append(given[0].make(f"call <2 x double> @{name}({', '.join(x.text for x in given)})"))
    return joined(made)


def kept(x: Val) -> Val:
    """The same value, made here. LLVM moves what makes it behind branches that follow, next to its use: of a sum that a
    loop carries, all divisions then come at the end of an iteration, where other units are idle."""
    lanes = BITS // x.lane_bits
    if x.ty not in ("double", "float") or x.lanes % lanes:
        return x
    registers = [x if x.lanes == lanes else x.shuffle(k, lanes) for k in range(0, x.lanes, lanes)]
    made = [r.make(f'call {vtype(r.ty, lanes)} asm sideeffect "", "=w,0"({r.text})') for r in registers]
    return joined(made)
