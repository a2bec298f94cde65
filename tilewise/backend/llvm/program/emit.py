"""A program as LLVM IR. In: a program. Out: a `Function`; LLVM's passes make registers of variables, and vectors.

Every variable is memory on the stack, an array one word for each of its fields (data, base, number of the argument that
it is, lengths, strides). A fault stores what the caller needs and goes to the exit, where memory is let go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilewise.backend.llvm.emit.text import Function, Val, vtype
from tilewise.backend.llvm.math import scalar
from tilewise.backend.llvm.program import (
    allocation,
    draws,
    elements,
    faults,
    host,
    invoke,
    layout,
    matrix_product,
    memory,
    operations,
    outline,
    poll,
)
from tilewise.backend.llvm.program.bounds import Bounds
from tilewise.backend.llvm.program.loops import parallel_loop, unit_strides
from tilewise.kernel.program.ir import (
    CALL,
    INT,
    RERUN,
    Alloc,
    Apart,
    Block,
    Const,
    Dim,
    Expr,
    Fail,
    Fault,
    For,
    HostCall,
    If,
    Invoke,
    Leave,
    Load,
    Loop,
    Named,
    Op,
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
from tilewise.kernel.program.lengths import known_lengths
from tilewise.kernel.program.walk import size, statements

CHEAP = 4  # operations in an arm of a conditional that are computed in any case


@dataclass(frozen=True)
class Slots:
    """Where the fields of an array are."""

    data: str
    base: str
    ident: str
    dims: tuple[str, ...]
    strides: tuple[str, ...]


def emitted(program: Program, name: str, optimistic: bool = False) -> Function:
    """The function of a program; `optimistic`: it may end as unproved, where nothing was written (bounds.py)."""
    return Emitter(program, name, optimistic=optimistic).run()


class Emitter:
    def __init__(self, program: Program, name: str, main: Emitter | None = None, *, optimistic: bool = False) -> None:
        """main: the emitter of the program whose function this is."""
        self.p, self.main = program, main
        self.lengths = known_lengths(program)
        self.fn = Function(name, "ptr noalias %objs, ptr noalias %out")
        self.fn.optimised = True
        self.frame = outline.frame_of(program)
        self.long = self.frame is not None  # in several functions
        self.optimistic = optimistic and main is None and not self.long
        self.touched = False  # something outside of the program may have been changed by now
        if self.frame is not None:
            self.uses = outline.uses(program)
            self.frame_at = self.fn.hoist(f"alloca [{self.frame.words} x i64], align 16")
            self.names, self.arrays, self.written = outline.places(self, self.frame, self.frame_at)
        else:
            self.names = {n: self.fn.hoist(f"alloca {_type(t)}") for n, t in program.names.items()}
            self.arrays = {n: self.slots(a.rank) for n, a in program.arrays.items()}
            self.written = self.fn.hoist("alloca i64")
        self.scopes: memory.Scopes = memory.Scopes(
            self.fn, program, memory.FIRST_NOTE if main is None else main.scopes.next
        )
        self.kept: dict[str, str] = {}  # by private allocations: where their memory is written down
        self.spares: dict[str, str] = {}  # by allocations in loops: memory of an earlier turn
        self.labels: dict[str, str] = {}
        self.exit = self.fn.fresh("exit")
        self.late: list[list[str]] = []  # blocks of faults, after all others
        self.bounds = Bounds(self)
        self.draws = draws.Draws(self)
        self.assumed: dict[str, Val] = {}  # values of names where costs are estimated
        self.turned = operations.turned(program)
        self.places: dict[tuple[str, tuple[Expr, ...]], str] = {}  # addresses of elements, in a run of statements
        self.near = unit_strides.NONE  # axes without gaps, in a loop that is emitted for these
        self.group = ""  # what is said at accesses of a loop whose iterations are independent
        self.within = 0  # inside of loops on several threads
        self.threaded = parallel_loop.used(program)
        self.nested = 0  # loops around
        self.rare = False  # a loop around hardly ever runs
        self.patience: str | None = None  # what counts down to the next question (poll.py)
        self.faults: tuple[Fault, ...] = program.faults if main is None else main.faults
        self.reruns = any(f.error == RERUN or f.error.startswith(CALL) for f in self.faults)

    def slots(self, rank: int) -> Slots:
        """Variables of an array, on the stack."""
        h = self.fn.hoist
        return self.slots_at([h("alloca ptr"), *(h("alloca i64") for _ in range(2 + 2 * rank))])

    def slots_at(self, places: list[str]) -> Slots:
        """Variables of an array at these places."""
        rank = (len(places) - 3) // 2
        data, base, ident, *rest = places
        return Slots(data, base, ident, tuple(rest[:rank]), tuple(rest[rank:]))

    @property
    def team(self) -> str:
        """Where it is written down which helpers there are."""
        return self.out(layout.TEAM)

    def run(self) -> Function:
        fn = self.fn
        self.patience = poll.begin(self)
        fn.do(f"store i64 0, ptr {self.written}")
        if self.threaded:
            fn.do(f"store i64 0, ptr {self.team}")
        for n in self.p.names:
            fn.do(f"store {_type(self.p.names[n])} zeroinitializer, ptr {self.names[n]}")
        for s in self.arrays.values():
            for place in (s.base, s.ident, *s.dims, *s.strides):
                fn.do(f"store i64 0, ptr {place}")
        self.draws.begin()
        if self.main is None:
            memory.arguments(self)
        else:
            invoke.arguments(self)
        self.block(self.p.body)
        fn.do(f"br label %{self.exit}")
        for lines in self.late:
            fn.lines += lines
        fn.label(self.exit)
        if self.threaded:
            parallel_loop.release(self)
        self.draws.end()
        allocation.release_all(self)
        for k, p in enumerate(self.p.functions):
            invoke.add(self, k, p)
        return fn

    # -- small things ------------------------------------------------------------------------------------------------

    def number(self, text: str | int) -> Val:
        return Val(self.fn, str(text), "i64", 1)

    def word(self, place: str) -> Val:
        return Val(self.fn, self.fn.let(f"load i64, ptr {place}"), "i64", 1)

    def put(self, place: str, v: Val) -> None:
        self.fn.do(f"store {v.text}, ptr {place}")

    def out(self, at: int) -> str:
        return self.fn.let(f"getelementptr i64, ptr %out, i64 {at}")

    def jump(self, label: str) -> None:
        self.fn.do(f"br label %{label}")

    def dead(self) -> None:
        """What follows is never reached."""
        self.fn.label(self.fn.fresh("dead"))

    def fail_if(self, bad: Val, fault: int, values: tuple[Val, ...] = ()) -> None:
        """Leave with a fault, if a condition holds."""
        fn, good, wrong = self.fn, self.fn.fresh("good"), self.fn.fresh("wrong")
        fn.do(f"br i1 {bad.name}, label %{wrong}, label %{good}, !prof !{self.scopes.unlikely}")
        kept, fn.lines = fn.lines, []
        fn.label(wrong)
        self.fail(fault, values)
        self.late.append(fn.lines)
        fn.lines = kept
        fn.label(good)

    def fail_rarely(self, unusual: Val, bad: Callable[[], Val | None], fault: int, values: tuple[Val, ...]) -> None:
        """Leave with a fault where something is unusual, and then so bad that there is one."""
        fn, good, look = self.fn, self.fn.fresh("good"), self.fn.fresh("look")
        fn.do(f"br i1 {unusual.name}, label %{look}, label %{good}, !prof !{self.scopes.unlikely}")
        kept, fn.lines = fn.lines, []
        fn.label(look)
        found, wrong = bad(), fn.fresh("wrong")
        assert found is not None
        fn.do(f"br i1 {found.name}, label %{wrong}, label %{good}")
        fn.label(wrong)
        self.fail(fault, values)
        self.late.append(fn.lines)
        fn.lines = kept
        fn.label(good)

    def fail(self, fault: int, values: tuple[Val, ...]) -> None:
        """Leave with a fault."""
        if self.within:
            parallel_loop.fail(self)
            return
        if self.reruns:
            self.put(self.out(layout.WRITTEN), self.word(self.written))
        faults.tell(self, fault, values[: layout.PAYLOADS])
        self.jump(self.exit)

    # -- expressions -------------------------------------------------------------------------------------------------

    def e(self, x: Expr) -> Val:
        """The value of an expression."""
        fn = self.fn
        if isinstance(x, Const):
            return Val(fn, "", "i64", 1).const(x.value, scalar.IR_TYPE[x.dtype])
        if isinstance(x, Var):
            if x.name in self.assumed:
                return self.assumed[x.name]
            ty = scalar.IR_TYPE[x.dtype]
            return Val(fn, fn.let(f"load {vtype(ty, 1)}, ptr {self.names[x.name]}"), ty, 1)
        if isinstance(x, Dim):
            return self.word(self.arrays[x.array].dims[x.axis])
        if isinstance(x, Load):
            return elements.load(self, x.array, elements.place(self, x.array, x.index, x.faults))
        if isinstance(x, Pick):
            return self.pick(x)
        if isinstance(x, Apart):
            return memory.apart(self, x.first, x.second)
        return operations.operation(self, x)

    def pick(self, x: Pick) -> Val:
        test = self.e(x.test)
        if self.cheap(x.yes) and self.cheap(x.no):
            yes, no = self.e(x.yes), self.e(x.no)
            return test.select(yes, no)
        fn = self.fn
        one, other, after = fn.fresh("yes"), fn.fresh("no"), fn.fresh("after")
        fn.do(f"br i1 {test.name}, label %{one}, label %{other}")
        fn.label(one)
        known = self.places
        self.places = dict(known)
        yes = self.e(x.yes)
        from_one = fn.block
        self.jump(after)
        fn.label(other)
        self.places = dict(known)
        no = self.e(x.no)
        self.places = known
        from_other = fn.block
        self.jump(after)
        fn.label(after)
        return yes.make(f"phi {vtype(yes.ty, 1)} [ {yes.name}, %{from_one} ], [ {no.name}, %{from_other} ]")

    def cheap(self, x: Expr, left: int = CHEAP) -> bool:
        """Whether an expression may be computed where nobody asked for it."""
        if isinstance(x, Const | Var | Dim):
            return True
        if isinstance(x, Op) and x.fault < 0 and left > 0 and (x.fn in _CHEAP or _halves(x)):
            return all(self.cheap(a, left - 1) for a in x.args)
        return False

    # -- statements --------------------------------------------------------------------------------------------------

    def block(self, stmts: Block) -> None:
        self.places = {}
        if self.frame is not None and size(stmts) > outline.PART:
            outline.block(self, stmts, self.statement)
            return
        for s in stmts:
            self.statement(s)
            if isinstance(s, Leave | Return | Fail):
                return

    def statement(self, s: Stmt) -> None:
        self._statement(s)
        elements.changed(self, s)
        self.note_touched(s)

    def note_touched(self, s: Stmt) -> None:
        """From here on, what a statement changes outside of the program may have been changed."""
        if self.optimistic and not self.touched:
            self.touched = any(
                isinstance(x, HostCall)
                or (isinstance(x, Invoke) and self.scopes.touches(x, (self.main or self).p.functions))
                or (isinstance(x, Store | Product) and self.scopes.outside(x.array))
                for x in statements((s,))
            )

    def _statement(self, s: Stmt) -> None:
        fn = self.fn
        if isinstance(s, Set):
            v = self.e(s.value)
            fn.do(f"store {v.text}, ptr {self.names[s.name]}")
        elif isinstance(s, Store):
            v = self.e(s.value)
            elements.save(self, s.array, elements.place(self, s.array, s.index, s.faults), v)
            if self.reruns and self.scopes.outside(s.array):
                fn.do(f"store i64 1, ptr {self.written}")
        elif isinstance(s, If):
            self.if_(s)
        elif isinstance(s, For):
            self.bounds.loop(s)
        elif isinstance(s, Loop):
            self.loop(s)
        elif isinstance(s, Named):
            end = self.labels[s.label] = fn.fresh("end")
            self.block(s.body)
            self.jump(end)
            fn.label(end)
        elif isinstance(s, Leave):
            self.jump(self.labels[s.label])
            self.dead()
        elif isinstance(s, Return):
            memory.returned(self, s)
            self.jump(self.exit)
            self.dead()
        elif isinstance(s, Fail):
            self.fail(s.fault, tuple(self.e(v) for v in s.values))
            self.dead()
        elif isinstance(s, Alloc):
            allocation.allocate(self, s)
        elif isinstance(s, View):
            memory.view(self, s)
        elif isinstance(s, Product):
            matrix_product.emit(self, s)
        elif isinstance(s, HostCall):
            host.call(self, s)
        elif isinstance(s, Invoke):
            invoke.call(self, s)

    def if_(self, s: If) -> None:
        fn, test = self.fn, self.e(s.test)
        if operations.both_ways(self, s, test):
            return
        one, other, after = fn.fresh("then"), fn.fresh("else"), fn.fresh("fi")
        fn.do(f"br i1 {test.name}, label %{one}, label %{other}")
        fn.label(one)
        self.block(s.then)
        self.jump(after)
        fn.label(other)
        self.block(s.other)
        self.jump(after)
        fn.label(after)

    def loop(self, s: Loop) -> None:
        head = self.fn.fresh("loop")
        self.note_touched(s)
        self.jump(head)
        self.fn.label(head)
        copies = poll.COPIES if self.nested and not self.rare and poll.light(s) else 1
        self.nested += 1
        for _ in range(copies):
            self.block(s.body)
        self.nested -= 1
        poll.ask(self, copies)
        self.jump(head)
        self.dead()

    def for_(self, s: For, start: Val, stop: Val, step: Val) -> None:
        """A counted loop: its bounds are computed before."""
        if isinstance(s.step, Const) and s.step.value in (1, -1):
            self._counted(s, start, stop, s.step.value, lambda i: i)
        else:
            trips = self.trips(s, start, stop, step)
            self._counted(s, self.number(0), trips, 1, lambda i: start.make(f"add {start.text}, {(i * step).name}"))

    def iterations(self, s: For, start: Val, first: Val, end: Val) -> None:
        """Some iterations of a loop, by their numbers."""
        assert isinstance(s.step, Const)
        by = s.step.value
        here = (lambda i: start + i) if by == 1 else (lambda i: start + i * by)
        self._counted(s, first, end, 1, here)

    def _counted(self, s: For, first: Val, end: Val, by: int, here: Callable[[Val], Val]) -> None:
        self.note_touched(s)
        unit_strides.either(self, s, lambda: self._turns(s, first, end, by, here))

    def _turns(self, s: For, first: Val, end: Val, by: int, here: Callable[[Val], Val]) -> None:
        fn = self.fn
        counter = fn.hoist("alloca i64")
        head, body, after = fn.fresh("head"), fn.fresh("body"), fn.fresh("after")
        self.put(counter, first)
        nest = poll.has_loops(s.body) and not (self.nested and poll.only_short(s.body))
        parts = None if nest or poll.short(s) else poll.parts(self, counter, end, by, size(s.body))
        self.nested += 1
        rare, self.rare = self.rare, self.rare or s.rare
        self.jump(head)
        fn.label(head)
        i = self.word(counter)
        more = i.cmp("slt" if by > 0 else "sgt", end if parts is None else parts.stop)
        fn.do(f"br i1 {more.name}, label %{body}, label %{after}")
        fn.label(body)
        fn.do(f"store {here(i).text}, ptr {self.names[s.name]}")
        about, group = "", self.group
        if s.rare or self.bounds.checked:
            about = self.scopes.plain_loop()
        elif elements.looks_up(s.body):
            about = self.scopes.scalar_loop()
        elif s.independent and not any(isinstance(x, For | Loop) for x in statements(s.body)):
            about, self.group = self.scopes.independent_loop()
        self.block(s.body)
        self.group, self.rare = group, rare
        self.nested -= 1
        if nest and not s.rare and not (self.nested and poll.short(s)):
            poll.ask(self, poll.UNCOUNTED if poll.has_light(s.body) else 1)
        i = self.word(counter)
        self.put(counter, i.make(f"add nsw {i.text}, {by}"))
        fn.do(f"br label %{head}{about}")
        fn.label(after)
        if parts is not None:
            poll.next_part(self, parts, counter, end, by)

    def trips(self, s: For, start: Val, stop: Val, step: Val) -> Val:
        """How many iterations there are."""
        if isinstance(s.step, Const):
            up = s.step.value > 0
            span = stop - start if up else start - stop
            some = stop.cmp("sgt", start) if up else stop.cmp("slt", start)
            size = span.const(abs(s.step.value))
        else:
            rising = step.cmp("sgt", 0)
            span = rising.select(stop - start, start - stop)
            some = rising.select(stop.cmp("sgt", start), stop.cmp("slt", start))
            size = rising.select(step, step.const(0) - step)
        count = (span + size - 1).op("udiv", size)
        return some.select(count, 0)


_CHEAP = frozenset(
    "ones add subtract multiply minimum maximum negative absolute cast equal not_equal less less_equal greater "
    "greater_equal logical_and logical_or logical_not bitwise_and bitwise_or bitwise_xor invert where real imag".split()
)


def _halves(x: Op) -> bool:
    """Whether it is a division by a power of two, which is a shift."""
    by = x.args[-1]
    divides = x.fn in ("floor_divide", "remainder") and x.dtype == INT
    return divides and isinstance(by, Const) and by.value > 0 and by.value & (by.value - 1) == 0


def _type(dtype: str) -> str:
    return vtype(scalar.IR_TYPE[dtype], 1)
