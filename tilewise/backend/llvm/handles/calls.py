"""Calls of elementwise functions, as LLVM IR. In: where things lie in objects. Out: text of `@slot_ufunc_call`.

What CPython calls for `np.sqrt(x)`: the first lines of array/elementwise_call.py. One or two operands without options
go to NumPy if they are known and small; a float64 of our own class goes there as a Python float, which NumPy is quicker
with. All else goes to the Python function.
"""

from __future__ import annotations

from tilewise.backend.handles import Offsets
from tilewise.backend.llvm.handles.words import VALUE, get, load, type_of


def call(at: Offsets, operands: str, hold: str, let_go: str, finish: str) -> str:
    """The function; made of the same parts as binary operators."""
    return f"""
declare ptr @PyMethod_New(ptr, ptr)
declare ptr @PyObject_Call(ptr, ptr, ptr)
define internal ptr @slot_ufunc_call(ptr %self, ptr %args, ptr %options) #0 {{
  %given = alloca [2 x ptr]
  %none = {load("none")}
  %second = getelementptr ptr, ptr %given, i64 1
  %bare = icmp eq ptr %options, null
  br i1 %bare, label %counted, label %slow
counted:
{get("count", "args", at.length, "i64")}
  %items = getelementptr i8, ptr %args, i64 {at.items}
  switch i64 %count, label %slow [ i64 1, label %one
                                   i64 2, label %two ]
one:
{get("f", "self", at.one)}
  %notf = icmp eq ptr %f, %none
  br i1 %notf, label %slow, label %first
first:
  %v = load ptr, ptr %items
{type_of("tv", "v")}
  %handles = {load("array")}
  %ours = icmp eq ptr %tv, %handles
  br i1 %ours, label %handle, label %other
handle:
  %nv = call ptr @known(ptr %v)
  %notv = icmp eq ptr %nv, null
  br i1 %notv, label %slow, label %sizedone
sizedone:
  %fewone = call i1 @small(ptr %nv, ptr %nv)
  br i1 %fewone, label %array1, label %slow
array1:
  call void @Py_IncRef(ptr %nv)
  br label %callone
other:
  %numbers = {load("number")}
  %ournumber = icmp eq ptr %tv, %numbers
  br i1 %ournumber, label %number1, label %slow
number1:
{get("value", "v", VALUE, "double")}
  %float1 = call ptr @PyFloat_FromDouble(double %value)
  %nofloat = icmp eq ptr %float1, null
  br i1 %nofloat, label %never, label %callone
never:
  ret ptr null
callone:
  %operand1 = phi ptr [ %nv, %array1 ], [ %float1, %number1 ]
  store ptr %operand1, ptr %given
  %u = call ptr @PyObject_Vectorcall(ptr %f, ptr %given, i64 1, ptr null)
  call void @Py_DecRef(ptr %operand1)
  %nou = icmp eq ptr %u, null
  br i1 %nou, label %never, label %lookone
lookone:
{type_of("tu", "u")}
  %arrays = {load("ndarray")}
  %isnew = icmp eq ptr %tu, %arrays
  br i1 %isnew, label %boxedone, label %counts
boxedone:
  %xone = call ptr @box(ptr %u)
  ret ptr %xone
counts:
  %float64s = {load("float64")}
  %isfloat = icmp eq ptr %tu, %float64s
  br i1 %isfloat, label %numbered, label %againone
numbered:
{get("answer", "u", VALUE, "double")}
  %n = call ptr @new_number(double %answer)
  call void @Py_DecRef(ptr %u)
  ret ptr %n
againone:
  call void @Py_DecRef(ptr %u)
  br label %slow
two:
{get("g", "self", at.two)}
  %notg = icmp eq ptr %g, %none
  br i1 %notg, label %slow, label %both
both:
  %a = load ptr, ptr %items
  %b.item = getelementptr ptr, ptr %items, i64 1
  %b = load ptr, ptr %b.item
{type_of("kinda", "a")}
{type_of("kindb", "b")}
  %arrayclass = {load("array")}
  %isa = icmp eq ptr %kinda, %arrayclass
  %isb = icmp eq ptr %kindb, %arrayclass
  %some = or i1 %isa, %isb
  br i1 %some, label %operands, label %slow
operands:
{operands}
  br label %go
go:
{hold}
  store ptr %na, ptr %given
  store ptr %nb, ptr %second
  %r = call ptr @PyObject_Vectorcall(ptr %g, ptr %given, i64 2, ptr null)
{let_go}
{finish}
slow:
  %python = {load("ufunc_call")}
  %method = call ptr @PyMethod_New(ptr %python, ptr %self)
  %nomethod = icmp eq ptr %method, null
  br i1 %nomethod, label %nothing, label %called
nothing:
  ret ptr null
called:
  %result = call ptr @PyObject_Call(ptr %method, ptr %args, ptr %options)
  call void @Py_DecRef(ptr %method)
  ret ptr %result
}}"""
