"""Arithmetic of known numbers (array/number.py), as LLVM IR. In: nothing. Out: text of functions.

What CPython calls for `a + b` where one is a float64 of our own class and the other a float. The result of float's
operator is NumPy's where there is nothing to tell; all else is left to the Python function.
"""

from __future__ import annotations

import struct

from tilewise.backend.handles import NUMERICAL
from tilewise.backend.llvm.handles.words import VALUE, get, give, load, one_of, type_of

LEAST, MOST = 1e-300, 1e300  # of results that are no overflow, no underflow and no NaN: as array/number.py
_OPERATIONS = dict(zip(NUMERICAL, ("fadd", "fsub", "fmul", "fdiv"), strict=True))


def numbers() -> list[str]:
    """`@new_number` and the operators."""
    return [_NEW, *(_operator(name) for name in NUMERICAL)]


_NEW = f"""
declare i32 @PyType_IsSubtype(ptr, ptr)
define internal ptr @new_number(double %value) #1 {{
  %type = {load("number")}
  %x = call ptr @PyType_GenericAlloc(ptr %type, i64 0)
  %none = icmp eq ptr %x, null
  br i1 %none, label %done, label %fill
fill:
  %x.value = getelementptr i8, ptr %x, i64 {VALUE}
  store double %value, ptr %x.value
  br label %done
done:
  ret ptr %x
}}
define internal i1 @is_float(ptr %type) #1 {{
{one_of("type", float="float", float64="float64", number="number")}
  ret i1 %abc
}}"""


def _operator(name: str) -> str:
    return f"""
define internal ptr @slot_number_{name}(ptr %a, ptr %b) #0 {{
{type_of("ta", "a")}
{type_of("tb", "b")}
  %fa = call i1 @is_float(ptr %ta)
  %fb = call i1 @is_float(ptr %tb)
  %floats = and i1 %fa, %fb
  br i1 %floats, label %go, label %slow
go:
{get("x", "a", VALUE, "double")}
{get("y", "b", VALUE, "double")}
  %r = {_OPERATIONS[name]} double %x, %y
  %size = call double @llvm.fabs.f64(double %r)
  %large = fcmp ogt double %size, {_hex(LEAST)}
  %small = fcmp olt double %size, {_hex(MOST)}
  %usual = and i1 %large, %small
  br i1 %usual, label %new, label %slow
new:
  %n = call ptr @new_number(double %r)
  ret ptr %n
slow:
  %array = {load("array")}
  %arraya = icmp eq ptr %ta, %array
  %arrayb = icmp eq ptr %tb, %array
  %arrays = or i1 %arraya, %arrayb
  br i1 %arrays, label %theirs, label %mine
theirs:
  %no = {load("notimplemented")}
  call void @Py_IncRef(ptr %no)
  ret ptr %no
mine:
  %number = {load("number")}
  %is = call i32 @PyType_IsSubtype(ptr %ta, ptr %number)
  %left = icmp ne i32 %is, 0
  br i1 %left, label %forward, label %backward
forward:
{give(f"number_{name}", "a", "b")}
backward:
{give(f"number_r{name}", "b", "a", name="g")}
}}"""


def _hex(value: float) -> str:
    """A float64 as LLVM's language has it."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
