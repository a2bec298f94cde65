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

_FLAGS = layout.C_CONTIGUOUS | layout.ALIGNED | layout.WRITEABLE
_SHOWING = f"ptr null, ptr %data, i32 {_FLAGS}, ptr null"


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
    """An array that is an argument, or one in C order: copied, and its memory goes back, or owned if it is larger.

    As program/call.py, but the owner is a capsule. Its destructor is a part of this code, which stays for ever.
    """
    return f"""
define internal void @memory_gone(ptr %capsule) {{
  %base = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr null)
  call void @free(ptr %base)
  ret void
}}
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
  br label %axes
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
  br i1 %good, label %ordered, label %missed
ordered:
  call void @Py_IncRef(ptr %dtype)
{get("class", "table", 8 * AT["ndarray"])}
  %rank32 = trunc i64 %rank to i32
  %small = icmp ule i64 %whole, {layout.COPIED_BYTES}
  br i1 %small, label %make, label %own
own:
  %shown = call ptr @new_array(ptr %class, ptr %dtype, i32 %rank32, ptr %dims, {_SHOWING})
  %owner = call ptr @PyCapsule_New(ptr %base, ptr null, ptr @memory_gone)
  %unshown = icmp eq ptr %shown, null
  %unowned = icmp eq ptr %owner, null
  %bad = or i1 %unshown, %unowned
  br i1 %bad, label %short, label %keep
keep:
  %failed = call i32 @set_base(ptr %shown, ptr %owner)
  %kept = icmp eq i32 %failed, 0
  br i1 %kept, label %both, label %unkept
both:
  ret ptr %shown
unkept:
  call void @Py_DecRef(ptr %shown)
  ret ptr null
short:
  call void @Py_DecRef(ptr %shown)
  call void @Py_DecRef(ptr %owner)
  ret ptr null
missed:
{get("miss", "table", 8 * AT["missed"])}
  ret ptr %miss
make:
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
