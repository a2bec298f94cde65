"""The loop forms. In: a kernel and a `Spec`. Out: a `Function` whose loops visit the box that geom describes.

    map       for outer: for column: store                             (no reduced dim)
    rows      for outer: for chunk: for block: for row: for column     (innermost dim reduced)
    short     for outer: for column                                    (innermost dim reduced, a row is one block)
    columns   for outer: for chunk: for panel: for block: for row      (innermost dim kept)
    contract  for outer: for panel: for tile: for block: for step      (two kept dims, each foreign to some operand)
    nested    for tile: for step, then for vector                      (a reduction inside, of two kept dims)
    buckets   for chunk: for outer: for column                         (each point to the bucket of its key)
    scan      for outer: for chunk: for vector                         (the scanned dim is innermost)
    scan_columns  for outer: for tile of columns: for row: for column  (another dim is)

A *chunk* gives one partial result at a place of its own; which thread makes it is all the same. `sums.py` says in which
order its points are added, `combine.py` adds the partials pairwise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.spec import Spec
from tilewise.backend.llvm.emit.text import Function
from tilewise.backend.llvm.loops import maps, rows
from tilewise.backend.llvm.patterns import scans
from tilewise.kernel.loops import Kernel
from tilewise.later import later

if TYPE_CHECKING:
    from tilewise.backend.llvm.loops import columns, inner_loop
    from tilewise.backend.llvm.patterns import buckets
    from tilewise.backend.llvm.products import contract, nested
else:  # the others are in most programs
    buckets = later("tilewise.backend.llvm.patterns.buckets")
    columns = later("tilewise.backend.llvm.loops.columns")
    contract = later("tilewise.backend.llvm.products.contract")
    inner_loop = later("tilewise.backend.llvm.loops.inner_loop")
    nested = later("tilewise.backend.llvm.products.nested")

FORMS: dict[str, Callable[[Frame], None]] = {
    "map": maps.emit,
    "rows": rows.emit,
    "short": rows.emit_short,
    "columns": lambda frame: columns.emit(frame),
    "contract": lambda frame: contract.emit(frame),
    "nested": lambda frame: nested.emit(frame),
    "buckets": lambda frame: buckets.emit(frame),
    "scan": scans.emit,
    "scan_columns": scans.emit_columns,
}


def build(kernel: Kernel, spec: Spec, name: str) -> Function:
    """The function of a kernel in one form."""
    frame = Frame(kernel, spec, name, lambda *given: inner_loop.emit(*given))
    FORMS[spec.form](frame)
    if spec.stream:
        frame.fn.do("fence seq_cst")  # streamed stores are not ordered with what says that they are done
    return frame.fn
