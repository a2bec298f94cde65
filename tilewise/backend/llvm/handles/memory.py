"""Memory of handles and cells, as LLVM IR. In: where things lie in objects. Out: functions that take it and let it go.

Every operation makes a handle and a cell, and most end with the next one. What CPython does for objects of any class
takes longer than the rest of a small operation; here the memory of some objects stays at hand, with its type and
nothing in it.
"""

from __future__ import annotations

from tilewise.backend.handles import Offsets
from tilewise.backend.llvm.handles.words import TYPE, get, load, number, place

DEEP = 40  # objects that are let go of inside of one another, at most
LINK = 16  # bytes before the first slot: where memory at hand has the address of the next


def memory(at: Offsets) -> list[str]:
    """`new_handle`, `new_cell` (not yet known to the garbage collector), `slot_free_handle`, `slot_free_cell`."""
    kinds = (
        ("handle", "array", at.handle, at.handle_references),
        ("cell", "cell", at.cell, at.cell_references),
    )
    return [*(text for kind in kinds for text in (_taken(*kind[:2]), _freed(*kind))), _waiting(at)]


def _taken(name: str, cls: str) -> str:
    """Memory with one reference, to be filled whole; its weak references are none."""
    return f"""
define internal ptr @new_{name}() #1 {{
  %x = load ptr, ptr {place(f"free_{name}s")}
  %none = icmp eq ptr %x, null
  br i1 %none, label %new, label %old
old:
{get("next", "x", LINK)}
  store ptr %next, ptr {place(f"free_{name}s")}
  %room = {number(f"room_{name}s")}
  %more = add i64 %room, 1
  store i64 %more, ptr {place(f"room_{name}s")}
  store i64 1, ptr %x
  ret ptr %x
new:
  %type = {load(cls)}
  %y = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %nothing = icmp eq ptr %y, null
  br i1 %nothing, label %never, label %made
made:
  call void @PyObject_GC_UnTrack(ptr %y)
  ret ptr %y
never:
  ret ptr null
}}"""


def _freed(name: str, cls: str, slots: tuple[tuple[str, int], ...], references: int) -> str:
    """As CPython's own for a class with slots: weak references first, then what the slots hold, then the memory.

    What a slot holds may have handles in it, and these others, and so on: from some depth on they wait until those
    outside are done, linked by the word that had their weak references.
    """
    empty = "\n".join(
        f"""  %s{offset} = getelementptr i8, ptr %x, i64 {offset}
  %v{offset} = load ptr, ptr %s{offset}
  store ptr null, ptr %s{offset}
  call void @Py_DecRef(ptr %v{offset})"""
        for _, offset in slots
    )
    return f"""
define internal void @slot_free_{name}(ptr %x) #0 {{
  call void @PyObject_GC_UnTrack(ptr %x)
{get("weak", "x", references)}
  %alone = icmp eq ptr %weak, null
  br i1 %alone, label %unseen, label %referred
referred:
  call void @PyObject_ClearWeakRefs(ptr %x)
  br label %unseen
unseen:
  %depth = {number("depth")}
  %deep = icmp sge i64 %depth, {DEEP}
  br i1 %deep, label %wait, label %now
wait:
  %before = load ptr, ptr {place("later")}
  store ptr %before, ptr %weak.at
  store ptr %x, ptr {place("later")}
  ret void
now:
  call void @empty_{name}(ptr %x)
  %waiting = load ptr, ptr {place("later")}
  %none = icmp eq ptr %waiting, null
  br i1 %none, label %done, label %others
others:
  call void @empty_later()
  ret void
done:
  ret void
}}
define internal void @empty_{name}(ptr %x) #0 {{
  %depth = {number("depth")}
  %deeper = add i64 %depth, 1
  store i64 %deeper, ptr {place("depth")}
{empty}
  %inside = {number("depth")}
  %outside = sub i64 %inside, 1
  store i64 %outside, ptr {place("depth")}
  %room = {number(f"room_{name}s")}
  %some = icmp sgt i64 %room, 0
  br i1 %some, label %keep, label %away
keep:
  %less = sub i64 %room, 1
  store i64 %less, ptr {place(f"room_{name}s")}
  %head = load ptr, ptr {place(f"free_{name}s")}
  %link = getelementptr i8, ptr %x, i64 {LINK}
  store ptr %head, ptr %link
  store ptr %x, ptr {place(f"free_{name}s")}
  ret void
away:
{get("type", "x", TYPE)}
  call void @PyObject_GC_Del(ptr %x)
  call void @Py_DecRef(ptr %type)
  ret void
}}"""


def _waiting(at: Offsets) -> str:
    """Let go of all that wait."""
    return f"""
define internal void @empty_later() #2 {{
  br label %loop
loop:
  %x = load ptr, ptr {place("later")}
  %none = icmp eq ptr %x, null
  br i1 %none, label %done, label %one
done:
  ret void
one:
{get("type", "x", TYPE)}
  %array = {load("array")}
  %ishandle = icmp eq ptr %type, %array
  %offset = select i1 %ishandle, i64 {at.handle_references}, i64 {at.cell_references}
  %link = getelementptr i8, ptr %x, i64 %offset
  %next = load ptr, ptr %link
  store ptr null, ptr %link
  store ptr %next, ptr {place("later")}
  br i1 %ishandle, label %handle, label %cell
handle:
  call void @empty_handle(ptr %x)
  br label %loop
cell:
  call void @empty_cell(ptr %x)
  br label %loop
}}"""
