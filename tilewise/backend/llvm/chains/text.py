"""One loop for an expression, as LLVM IR. In: an Expression. Out: the text of a module.

LLVM makes vectors of it. Every operator rounds as NumPy's: nothing is reordered, and no product is added unrounded.
"""

from __future__ import annotations

from tilewise.backend.chains import BROADCAST, CONTIGUOUS, DATA, STRIDED, Expression
from tilewise.backend.llvm.compile.build import ENTRY
from tilewise.backend.llvm.emit.text import OPTIMISED
from tilewise.kernel.family import ARM

TYPES = {"d": "double", "f": "float", "l": "i64"}
_FLOATS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INTEGERS = {"+": "add", "-": "sub", "*": "mul"}
# The C library's numbers of exceptions: invalid, division by zero, overflow; and all of them.
_TOLD, _ALL = (7, 31) if ARM else (13, 61)


def module(e: Expression) -> str:
    """The whole module."""
    exceptions = e.kind != "l"
    lines = [_row(e), f"define i32 @{ENTRY}(ptr %given, ptr %sizes) #0 {{", "entry:"]
    arrays = len(e.ways)
    for k in range(arrays):
        lines += [
            f"  %g{k} = getelementptr i64, ptr %given, i64 {k}",
            f"  %id{k} = load ptr, ptr %g{k}",
            f"  %d{k} = getelementptr i8, ptr %id{k}, i64 {DATA}",
            f"  %p{k}.0 = load ptr, ptr %d{k}",
        ]
    for k in range(e.text.count("n")):
        lines += _number(e.kind, k, arrays + k)
    depth = e.outer + 1
    for k in range(depth * (arrays + 1)):
        lines += [f"  %z{k} = getelementptr i64, ptr %sizes, i64 {k}", f"  %s{k} = load i64, ptr %z{k}"]
    if exceptions:
        lines.append(f"  %cleared = call i32 @feclearexcept(i32 {_ALL})")
    lines += _nest(e, 0)
    lines.append(f"  %told = call i32 @fetestexcept(i32 {_TOLD})" if exceptions else "  %told = add i32 0, 0")
    lines += ["  ret i32 %told", "}", "declare i32 @feclearexcept(i32)", "declare i32 @fetestexcept(i32)"]
    lines.append(f'attributes #0 = {{ nounwind {OPTIMISED} "prefer-vector-width"="512" }}')
    lines.append(f'attributes #1 = {{ nounwind noinline {OPTIMISED} "prefer-vector-width"="512" }}')
    return "\n".join(lines) + "\n"


def _number(kind: str, k: int, at: int) -> list[str]:
    wide = "i64" if kind == "l" else "double"
    name = "wide" if kind == "f" else "n"
    lines = [f"  %h{k} = getelementptr i64, ptr %given, i64 {at}", f"  %{name}{k} = load {wide}, ptr %h{k}"]
    return [*lines, f"  %n{k} = fptrunc double %wide{k} to float"] if kind == "f" else lines


def _nest(e: Expression, level: int) -> list[str]:
    """The loops around a row, from a level on; `%pK.L` are pointers inside of L loops."""
    arrays, depth = len(e.ways), e.outer + 1
    if level == e.outer:
        pointers = [f"ptr %p{k}.{level}" for k in range(arrays)]
        numbers = [f"{TYPES[e.kind]} %n{k}" for k in range(e.text.count("n"))]
        steps = [f"i64 %s{depth + k * depth + level}" for k in range(arrays)]
        return [f"  call void @row({', '.join([f'i64 %s{level}', *pointers, *numbers, *steps])})"]
    before = "entry" if level == 0 else f"body{level - 1}"
    lines = [f"  br label %head{level}", f"head{level}:"]
    lines.append(f"  %i{level} = phi i64 [ 0, %{before} ], [ %next{level}, %tail{level} ]")
    lines.append(f"  %go{level} = icmp slt i64 %i{level}, %s{level}")
    lines += [f"  br i1 %go{level}, label %body{level}, label %end{level}", f"body{level}:"]
    for k in range(arrays):
        step = f"%s{depth + k * depth + level}"
        lines.append(f"  %o{k}.{level} = mul i64 %i{level}, {step}")
        lines.append(f"  %p{k}.{level + 1} = getelementptr i8, ptr %p{k}.{level}, i64 %o{k}.{level}")
    lines += _nest(e, level + 1)
    lines += [f"  br label %tail{level}", f"tail{level}:", f"  %next{level} = add i64 %i{level}, 1"]
    return [*lines, f"  br label %head{level}", f"end{level}:"]


def _row(e: Expression) -> str:
    """The innermost loop. The result overlaps with no array."""
    ty = TYPES[e.kind]
    arrays = len(e.ways)
    given = ["i64 %n", "ptr noalias %p0", *(f"ptr %p{k}" for k in range(1, arrays))]
    given += [f"{ty} %n{k}" for k in range(e.text.count("n"))] + [f"i64 %s{k}" for k in range(arrays)]
    lines = [f"define internal void @row({', '.join(given)}) #1 {{", "entry:"]
    lines += ["  %some = icmp sgt i64 %n, 0", "  br i1 %some, label %loop, label %done", "loop:"]
    lines.append("  %i = phi i64 [ 0, %entry ], [ %next, %loop ]")

    def place(k: int) -> str:
        way = e.ways[k]
        if way == BROADCAST:
            return f"%p{k}"
        if way == CONTIGUOUS:
            lines.append(f"  %q{k} = getelementptr {ty}, ptr %p{k}, i64 %i")
        else:
            assert way == STRIDED
            lines.append(f"  %o{k} = mul i64 %i, %s{k}")
            lines.append(f"  %q{k} = getelementptr i8, ptr %p{k}, i64 %o{k}")
        return f"%q{k}"

    target = place(0)
    stack: list[str] = []
    array, number = 1, 0
    operators = _INTEGERS if e.kind == "l" else _FLOATS
    for at, letter in enumerate(e.text):
        if letter == "n":
            stack.append(f"%n{number}")
            number += 1
            continue
        if letter == "a":
            lines.append(f"  %v{at} = load {ty}, ptr {place(array)}, align 1")
            array += 1
        elif letter == "m":
            lines.append(
                f"  %v{at} = " + (f"sub i64 0, {stack.pop()}" if e.kind == "l" else f"fneg {ty} {stack.pop()}")
            )
        elif letter == "q":
            x = stack.pop()
            lines.append(f"  %v{at} = {operators['*']} {ty} {x}, {x}")
        else:
            y, x = stack.pop(), stack.pop()
            lines.append(f"  %v{at} = {operators[letter]} {ty} {x}, {y}")
        stack.append(f"%v{at}")
    lines.append(f"  store {ty} {stack.pop()}, ptr {target}, align 1")
    lines += ["  %next = add i64 %i, 1", "  %more = icmp slt i64 %next, %n"]
    lines += ["  br i1 %more, label %loop, label %done", "done:", "  ret void", "}"]
    assert not stack
    return "\n".join(lines)
