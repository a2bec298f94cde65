"""The entry of compiled functions as LLVM IR. In: where things lie in objects. Out: the text of a module.

CPython calls `@kernel(self, args)`, as it does for any function in C of one argument: a tuple, the arguments of a
compiled function. self is a tuple that begins with the table of words (backend/entry.py). What does not fit is left
to others, from the start: `missed`.
"""

from __future__ import annotations

from tilewise.backend.entry import (
    ARGUMENT,
    ARRAY,
    AT,
    BOOL,
    BYTES1,
    BYTES2,
    BYTES4,
    BYTES8,
    BYTES16,
    CELL,
    FUNCTION,
    HEAD,
    INT,
    MOST_WORDS,
    NAME,
    Places,
)
from tilewise.backend.llvm.entry.results import results
from tilewise.backend.llvm.handles.words import get, type_of
from tilewise.backend.llvm.program import layout

FOLLOWING = 3  # words behind the arguments, for code that calls functions


def module(at: Places) -> str:
    """The whole module."""
    return "\n".join([_DECLARED, results(at), _arguments(at), _guards(), _entry(at)])


def word(name: str, result: str, ty: str = "ptr") -> str:
    """Load a word of the head."""
    return get(result, "table", 8 * AT[name], ty)


_DECLARED = """declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare ptr @PyFunction_GetCode(ptr)
declare ptr @PyFunction_GetDefaults(ptr)
declare ptr @PyFunction_GetKwDefaults(ptr)
declare ptr @PyCell_Get(ptr)
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i32 @PyList_Append(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i32 @Py_GetRecursionLimit()
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyComplex_FromDoubles(double, double)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @free(ptr)
declare ptr @new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare ptr @new_number(ptr, ptr, ptr)
declare i32 @set_base(ptr, ptr)
declare ptr @PyCapsule_New(ptr, ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
attributes #0 = { nounwind "passes"="standard" }
attributes #1 = { nounwind alwaysinline "passes"="standard" }"""


def _arguments(at: Places) -> str:
    """Arguments as words, from the first to the last; null: one does not fit. The rest: where the next word is."""
    copies = "".join(
        f"""
copy{kind}:
  %value{kind} = getelementptr i8, ptr %item, i64 {at.value}
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %value{kind}, i64 {size}, i1 false)
  br label %{"next2" if size == 16 else "next"}"""
        for kind, size in ((BYTES1, 1), (BYTES2, 2), (BYTES4, 4), (BYTES8, 8), (BYTES16, 16))
    )
    cases = " ".join(f"i64 {kind}, label %copy{kind}" for kind in (BYTES1, BYTES2, BYTES4, BYTES8, BYTES16))
    return f"""
define internal ptr @arguments(ptr %items, ptr %first, i64 %count, ptr %true, ptr %words) #1 {{
entry:
  %overflow = alloca i32
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %step ]
  %to = phi ptr [ %words, %entry ], [ %to.next, %step ]
  %record = phi ptr [ %first, %entry ], [ %record.next, %step ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
done:
  ret ptr %to
missed:
  ret ptr null
one:
  %item.at = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.at
{type_of("type", "item")}
  %kind = load i64, ptr %record
{get("class", "record", 8)}
{get("a", "record", 16, "i64")}
{get("b", "record", 24, "i64")}
  store i64 0, ptr %to
  %same = icmp eq ptr %type, %class
  br i1 %same, label %which, label %missed
which:
  switch i64 %kind, label %missed [ i64 {ARRAY}, label %array i64 {INT}, label %int i64 {BOOL}, label %bool {cases} ]
array:
{get("dtype", "item", at.dtype, "i64")}
{get("ndim32", "item", at.ndim, "i32")}
  %ndim = sext i32 %ndim32 to i64
  %typed = icmp eq i64 %dtype, %a
  %ranked = icmp eq i64 %ndim, %b
  %fits = and i1 %typed, %ranked
  store ptr %item, ptr %to
  br i1 %fits, label %next, label %missed
int:
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %overflow)
  %over = load i32, ptr %overflow
  %whole = icmp eq i32 %over, 0
  %least = icmp sge i64 %n, %a
  %most = icmp sle i64 %n, %b
  %between = and i1 %least, %most
  %small = and i1 %whole, %between
  store i64 %n, ptr %to
  br i1 %small, label %next, label %missed
bool:
  %is = icmp eq ptr %item, %true
  %bit = zext i1 %is to i64
  store i64 %bit, ptr %to
  br label %next{copies}
next:
  br label %step
next2:
  br label %step
step:
  %size = phi i64 [ 8, %next ], [ 16, %next2 ]
  %i.next = add i64 %i, 1
  %to.next = getelementptr i8, ptr %to, i64 %size
  %record.next = getelementptr i64, ptr %record, i64 {ARGUMENT}
  br label %head
}}"""


def _guards() -> str:
    """Whether names, functions and cells stand for what they did; each gives what follows its records, or null."""
    name = """  %now = call ptr @PyDict_GetItem(ptr %x, ptr %y)
  %good = icmp eq ptr %now, %z"""
    function = """  %code = call ptr @PyFunction_GetCode(ptr %x)
  %defaults = call ptr @PyFunction_GetDefaults(ptr %x)
  %named = call ptr @PyFunction_GetKwDefaults(ptr %x)
  %good.code = icmp eq ptr %code, %y
  %good.defaults = icmp eq ptr %defaults, %z
  %good.named = icmp eq ptr %named, null
  %good.both = and i1 %good.code, %good.defaults
  %good = and i1 %good.both, %good.named"""
    cell = """  %now = call ptr @PyCell_Get(ptr %x)
  call void @Py_DecRef(ptr %now)
  %good = icmp eq ptr %now, %y"""
    parts = (("names", NAME, name), ("functions", FUNCTION, function), ("cells", CELL, cell))
    return "".join(_guard(*part) for part in parts) + _VARIABLE


def _guard(name: str, words: int, test: str) -> str:
    loads = "\n".join(get(x, "record", 8 * k) for k, x in enumerate("xyz"[:words]))
    return f"""
define internal ptr @{name}(ptr %first, i64 %count) #1 {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %i.next, %next ]
  %record = phi ptr [ %first, %entry ], [ %record.next, %next ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %done
done:
  ret ptr %record
missed:
  ret ptr null
one:
{loads}
{test}
  br i1 %good, label %next, label %missed
next:
  %i.next = add i64 %i, 1
  %record.next = getelementptr i64, ptr %record, i64 {words}
  br label %head
}}"""


# What a variable of the context is: to be compared only, as nothing holds it for us. Null is nothing to let go of.
_VARIABLE = """
define internal ptr @variable(ptr %variable) #1 {
  %place = alloca ptr
  store ptr null, ptr %place
  %failed = call i32 @PyContextVar_Get(ptr %variable, ptr null, ptr %place)
  %value = load ptr, ptr %place
  call void @Py_DecRef(ptr %value)
  ret ptr %value
}"""


def _entry(at: Places) -> str:
    head = "\n".join(
        word(name, name) for name in ("settings", "here", "config", "base", "tracing", "errors", "state", "none")
    )
    counts = "\n".join(
        word(name, f"count.{name}", "i64") for name in ("arguments", "names", "functions", "cells", "results")
    )
    return f"""
define ptr @kernel(ptr %self, ptr %args) #0 {{
  %words = alloca [{MOST_WORDS + FOLLOWING} x i64], align 16
  %given = alloca [3 x ptr]
  %given1 = getelementptr ptr, ptr %given, i64 1
  %given2 = getelementptr ptr, ptr %given, i64 2
  %cursor = alloca ptr
{get("held", "self", at.items)}
  %table = getelementptr i8, ptr %held, i64 {at.bytes}
{counts}
{word("tuple", "tuple")}
{type_of("kind", "args")}
  %istuple = icmp eq ptr %kind, %tuple
  br i1 %istuple, label %long, label %missed
long:
{get("length", "args", at.length, "i64")}
  %counted = icmp eq i64 %length, %count.arguments
  br i1 %counted, label %circumstances, label %missed
circumstances:
{head}
  %own = call ptr @variable(ptr %here)
  %notown = icmp eq ptr %own, %none
  br i1 %notown, label %common, label %set
common:
  %all = call ptr @PyDict_GetItem(ptr %config, ptr %base)
  br label %set
set:
  %now = phi ptr [ %own, %circumstances ], [ %all, %common ]
  %known = call ptr @PyList_GetItem(ptr %settings, i64 0)
  %traced = call ptr @variable(ptr %tracing)
  %told = call ptr @variable(ptr %errors)
  %same = icmp eq ptr %now, %known
  %untraced = icmp eq ptr %traced, %none
  %untold = icmp eq ptr %told, %state
  %both = and i1 %same, %untraced
  br i1 %both, label %errors.known, label %missed
errors.known:
  br i1 %untold, label %look, label %errors.other
errors.other:
{word("strict", "strict")}
{word("false", "false")}
  %raises = call ptr @PyObject_Vectorcall(ptr %strict, ptr null, i64 0, ptr null)
  %asked = icmp ne ptr %raises, null
  br i1 %asked, label %errors.asked, label %raised
errors.asked:
  call void @Py_DecRef(ptr %raises)
  %mild = icmp eq ptr %raises, %false
  br i1 %mild, label %look, label %missed
look:
{word("true", "true")}
  %items = getelementptr i8, ptr %args, i64 {at.items}
  %records = getelementptr i64, ptr %table, i64 {len(HEAD)}
  %end = call ptr @arguments(ptr %items, ptr %records, i64 %count.arguments, ptr %true, ptr %words)
  %unfit = icmp eq ptr %end, null
  br i1 %unfit, label %missed, label %guards
guards:
  %words.arguments = mul i64 %count.arguments, {ARGUMENT}
  %names = getelementptr i64, ptr %records, i64 %words.arguments
  %functions = call ptr @names(ptr %names, i64 %count.names)
  %renamed = icmp eq ptr %functions, null
  br i1 %renamed, label %missed, label %guards2
guards2:
  %cells = call ptr @functions(ptr %functions, i64 %count.functions)
  %replaced = icmp eq ptr %cells, null
  br i1 %replaced, label %missed, label %guards3
guards3:
  %beginnings = call ptr @cells(ptr %cells, i64 %count.cells)
  %changed = icmp eq ptr %beginnings, null
  br i1 %changed, label %missed, label %find
missed:
{word("missed", "miss")}
  call void @Py_IncRef(ptr %miss)
  ret ptr %miss
find:
{word("rooms", "rooms")}
  %free = call i64 @PyList_Size(ptr %rooms)
  %some = icmp sgt i64 %free, 0
  br i1 %some, label %take, label %make
take:
  %last = sub i64 %free, 1
  %taken = call ptr @PyList_GetItem(ptr %rooms, i64 %last)
  call void @Py_IncRef(ptr %taken)
  %cut = call i32 @PyList_SetSlice(ptr %rooms, i64 %last, i64 %free, ptr null)
  br label %ready
make:
{word("room", "maker")}
  %made = call ptr @PyObject_Vectorcall(ptr %maker, ptr null, i64 0, ptr null)
  %noroom = icmp eq ptr %made, null
  br i1 %noroom, label %raised, label %ready
raised:
  ret ptr null
ready:
  %room = phi ptr [ %taken, %take ], [ %made, %make ]
{get("memory", "room", at.room)}
{word("host", "host", "i64")}
{word("code", "code")}
  %follows = icmp ne i64 %host, 0
  br i1 %follows, label %followed, label %call
followed:
  %limit32 = call i32 @Py_GetRecursionLimit()
  %limit = sext i32 %limit32 to i64
  %end1 = getelementptr i64, ptr %end, i64 1
  %end2 = getelementptr i64, ptr %end, i64 2
  store i64 %host, ptr %end
  store i64 %limit, ptr %end1
  store i64 0, ptr %end2
  br label %call
call:
  %thread = call ptr @PyEval_SaveThread()
  call void %code(ptr %words, ptr %memory)
  call void @PyEval_RestoreThread(ptr %thread)
  store ptr %args, ptr %given
  store ptr %room, ptr %given1
{get("status", "memory", 8 * layout.STATUS, "i64")}
{get("which", "memory", 8 * layout.WHICH, "i64")}
  %returned = icmp eq i64 %status, {layout.RETURNED}
  %listed = icmp ult i64 %which, %count.results
  %normal = and i1 %returned, %listed
  br i1 %normal, label %build, label %end.otherwise
end.otherwise:
{word("ended", "ended")}
  %other = call ptr @PyObject_Vectorcall(ptr %ended, ptr %given, i64 2, ptr null)
  call void @Py_DecRef(ptr %room)
  ret ptr %other
build:
  %beginning.at = getelementptr i64, ptr %beginnings, i64 %which
  %beginning = load i64, ptr %beginning.at
  %node = getelementptr i64, ptr %table, i64 %beginning
  store ptr %node, ptr %cursor
  %result = call ptr @build(ptr %table, ptr %memory, ptr %items, ptr %cursor)
{word("missed", "unmade")}
  %left = icmp eq ptr %result, %unmade
  br i1 %left, label %finish, label %done
finish:
{word("finish", "finisher")}
  %number = call ptr @PyLong_FromLongLong(i64 %which)
  %nonumber = icmp eq ptr %number, null
  br i1 %nonumber, label %fail, label %finishing
fail:
  call void @Py_DecRef(ptr %room)
  ret ptr null
finishing:
  store ptr %number, ptr %given2
  %finished = call ptr @PyObject_Vectorcall(ptr %finisher, ptr %given, i64 3, ptr null)
  call void @Py_DecRef(ptr %number)
  call void @Py_DecRef(ptr %room)
  ret ptr %finished
done:
  %kept = call i32 @PyList_Append(ptr %rooms, ptr %room)
  call void @Py_DecRef(ptr %room)
  ret ptr %result
}}"""
