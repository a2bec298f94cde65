"""The loop grammar, on one page. In: what a planner fused. Out: a hashable `Kernel`. Run by `interpret` or a target.

A kernel visits every point of an iteration space once. At each point it reads one element of every input (inputs are
arrays that broadcast, right-aligned, to the space), evaluates `body`, and hands values to its outputs. Values are
numbered: inputs, then params, then one per instruction. What an output does with its value, and the shape of its array:

    store       Output(v)                         the space
    reduce      Output(v, "add")                  the kept dims; accumulated over the reduced ones, in v's dtype
    arg         Output(v, "argmin")               the kept dims, int64: the row-major position in the reduced dims
    bucket      Output(v, "add", key=k)           (buckets, *kept dims); each point goes to bucket k, or nowhere
    scan        Output(v, "add", scan=True)       the space; the running reduction along the one reduced dim

A reduction may lie inside: Instr("inner:add", (v,)) adds v up along the last dim of the space, which is the innermost
loop (and counts as reduced). What follows in the body, and every output, is of the dims before it.

One part of the body may run for many iterations, at each point (a loop of the user's program):

    Instr("iterations", (n,), "int64")  begins it: n (a param) iterations, at least one. Its value: which one it is
    Instr("carried", (first,), t)       at first `first`, later what its "carry" kept; all of them come next
    Instr("table:<j>", (k,), t)         number k of table j (tables are given after the params)
    Instr("carry", (carried, v), t)     keeps v for the next iteration; all of them end it. Afterwards: what was kept

Nothing else of that part is known after it.
"""

from __future__ import annotations

from functools import cached_property

from tilewise.records import dataclass

REDUCTIONS = ("add", "multiply", "minimum", "maximum", "logical_or", "logical_and")
INNER = "inner:"
ITERATIONS, CARRIED, CARRY, TABLE = "iterations", "carried", "carry", "table:"
NUMBERS = ("const:", TABLE)
FREE = ("cast", "where", "rarely", "positive", ITERATIONS, CARRIED, CARRY)  # no operation on a number
ARGS = {"argmin": "minimum", "argmax": "maximum"}  # of equal values the first; a NaN beats every number


@dataclass(frozen=True)
class Instr:
    """One scalar operation: `fn` is a NumPy ufunc's name, or "where", "rarely", "cast", "erf", "const:<repr>".

    "rarely" is a "where" that says more: few points take its second argument, so it should cost the others nothing.
    """

    fn: str
    args: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Output:
    """What becomes of a value (see the top of this file); keys outside of the buckets are skipped."""

    value: int
    reduce: str | None = None
    key: int | None = None
    scan: bool = False

    @property
    def stored(self) -> bool:
        """Whether the output has the shape of the whole space."""
        return self.reduce is None or self.scan

    @property
    def is_arg(self) -> bool:
        """Whether the output is a position."""
        return self.reduce in ARGS


@dataclass(frozen=True)
class Kernel:
    """One fused loop nest; sizes, strides and the values of `params` are known only when it runs."""

    inputs: tuple[str, ...]
    params: tuple[str, ...]
    body: tuple[Instr, ...]
    outputs: tuple[Output, ...]
    reduced: tuple[bool, ...]
    tables: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known = len(self.inputs) + len(self.params)
        for instr in self.body:
            assert all(0 <= a < known for a in instr.args), f"{instr} uses a value that is not yet known"
            known += 1
        for out in self.outputs:
            self._check(out, known)
        if self.loop_body is not None:
            self._check_loop(self.loop_body)

    def _check_loop(self, part: range) -> None:
        """States come first and are all kept last; what follows uses nothing else of the part."""
        base = len(self.inputs) + len(self.params)
        body = [self.body[k] for k in part]
        states = [base + part.start + 1 + j for j in range(sum(i.fn == CARRIED for i in body))]
        ends = body[len(body) - len(states) :]
        assert [i.fn for i in body[1 : 1 + len(states)]] == [CARRIED] * len(states), "states come first"
        assert [(i.fn, i.args[0]) for i in ends] == [(CARRY, s) for s in states], "every state is kept, in order"
        inside = range(base + part.start, base + part.stop - len(states))
        after = [a for i in self.body[part.stop :] for a in i.args] + [o.value for o in self.outputs]
        assert not any(a in inside for a in after), "only what is kept is known afterwards"

    def _check(self, out: Output, known: int) -> None:
        assert 0 <= out.value < known, f"{out} names no value"
        if out.reduce is None:
            assert out.key is None and not out.scan, f"{out} reduces by nothing"
            return
        assert out.reduce in REDUCTIONS or (out.is_arg and out.key is None and not out.scan), f"{out}: unknown"
        assert any(self.reduced), f"{out} reduces no dim"
        if out.key is not None:
            assert 0 <= out.key < known and self.dtypes[out.key] == "int64", f"{out}: a key is an int64 value"
        assert not out.scan or (sum(self.reduced) == 1 and out.key is None), f"{out} scans along one dim"

    @property
    def inner(self) -> int | None:
        """The value that is reduced inside; None without one."""
        known = len(self.inputs) + len(self.params)
        return next((known + k for k, i in enumerate(self.body) if i.fn.startswith(INNER)), None)

    @property
    def loop_body(self) -> range | None:
        """The instructions that run for many iterations; None without such."""
        first = next((k for k, i in enumerate(self.body) if i.fn == ITERATIONS), None)
        if first is None:
            return None
        return range(first, max(k for k, i in enumerate(self.body) if i.fn == CARRY) + 1)

    @cached_property
    def dtypes(self) -> tuple[str, ...]:
        """The dtype of every value, by value number."""
        return self.inputs + self.params + tuple(i.dtype for i in self.body)

    @property
    def out_dtypes(self) -> tuple[str, ...]:
        """The dtype of every output."""
        dtypes = self.dtypes
        return tuple("int64" if o.is_arg else dtypes[o.value] for o in self.outputs)

    def kept(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of the dims that are not reduced."""
        return tuple(n for n, r in zip(shape, self.reduced, strict=True) if not r)


def nested(inner: Kernel, outer: Kernel, at: int) -> Kernel:
    """One kernel of two: `inner` reduces along the last dim of its space, `outer` reads its result as input `at`.

    Inputs are those of `inner`, then the others of `outer`; params are those of `outer`.
    """
    (made,) = inner.outputs
    assert (
        made.reduce is not None and not inner.params and inner.reduced == (*(False,) * (len(inner.reduced) - 1), True)
    )
    first, others = len(inner.inputs), len(outer.inputs) - 1
    moved = first + others + len(outer.params)  # where the body begins

    def within(v: int) -> int:
        return v if v < first else v - first + moved

    def after(v: int) -> int:
        if v == at:
            return moved + len(inner.body)
        if v < len(outer.inputs):
            return first + v - (v > at)
        return (
            v - 1 + first
            if v < len(outer.inputs) + len(outer.params)
            else v + moved + len(inner.body) - others - len(outer.params)
        )

    body = [Instr(i.fn, tuple(map(within, i.args)), i.dtype) for i in inner.body]
    body.append(Instr(INNER + made.reduce, (within(made.value),), inner.dtypes[made.value]))
    body += [Instr(i.fn, tuple(map(after, i.args)), i.dtype) for i in outer.body]
    outputs = [Output(after(o.value), o.reduce, None if o.key is None else after(o.key), o.scan) for o in outer.outputs]
    inputs = (*inner.inputs, *(t for k, t in enumerate(outer.inputs) if k != at))
    return Kernel(inputs, outer.params, tuple(body), tuple(outputs), (*outer.reduced, True))


def operations(kernel: Kernel, iterations: int = 1) -> int:
    """Operations on numbers at each point of the space: casts, constants and what only selects are none."""
    part = kernel.loop_body or range(0)
    counted = [k in part for k, i in enumerate(kernel.body) if i.fn not in FREE and not i.fn.startswith(NUMBERS)]
    return len(counted) + (iterations - 1) * sum(counted) + sum(o.reduce is not None for o in kernel.outputs)


def const_value(fn: str) -> complex | float | int | bool:
    """The number in a "const:<repr>" function name."""
    text = fn.removeprefix("const:")
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return complex(text)
