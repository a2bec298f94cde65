"""What the operators of handles are made of, as LLVM IR. In: where things lie in objects. Out: text of small functions.

They use CPython's public functions, and `@state`, a table of addresses (`STATE`). All of them are inlined.
"""

from __future__ import annotations

from tilewise.backend.handles import AT_ONCE, BINARY, UNARY, WORDS, Offsets
from tilewise.backend.llvm.handles.memory import memory
from tilewise.backend.llvm.handles.words import (
    CARRAY,
    MOST,
    NUMERIC,
    OWNED,
    VALUE,
    get,
    load,
    number,
    one_of,
    place,
    type_of,
)

REUSED = 32768  # elements of float64 from which NumPy writes results over operands that have no names
HEAD = f"""@state = external global [{WORDS} x ptr]
declare ptr @PyType_GenericAlloc(ptr, i64)
declare void @PyObject_GC_Track(ptr)
declare void @PyObject_GC_UnTrack(ptr)
declare void @PyObject_GC_Del(ptr)
declare void @PyObject_ClearWeakRefs(ptr)
declare {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64, i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyObject_GetItem(ptr, ptr)
declare i32 @PyObject_SetItem(ptr, ptr, ptr)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyEval_GetFrame()
declare ptr @PyObject_RichCompare(ptr, ptr, i32)
declare ptr @PyNumber_Power(ptr, ptr, ptr)
declare ptr @PyNumber_MatrixMultiply(ptr, ptr)
attributes #0 = {{ nounwind "passes"="standard" }}
attributes #1 = {{ nounwind alwaysinline "passes"="standard" }}
attributes #2 = {{ nounwind cold noinline "passes"="standard" }}
!0 = !{{}}"""


def declared() -> list[str]:
    two = [f"declare ptr @PyNumber_{prefix}{name}(ptr, ptr)" for name in BINARY.values() for prefix in ("", "InPlace")]
    return two + [f"declare ptr @PyNumber_{name}(ptr)" for name in UNARY.values()]


def _set(of: str, offset: int, value: str) -> str:
    return f"  %{of}.{offset} = getelementptr i8, ptr %{of}, i64 {offset}\n  store ptr %{value}, ptr %{of}.{offset}"


def _nothing_waits(at: Offsets) -> str:
    """Whether operators on larger arrays wait for nothing, at all or at the instruction where Python is."""
    look = f"""
  %frame = call ptr @PyEval_GetFrame()
  %noframe = icmp eq ptr %frame, null
  br i1 %noframe, label %no, label %found
found:
{get("inner", "frame", at.frame)}
{get("instruction", "inner", at.instruction, "i64")}
  %units = lshr i64 %instruction, 1
  %index = and i64 %units, {AT_ONCE - 1}
  %table = load ptr, ptr {place("at_once")}
  %entry.at = getelementptr i64, ptr %table, i64 %index
  %entry = load i64, ptr %entry.at
  %same = icmp eq i64 %entry, %instruction
  ret i1 %same"""
    return f"""define internal i1 @nothing_waits() #1 {{
  %waiting = {number("waiting")}
  %none = icmp eq i64 %waiting, 0
  br i1 %none, label %yes, label %look
look:{look if at.frame else " br label %no"}
yes:
  ret i1 true
no:
  ret i1 false
}}"""


def helpers(at: Offsets) -> list[str]:
    handle, cell = dict(at.handle), dict(at.cell)
    # The ndarray of a handle that is known and no number, if it has numbers as elements: no program of a user's runs
    # when they are used. (A handle that nobody has filled yet has no cell.)
    known = f"""
define internal ptr @known(ptr %x) #1 {{
{get("cell", "x", handle["_cell"])}
  %made = icmp ne ptr %cell, null
  br i1 %made, label %filled, label %no
filled:
{get("node", "cell", cell["node"])}
{get("own", "x", handle["_gen"])}
{get("gen", "cell", cell["gen"])}
{get("fixed", "x", handle["_fixed"])}
{get("nd", "x", handle["_nd"])}
  %none = {load("none")}
  %false = {load("false")}
  %a = icmp eq ptr %node, %none
  %b = icmp eq ptr %own, %gen
  %c = icmp eq ptr %fixed, %false
  %d = icmp ne ptr %nd, null
  %ab = and i1 %a, %b
  %cd = and i1 %c, %d
  %abcd = and i1 %ab, %cd
  br i1 %abcd, label %look, label %no
look:
{type_of("type", "nd")}
  %ndarray = {load("ndarray")}
  %plain = icmp eq ptr %type, %ndarray
  br i1 %plain, label %numbers, label %no
numbers:
{get("dtype", "nd", at.dtype)}
{get("kind", "dtype", at.number, "i32")}
  %early = icmp ult i32 %kind, 32
  %bit = and i32 %kind, 31
  %bits = lshr i32 {NUMERIC}, %bit
  %one = and i32 %bits, 1
  %numeric = icmp ne i32 %one, 0
  %good = and i1 %early, %numeric
  %found = select i1 %good, ptr %nd, ptr null
  ret ptr %found
no:
  ret ptr null
}}"""
    # An operand as NumPy takes it: the ndarray of a handle, a number itself; else null. Of our own class of float64,
    # which NumPy is slow with, a Python float has the same effect on an array of float64.
    operand = f"""
define internal ptr @number(ptr %x, ptr %type) #1 {{
{one_of("type", float="float", int="int", float64="float64")}
  %found = select i1 %abc, ptr %x, ptr null
  ret ptr %found
}}
define internal i1 @counts(ptr %type, ptr %other, i1 %array) #1 {{
  %number = {load("number")}
  %ours = icmp eq ptr %type, %number
  %try = and i1 %ours, %array
  br i1 %try, label %look, label %no
look:
{get("dtype", "other", at.dtype)}
  %float64 = {load("float64_dtype")}
  %same = icmp eq ptr %dtype, %float64
  ret i1 %same
no:
  ret i1 false
}}
define internal ptr @fresh(ptr %x, i1 %made) #1 {{
  br i1 %made, label %yes, label %no
yes:
{get("value", "x", VALUE, "double")}
  %f = call ptr @PyFloat_FromDouble(double %value)
  ret ptr %f
no:
  ret ptr null
}}
define internal ptr @operand(ptr %x, ptr %type) #1 {{
  %array = {load("array")}
  %ours = icmp eq ptr %type, %array
  br i1 %ours, label %handle, label %other
handle:
  %nd = call ptr @known(ptr %x)
  ret ptr %nd
other:
  %n = call ptr @number(ptr %x, ptr %type)
  ret ptr %n
}}"""
    # 1: what two arrays broadcast to is small; 2: it is below the limit of float64, and they are; 0: neither.
    sizes = f"""
define internal i64 @along(ptr %nd, i32 %axes, i32 %k) #1 {{
  %has = icmp sle i32 %k, %axes
  br i1 %has, label %yes, label %no
yes:
{get("dims", "nd", at.dims)}
  %axis = sub i32 %axes, %k
  %wide = sext i32 %axis to i64
  %where = getelementptr i64, ptr %dims, i64 %wide
  %n = load i64, ptr %where
  ret i64 %n
no:
  ret i64 1
}}
define internal i64 @times(i64 %n, i64 %m) #1 {{
  %both = call {{ i64, i1 }} @llvm.umul.with.overflow.i64(i64 %n, i64 %m)
  %product = extractvalue {{ i64, i1 }} %both, 0
  %over = extractvalue {{ i64, i1 }} %both, 1
  %most = select i1 %over, i64 {MOST}, i64 %product
  ret i64 %most
}}
define internal i32 @room(ptr %a, ptr %b) #1 {{
entry:
{get("m", "a", at.ndim, "i32")}
{get("n", "b", at.ndim, "i32")}
  %more = icmp sgt i32 %m, %n
  %axes = select i1 %more, i32 %m, i32 %n
  br label %loop
loop:
  %k = phi i32 [ 1, %entry ], [ %next, %body ]
  %size = phi i64 [ 1, %entry ], [ %product, %body ]
  %going = icmp sle i32 %k, %axes
  br i1 %going, label %body, label %done
body:
  %p = call i64 @along(ptr %a, i32 %m, i32 %k)
  %q = call i64 @along(ptr %b, i32 %n, i32 %k)
  %larger = icmp sgt i64 %p, %q
  %length = select i1 %larger, i64 %p, i64 %q
  %product = call i64 @times(i64 %size, i64 %length)
  %next = add i32 %k, 1
  br label %loop
done:
  %limit = {number("limit")}
  %few = icmp ult i64 %size, %limit
  %some = icmp sgt i32 %axes, 0
  %small = and i1 %few, %some
  br i1 %small, label %yes, label %wider
yes:
  ret i32 1
wider:
{get("da", "a", at.dtype)}
{get("db", "b", at.dtype)}
  %float64 = {load("float64_dtype")}
  %fa = icmp eq ptr %da, %float64
  %fb = icmp eq ptr %db, %float64
  %limit64 = {number("limit_float64")}
  %below = icmp ult i64 %size, %limit64
  %fab = and i1 %fa, %fb
  %most = and i1 %fab, %below
  %known = and i1 %most, %some
  %answer = select i1 %known, i32 2, i32 0
  ret i32 %answer
}}
define internal i1 @small(ptr %a, ptr %b) #1 {{
  %room = call i32 @room(ptr %a, ptr %b)
  %some = icmp ne i32 %room, 0
  ret i1 %some
}}
define internal i64 @size(ptr %nd) #1 {{
entry:
{get("axes", "nd", at.ndim, "i32")}
  br label %loop
loop:
  %k = phi i32 [ 1, %entry ], [ %next, %body ]
  %size = phi i64 [ 1, %entry ], [ %product, %body ]
  %going = icmp sle i32 %k, %axes
  br i1 %going, label %body, label %done
body:
  %n = call i64 @along(ptr %nd, i32 %axes, i32 %k)
  %product = call i64 @times(i64 %size, i64 %n)
  %next = add i32 %k, 1
  br label %loop
done:
  ret i64 %size
}}
define internal i1 @few(ptr %a, ptr %b) #1 {{
{get("m", "a", at.ndim, "i32")}
{get("n", "b", at.ndim, "i32")}
{get("da", "a", at.dtype)}
{get("db", "b", at.dtype)}
  %float64 = {load("float64_dtype")}
  %limit = {number("limit_float64")}
  %sa = call i64 @size(ptr %a)
  %sb = call i64 @size(ptr %b)
  %both = add i64 %sa, %sb
  %below = icmp ult i64 %both, %limit
  %fa = icmp eq ptr %da, %float64
  %fb = icmp eq ptr %db, %float64
  %axesa = icmp sgt i32 %m, 0
  %axesb = icmp sgt i32 %n, 0
  %f = and i1 %fa, %fb
  %axes = and i1 %axesa, %axesb
  %kinds = and i1 %f, %axes
  %good = and i1 %kinds, %below
  ret i1 %good
}}
define internal i1 @allowed() #1 {{
  %left = {number("allowance")}
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %yes, label %no
yes:
  %less = sub i64 %left, 1
  store i64 %less, ptr {place("allowance")}
  ret i1 true
no:
  ret i1 false
}}
define internal i1 @stays(ptr %x, ptr %nd, i1 %array) #1 {{
  br i1 %array, label %look, label %yes
look:
  %references = load i32, ptr %x
  %named = icmp ugt i32 %references, 1
  br i1 %named, label %yes, label %measure
measure:
  %size = call i64 @size(ptr %nd)
  %few = icmp ult i64 %size, {REUSED}
{get("flags", "nd", at.flags, "i32")}
  %own = and i32 %flags, {OWNED}
  %shown = icmp eq i32 %own, 0
  %either = or i1 %few, %shown
  ret i1 %either
yes:
  ret i1 true
}}
{_nothing_waits(at)}
define internal i1 @vectors(ptr %a, ptr %b) #1 {{
{get("m", "a", at.ndim, "i32")}
{get("n", "b", at.ndim, "i32")}
  %ma = icmp eq i32 %m, 1
  %nb = icmp eq i32 %n, 1
  %both = and i1 %ma, %nb
  br i1 %both, label %look, label %no
look:
{get("fa", "a", at.flags, "i32")}
{get("fb", "b", at.flags, "i32")}
  %f = and i32 %fa, %fb
  %kept = and i32 %f, {CARRAY}
  %good = icmp eq i32 %kept, {CARRAY}
  %p = call i64 @along(ptr %a, i32 1, i32 1)
  %q = call i64 @along(ptr %b, i32 1, i32 1)
  %same = icmp eq i64 %p, %q
  %several = icmp sgt i64 %p, 1
  %x = and i1 %same, %several
  %y = and i1 %x, %good
  ret i1 %y
no:
  ret i1 false
}}"""
    counted = [
        f"""  %{name}.count = load i64, ptr %{name}
  %{name}.more = add i64 %{name}.count, {uses}
  store i64 %{name}.more, ptr %{name}"""
        for name, uses in (("none", 5), ("zero", 2), ("false", 1))
    ]
    viewed = [
        """  %false.count = load i64, ptr %false
  %false.more = add i64 %false.count, 1
  store i64 %false.more, ptr %false"""
    ]
    # A handle that owns an ndarray (whose reference it takes), and one that shows a part of another's cell.
    boxes = f"""
define internal ptr @box(ptr %nd) #1 {{
  %c = call ptr @new_cell()
  %nocell = icmp eq ptr %c, null
  br i1 %nocell, label %nothing, label %made
nothing:
  call void @Py_DecRef(ptr %nd)
  ret ptr null
made:
  %none = {load("none")}
  %zero = {load("zero")}
  %false = {load("false")}
{"" if at.immortal else chr(10).join(counted)}
{_set("c", cell["buf"], "nd")}
{_set("c", cell["node"], "none")}
{_set("c", cell["gen"], "zero")}
{_set("c", cell["meta_nd"], "none")}
{_set("c", cell["leaf"], "none")}
{_set("c", cell["exports"], "none")}
{_set("c", cell["owner"], "none")}
  %x = call ptr @new_handle()
  %nohandle = icmp eq ptr %x, null
  br i1 %nohandle, label %never, label %whole
never:
  call void @PyObject_GC_Track(ptr %c)
  call void @Py_DecRef(ptr %c)
  ret ptr null
whole:
  call void @Py_IncRef(ptr %nd)
{_set("x", handle["_cell"], "c")}
{_set("x", handle["_nd"], "nd")}
{_set("x", handle["_gen"], "zero")}
{_set("x", handle["_fixed"], "false")}
  call void @PyObject_GC_Track(ptr %c)
  call void @PyObject_GC_Track(ptr %x)
  ret ptr %x
}}
define internal ptr @view(ptr %cell, ptr %gen, ptr %nd) #1 {{
  %x = call ptr @new_handle()
  %nohandle = icmp eq ptr %x, null
  br i1 %nohandle, label %never, label %made
never:
  call void @Py_DecRef(ptr %nd)
  ret ptr null
made:
  %false = {load("false")}
{"" if at.immortal else chr(10).join(viewed)}
  call void @Py_IncRef(ptr %cell)
  call void @Py_IncRef(ptr %gen)
{_set("x", handle["_cell"], "cell")}
{_set("x", handle["_nd"], "nd")}
{_set("x", handle["_gen"], "gen")}
{_set("x", handle["_fixed"], "false")}
  call void @PyObject_GC_Track(ptr %x)
  ret ptr %x
}}"""
    free = f"""
define internal i1 @unshared(ptr %x) #1 {{
{get("cell", "x", handle["_cell"])}
{get("leaf", "cell", cell["leaf"])}
{get("exports", "cell", cell["exports"])}
  %none = {load("none")}
  %a = icmp eq ptr %leaf, %none
  %b = icmp eq ptr %exports, %none
  %ab = and i1 %a, %b
  ret i1 %ab
}}
define internal ptr @cell_of(ptr %x) #1 {{
{get("cell", "x", handle["_cell"])}
  ret ptr %cell
}}
define internal ptr @gen_of(ptr %cell) #1 {{
{get("gen", "cell", cell["gen"])}
  ret ptr %gen
}}"""
    # A key of whole numbers, slices, new axes and an ellipsis: NumPy makes a view or gives an element.
    keys = f"""
define internal i1 @basic(ptr %key) #1 {{
{type_of("type", "key")}
{one_of("type", int="int", slice="slice")}
  ret i1 %ab
}}
define internal i1 @rare(ptr %key) #1 {{
{type_of("type", "key")}
{one_of("type", int64="int64", new="nonetype", ellipsis="ellipsis")}
  ret i1 %abc
}}
define internal i1 @plain(ptr %key) #1 {{
entry:
  %one = call i1 @basic(ptr %key)
  br i1 %one, label %yes, label %other
other:
{type_of("type", "key")}
  %tuple = {load("tuple")}
  %several = icmp eq ptr %type, %tuple
  br i1 %several, label %each, label %no
each:
{get("count", "key", at.length, "i64")}
  %items = getelementptr i8, ptr %key, i64 {at.items}
  br label %loop
loop:
  %k = phi i64 [ 0, %each ], [ %next, %good ]
  %going = icmp slt i64 %k, %count
  br i1 %going, label %look, label %yes
look:
  %item.at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %item.at
  %usual = call i1 @basic(ptr %item)
  br i1 %usual, label %good, label %else
else:
  %also = call i1 @rare(ptr %item)
  br i1 %also, label %good, label %no
good:
  %next = add i64 %k, 1
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}}"""
    calls = """
define internal ptr @python1(ptr %method, ptr %a) #2 {
  %args = alloca [2 x ptr]
  store ptr %a, ptr %args
  %r = call ptr @PyObject_Vectorcall(ptr %method, ptr %args, i64 1, ptr null)
  ret ptr %r
}
define internal ptr @python2(ptr %method, ptr %a, ptr %b) #2 {
  %args = alloca [2 x ptr]
  store ptr %a, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  store ptr %b, ptr %second
  %r = call ptr @PyObject_Vectorcall(ptr %method, ptr %args, i64 2, ptr null)
  ret ptr %r
}
define internal ptr @python3(ptr %method, ptr %a, ptr %b, ptr %c) #2 {
  %args = alloca [3 x ptr]
  store ptr %a, ptr %args
  %second = getelementptr ptr, ptr %args, i64 1
  store ptr %b, ptr %second
  %third = getelementptr ptr, ptr %args, i64 2
  store ptr %c, ptr %third
  %r = call ptr @PyObject_Vectorcall(ptr %method, ptr %args, i64 3, ptr null)
  ret ptr %r
}"""
    return [known, operand, sizes, *memory(at), boxes, free, keys, calls]
