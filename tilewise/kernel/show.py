"""A kernel as text. In: a `Kernel`. Out: its loops, a line per instruction, for people."""

from __future__ import annotations

from string import ascii_lowercase

from tilewise.kernel.loops import CARRIED, CARRY, INNER, ITERATIONS, TABLE, Kernel, Output

LETTERS = "ijklmnpqrstuvw"


def text(kernel: Kernel) -> str:
    """The loops of a kernel.

    >>> from tilewise.kernel.loops import Instr
    >>> squares = Kernel(("float64",), (), (Instr("square", (0,), "float64"),), (Output(1, "add"),), (False, True))
    >>> print(text(squares))
    for i, j:
        a = read float64
        b = square(a)
        out0[i] = add over j of b
    """
    rank = len(kernel.reduced)
    dims = [LETTERS[d] if d < len(LETTERS) else f"d{d}" for d in range(rank)]
    lines = [f"for {', '.join(dims)}:" if dims else "once:"]
    letters = [c for c in ascii_lowercase if c not in dims]
    names = [_name(k, letters) for k in range(len(kernel.dtypes))]
    lines += [f"    {names[k]} = read {t}" for k, t in enumerate(kernel.inputs)]
    known = len(kernel.inputs)
    lines += [f"    {names[known + k]} = number {t}" for k, t in enumerate(kernel.params)]
    known += len(kernel.params)
    loop_body = kernel.loop_body or range(0)
    for k, instr in enumerate(kernel.body):
        deeper = "    " if k in loop_body[1:] else ""
        if instr.fn == ITERATIONS:
            lines.append(f"    for {names[known + k]} in {names[instr.args[0]]} iterations:")
            continue
        if instr.fn == CARRIED:
            what = f"{names[instr.args[0]]} at first"
        elif instr.fn == CARRY:
            what = f"{names[instr.args[0]]} = {names[instr.args[1]]}"
        elif instr.fn.startswith(TABLE):
            what = f"number {instr.dtype} of iteration {names[instr.args[0]]}"
        elif instr.fn.startswith("const:"):
            what = instr.fn.removeprefix("const:")
        elif instr.fn.startswith(INNER):
            what = f"{instr.fn.removeprefix(INNER)} over {dims[-1]} of {names[instr.args[0]]}"
        elif instr.fn == "cast":
            what = f"{instr.dtype}({names[instr.args[0]]})"
        else:
            what = f"{instr.fn}({', '.join(names[a] for a in instr.args)})"
        lines.append(f"    {deeper}{names[known + k]} = {what}")
    own = rank if kernel.inner is None else rank - 1
    lines += [f"    {_output(k, o, names, dims[:own], kernel.reduced[:own])}" for k, o in enumerate(kernel.outputs)]
    return "\n".join(lines)


def _name(number: int, letters: list[str]) -> str:
    """The letters in order, then a1, b1, …"""
    again, letter = divmod(number, len(letters))
    return letters[letter] + (str(again) if again else "")


def _output(k: int, output: Output, names: list[str], dims: list[str], reduced: tuple[bool, ...]) -> str:
    value = names[output.value]
    kept = [d for d, r in zip(dims, reduced, strict=True) if not r]
    gone = ", ".join(d for d, r in zip(dims, reduced, strict=True) if r)
    if output.reduce is None:
        return f"out{k}[{', '.join(dims)}] = {value}"
    if output.scan:
        return f"out{k}[{', '.join(dims)}] = {output.reduce} of {value} up to {gone}"
    if output.key is not None:
        return f"out{k}[{', '.join([names[output.key], *kept])}] = {output.reduce} over {gone} of {value}"
    return f"out{k}[{', '.join(kept)}] = {output.reduce} over {gone} of {value}"
