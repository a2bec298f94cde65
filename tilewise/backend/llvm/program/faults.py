"""What is written down where a program fails. In: the number of a fault, the numbers of its message. Out: IR.

Checks are many, and code for what hardly ever happens takes as long to compile as any other: so it is one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import layout

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter

MOST_GIVEN = 4  # integers that are given to a function


def tell(em: Emitter, fault: int, values: tuple[Val, ...]) -> None:
    """Write down which fault it is, and its numbers."""
    fn = em.fn
    if len(values) <= MOST_GIVEN and all(v.ty == "i64" for v in values):
        name = f"failed{len(values)}"
        fn.helpers[name] = _function(name, len(values))
        fn.do(f"call void @{name}(ptr %out, i64 {fault}{''.join(f', {v.text}' for v in values)})")
        return
    for k, v in enumerate(values):
        fn.do(f"store {v.text}, ptr {em.out(layout.PAYLOAD + k)}")
    fn.do(f"store i64 {fault}, ptr {em.out(layout.WHICH)}")
    fn.do(f"store i64 {layout.FAILED}, ptr {em.out(layout.STATUS)}")


def _function(name: str, count: int) -> str:
    """The function for so many integers."""
    numbers = "".join(f", i64 %v{k}" for k in range(count))
    lines = [f"define internal void @{name}(ptr %out, i64 %which{numbers}) cold noinline nounwind {{"]
    stored = {layout.STATUS: str(layout.FAILED), layout.WHICH: "%which"}
    stored |= {layout.PAYLOAD + k: f"%v{k}" for k in range(count)}
    for at, value in stored.items():
        lines += [f"  %p{at} = getelementptr i64, ptr %out, i64 {at}", f"  store i64 {value}, ptr %p{at}"]
    return "\n".join([*lines, "  ret void", "}"])
