"""Words that stand beside the arguments of a program (`layout`). In: an emitter. Out: IR that reads or calls one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import layout

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter


def environment(em: Emitter, which: int) -> Val:
    """A word that is given beside the arguments: behind them, or before those of a function inside."""
    params = em.p.params if em.main is None else ()
    words = sum(2 if p.array is None and p.dtype == "complex128" else 1 for p in params)
    return em.word(em.fn.let(f"getelementptr i64, ptr %objs, i64 {words + which}"))


def ask(em: Emitter, which: int, room: str) -> Val:
    """A call of Python: whether something was raised."""
    address = em.fn.let(f"inttoptr {environment(em, layout.HOST_ADDRESS).text} to ptr")
    return em.number(em.fn.let(f"call i64 {address}(i64 {which}, ptr {room})"))
