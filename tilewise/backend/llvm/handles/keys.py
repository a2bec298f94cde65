"""Reading and writing at keys, as LLVM IR. In: nothing. Out: text of `@slot_getitem` and `@slot_setitem`.

The first lines of array/indexing.py and setitem.py: keys of whole numbers, slices, new axes and an ellipsis, of arrays
that are known.
"""

from __future__ import annotations

from tilewise.backend.llvm.handles.words import give, known, load, number, type_of


def getitem() -> str:
    """A slice may have ends with an `__index__` of a user's: what the view is of is looked up before NumPy asks it."""
    return f"""
define internal ptr @slot_getitem(ptr %a, ptr %key) #0 {{
  %ndarray = {load("ndarray")}
{known("a", "second")}
second:
  %plain = call i1 @plain(ptr %key)
  br i1 %plain, label %go, label %slow
go:
  %cell = call ptr @cell_of(ptr %a)
  %gen = call ptr @gen_of(ptr %cell)
  call void @Py_IncRef(ptr %na)
  call void @Py_IncRef(ptr %cell)
  call void @Py_IncRef(ptr %gen)
  %r = call ptr @PyObject_GetItem(ptr %na, ptr %key)
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %done, label %look
look:
{type_of("kind", "r")}
  %isarray = icmp eq ptr %kind, %ndarray
  br i1 %isarray, label %shown, label %done
shown:
  %x = call ptr @view(ptr %cell, ptr %gen, ptr %r)
  br label %done
done:
  %found = phi ptr [ null, %go ], [ %x, %shown ], [ %r, %look ]
  call void @Py_DecRef(ptr %gen)
  call void @Py_DecRef(ptr %cell)
  call void @Py_DecRef(ptr %na)
  ret ptr %found
slow:
{give("getitem", "a", "key")}
}}"""


def setitem() -> str:
    """`a[key] = value`, and `del a[key]`."""
    return f"""
define internal i32 @slot_setitem(ptr %a, ptr %key, ptr %value) #0 {{
  %delete = icmp eq ptr %value, null
  br i1 %delete, label %deleted, label %first
deleted:
  %d = {load("delitem")}
  %rd = call ptr @python2(ptr %d, ptr %a, ptr %key)
  %kept = icmp eq ptr %rd, null
  br i1 %kept, label %raised, label %gone
gone:
  call void @Py_DecRef(ptr %rd)
  ret i32 0
first:
{known("a", "second")}
second:
  %plain = call i1 @plain(ptr %key)
  br i1 %plain, label %third, label %slow
third:
{type_of("tv", "value")}
  %number = {load("number")}
  %ours = icmp eq ptr %tv, %number
  %ov = call ptr @operand(ptr %value, ptr %tv)
  %nv = select i1 %ours, ptr %value, ptr %ov
  %notv = icmp eq ptr %nv, null
  br i1 %notv, label %slow, label %fourth
fourth:
  %free = call i1 @unshared(ptr %a)
  br i1 %free, label %sized, label %slow
sized:
  call void @Py_IncRef(ptr %na)
  call void @Py_IncRef(ptr %nv)
  %few = call i1 @small(ptr %na, ptr %na)
  br i1 %few, label %go, label %part
part:
  %limit = {number("limit")}
  %some = icmp sgt i64 %limit, 0
  br i1 %some, label %looked, label %left
looked:
  %p = call ptr @PyObject_GetItem(ptr %na, ptr %key)
  %failed = icmp eq ptr %p, null
  br i1 %failed, label %over, label %look
look:
{type_of("kind", "p")}
  %ndarray = {load("ndarray")}
  %isarray = icmp eq ptr %kind, %ndarray
  br i1 %isarray, label %counted, label %element
counted:
  %fewer = call i1 @small(ptr %p, ptr %p)
  call void @Py_DecRef(ptr %p)
  br i1 %fewer, label %go, label %left
element:
  call void @Py_DecRef(ptr %p)
  br label %go
go:
  %set = call i32 @PyObject_SetItem(ptr %na, ptr %key, ptr %nv)
  br label %over
over:
  %done = phi i32 [ -1, %looked ], [ %set, %go ]
  call void @Py_DecRef(ptr %na)
  call void @Py_DecRef(ptr %nv)
  ret i32 %done
left:
  call void @Py_DecRef(ptr %na)
  call void @Py_DecRef(ptr %nv)
  br label %slow
slow:
  %f = {load("setitem")}
  %rf = call ptr @python3(ptr %f, ptr %a, ptr %key, ptr %value)
  %wrong = icmp eq ptr %rf, null
  br i1 %wrong, label %raised, label %written
raised:
  ret i32 -1
written:
  call void @Py_DecRef(ptr %rf)
  ret i32 0
}}"""
