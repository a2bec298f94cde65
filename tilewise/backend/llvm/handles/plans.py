"""How operands of float64 go together, as LLVM IR. In: where things lie in ndarrays. Out: text of functions.

`@plan` looks at two ndarrays (null: a number) and writes what loops.py runs: an outer and an inner loop, or one over
arrays in one piece. Where NumPy would lay out the result otherwise than in C order, or go another way through memory,
it says no.
"""

from __future__ import annotations

from tilewise.backend.chains import DATA
from tilewise.backend.handles import Offsets
from tilewise.backend.llvm.handles.words import VALUE, get, load, one_of

ALIGNED, CONTIGUOUS = 0x100, 0x1  # flags of NumPy
SHORT_ROW = 8  # elements: NumPy chooses the longer axis as its innermost loop
EXACT = 1 << 53  # integers up to which all are numbers of float64

# What is to be done, as `@plan` writes it: lengths of the outer and the inner loop; of both operands an address and
# two steps; axes of the result, and where their lengths are.
_WORDS = ["n0", "n1", "pa", "a0", "a1", "pb", "b0", "b1", "axes", "dims"]
PLAN = f"[{len(_WORDS)} x i64]"


def word(name: str, result: str = "") -> str:
    """Load a word of `%plan`."""
    return get(result or name, "plan", 8 * _WORDS.index(name), "ptr" if name in ("pa", "pb", "dims") else "i64")


def plans(at: Offsets) -> list[str]:
    """`@number_at`, `@fits`, `@axes`, `@plan`."""
    return [_number_at(), _shapes(at), _plan(at)]


def _number_at() -> str:
    """Write a number as float64 there, if that is what it is to NumPy beside an array of float64."""
    return f"""
define internal i1 @number_at(ptr %x, ptr %type, ptr %to) #1 {{
  %over = alloca i32
{one_of("type", float="float", float64="float64", number="number")}
  br i1 %abc, label %there, label %other
there:
{get("value", "x", VALUE, "double")}
  store double %value, ptr %to
  ret i1 true
other:
  %int = {load("int")}
  %whole = icmp eq ptr %type, %int
  br i1 %whole, label %look, label %no
look:
  %n = call i64 @PyLong_AsLongAndOverflow(ptr %x, ptr %over)
  %wrong = load i32, ptr %over
  %fits = icmp eq i32 %wrong, 0
  %up = add i64 %n, {EXACT}
  %near = icmp ule i64 %up, {2 * EXACT}
  %good = and i1 %fits, %near
  %float.n = sitofp i64 %n to double
  store double %float.n, ptr %to
  ret i1 %good
no:
  ret i1 false
}}"""


def _shapes(at: Offsets) -> str:
    """Of an ndarray, or of a number (null): whether it may be an operand, and its lengths and steps from the last axis.

    Axes of one element have steps of 0, as what is broadcast.
    """
    return f"""
define internal i1 @fits(ptr %nd, i32 %flags) #1 {{
  %number = icmp eq ptr %nd, null
  br i1 %number, label %yes, label %look
look:
{get("dtype", "nd", at.dtype)}
{get("has", "nd", at.flags, "i32")}
  %float64 = {load("float64_dtype")}
  %same = icmp eq ptr %dtype, %float64
  %kept = and i32 %has, %flags
  %all = icmp eq i32 %kept, %flags
  %good = and i1 %same, %all
  ret i1 %good
yes:
  ret i1 true
}}
define internal i32 @axes(ptr %nd) #1 {{
  %number = icmp eq ptr %nd, null
  br i1 %number, label %none, label %some
none:
  ret i32 0
some:
{get("axes", "nd", at.ndim, "i32")}
  ret i32 %axes
}}
define internal i64 @step(ptr %nd, i32 %axes, i32 %k) #1 {{
  %has = icmp sle i32 %k, %axes
  br i1 %has, label %look, label %none
look:
  %n = call i64 @along(ptr %nd, i32 %axes, i32 %k)
  %one = icmp eq i64 %n, 1
  br i1 %one, label %none, label %several
several:
{get("strides", "nd", at.dims + 8)}
  %axis = sub i32 %axes, %k
  %wide = sext i32 %axis to i64
  %where = getelementptr i64, ptr %strides, i64 %wide
  %step = load i64, ptr %where
  ret i64 %step
none:
  ret i64 0
}}
define internal i64 @together(i64 %p, i64 %q) #1 {{
  %same = icmp eq i64 %p, %q
  %qone = icmp eq i64 %q, 1
  %first = or i1 %same, %qone
  %pone = icmp eq i64 %p, 1
  %second = select i1 %pone, i64 %q, i64 -1
  %n = select i1 %first, i64 %p, i64 %second
  ret i64 %n
}}
define internal i1 @ordered(i64 %outer, i64 %inner) #1 {{
  %a = icmp eq i64 %outer, 0
  %b = icmp sge i64 %outer, %inner
  %c = icmp sge i64 %inner, 0
  %d = icmp sge i64 %outer, 0
  %ab = or i1 %a, %b
  %cd = and i1 %c, %d
  %good = and i1 %ab, %cd
  ret i1 %good
}}
define internal i1 @alike(ptr %a, ptr %b) #1 {{
entry:
  %m = call i32 @axes(ptr %a)
  %n = call i32 @axes(ptr %b)
  %anone = icmp eq ptr %a, null
  %bnone = icmp eq ptr %b, null
  %any = or i1 %anone, %bnone
  br i1 %any, label %yes, label %look
look:
  %same = icmp eq i32 %m, %n
  br i1 %same, label %loop, label %no
loop:
  %k = phi i32 [ 1, %look ], [ %next, %equal ]
  %going = icmp sle i32 %k, %m
  br i1 %going, label %body, label %yes
body:
  %p = call i64 @along(ptr %a, i32 %m, i32 %k)
  %q = call i64 @along(ptr %b, i32 %n, i32 %k)
  %pq = icmp eq i64 %p, %q
  %next = add i32 %k, 1
  br i1 %pq, label %equal, label %no
equal:
  br label %loop
yes:
  ret i1 true
no:
  ret i1 false
}}
define internal ptr @data(ptr %nd, ptr %otherwise) #1 {{
  %number = icmp eq ptr %nd, null
  br i1 %number, label %no, label %yes
no:
  ret ptr %otherwise
yes:
{get("data", "nd", DATA)}
  ret ptr %data
}}"""


def _plan(at: Offsets) -> str:
    """How two operands (null: the number at an address) go together; false where NumPy must do it."""

    def put(**words: str) -> str:
        return "\n".join(
            f"  %to.{w}{k} = getelementptr i64, ptr %to, i64 {_WORDS.index(w)}\n  store {value}, ptr %to.{w}{k}"
            for k, (w, value) in enumerate(words.items())
        )

    rows = put(n0="i64 %n0", n1="i64 %n1", a0="i64 %a0", a1="i64 %a1", b0="i64 %b0", b1="i64 %b1", axes="i64 %wide")
    rows = (rows + "\n" + put(dims="ptr %dims")).replace("%to.", "%to.rows.")
    return f"""
define internal i1 @plan(ptr %to, ptr %a, ptr %b, ptr %na, ptr %nb) #4 {{
entry:
  %anone = icmp eq ptr %a, null
  %bnone = icmp eq ptr %b, null
  %given = select i1 %anone, ptr %b, ptr %a
  %fita = call i1 @fits(ptr %a, i32 {ALIGNED})
  %fitb = call i1 @fits(ptr %b, i32 {ALIGNED})
  %fit = and i1 %fita, %fitb
  br i1 %fit, label %good, label %no
good:
  %pa = call ptr @data(ptr %a, ptr %na)
  %pb = call ptr @data(ptr %b, ptr %nb)
  %ma = call i32 @axes(ptr %a)
  %mb = call i32 @axes(ptr %b)
{put(pa="ptr %pa", pb="ptr %pb")}
  %wholea = call i1 @fits(ptr %a, i32 {CONTIGUOUS})
  %wholeb = call i1 @fits(ptr %b, i32 {CONTIGUOUS})
  %whole = and i1 %wholea, %wholeb
  br i1 %whole, label %pieces, label %rows
pieces:
  %alike = call i1 @alike(ptr %a, ptr %b)
  br i1 %alike, label %flat, label %rows
flat:
  %size = call i64 @size(ptr %given)
  %fa = select i1 %anone, i64 0, i64 8
  %fb = select i1 %bnone, i64 0, i64 8
{get("faxes", "given", at.ndim, "i32")}
{get("fdims", "given", at.dims)}
  %fwide = sext i32 %faxes to i64
{put(n0="i64 1", n1="i64 %size", a0="i64 0", a1="i64 %fa", b0="i64 0", b1="i64 %fb", axes="i64 %fwide")}
  %to.fdims = getelementptr i64, ptr %to, i64 {_WORDS.index("dims")}
  store ptr %fdims, ptr %to.fdims
  ret i1 true
rows:
  %more = icmp sgt i32 %ma, %mb
  %axes = select i1 %more, i32 %ma, i32 %mb
  %few = icmp sle i32 %axes, 2
  br i1 %few, label %lengths, label %no
lengths:
  %pa1 = call i64 @along(ptr %a, i32 %ma, i32 1)
  %pa0 = call i64 @along(ptr %a, i32 %ma, i32 2)
  %pb1 = call i64 @along(ptr %b, i32 %mb, i32 1)
  %pb0 = call i64 @along(ptr %b, i32 %mb, i32 2)
  %n1 = call i64 @together(i64 %pa1, i64 %pb1)
  %n0 = call i64 @together(i64 %pa0, i64 %pb0)
  %ok1 = icmp sge i64 %n1, 0
  %ok0 = icmp sge i64 %n0, 0
  %long = icmp sge i64 %n1, {SHORT_ROW}
  %one = icmp eq i64 %n0, 1
  %worth = or i1 %long, %one
  %a1 = call i64 @step(ptr %a, i32 %ma, i32 1)
  %a0 = call i64 @step(ptr %a, i32 %ma, i32 2)
  %b1 = call i64 @step(ptr %b, i32 %mb, i32 1)
  %b0 = call i64 @step(ptr %b, i32 %mb, i32 2)
  %ordera = call i1 @ordered(i64 %a0, i64 %a1)
  %orderb = call i1 @ordered(i64 %b0, i64 %b1)
  %ok = and i1 %ok0, %ok1
  %order = and i1 %ordera, %orderb
  %okorder = and i1 %ok, %order
  %all = and i1 %okorder, %worth
  %wide = sext i32 %axes to i64
  %skipped = sub i64 2, %wide
  %dims = getelementptr i64, ptr %to, i64 %skipped
{rows}
  ret i1 %all
no:
  ret i1 false
}}"""
