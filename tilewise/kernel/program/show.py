"""A program as text. In: a program. Out: lines, one for each statement; equal texts are equal programs."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.kernel.program.ir import (
    INT,
    Alloc,
    Apart,
    Block,
    Const,
    Dim,
    Expr,
    Fail,
    For,
    HostCall,
    If,
    Invoke,
    Leave,
    Load,
    Loop,
    Named,
    Op,
    Param,
    Pick,
    Product,
    Program,
    Return,
    Set,
    Stmt,
    Store,
    Var,
    View,
)


def text(p: Program) -> str:
    """The whole program."""
    lines = [f"program {p.name}{'' if p.apart else ', arguments may overlap'}{', short arguments' * p.short}"]
    lines[0] += ", a task" * p.task
    lines += [f"  param {x.name} {x.dtype}{' written' * x.written}{_ends(x)}" for x in p.params]
    for name, a in p.arrays.items():
        facts = "dense" if a.dense else "unit" if a.unit else "strided"
        lines.append(f"  array {name} {a.dtype} x{a.rank} {facts} in {', '.join(sorted(a.roots))}")
    lines += [f"  name {n} {t}" for n, t in p.names.items()]
    lines += [f"  fault {k} {f.error} {f.message!r} line {f.line}" for k, f in enumerate(p.faults)]
    lines += [f"  result {k} {' '.join(r)}" for k, r in enumerate(p.results)]
    return "\n".join([*lines, *_block(p.body, "  "), *map(text, p.functions)])


def _ends(p: Param) -> str:
    if p.width:
        return f" of width {p.width}"
    known = p.array is None and p.dtype == INT and (p.low, p.high) != (-(1 << 63), (1 << 63) - 1)
    return f" from {p.low} to {p.high}" if known else ""


def _block(block: Block, indent: str) -> Iterator[str]:
    for s in block:
        yield from _statement(s, indent)


def _statement(s: Stmt, indent: str) -> Iterator[str]:
    deeper = indent + "  "
    if isinstance(s, Set):
        yield f"{indent}{s.name} := {expr(s.value)}"
    elif isinstance(s, Store):
        yield f"{indent}{s.array}{_index(s.index, s.faults)} := {expr(s.value)}"
    elif isinstance(s, If):
        yield f"{indent}if {expr(s.test)}:"
        yield from _block(s.then, deeper)
        if s.other:
            yield f"{indent}else:"
            yield from _block(s.other, deeper)
    elif isinstance(s, For):
        span = f"{expr(s.start)}, {expr(s.stop)}, {expr(s.step)}"
        how = (
            " rarely" * s.rare
            + " independent" * s.independent
            + " parallel" * s.parallel
            + " kept" * s.kept
            + " restarts" * s.restarts
            + "".join(f" adding to {n}" for n in s.sums)
        )
        yield f"{indent}for {s.name} in range({span}):{how}  # line {s.line}"
        yield from _block(s.body, deeper)
        if s.proved:
            yield f"{indent}or, if subscripts are in range:"
            yield from _block(s.proved, deeper)
    elif isinstance(s, Loop):
        yield f"{indent}loop:  # line {s.line}"
        yield from _block(s.body, deeper)
    elif isinstance(s, Named):
        yield f"{indent}block {s.label}:"
        yield from _block(s.body, deeper)
    elif isinstance(s, Leave):
        yield f"{indent}leave {s.label}"
    elif isinstance(s, Return):
        values = ", ".join(v if isinstance(v, str) else expr(v) for v in s.values)
        yield f"{indent}return {s.which}({values})"
    elif isinstance(s, Fail):
        yield f"{indent}fail {s.fault}({', '.join(map(expr, s.values))})"
    elif isinstance(s, Alloc):
        how, shape = "zeros" if s.zero else "allocate", ", ".join(map(expr, s.shape))
        yield f"{indent}{s.array} := {how}({shape}) !{s.fault} !{s.huge} !{s.full}{' private' * s.private}"
    elif isinstance(s, View):
        at = [f"{axis}: {expr(i)}" for axis, i in s.at]
        spans = [f"{x.axis}: {expr(x.start)} + {expr(x.step)} * {expr(x.length)}" for x in s.spans]
        part = f"at ({', '.join(at)}) along ({', '.join(spans)}){' renamed' * s.renamed}"
        yield f"{indent}{s.array} := view of {s.source} {part}"
    elif isinstance(s, Product):
        yield f"{indent}{s.array} := {s.left} @ {s.right}"
    elif isinstance(s, Invoke):
        inputs = ", ".join(v if isinstance(v, str) else expr(v) for v in s.inputs)
        results = " or ".join(f"({', '.join(r)})" for r in s.results)
        yield f"{indent}{s.which}, {results} := function {s.function}({inputs}) !{s.deep} !{s.stack}"
    elif isinstance(s, HostCall):
        inputs = ", ".join(v if isinstance(v, str) else expr(v) for v in s.inputs)
        notes = f"{' shown' * s.shown}{' effect' * s.effect}{' writes ' * bool(s.writes)}{', '.join(s.writes)}"
        notes += f" in lengths {s.lengths}" * bool(s.lengths) + f" {s.part}" * bool(s.part)
        draw = f" draws {s.draw}" if s.draw else ""
        yield f"{indent}{', '.join(s.results)} := host {s.which}({inputs}) !{s.fault}{notes}{draw}"


def _index(index: tuple[Expr, ...], faults: tuple[int, ...]) -> str:
    return "[" + ", ".join(expr(i) + (f" !{f}" if f >= 0 else "") for i, f in zip(index, faults, strict=True)) + "]"


def expr(e: Expr) -> str:
    """An expression."""
    if isinstance(e, Const):
        return f"{e.value!r}:{e.dtype}" if e.dtype not in ("int64", "bool") else repr(e.value)
    if isinstance(e, Var):
        return e.name
    if isinstance(e, Dim):
        return f"dim({e.array}, {e.axis})"
    if isinstance(e, Load):
        return f"{e.array}{_index(e.index, e.faults)}"
    if isinstance(e, Pick):
        return f"({expr(e.yes)} if {expr(e.test)} else {expr(e.no)})"
    if isinstance(e, Apart):
        return f"apart({e.first}, {e.second})"
    assert isinstance(e, Op)
    notes = (f" !{e.fault}" if e.fault >= 0 else "") + (" loose" if e.loose else "") + (" exact" if e.exact else "")
    return f"{e.fn}.{e.dtype}({', '.join(map(expr, e.args))}){notes}"
