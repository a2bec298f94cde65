"""Booleans that are only reduced, as bytes. In: a kernel. Out: one with the same results, of the same bytes in memory.

Vectors of single bits are slow to make of bytes, and to keep. The byte of a true element is 1, as a rule; any other
than 0 counts as 1.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewise.kernel.loops import Instr, Kernel, Output

BYTE = "uint8"
BETWEEN = {"logical_or": "maximum", "logical_and": "minimum"}  # the same of 0 and 1
REDUCED = frozenset((*BETWEEN, *BETWEEN.values(), "argmin", "argmax"))


def in_bytes(kernel: Kernel) -> Kernel:
    """The kernel with bytes for booleans that are inputs, and are only reduced or counted."""
    if kernel.loop_body is not None or kernel.inner is not None or not all(o.reduce for o in kernel.outputs):
        return kernel
    chosen = [k for k, dtype in enumerate(kernel.inputs) if dtype == "bool" and _only_reduced(kernel, k)]
    if not chosen:
        return kernel
    first = len(kernel.inputs) + len(kernel.params)
    ones = {k: first + 1 + j for j, k in enumerate(chosen)}

    def now(v: int) -> int:
        return ones[v] if v in ones else v if v < first else v + 1 + len(chosen)

    def moved(out: Output) -> Output:
        reduce = BETWEEN.get(out.reduce or "", out.reduce) if out.value in ones else out.reduce
        return replace(out, value=now(out.value), reduce=reduce, key=None if out.key is None else now(out.key))

    body = [Instr("const:1", (), BYTE), *(Instr("minimum", (k, first), BYTE) for k in chosen)]
    body += [replace(i, args=tuple(map(now, i.args))) for i in kernel.body]
    inputs = tuple(BYTE if k in ones else dtype for k, dtype in enumerate(kernel.inputs))
    return replace(kernel, inputs=inputs, body=tuple(body), outputs=tuple(map(moved, kernel.outputs)))


def _only_reduced(kernel: Kernel, k: int) -> bool:
    """Whether nothing is made of an input but integers and reductions."""
    if any(i.fn != "cast" or np.dtype(i.dtype).kind not in "iu" for i in kernel.body if k in i.args):
        return False
    outs = [o for o in kernel.outputs if k in (o.value, o.key)]
    return all(o.reduce in REDUCED and not o.scan and o.key is None for o in outs)
