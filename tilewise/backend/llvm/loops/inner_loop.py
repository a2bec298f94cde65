"""The loop inside of a body. In: a `Frame`, what is known before. Out: a loop with its states in registers.

An iteration is a function of the states and of what no iteration changes. So if no bit of any state changes in an
iteration, none will in any later one, and the loop ends there. (Numbers that differ between iterations rule that out.)

Points go through the iterations in vectors, or in groups of single points where that is quicker (`bodies.one_by_one`).
"""

from __future__ import annotations

import numpy as np

from tilewise.backend.llvm.emit.bodies import one_by_one
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.text import COMPLEX, Val, anywhere, of_lanes, vtype
from tilewise.kernel.loops import CARRIED, CARRY, TABLE, Instr

LOOK_EACH = 8  # iterations, where all bits are compared; a power of two
VECTORS = {4: 6, 2: 10}  # vectors of points that go through the iterations together, for so many values alive at most
ONES = 4  # single points that go through the iterations together, at most


def together(frame: Frame) -> int:
    """Vectors of points whose iterations run at once: they hide latencies as long as states stay in registers."""
    kernel, part = frame.kernel, frame.kernel.loop_body
    assert part is not None
    if one_by_one(kernel, frame.spec.machine):
        return max(1, ONES // frame.lanes)
    states = sum(kernel.body[k].fn == CARRIED for k in part)
    base = len(kernel.inputs) + len(kernel.params)
    used = {a for k in part for a in kernel.body[k].args if a < base + part.start}
    first = {kernel.body[k].args[0] for k in part if kernel.body[k].fn == CARRIED}
    alive = states + len([a for a in used - first if a < len(kernel.inputs) or a >= base])
    return next((n for n, most in VECTORS.items() if alive <= most), 1)


def emit(frame: Frame, known: list[Val], lanes: int, mask: Val | None) -> None:
    """Append the values of the part, as they are after its last iteration."""
    if not 1 < lanes <= ONES or not one_by_one(frame.kernel, frame.spec.machine):
        _emit(frame, [known], lanes, mask)
        return
    points = [
        [frame.constant(v, 1) if frame.is_constant(v) else x.shuffle(i, 1) for v, x in enumerate(known)]
        for i in range(lanes)
    ]
    _emit(frame, points, 1, None)
    for v in range(len(known), len(points[0])):
        ones = [p[v] for p in points]
        if frame.instr(v).fn == CARRY:
            known.append(of_lanes(ones))
        else:
            known.append(Val(frame.fn, "poison", ones[0].ty, lanes))


def _emit(frame: Frame, points: list[list[Val]], lanes: int, mask: Val | None) -> None:
    """The same for several points, or vectors of points, at once, each with what is known of it."""
    fn, kernel = frame.fn, frame.kernel
    part = kernel.loop_body
    assert part is not None
    base = len(points[0])
    body = [kernel.body[k] for k in part]
    states = [i for i in body if i.fn == CARRIED]
    count = frame.constant(body[0].args[0], 1)
    head, before = fn.fresh("iteration"), fn.block
    fn.do(f"br label %{head}")
    fn.label(head)
    hole = len(fn.lines)
    iteration = "%" + fn.fresh("t")
    phis: list[tuple[Val, Val, Val]] = []  # states, as they are at first, as they are next
    for known in points:
        first = [known[i.args[0]] for i in states]
        entering = [Val(fn, "%" + fn.fresh("s"), f.ty, f.lanes) for f in first]
        known += [Val(fn, iteration, "i64", 1), *entering]
        for j, instr in enumerate(body[1 + len(states) :], 1 + len(states)):
            if instr.fn == CARRY:
                known.append(known[instr.args[1]])
            elif instr.fn.startswith(TABLE):
                known.append(frame.table(int(instr.fn.removeprefix(TABLE)), iteration).splat(lanes))
            else:
                known.append(frame.evaluate(base + j, known.__getitem__, lanes))
        phis += zip(entering, first, known[len(known) - len(states) :], strict=True)
    following = fn.let(f"add nsw i64 {iteration}, 1")
    again = fn.let(f"icmp slt i64 {following}, {count.name}")
    after = fn.fresh("after")
    back = [fn.block]
    if kernel.tables:
        fn.do(f"br i1 {again}, label %{head}, label %{after}")
    else:
        back = _leave_early(frame, points, body, following, again, mask, head, after)
    rows = [(iteration, "i64", "0", following)]
    rows += [(s.name, vtype(s.ty, s.lanes), f.name, n.name) for s, f, n in phis]
    fn.lines[hole:hole] = [
        f"  {name} = phi {ty} [ {start}, %{before} ], " + ", ".join(f"[ {new}, %{b} ]" for b in back)
        for name, ty, start, new in rows
    ]
    fn.label(after)


def _leave_early(
    frame: Frame,
    points: list[list[Val]],
    body: list[Instr],
    following: str,
    again: str,
    mask: Val | None,
    head: str,
    after: str,
) -> list[str]:
    """End an iteration: go on while iterations are left and a state has changed. Gives the blocks that go on."""
    fn = frame.fn
    ends = [i for i in body if i.fn == CARRY and i.args[0] != i.args[1]]
    guards = {i: _guard(frame, i) for i in ends}
    sure = all(g is not None for g in guards.values())
    look, back = fn.fresh("look"), []
    if sure:
        fn.do(f"br i1 {again}, label %{look}, label %{after}")
    else:
        some = fn.fresh("some")
        fn.do(f"br i1 {again}, label %{some}, label %{after}")
        fn.label(some)
        phase = fn.let(f"and i64 {following}, {LOOK_EACH - 1}")
        now = fn.let(f"icmp eq i64 {phase}, 0")
        back.append(fn.block)
        fn.do(f"br i1 {now}, label %{look}, label %{head}")
    fn.label(look)
    changes: list[Val] = []
    for known in points:
        for value, negated in dict.fromkeys(g for g in guards.values() if g is not None):
            changes.append(~known[value] if negated else known[value])
        for i in ends:
            if guards[i] is None:
                changes += _differ(known[i.args[0]], known[i.args[1]])
    changed = None if not changes else changes[0]
    for more in changes[1:]:
        changed = changed | more  # type: ignore[operator]
    if changed is None:
        fn.do(f"br label %{after}")
        return back
    if mask is not None:
        changed = changed & mask
    back.append(fn.block)
    fn.do(f"br {anywhere(changed).text}, label %{head}, label %{after}")
    return back


def _guard(frame: Frame, carry: Instr) -> tuple[int, bool] | None:
    """A bool without which the state stays as it is (or one with which it does: negated); None if there is none."""
    state, value = carry.args
    made = frame.instr(value) if not frame.is_constant(value) and value >= frame.n_inputs else None
    if made is None:
        return None
    if made.fn == "where" and state in made.args[1:]:
        return made.args[0], made.args[1] == state
    if made.fn == "add" and state in made.args and np.dtype(made.dtype).kind in "iu":
        other = made.args[made.args[0] == state]
        if other >= frame.n_inputs and not frame.is_constant(other):
            cast = frame.instr(other)
            if cast.fn == "cast" and frame.kernel.dtypes[cast.args[0]] == "bool":
                return cast.args[0], False
    return None


def _differ(a: Val, b: Val) -> list[Val]:
    """Where the bits of two values differ."""
    if a.ty in COMPLEX:
        return [d for x, y in zip(a.parts, b.parts, strict=True) for d in _differ(x, y)]
    if a.ty == "i1":
        return [a ^ b]
    return [a.bits().cmp("ne", b.bits()) if a.is_float else a.cmp("ne", b)]
