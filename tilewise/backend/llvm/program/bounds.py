"""Which subscripts are in range. In: loops as they are emitted. Out: loops, perhaps in two forms."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewise.kernel.program.ir import Const, Expr, For, Loop

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter


class Bounds:
    def __init__(self, em: Emitter) -> None:
        self.em = em

    def proved(self, array: str, axis: int, i: Expr) -> bool:
        return False

    def natural(self, i: Expr) -> bool:
        return isinstance(i, Const) and i.value >= 0

    @contextmanager
    def knowing(self, test: Expr, holds: bool) -> Iterator[None]:
        yield

    @contextmanager
    def inside(self, s: Loop) -> Iterator[None]:
        yield

    def loop(self, s: For) -> None:
        em = self.em
        em.for_(s, em.e(s.start), em.e(s.stop), em.e(s.step))
