"""Running sums of vectors of float64, as LLVM IR. In: nothing. Out: text of `@slot_cumsum`.

NumPy's loop writes each sum to memory and reads it again for the next one. Here it stays in a register: the same sums
in the same order, in less than half of the time. As for operators (loops.py), NumPy does it all where there is
something to tell.
"""

from __future__ import annotations

from tilewise.backend.chains import DATA
from tilewise.backend.llvm.handles.plans import PLAN, word
from tilewise.backend.llvm.handles.words import get, load


def running() -> str:
    """Of an ndarray: a new one; NotImplemented where it is no vector of float64 in one piece."""
    return f"""
define internal ptr @slot_cumsum(ptr %nd) #4 {{
entry:
  %plan = alloca {PLAN}
  %number = alloca double
  store double 0.0, ptr %number
  %good = call i1 @plan(ptr %plan, ptr %nd, ptr null, ptr null, ptr %number)
  br i1 %good, label %look, label %no
look:
{word("axes")}
{word("n1")}
{word("a1")}
{word("pa", "from")}
  %vector = icmp eq i64 %axes, 1
  %near = icmp eq i64 %a1, 8
  %some = icmp sgt i64 %n1, 0
  %x = and i1 %vector, %near
  %y = and i1 %x, %some
  br i1 %y, label %new, label %no
new:
  %r = call ptr @new_result(ptr %plan)
  %none = icmp eq ptr %r, null
  br i1 %none, label %no, label %fill
fill:
{get("to", "r", DATA)}
  call void @clear()
  %first = load double, ptr %from
  store double %first, ptr %to
  br label %loop
loop:
  %i = phi i64 [ 1, %fill ], [ %next, %body ]
  %sum = phi double [ %first, %fill ], [ %more, %body ]
  %going = icmp slt i64 %i, %n1
  br i1 %going, label %body, label %done
body:
  %element = getelementptr double, ptr %from, i64 %i
  %value = load double, ptr %element
  %more = fadd double %sum, %value
  %place = getelementptr double, ptr %to, i64 %i
  store double %more, ptr %place
  %next = add i64 %i, 1
  br label %loop
done:
  %told = call i1 @told()
  br i1 %told, label %again, label %given
given:
  ret ptr %r
again:
  call void @Py_DecRef(ptr %r)
  br label %no
no:
  %not = {load("notimplemented")}
  call void @Py_IncRef(ptr %not)
  ret ptr %not
}}"""
