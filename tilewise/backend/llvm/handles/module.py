"""Operators of handles as LLVM IR. In: where things lie in objects. Out: the text of a module.

The functions are what CPython calls for `a + b`, `a < b`, `a += b`, `-a`, `a ** b`, `a[k]` and `a[k] = v` (slots of a
type). Each is the first lines of its Python counterpart (array/operators.py, indexing.py, setitem.py): operands that
are known and small go to NumPy, and what comes back gets a handle. Everything else goes to the Python function, from
the start: nothing has been changed by then.
"""

from __future__ import annotations

from tilewise.backend.handles import BINARY, FUNCTIONS, STATE, UNARY, WORDS, Offsets
from tilewise.backend.llvm.handles.calls import call
from tilewise.backend.llvm.handles.keys import getitem, setitem
from tilewise.backend.llvm.handles.loops import QUICK, loops
from tilewise.backend.llvm.handles.numbers import numbers
from tilewise.backend.llvm.handles.parts import HEAD, declared, helpers
from tilewise.backend.llvm.handles.running import running
from tilewise.backend.llvm.handles.words import VALUE, get, give, known, load, type_of


def module(at: Offsets) -> str:
    """The whole module. Its entry writes the addresses of FUNCTIONS to a table."""
    called = call(at, _OPERANDS, _HOLD, _LET_GO, _FINISH)
    found = [HEAD, *declared(), *helpers(at), *loops(at), *numbers(), *_functions(), called, running(), _entry()]
    return "\n".join(found)


# What NumPy gave goes into a handle; what is no ndarray (a number, NotImplemented) is left to the Python function.
_FINISH = f"""  %failed = icmp eq ptr %r, null
  br i1 %failed, label %error, label %look
error:
  ret ptr null
look:
{type_of("kind", "r")}
  %isarray = icmp eq ptr %kind, %ndarray
  br i1 %isarray, label %boxed, label %again
boxed:
  %x = call ptr @box(ptr %r)
  ret ptr %x
again:
  call void @Py_DecRef(ptr %r)
  br label %slow"""

# Both operands as NumPy takes them, or on to %slow.
_OPERANDS = f"""{type_of("ta", "a")}
{type_of("tb", "b")}
  %array = {load("array")}
  %ndarray = {load("ndarray")}
  %left = icmp eq ptr %ta, %array
  %right = icmp eq ptr %tb, %array
  %xa = call ptr @operand(ptr %a, ptr %ta)
  %xb = call ptr @operand(ptr %b, ptr %tb)
  %hasa = icmp ne ptr %xa, null
  %hasb = icmp ne ptr %xb, null
  %arraya = and i1 %hasa, %left
  %arrayb = and i1 %hasb, %right
  %makea = call i1 @counts(ptr %ta, ptr %xb, i1 %arrayb)
  %makeb = call i1 @counts(ptr %tb, ptr %xa, i1 %arraya)
  %gooda = or i1 %hasa, %makea
  %goodb = or i1 %hasb, %makeb
  %good = and i1 %gooda, %goodb
  br i1 %good, label %sized, label %slow
sized:
  %sa = select i1 %left, ptr %xa, ptr %xb
  %sb = select i1 %right, ptr %xb, ptr %xa
  %room = call i32 @room(ptr %sa, ptr %sb)
  switch i32 %room, label %slow [ i32 1, label %go
                                  i32 2, label %large ]
large:"""


# Of what is larger, it is decided elsewhere when to record (schedule/promote.py), what waits for the next operator
# (array/chains/), and whose memory is overwritten (array/reuse.py): of operands that have names, nobody's.
_ASK = """  %may = call i1 @allowed()
  br i1 %may, label %go, label %slow
go:"""
_ASK_IF_NAMED = f"""  %staysa = call i1 @stays(ptr %a, ptr %xa, i1 %left)
  %staysb = call i1 @stays(ptr %b, ptr %xb, i1 %right)
  %stays = and i1 %staysa, %staysb
  br i1 %stays, label %wait, label %slow
wait:
  %alone = call i1 @nothing_waits()
  br i1 %alone, label %ask, label %slow
ask:
{_ASK}"""
_GO = """  br label %go
go:"""
REUSING = ("add", "sub", "mul", "truediv")
WAITING = (*REUSING, "neg")  # operators that may wait for the next one

# Another thread may give a handle another ndarray in the meantime. (CPython takes null for nothing to count.)
_HOLD = """  %fresha = call ptr @fresh(ptr %a, i1 %makea)
  %freshb = call ptr @fresh(ptr %b, i1 %makeb)
  %na = select i1 %makea, ptr %fresha, ptr %xa
  %nb = select i1 %makeb, ptr %freshb, ptr %xb
  call void @Py_IncRef(ptr %xa)
  call void @Py_IncRef(ptr %xb)"""
_LET_GO = """  call void @Py_DecRef(ptr %xa)
  call void @Py_DecRef(ptr %xb)
  call void @Py_DecRef(ptr %fresha)
  call void @Py_DecRef(ptr %freshb)"""


# Operands of float64 that a loop of ours knows: arrays as they are (null: none), numbers at an address.
_QUICK_OPERANDS = """  %qa = select i1 %left, ptr %xa, ptr null
  %qb = select i1 %right, ptr %xb, ptr null
  br i1 %left, label %quicka, label %tellb
quicka:
  br i1 %right, label %quick, label %tella
tella:
  %knowb = call i1 @number_at(ptr %b, ptr %tb, ptr %number)
  br i1 %knowb, label %quick, label %usual
tellb:
  %knowa = call i1 @number_at(ptr %a, ptr %ta, ptr %number)
  br i1 %knowa, label %quick, label %usual
quick:"""


def _by_loop(name: str) -> str:
    """The result of a loop of ours, or on to %usual."""
    return f"""{_QUICK_OPERANDS}
  %q = call ptr @quick_{name}(ptr %qa, ptr %qb, ptr %number, ptr %number)
  %notq = icmp eq ptr %q, null
  br i1 %notq, label %usual, label %quickly
quickly:
  %qx = call ptr @box(ptr %q)
  ret ptr %qx
usual:"""


def _two(name: str, arguments: str, call: str, slow: str) -> str:
    return f"""
define internal ptr @slot_{name}({arguments}) #0 {{
  %number = alloca double
{_OPERANDS}
{_ASK_IF_NAMED if name in REUSING else _ASK}
{_by_loop(name) if name in QUICK else ""}
{_HOLD}
  {call}
{_LET_GO}
{_FINISH}
slow:
{slow}
}}"""


def _either(forward: str, backward: str) -> str:
    return f"""  br i1 %left, label %forward, label %backward
forward:
{give(forward, "a", "b")}
backward:
{give(backward, "b", "a", name="g")}"""


def _functions() -> list[str]:
    found = []
    for name, function in BINARY.items():
        call = f"%r = call ptr @PyNumber_{function}(ptr %na, ptr %nb)"
        found.append(_two(name, "ptr %a, ptr %b", call, _either(name, f"r{name}")))
        found.append(_in_place(f"i{name}", f"InPlace{function}"))
    for name, function in UNARY.items():
        found.append(_one(name, function))
    table = f"""  %methods = getelementptr [{WORDS} x ptr], ptr @state, i64 0, i64 {STATE["lt"]}
  %which = sext i32 %op to i64
  %method.at = getelementptr ptr, ptr %methods, i64 %which
  %method = load ptr, ptr %method.at
  %rf = call ptr @python2(ptr %method, ptr %a, ptr %b)
  ret ptr %rf"""
    call = "%r = call ptr @PyObject_RichCompare(ptr %na, ptr %nb, i32 %op)"
    found.append(_two("compare", "ptr %a, ptr %b, i32 %op", call, table))
    found += [_power(), _matmul(), getitem(), setitem()]
    return found


def _in_place(name: str, function: str) -> str:
    quick = f"""{_QUICK_OPERANDS}
  %q = call i1 @write_{name[1:]}(ptr %qa, ptr %qb, ptr %number)
  br i1 %q, label %written, label %usual
written:
  call void @Py_IncRef(ptr %a)
  ret ptr %a
usual:"""
    return f"""
define internal ptr @slot_{name}(ptr %a, ptr %b) #0 {{
  %number = alloca double
{_OPERANDS}
{_GO}
  %free = call i1 @unshared(ptr %a)
  br i1 %free, label %write, label %slow
write:
{quick if name[1:] in QUICK else ""}
{_HOLD}
  %r = call ptr @PyNumber_{function}(ptr %na, ptr %nb)
{_LET_GO}
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %error, label %done
error:
  ret ptr null
done:
  call void @Py_DecRef(ptr %r)
  call void @Py_IncRef(ptr %a)
  ret ptr %a
slow:
{give(name, "a", "b")}
}}"""


def _one(name: str, function: str) -> str:
    return f"""
define internal ptr @slot_{name}(ptr %a) #0 {{
  %unused = alloca double
  store double 0.0, ptr %unused
  %ndarray = {load("ndarray")}
{known("a", "sized")}
sized:
  %room = call i32 @room(ptr %na, ptr %na)
  switch i32 %room, label %slow [ i32 1, label %go
                                  i32 2, label %large ]
large:
  %alone = {"call i1 @nothing_waits()" if name in WAITING else "icmp eq i32 %room, 2"}
  br i1 %alone, label %go, label %slow
go:
  %q = call ptr @quick_{name}(ptr %na, ptr null, ptr null, ptr %unused)
  %notq = icmp eq ptr %q, null
  br i1 %notq, label %usual, label %quickly
quickly:
  %qx = call ptr @box(ptr %q)
  ret ptr %qx
usual:
  call void @Py_IncRef(ptr %na)
  %r = call ptr @PyNumber_{function}(ptr %na)
  call void @Py_DecRef(ptr %na)
{_FINISH}
slow:
{give(name, "a")}
}}"""


def _power() -> str:
    """Only of arrays to numbers; two arrays are the Python function's. With a modulus, Python asks no right operand."""
    return f"""
define internal ptr @slot_pow(ptr %a, ptr %b, ptr %modulo) #0 {{
  %exponent = alloca double
  %ndarray = {load("ndarray")}
  %none = {load("none")}
  %array = {load("array")}
{type_of("ta", "a")}
{type_of("tb", "b")}
  %left = icmp eq ptr %ta, %array
  %usual = icmp eq ptr %modulo, %none
  %try = and i1 %left, %usual
  br i1 %try, label %first, label %slow
first:
{known("a", "second")}
second:
  %nb = call ptr @number(ptr %b, ptr %tb)
  %notb = icmp eq ptr %nb, null
  br i1 %notb, label %slow, label %sized
sized:
  %float64 = {load("float64")}
  %typed = icmp eq ptr %tb, %float64
  %told = call i1 @number_at(ptr %b, ptr %tb, ptr %exponent)
  %e = load double, ptr %exponent
  %two = fcmp oeq double %e, 2.0
  %toldtwo = and i1 %told, %two
  %square = select i1 %typed, i1 false, i1 %toldtwo
  %room = call i32 @room(ptr %na, ptr %na)
  switch i32 %room, label %slow [ i32 1, label %go
                                  i32 2, label %large ]
large:
  br i1 %square, label %larger, label %go
larger:
  %stays = call i1 @stays(ptr %a, ptr %na, i1 true)
  br i1 %stays, label %named, label %slow
named:
  %alone = call i1 @nothing_waits()
  br i1 %alone, label %go, label %slow
go:
  br i1 %square, label %quick, label %otherwise
quick:
  %q = call ptr @quick_mul(ptr %na, ptr %na, ptr null, ptr null)
  %notq = icmp eq ptr %q, null
  br i1 %notq, label %otherwise, label %quickly
quickly:
  %qx = call ptr @box(ptr %q)
  ret ptr %qx
otherwise:
  call void @Py_IncRef(ptr %na)
  %r = call ptr @PyNumber_Power(ptr %na, ptr %nb, ptr %none)
  call void @Py_DecRef(ptr %na)
{_FINISH}
slow:
  br i1 %left, label %forward, label %other
forward:
{give("pow", "a", "b", "modulo")}
other:
  %right = icmp eq ptr %tb, %array
  %reflected = and i1 %right, %usual
  br i1 %reflected, label %backward, label %refused
refused:
  %no = {load("notimplemented")}
  call void @Py_IncRef(ptr %no)
  ret ptr %no
backward:
{give("rpow", "b", "a", name="g")}
}}"""


def _matmul() -> str:
    """As dispatch.multiplied: of vectors in one piece, `dot` has the same bits in less time. Numbers get our class."""
    return f"""
define internal ptr @slot_matmul(ptr %a, ptr %b) #0 {{
{type_of("ta", "a")}
{type_of("tb", "b")}
  %array = {load("array")}
  %ndarray = {load("ndarray")}
  %left = icmp eq ptr %ta, %array
  %right = icmp eq ptr %tb, %array
  %both = and i1 %left, %right
  br i1 %both, label %first, label %slow
first:
{known("a", "second")}
second:
{known("b", "sized")}
sized:
  %few = call i1 @few(ptr %na, ptr %nb)
  br i1 %few, label %go, label %slow
go:
  %dotted = call i1 @vectors(ptr %na, ptr %nb)
  call void @Py_IncRef(ptr %na)
  call void @Py_IncRef(ptr %nb)
  br i1 %dotted, label %dot, label %product
dot:
  %method = {load("dot")}
  %rd = call ptr @python2(ptr %method, ptr %na, ptr %nb)
  br label %done
product:
  %rp = call ptr @PyNumber_MatrixMultiply(ptr %na, ptr %nb)
  br label %done
done:
  %r = phi ptr [ %rd, %dot ], [ %rp, %product ]
  call void @Py_DecRef(ptr %na)
  call void @Py_DecRef(ptr %nb)
  %failed = icmp eq ptr %r, null
  br i1 %failed, label %error, label %look
error:
  ret ptr null
look:
{type_of("kind", "r")}
  %isarray = icmp eq ptr %kind, %ndarray
  br i1 %isarray, label %boxed, label %other
boxed:
  %x = call ptr @box(ptr %r)
  ret ptr %x
other:
  %float64 = {load("float64")}
  %isnumber = icmp eq ptr %kind, %float64
  br i1 %isnumber, label %counted, label %again
counted:
{get("value", "r", VALUE, "double")}
  %n = call ptr @new_number(double %value)
  call void @Py_DecRef(ptr %r)
  ret ptr %n
again:
  call void @Py_DecRef(ptr %r)
  br label %slow
slow:
{_either("matmul", "rmatmul")}
}}"""


def _entry() -> str:
    stores = "\n".join(
        f"  %p{k} = getelementptr ptr, ptr %out, i64 {k}\n  store ptr @slot_{name}, ptr %p{k}"
        for k, name in enumerate(FUNCTIONS)
    )
    return f"define void @kernel(ptr %unused, ptr %out) #0 {{\n{stores}\n  ret void\n}}"
