"""Loops of our own for small arrays of float64, as LLVM IR. In: where things lie in ndarrays. Out: text of functions.

NumPy takes half a microsecond for `x + y` of a hundred elements, and most of it is spent before its loop begins. Here
an operator on float64 arrays with up to two axes, or in one piece, is a loop and one call for memory. Bits are
NumPy's: each element takes one operation, rounded as IEEE says. Whether there is something to tell (a division by
zero, a value too large or too small, or without a meaning) is read from the CPU's flags: then the result is thrown
away, and NumPy does it all, with its warnings or errors.
"""

from __future__ import annotations

from tilewise.backend.chains import DATA
from tilewise.backend.handles import SCRATCH, Offsets
from tilewise.backend.llvm.handles.plans import PLAN, plans, word
from tilewise.backend.llvm.handles.words import get, load
from tilewise.kernel.family import ARM

WRITABLE = 0x400  # a flag of NumPy
_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "truediv": "fdiv"}
QUICK = frozenset(_BINARY)
_UNARY = {"neg": "fneg double %x", "abs": "call double @llvm.fabs.f64(double %x)"}
# Flags of exceptions: invalid, division by zero, overflow, underflow; and all of them.
_TOLD, _ALL = (15, 31) if ARM else (29, 61)


def loops(at: Offsets) -> list[str]:
    """`@number_at`, `@quick_OP` (a new ndarray, or null) and `@write_OP` (in place; whether that is done)."""
    found = [_HEAD, *plans(at), _flags(), _new()]
    for name in (*_BINARY, *_UNARY):
        found += [*_rows(name), _fill(name), _quick(name)]
        if name in _BINARY:
            found.append(_write(name))
    return found


_HEAD = """
declare ptr @new_array(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i64 @PyLong_AsLongAndOverflow(ptr, ptr)
declare void @PyErr_Clear()
declare double @llvm.fabs.f64(double)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
attributes #3 = { nounwind noinline "passes"="standard" "prefer-vector-width"="512" }
attributes #4 = { nounwind noinline "passes"="standard" }"""


def _flags() -> str:
    """`@clear` the CPU's flags of exceptions; `@told`: whether there is something to tell."""
    if ARM:
        return f"""
declare i32 @feclearexcept(i32)
declare i32 @fetestexcept(i32)
define internal void @clear() #1 {{
  %done = call i32 @feclearexcept(i32 {_ALL})
  ret void
}}
define internal i1 @told() #1 {{
  %flags = call i32 @fetestexcept(i32 {_TOLD})
  %some = icmp ne i32 %flags, 0
  ret i1 %some
}}"""
    return f"""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal void @clear() #1 {{
  %csr = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %csr)
  %before = load i32, ptr %csr
  %set = and i32 %before, {_ALL}
  %some = icmp ne i32 %set, 0
  br i1 %some, label %write, label %done
write:
  %after = and i32 %before, {~_ALL}
  store i32 %after, ptr %csr
  call void @llvm.x86.sse.ldmxcsr(ptr %csr)
  br label %done
done:
  ret void
}}
define internal i1 @told() #1 {{
  %csr = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %csr)
  %now = load i32, ptr %csr
  %flags = and i32 %now, {_TOLD}
  %some = icmp ne i32 %flags, 0
  ret i1 %some
}}"""


def _new() -> str:
    """A new ndarray of float64 for a plan, in C order; null if there is no memory."""
    return f"""
define internal ptr @new_result(ptr %plan) #1 {{
{word("axes")}
{word("dims")}
  %few = trunc i64 %axes to i32
  %ndarray = {load("ndarray")}
  %dtype = {load("float64_dtype")}
  call void @Py_IncRef(ptr %dtype)
  %r = call ptr @new_array(ptr %ndarray, ptr %dtype, i32 %few, ptr %dims, ptr null, ptr null, i32 0, ptr null)
  %none = icmp eq ptr %r, null
  br i1 %none, label %failed, label %done
failed:
  call void @PyErr_Clear()
  ret ptr null
done:
  ret ptr %r
}}"""


def _one(name: str) -> str:
    if name in _UNARY:
        return f"  %r = {_UNARY[name]}"
    return f"  %r = {_BINARY[name]} double %x, %y"


def _rows(name: str) -> list[str]:
    """Innermost loops: an array (c: in one piece, s: with steps) or a number (n) on each side."""
    found = []
    for a, b in ("cc", "cn", "nc", "ss"):
        given, body = ["ptr noalias %o"], []
        for x, p, way in (("x", "a", a), ("y", "b", b)):
            if way == "n":
                given.append(f"double %{x}")
                continue
            given.append(f"ptr %{p}")
            if way == "c":
                body.append(f"  %{p}.at = getelementptr double, ptr %{p}, i64 %i")
            else:
                given.append(f"i64 %{p}.step")
                body.append(f"  %{p}.off = mul i64 %i, %{p}.step")
                body.append(f"  %{p}.at = getelementptr i8, ptr %{p}, i64 %{p}.off")
            body.append(f"  %{x} = load double, ptr %{p}.at")
        found.append(
            "\n".join(
                [
                    f"define internal void @row_{name}_{a}{b}({', '.join([*given, 'i64 %n'])}) #3 {{",
                    "entry:",
                    "  %some = icmp sgt i64 %n, 0",
                    "  br i1 %some, label %loop, label %done",
                    "loop:",
                    "  %i = phi i64 [ 0, %entry ], [ %next, %loop ]",
                    *body,
                    _one(name),
                    "  %o.at = getelementptr double, ptr %o, i64 %i",
                    "  store double %r, ptr %o.at",
                    "  %next = add i64 %i, 1",
                    "  %more = icmp slt i64 %next, %n",
                    "  br i1 %more, label %loop, label %done",
                    "done:",
                    "  ret void",
                    "}",
                ]
            )
        )
    return found


def _fill(name: str) -> str:
    """Run a plan into memory in one piece. Gives whether there is something to tell."""
    words = "\n".join(word(w) for w in ("n0", "n1", "pa", "a0", "a1", "pb", "b0", "b1"))
    return f"""
define internal i1 @fill_{name}(ptr %out, ptr %plan) #4 {{
entry:
{words}
  call void @clear()
  %a8 = icmp eq i64 %a1, 8
  %b8 = icmp eq i64 %b1, 8
  %ax = icmp eq i64 %a1, 0
  %bx = icmp eq i64 %b1, 0
  %cc = and i1 %a8, %b8
  %cn = and i1 %a8, %bx
  %nc = and i1 %ax, %b8
  %length = mul i64 %n1, 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %tail ]
  %o = phi ptr [ %out, %entry ], [ %onext, %tail ]
  %a = phi ptr [ %pa, %entry ], [ %anext, %tail ]
  %b = phi ptr [ %pb, %entry ], [ %bnext, %tail ]
  %going = icmp slt i64 %i, %n0
  br i1 %going, label %body, label %done
body:
  br i1 %cc, label %is.cc, label %not.cc
is.cc:
  call void @row_{name}_cc(ptr %o, ptr %a, ptr %b, i64 %n1)
  br label %tail
not.cc:
  br i1 %cn, label %is.cn, label %not.cn
is.cn:
  %y = load double, ptr %b
  call void @row_{name}_cn(ptr %o, ptr %a, double %y, i64 %n1)
  br label %tail
not.cn:
  br i1 %nc, label %is.nc, label %is.ss
is.nc:
  %x = load double, ptr %a
  call void @row_{name}_nc(ptr %o, double %x, ptr %b, i64 %n1)
  br label %tail
is.ss:
  call void @row_{name}_ss(ptr %o, ptr %a, i64 %a1, ptr %b, i64 %b1, i64 %n1)
  br label %tail
tail:
  %next = add i64 %i, 1
  %onext = getelementptr i8, ptr %o, i64 %length
  %anext = getelementptr i8, ptr %a, i64 %a0
  %bnext = getelementptr i8, ptr %b, i64 %b0
  br label %loop
done:
  %told = call i1 @told()
  ret i1 %told
}}"""


def _quick(name: str) -> str:
    return f"""
define internal ptr @quick_{name}(ptr %a, ptr %b, ptr %na, ptr %nb) #4 {{
  %plan = alloca {PLAN}
  %good = call i1 @plan(ptr %plan, ptr %a, ptr %b, ptr %na, ptr %nb)
  br i1 %good, label %new, label %no
new:
  %r = call ptr @new_result(ptr %plan)
  %none = icmp eq ptr %r, null
  br i1 %none, label %no, label %fill
fill:
{get("out", "r", DATA)}
  %told = call i1 @fill_{name}(ptr %out, ptr %plan)
  br i1 %told, label %again, label %done
done:
  ret ptr %r
again:
  call void @Py_DecRef(ptr %r)
  br label %no
no:
  ret ptr null
}}"""


def _write(name: str) -> str:
    """In place: by way of other memory, as nothing may be changed if there is something to tell."""
    return f"""
define internal i1 @write_{name}(ptr %a, ptr %b, ptr %nb) #4 {{
entry:
  %plan = alloca {PLAN}
  %mayb = call i1 @fits(ptr %a, i32 {WRITABLE})
  br i1 %mayb, label %first, label %no
first:
  %good = call i1 @plan(ptr %plan, ptr %a, ptr %b, ptr %a, ptr %nb)
  br i1 %good, label %look, label %no
look:
{word("n0")}
{word("n1")}
{word("a0")}
{word("a1")}
{word("pa", "to")}
{word("axes", "wide")}
  %axes = trunc i64 %wide to i32
  %own = call i32 @axes(ptr %a)
  %kept = icmp eq i32 %axes, %own
  %size = call i64 @size(ptr %a)
  %points = mul i64 %n0, %n1
  %all = icmp eq i64 %points, %size
  %some = icmp sgt i64 %size, 0
  %few = icmp sle i64 %size, {SCRATCH}
  %x = and i1 %kept, %all
  %y = and i1 %some, %few
  %fit = and i1 %x, %y
  br i1 %fit, label %fill, label %no
fill:
  %scratch = {load("scratch")}
  %told = call i1 @fill_{name}(ptr %scratch, ptr %plan)
  br i1 %told, label %no, label %copy
copy:
  %whole = icmp eq i64 %a1, 8
  %length = mul i64 %n1, 8
  br label %loop
loop:
  %i = phi i64 [ 0, %copy ], [ %next, %tail ]
  %o = phi ptr [ %to, %copy ], [ %onext, %tail ]
  %s = phi ptr [ %scratch, %copy ], [ %snext, %tail ]
  %going = icmp slt i64 %i, %n0
  br i1 %going, label %body, label %done
body:
  br i1 %whole, label %piece, label %each
piece:
  call void @llvm.memcpy.p0.p0.i64(ptr %o, ptr %s, i64 %length, i1 false)
  br label %tail
each:
  %k = phi i64 [ 0, %body ], [ %knext, %each ]
  %from = getelementptr double, ptr %s, i64 %k
  %off = mul i64 %k, %a1
  %where = getelementptr i8, ptr %o, i64 %off
  %value = load double, ptr %from
  store double %value, ptr %where
  %knext = add i64 %k, 1
  %again = icmp slt i64 %knext, %n1
  br i1 %again, label %each, label %tail
tail:
  %next = add i64 %i, 1
  %onext = getelementptr i8, ptr %o, i64 %a0
  %snext = getelementptr i8, ptr %s, i64 %length
  br label %loop
done:
  ret i1 true
no:
  ret i1 false
}}"""
