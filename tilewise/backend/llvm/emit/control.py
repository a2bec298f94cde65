"""Loops and their bounds as IR. In: a `Function` and Python functions that emit the inside. Out: blocks with phis."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tilewise.backend.llvm.emit.text import Function, Val, iota, vtype


def loop(
    fn: Function,
    start: str,
    stop: str,
    step: str,
    body: Callable[[str, list[Val]], list[Val]],
    carried: list[Val] | None = None,
) -> list[Val]:
    """for index in range(start, stop, step), with values carried between iterations; returns their last values."""
    carried = carried or []
    head, after, before = fn.fresh("head"), fn.fresh("after"), fn.block
    enter = fn.let(f"icmp slt i64 {start}, {stop}")
    fn.do(f"br i1 {enter}, label %{head}, label %{after}")
    fn.label(head)
    index, hole = "%" + fn.fresh("i"), len(fn.lines)
    state = [Val(fn, "%" + fn.fresh("c"), c.ty, c.lanes) for c in carried]
    latest = body(index, state)
    following = fn.let(f"add nsw i64 {index}, {step}")
    again = fn.let(f"icmp slt i64 {following}, {stop}")
    last = fn.block
    phis = [f"  {index} = phi i64 [ {start}, %{before} ], [ {following}, %{last} ]"]
    for phi, first, new in zip(state, carried, latest, strict=True):
        phis.append(
            f"  {phi.name} = phi {vtype(phi.ty, phi.lanes)} [ {first.name}, %{before} ], [ {new.name}, %{last} ]"
        )
    fn.lines[hole:hole] = phis
    fn.do(f"br i1 {again}, label %{head}, label %{after}")
    fn.label(after)
    return [
        first.make(f"phi {vtype(first.ty, first.lanes)} [ {first.name}, %{before} ], [ {new.name}, %{last} ]")
        for first, new in zip(carried, latest, strict=True)
    ]


def each(fn: Function, start: str, stop: str, step: str, body: Callable[[str], None]) -> None:
    """A loop that carries nothing."""

    def iteration(index: str, _: list[Val]) -> list[Val]:
        body(index)
        return []

    loop(fn, start, stop, step, iteration)


def either(fn: Function, condition: str, yes: Callable[[], None], no: Callable[[], None]) -> None:
    """One of two pieces of code."""
    first, second, after = fn.fresh("yes"), fn.fresh("no"), fn.fresh("after")
    fn.do(f"br i1 {condition}, label %{first}, label %{second}")
    for label, body in ((first, yes), (second, no)):
        fn.label(label)
        body()
        fn.do(f"br label %{after}")
    fn.label(after)


@contextmanager
def when(fn: Function, condition: str) -> Iterator[None]:
    """What is emitted inside runs if a condition holds."""
    inside, after = fn.fresh("inside"), fn.fresh("after")
    fn.do(f"br i1 {condition}, label %{inside}, label %{after}")
    fn.label(inside)
    yield
    fn.do(f"br label %{after}")
    fn.label(after)


def word_at(fn: Function, base: str, index: int | str) -> str:
    """Where a word after some place is."""
    return fn.let(f"getelementptr i64, ptr {base}, i64 {index}")


def word(fn: Function, base: str, index: int | str, ty: str = "i64") -> str:
    """A word after some place."""
    return fn.let(f"load {ty}, ptr {word_at(fn, base, index)}, align 8")


def tail_mask(fn: Function, index: str, stop: str, lanes: int) -> Val:
    """The lanes of index … index + lanes that are before stop (at least one is)."""
    rest = fn.let(f"sub i64 {stop}, {index}")
    count = minimum(fn, rest, str(lanes))
    missing = fn.let(f"sub i64 {lanes}, {count}")
    narrow = missing if lanes == 64 else fn.let(f"trunc i64 {missing} to i{lanes}")
    bits = fn.let(f"lshr i{lanes} -1, {narrow}")
    return Val(fn, fn.let(f"bitcast i{lanes} {bits} to <{lanes} x i1>"), "i1", lanes)


def minimum(fn: Function, a: str, b: str) -> str:
    """The smaller of two i64."""
    fn.declares.add("declare i64 @llvm.smin.i64(i64, i64)")
    return fn.let(f"call i64 @llvm.smin.i64(i64 {a}, i64 {b})")


def within(fn: Function, index: str, stop: str, lanes: int) -> Val:
    """The lanes of index … index + lanes that are before stop (there may be none)."""
    rest = Val(fn, fn.let(f"sub i64 {stop}, {index}"), "i64", 1).splat(lanes)
    return rest.make(f"icmp sgt {rest.text}, {iota(lanes)}", "i1")


def ceil_div(fn: Function, a: str, b: str) -> str:
    """a / b, rounded up."""
    up = fn.let(f"add i64 {a}, {fn.let(f'sub i64 {b}, 1')}")
    return fn.let(f"udiv i64 {up}, {b}")
