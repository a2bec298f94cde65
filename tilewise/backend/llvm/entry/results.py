"""What compiled functions return as objects, in LLVM IR. In: where things lie in objects. Out: text of `@build`.

It reads the nodes of a result, from one on, and the words that the code has left. `missed` (not counted) is given for
what is better made by Python: large arrays, parts of arguments, containers.
"""

from __future__ import annotations

from tilewise.backend.entry import (
    AT,
    COMPLEX,
    FLOAT,
    NDARRAY,
    NODE,
    OBJECT,
    SCALAR,
    TRUTH,
    TUPLE,
    WHOLE,
    Places,
)
from tilewise.backend.llvm.handles.words import get
from tilewise.backend.llvm.program import layout


def results(at: Places) -> str:
    """`@build(table, memory, items, cursor)`: one result, from the node at the cursor, which goes on behind it."""
    return f"""
define internal ptr @build(ptr %table, ptr %memory, ptr %items, ptr %cursor) #0 {{
  %node = load ptr, ptr %cursor
  %behind = getelementptr i64, ptr %node, i64 {NODE}
  store ptr %behind, ptr %cursor
  %kind = load i64, ptr %node
{get("offset", "node", 8, "i64")}
{get("object", "node", 16)}
{get("length", "node", 24, "i64")}
  %value = getelementptr i8, ptr %memory, i64 %offset
  switch i64 %kind, label %other [ i64 {OBJECT}, label %object.made
                                   i64 {FLOAT}, label %float
                                   i64 {WHOLE}, label %whole
                                   i64 {TRUTH}, label %truth
                                   i64 {COMPLEX}, label %complex
                                   i64 {SCALAR}, label %scalar
                                   i64 {TUPLE}, label %tuple
                                   i64 {NDARRAY}, label %array ]
other:
{get("missed", "table", 8 * AT["missed"])}
  ret ptr %missed
object.made:
  call void @Py_IncRef(ptr %object)
  ret ptr %object
float:
  %double = load double, ptr %value
  %afloat = call ptr @PyFloat_FromDouble(double %double)
  ret ptr %afloat
whole:
  %long = load i64, ptr %value
  %along = call ptr @PyLong_FromLongLong(i64 %long)
  ret ptr %along
truth:
  %byte = load i8, ptr %value
  %bit = icmp ne i8 %byte, 0
  %wide = zext i1 %bit to i64
  %abool = call ptr @PyBool_FromLong(i64 %wide)
  ret ptr %abool
complex:
  %real = load double, ptr %value
{get("imag", "value", 8, "double")}
  %acomplex = call ptr @PyComplex_FromDoubles(double %real, double %imag)
  ret ptr %acomplex
scalar:
  %anumber = call ptr @new_number(ptr %value, ptr %object, ptr null)
  ret ptr %anumber
tuple:
  %atuple = call ptr @PyTuple_New(i64 %length)
  %none = icmp eq ptr %atuple, null
  br i1 %none, label %never, label %next
never:
  ret ptr null
next:
  %i = phi i64 [ 0, %tuple ], [ %i.next, %put ]
  %more = icmp slt i64 %i, %length
  br i1 %more, label %one, label %full
full:
  ret ptr %atuple
one:
  %item = call ptr @build(ptr %table, ptr %memory, ptr %items, ptr %cursor)
  %noitem = icmp eq ptr %item, null
  br i1 %noitem, label %stopped, label %put
stopped:
  call void @Py_DecRef(ptr %atuple)
  ret ptr null
put:
  %unused = call i32 @PyTuple_SetItem(ptr %atuple, i64 %i, ptr %item)
  %i.next = add i64 %i, 1
  br label %next
array:
  %anarray = call ptr @array(ptr %table, ptr %node, ptr %value, ptr %items)
  ret ptr %anarray
}}{_array(at)}"""


def _array(at: Places) -> str:
    """An array that is an argument, or a small one in C order: copied, its memory goes back (as program/call.py)."""
    return f"""
define internal ptr @array(ptr %table, ptr %node, ptr %value, ptr %items) #1 {{
entry:
{get("dtype", "node", 16)}
{get("rank", "node", 24, "i64")}
{get("bytes", "node", 32, "i64")}
  %data = load ptr, ptr %value
{get("base", "value", 8)}
{get("argument", "value", 16, "i64")}
  %dims = getelementptr i64, ptr %value, i64 3
  %strides = getelementptr i64, ptr %dims, i64 %rank
  %new = icmp eq i64 %argument, 0
  br i1 %new, label %where, label %given
given:
  %numbers = getelementptr i64, ptr %node, i64 {NODE - 1}
  %number.at = getelementptr i64, ptr %numbers, i64 %argument
  %number = load i64, ptr %number.at
  %item.at = getelementptr ptr, ptr %items, i64 %number
  %item = load ptr, ptr %item.at
  call void @Py_IncRef(ptr %item)
  ret ptr %item
where:
  %address = ptrtoint ptr %base to i64
  %ours = icmp uge i64 %address, {layout.HEAP}
  br i1 %ours, label %sized, label %missed
sized:
{get("whole", "base", 8, "i64")}
  %small = icmp ule i64 %whole, {layout.COPIED_BYTES}
  br i1 %small, label %axes, label %missed
axes:
  %k = phi i64 [ %rank, %sized ], [ %k.less, %axis ]
  %size = phi i64 [ %bytes, %sized ], [ %size.next, %axis ]
  %regular = phi i1 [ true, %sized ], [ %regular.next, %axis ]
  %more = icmp sgt i64 %k, 0
  br i1 %more, label %axis, label %laid
axis:
  %k.less = sub i64 %k, 1
  %dim.at = getelementptr i64, ptr %dims, i64 %k.less
  %dim = load i64, ptr %dim.at
  %stride.at = getelementptr i64, ptr %strides, i64 %k.less
  %stride = load i64, ptr %stride.at
  %expected = icmp eq i64 %stride, %size
  %regular.next = and i1 %regular, %expected
  %size.next = mul i64 %size, %dim
  br label %axes
laid:
  %empty = icmp eq i64 %size, 0
  %good = or i1 %regular, %empty
  %few = icmp ule i64 %size, {layout.COPIED_BYTES}
  %copied = and i1 %good, %few
  br i1 %copied, label %make, label %missed
missed:
{get("miss", "table", 8 * AT["missed"])}
  ret ptr %miss
make:
  call void @Py_IncRef(ptr %dtype)
{get("class", "table", 8 * AT["ndarray"])}
  %rank32 = trunc i64 %rank to i32
  %made = call ptr @new_array(ptr %class, ptr %dtype, i32 %rank32, ptr %dims, ptr null, ptr null, i32 0, ptr null)
  %none = icmp eq ptr %made, null
  br i1 %none, label %never, label %fill
never:
  ret ptr null
fill:
{get("to", "made", at.data)}
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %data, i64 %size, i1 false)
  call void @free(ptr %base)
  ret ptr %made
}}"""
