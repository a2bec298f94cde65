"""Long programs in parts: functions of LLVM for runs of statements. In: a block to emit. Out: the same, in calls.

LLVM's passes take more than twice as long for a function that is twice as long. In a long program variables live in a
frame in memory; a part copies those that it uses to its own stack (where LLVM makes registers of them), and back at its
end. It returns 0 to go on, 1 to leave the program (a fault, a result), 2 and so on to leave a block around it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any

from tilewise.backend.llvm.emit.text import Function, vtype
from tilewise.backend.llvm.math.scalar import IR_TYPE
from tilewise.backend.llvm.program import poll
from tilewise.kernel.program.ir import (
    Alloc,
    Block,
    For,
    HostCall,
    Invoke,
    Leave,
    Loop,
    Named,
    Program,
    Return,
    Set,
    Stmt,
    Var,
    View,
    results_of,
)
from tilewise.kernel.program.walk import BLOCKS, size, statements

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter, Slots

LONG = 400  # statements of a program that is cut into parts
PART = 120  # statements of a part


@dataclass
class Frame:
    """Where variables are in memory: words of each."""

    names: dict[str, int]
    arrays: dict[str, int]
    written: int
    words: int


def frame_of(p: Program) -> Frame | None:
    """The frame of a long program; None: it is short."""
    if size(p.body) < LONG:
        return None
    names, arrays, at = {}, {}, 1
    for n, t in p.names.items():
        names[n] = at
        at += 2 if t == "complex128" else 1
    for n, a in p.arrays.items():
        arrays[n] = at
        at += 3 + 2 * a.rank
    return Frame(names, arrays, 0, at)


def places(em: Emitter, frame: Frame, base: str) -> tuple[dict[str, str], dict[str, Slots], str]:
    """Variables that are in a frame."""

    def word(k: int) -> str:
        return em.fn.hoist(f"getelementptr i64, ptr {base}, i64 {k}")

    names = {n: word(k) for n, k in frame.names.items()}
    arrays = {}
    for n, k in frame.arrays.items():
        rank = em.p.arrays[n].rank
        fields_ = [word(k + j) for j in range(3 + 2 * rank)]
        arrays[n] = em.slots_at(fields_)
    return names, arrays, word(frame.written)


def block(em: Emitter, stmts: Block, emit: Any) -> None:
    """Emit a long block: runs of statements with loops become parts, long statements are looked into."""
    run: list[Stmt] = []
    held = 0

    def close() -> None:
        nonlocal run, held
        if held >= PART // 4 and any(isinstance(s, For | Loop) for s in statements(tuple(run))):
            _part(em, tuple(run))
        else:
            for s in run:
                emit(s)
        run, held = [], 0

    for s in stmts:
        n = size((s,))
        if n > PART or isinstance(s, Return | Leave):
            close()
            emit(s)
            continue
        run.append(s)
        held += n
        if held >= PART:
            close()
    close()


@dataclass
class _Used:
    names: dict[str, None]
    arrays: dict[str, None]
    set_names: dict[str, None]
    set_arrays: dict[str, None]
    labels: dict[str, None]
    count: Counter[str]  # how often a variable is met


def uses(p: Program) -> Counter[str]:
    """How often each variable is met in a program."""
    return _used(p, p.body).count


def _used(p: Program, stmts: Block) -> _Used:
    """The variables that statements read and write, and the labels outside that they leave to."""
    u = _Used({}, {}, {}, {}, {}, Counter())
    inside = {s.label for s in statements(stmts) if isinstance(s, Named)}

    def expression(e: Any) -> None:
        if isinstance(e, Var):
            u.names[e.name] = None
            u.count[e.name] += 1
            return
        if isinstance(e, tuple):
            for x in e:
                expression(x)
        elif is_dataclass(e):
            for f in fields(e):
                expression(getattr(e, f.name))
        elif isinstance(e, str) and e in p.arrays:
            u.arrays[e] = None
            u.count[e] += 1

    for s in statements(stmts):
        skip = BLOCKS.get(type(s), ())
        for f in fields(s):
            if f.name not in (*skip, "label", "line", "name"):
                expression(getattr(s, f.name))
        if isinstance(s, Set | For):
            u.set_names[s.name] = None
            u.count[s.name] += 1
        elif isinstance(s, Alloc | View):
            u.set_arrays[s.array] = None
        elif isinstance(s, HostCall | Invoke):
            for n in results_of(s):
                (u.set_arrays if n in p.arrays else u.set_names)[n] = None
                u.count[n] += 1
        elif isinstance(s, Leave) and s.label not in inside:
            u.labels[s.label] = None
    u.names.update(u.set_names)
    u.arrays.update(u.set_arrays)
    return u


def _part(em: Emitter, stmts: Block) -> None:
    """Emit statements as a function of their own, and a call of it."""
    frame, main = em.frame, em.fn
    assert frame is not None
    used = _used(em.p, stmts)
    fn = Function(f"{main.head.partition('@')[2].partition('(')[0]}.part{main.fresh('')}", "")
    fn.metadata = main.metadata
    name = fn.head.partition("@")[2].partition("(")[0]
    own = {n for n in (*used.names, *used.arrays) if _passing(n) and em.uses[n] == used.count[n]}
    kept = em.names, em.arrays, em.written, em.exit, em.labels, em.late, em.patience
    em.fn, em.late, em.exit = fn, [], fn.fresh("exit")
    fn.avx512, fn.pooling, em.scopes.fn = main.avx512, main.pooling, fn
    em.written = fn.hoist("alloca i64")
    em.names = {n: fn.hoist(f"alloca {_type(em.p.names[n])}") for n in used.names if n in em.p.names}
    em.arrays = {n: em.slots(em.p.arrays[n].rank) for n in used.arrays}
    for n, place in em.names.items():
        if n not in own:
            _move(fn, _type(em.p.names[n]), _word(fn, frame.names[n]), place)
    for n in em.arrays:
        if n in own:
            continue
        for k, place in enumerate(_fields(em.arrays[n])):
            _move(fn, "i64" if k else "ptr", _word(fn, frame.arrays[n] + k), place)
    _move(fn, "i64", _word(fn, frame.written), em.written)
    em.patience = poll.begin(em)
    back = fn.fresh("back")
    ways = {label: fn.fresh("out") for label in used.labels}
    em.labels = dict(ways)
    frame_, em.frame, em.places = em.frame, None, {}
    for s in stmts:
        em.statement(s)
        if isinstance(s, Leave | Return):
            break
    em.frame = frame_
    ends = [fn.block]
    em.jump(back)
    for lines in em.late:
        fn.lines += lines
    for label in (em.exit, *ways.values()):
        fn.label(label)
        ends.append(label)
        em.jump(back)
    fn.label(back)
    code = fn.let(f"phi i64 {', '.join(f'[ {k}, %{b} ]' for k, b in enumerate(ends))}")
    for n in used.set_names:
        if n in em.names and n not in own:
            _move(fn, _type(em.p.names[n]), em.names[n], _word(fn, frame.names[n]))
    for n in used.set_arrays:
        if n in own:
            continue
        for k, place in enumerate(_fields(em.arrays[n])):
            _move(fn, "i64" if k else "ptr", place, _word(fn, frame.arrays[n] + k))
    _move(fn, "i64", em.written, _word(fn, frame.written))
    head = f"define internal i64 @{name}(ptr noalias %frame, ptr noalias %objs, ptr noalias %out) noinline #0"
    text = "\n".join([head + " {", *fn.entry, *fn.lines, f"  ret i64 {code}", "}"])
    em.names, em.arrays, em.written, em.exit, em.labels, em.late, em.patience = kept
    em.places = {}
    em.fn = em.scopes.fn = main
    main.helpers.update(fn.helpers)
    main.helpers[name] = text
    main.declares |= fn.declares
    _call(em, name, list(ways))


def _passing(name: str) -> bool:
    """Whether a variable is set before it is read wherever it is used; those of allocations keep their memory."""
    return name.startswith("$") and not name.startswith("$a")


def _call(em: Emitter, name: str, labels: list[str]) -> None:
    fn = em.fn
    code = fn.let(f"call i64 @{name}(ptr {em.frame_at}, ptr %objs, ptr %out)")
    on = fn.fresh("on")
    ways = "".join(f" i64 {2 + k}, label %{em.labels[label]}" for k, label in enumerate(labels))
    fn.do(f"switch i64 {code}, label %{em.exit} [ i64 0, label %{on}{ways} ]")
    fn.label(on)


def _fields(slots: Slots) -> tuple[str, ...]:
    return (slots.data, slots.base, slots.ident, *slots.dims, *slots.strides)


def _word(fn: Function, k: int) -> str:
    return fn.let(f"getelementptr i64, ptr %frame, i64 {k}")


def _move(fn: Function, ty: str, source: str, target: str) -> None:
    fn.do(f"store {ty} {fn.let(f'load {ty}, ptr {source}')}, ptr {target}")


def _type(dtype: str) -> str:
    return vtype(IR_TYPE[dtype], 1)
