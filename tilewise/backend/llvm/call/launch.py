"""What prepare.py makes of a kernel and a geometry: code, and the words that it is called with."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from tilewise.backend.llvm.call.parallel_for import Parts
from tilewise.backend.llvm.compile.build import Native
from tilewise.backend.llvm.loops.geometry import Pack
from tilewise.kernel.loops import Kernel
from tilewise.records import dataclass

Tree = tuple[Any, ...]  # what determines the order of reductions: if two are equal, so are results, bit for bit


@dataclass(frozen=True)
class Combine:
    """How the partial results of an output become the output: code, its arrays by operand number, its geom.

    Long ones are cut into parts by columns, if these lie as the output does.
    """

    output: int
    code: Native
    operands: tuple[int, ...]
    geom: bytes
    columns: int  # of every item, that are results
    shape: tuple[int, ...]  # kept dims in loop order, and the output's strides for them
    strides: tuple[int, ...]
    natural: bool  # in the order of the output
    parts: tuple[tuple[int, int, bytes], ...] = ()  # columns that are results, from and to, and the geom for them


@dataclass(frozen=True)
class Launch:
    """What a geometry needs: the code, one block of words per part, inputs to pack, partials and how to combine them.

    `objs` are the addresses of the operands (inputs, outputs, the values beside positions), then the params.
    """

    code: Native
    parts: tuple[bytes, ...]
    packs: tuple[Pack, ...] = ()
    scratch: tuple[tuple[int, str, tuple[int, int, int]], ...] = ()  # operands that are partials: dtype and shape
    combines: tuple[Combine, ...] = ()
    totals: Totals | None = None  # what long scans need to know first
    tree: Tree | None = None  # of a kernel that reduces
    streams: bool = False  # outputs are stored past the caches
    brief: bool = False  # it need not be interrupted
    short: bool = False  # it is not worth waking a thread

    @cached_property
    def handed(self) -> Parts | None:
        """The parts as native code hands them out; None where Python does, which looks for interrupts in between."""
        return Parts(self.code, [[[(0, words)] for words in self.parts]]) if self.brief else None

    @cached_property
    def single(self) -> bytes | None:
        """The words of a launch that is one call of its code, and nothing else."""
        return self.parts[0] if len(self.parts) == 1 and not self.packs and not self.scratch else None


@dataclass(frozen=True)
class Totals:
    """The reductions of the chunks of a long scan: partials of another kernel, cut into the same parts."""

    kernel: Kernel
    code: Native
    parts: tuple[bytes, ...]
    edges: tuple[int, ...]  # of parts, in chunks
