"""Rolling: a body that repeats itself becomes a loop inside of the kernel. In: kernels. Out: shorter ones.

Each instruction of an iteration is a chain (loop_period.py): its value in the last iteration, in the one before, and so
on. An iteration then takes, of every chain, the value of this iteration or of one before it, which is a state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from tilewise import rounding
from tilewise.ir.node import Node
from tilewise.ir.scalar import EXPENSIVE, dtype_name
from tilewise.kernel.loops import CARRIED, CARRY, ITERATIONS, TABLE, Instr, Kernel, Output
from tilewise.ops.const import Const
from tilewise.ops.create import Full
from tilewise.ops.elementwise import HEAVY, Map, code_name
from tilewise.ops.traits.lower import in_body
from tilewise.plan.draft import Draft
from tilewise.plan.fuse import fuse
from tilewise.plan.loop_period import TURNS_LEAST, Body, Chain, shifts
from tilewise.stage.steps import LoopParams, Pass, Step
from tilewise.tuning import tuned

MOSTLY = 3  # times an iteration; of a body that is longer, other shifts are tried
SHARE = 0.5  # of the instructions that may be left

Arg = tuple[int, int] | int  # a chain and how many iterations back; or a value outside of chains (params: any number)


Rolled = tuple[Kernel, LoopParams]


def roll(draft: Draft) -> Draft:
    """A pass of the compiler: kernels whose bodies repeat themselves get a loop. What stays too long is fused anew."""
    made = replace(draft, steps=tuple(_rolled_step(s) for s in draft.steps))
    if any(isinstance(s, Pass) and len(s.kernel.body) > rounding.MAX_BODY for s in made.steps):
        shorter = fuse(replace(draft, rolls=False))
        made = replace(shorter, steps=tuple(_rolled_step(s) for s in shorter.steps))
    return made


def _rolled_step(step: Step) -> Step:
    found = rolled(step.kernel) if isinstance(step, Pass) and step.fused else None
    return step if found is None else replace(step, kernel=found[0], iterations=found[1])  # type: ignore[arg-type]


def rolled(kernel: Kernel) -> Rolled | None:
    """The kernel with a loop inside, and what becomes of its params; None if it does not repeat itself enough."""
    whole = _length(kernel.body)
    pays = whole > tuned().roll_least_body and kernel.inner is None
    return _shortest(kernel, int(SHARE * whole)) if pays else None


def _shortest(kernel: Kernel, most: int) -> Rolled | None:
    """The shortest kernel with a loop that is found; None if all are longer than `most`."""
    best: Rolled | None = None
    body = Body(kernel)
    whole = _length(kernel.body)
    for chains in shifts(body):
        if whole - sum(_length([body.instr(v) for v in chain[1:]]) for chain in chains) > most:
            continue  # even if all iterations became one
        found = _Roller(body, chains).roll()
        if found is None or _length(found[0].body) > most:
            continue
        if best is None or _length(found[0].body) < _length(best[0].body):
            best = found
        part = best[0].loop_body
        if part is not None and _length(best[0].body) <= MOSTLY * _length(best[0].body[part.start : part.stop]):
            break
    return best


def _length(body: Sequence[Instr]) -> int:
    """How long a body is, in simple instructions."""
    around = (ITERATIONS, CARRIED, CARRY)
    return sum(HEAVY if i.fn in EXPENSIVE else 1 for i in body if i.fn not in around and not i.fn.startswith(TABLE))


def repeats(at: Mapping[Node, int], wanted: Collection[Node], most: int) -> bool:
    """Whether an elementwise graph, whatever its shapes, has no more than `most` simple instructions when rolled."""
    inputs: list[str] = []
    params: list[str] = []
    number: dict[Node, tuple[int, int]] = {}  # which list, and where in it
    body: list[tuple[str, tuple[Node, ...], str]] = []
    for n in at:
        op, name = n.op, dtype_name(n.dtype)
        if n.value is None and type(op) is Full:
            number[n] = number[n.inputs[0]]
        elif n.value is None and type(op) is Map and n.shape:
            if not in_body(n.op, n):
                return False
            number[n] = (2, len(body))
            body.append((code_name(op), n.inputs, name))
        elif isinstance(op, Const) and op.sharp:
            number[n] = (2, len(body))
            body.append((f"const:{op.value.item()!r}", (), name))
        else:
            which, dtypes = (1, params) if not n.shape else (0, inputs)
            number[n] = (which, len(dtypes))
            dtypes.append(name)
    firsts = (0, len(inputs), len(inputs) + len(params))
    place = {n: firsts[which] + k for n, (which, k) in number.items()}
    instrs = tuple(Instr(fn, tuple(place[x] for x in args), name) for fn, args, name in body)
    outputs = tuple(Output(place[n]) for n in at if n in wanted)
    return _shortest(Kernel(tuple(inputs), tuple(params), instrs, outputs, ()), most) is not None


class _Roller:
    """One shift: the iterations it stands for, and the kernel they give."""

    def __init__(self, body: Body, chains: list[Chain]) -> None:
        self.body = body
        self.chains = chains
        self.place = {v: (c, i) for c, chain in enumerate(chains) for i, v in enumerate(chain)}
        self.outside = {o.value for o in body.kernel.outputs} | {
            o.key for o in body.kernel.outputs if o.key is not None
        }
        for v in range(body.base, body.last):
            if v not in self.place:
                self.outside.update(body.instr(v).args)
        self.args = [self._template(chain[0]) for chain in chains]
        self.late = [0] * len(chains)  # iterations by which a chain's last value comes before the last iteration

    def _template(self, v: int) -> list[Arg]:
        return [self.place.get(a, a) for a in self.body.instr(v).args]

    def roll(self) -> Rolled | None:
        """The kernel; None if the shift stands for too few iterations, or an intermediate value is needed elsewhere."""
        self._retime()
        iterations = self._iterations()
        if iterations < TURNS_LEAST:
            return None
        gone = {
            chain[k - late] for chain, late in zip(self.chains, self.late, strict=True) for k in range(late, iterations)
        }
        if self._kept_apart(gone):
            return None
        return self._made(iterations, gone)

    # -- which iteration computes what -----------------------------------------------------------------------------

    def lag(self, c: int, arg: tuple[int, int]) -> int:
        """How many iterations back, given the last iteration of each chain."""
        return arg[1] + self.late[arg[0]] - self.late[c]

    def _states(self) -> int:
        """How many values go from iteration to iteration."""
        most: dict[int, int] = {}
        for c, args in enumerate(self.args):
            for a in args:
                if isinstance(a, tuple):
                    most[a[0]] = max(most.get(a[0], 0), self.lag(c, a))
        return sum(most.values())

    def _retime(self) -> None:
        """Let chains end an iteration earlier where that leaves fewer states.

        The last iteration then computes a value more than was asked for.
        """
        now, before = self._states(), -1
        while now != before:
            before = now
            for c in range(len(self.chains)):
                moved = self._with_operands(c)
                if any(self.chains[m][0] in self.outside for m in moved):
                    continue
                for m in moved:
                    self.late[m] += 1
                then = self._states()
                if then < now:
                    now = then
                    continue
                for m in moved:
                    self.late[m] -= 1

    def _with_operands(self, c: int) -> set[int]:
        """A chain, and those it takes a value of the same iteration from."""
        found, stack = {c}, [c]
        while stack:
            k = stack.pop()
            for a in self.args[k]:
                if isinstance(a, tuple) and a[0] not in found and self.lag(k, a) == 0:
                    found.add(a[0])
                    stack.append(a[0])
        return found

    def _iterations(self) -> int:
        """How many iterations there are before something differs (the values before the first are noted)."""
        self.first: dict[tuple[int, int], int] = {}  # chain and place in it -> what stands there, seen by its users
        limit = len(self.body.instrs)
        for k in count():
            if k >= limit:
                return k
            for c, chain in enumerate(self.chains):
                i = k - self.late[c]
                if i < 0:
                    continue
                if i >= len(chain):
                    return k
                for a, actual in zip(self.args[c], self.body.instr(chain[i]).args, strict=True):
                    if isinstance(a, int):
                        same = (
                            self.body.is_param(a)
                            and self.body.is_param(actual)
                            and self._typed(a) == self._typed(actual)
                        )
                        if actual != a and not same:
                            return k
                        continue
                    lag, at = self.lag(c, a), (a[0], i + a[1])
                    seen = self.first.setdefault(at, actual)
                    other = self.chains[a[0]]
                    inside = at[1] < len(other) and other[at[1]] == actual
                    if seen != actual or (not inside and lag == 0):
                        return k
                    if not inside:
                        limit = min(limit, k + lag)
        raise AssertionError

    def _typed(self, v: int) -> str:
        return self.body.kernel.dtypes[v]

    def _kept_apart(self, gone: set[int]) -> bool:
        """Whether something outside of the iterations needs more of them than the last one's values."""
        last = {chain[0] for chain, late in zip(self.chains, self.late, strict=True) if late == 0}
        used = [o.value for o in self.body.kernel.outputs]
        used += [o.key for o in self.body.kernel.outputs if o.key is not None]
        used += [a for v in range(self.body.base, self.body.last) if v not in gone for a in self.body.instr(v).args]
        return any(a in gone and a not in last for a in used)

    # -- the kernel ------------------------------------------------------------------------------------------------

    def _made(self, iterations: int, gone: set[int]) -> Rolled | None:
        """The instructions before the iterations, one iteration, and those after."""
        body = self.body
        slots = self._tables(iterations)
        depth = self._depths()
        starts = {
            (c, j): self.first[c, iterations - 1 + j - self.late[c]] for c in depth for j in range(1, depth[c] + 1)
        }
        fixed = [
            a
            for c, args in enumerate(self.args)
            for k, a in enumerate(args)
            if isinstance(a, int) and (c, k) not in slots
        ]
        before = self._behind([*starts.values(), *fixed])
        if before & gone or not depth:
            return None
        after = [v for v in range(body.base, body.last) if v not in gone and v not in before]
        return _Writer(self, iterations, starts, slots).written(sorted(before), after, fixed)

    def _tables(self, iterations: int) -> dict[tuple[int, int], tuple[int, ...]]:
        """Operands (chain and position) that are another number in each iteration: which params, in order."""
        body, found = self.body, {}
        for c, chain in enumerate(self.chains):
            late = self.late[c]
            for k, a in enumerate(self.args[c]):
                if isinstance(a, int) and body.is_param(a):
                    row = [body.instr(chain[i]).args[k] - body.inputs for i in range(iterations - late)][::-1]
                    if len(set(row)) > 1:
                        found[c, k] = (*row, *row[-1:] * late)  # any number for the value that nobody asked for
        return found

    def _depths(self) -> dict[int, int]:
        """Chains of which an iteration takes values of iterations before, and from how long ago."""
        most: dict[int, int] = {}
        for c, args in enumerate(self.args):
            for a in args:
                if isinstance(a, tuple) and self.lag(c, a):
                    most[a[0]] = max(most.get(a[0], 0), self.lag(c, a))
        return most

    def _behind(self, values: Sequence[int]) -> set[int]:
        """The instructions that values depend on."""
        found: set[int] = set()
        stack = [v for v in values if v >= self.body.base]
        while stack:
            v = stack.pop()
            if v not in found:
                found.add(v)
                stack += [a for a in self.body.instr(v).args if a >= self.body.base]
        return found


class _Writer:
    """The kernel of a shift, instruction by instruction, with values numbered anew."""

    def __init__(
        self,
        roller: _Roller,
        iterations: int,
        starts: dict[tuple[int, int], int],
        slots: dict[tuple[int, int], tuple[int, ...]],
    ) -> None:
        self.roller, self.iterations, self.starts, self.slots = roller, iterations, starts, slots
        self.old = roller.body
        self.new: dict[int, int] = {v: v for v in range(self.old.inputs)}
        self.instrs: list[Instr] = []
        self.base = 0

    def written(self, before: list[int], after: list[int], fixed: list[int]) -> Rolled:
        """All of it."""
        old, kernel = self.old, self.old.kernel
        outputs = [v for o in kernel.outputs for v in (o.value, o.key) if v is not None]
        used = [a for v in (*before, *after) for a in old.instr(v).args]
        everywhere = {*used, *outputs, *fixed, *self.starts.values()}
        numbers = sorted(v for v in everywhere if old.is_param(v))
        self.new |= {v: old.inputs + k for k, v in enumerate(numbers)}
        self.base = old.inputs + len(numbers) + 1
        for v in before:
            self._move(v)
        self._loop({*used, *outputs})
        for v in after:
            self._move(v)
        tables = list(dict.fromkeys(self.slots.values()))
        made = Kernel(
            kernel.inputs,
            (*(kernel.dtypes[v] for v in numbers), "int64"),
            tuple(self.instrs),
            tuple(self._output(o) for o in kernel.outputs),
            kernel.reduced,
            tuple(kernel.params[t[0]] for t in tables),
        )
        return made, LoopParams(tuple(v - old.inputs for v in numbers), tuple(tables), self.iterations)

    def _output(self, out: Output) -> Output:
        return replace(out, value=self.new[out.value], key=None if out.key is None else self.new[out.key])

    def _add(self, fn: str, args: Sequence[int], dtype: str) -> int:
        self.instrs.append(Instr(fn, tuple(args), dtype))
        return self.base + len(self.instrs) - 1

    def _move(self, v: int) -> None:
        """An instruction outside of the loop."""
        i = self.old.instr(v)
        self.new[v] = self._add(i.fn, [self.new[a] for a in i.args], i.dtype)

    def _loop(self, used: set[int]) -> None:
        """The iterations; what is used after the loop is carried even if no iteration reads it."""
        chains, types = self.roller.chains, self.old.kernel.dtypes
        first = {state: self.new[v] for state, v in self.starts.items()}
        for c, chain in enumerate(chains):
            if chain[0] in used and self.roller.late[c] == 0 and (c, 1) not in first:
                kind = types[chain[0]]
                first[c, 1] = self._add("const:False" if kind == "bool" else "const:0", (), kind)
        iteration = self._add(ITERATIONS, [self.base - 1], "int64")
        state = {s: self._add(CARRIED, [v], types[chains[s[0]][0]]) for s, v in sorted(first.items())}
        table = {
            row: self._add(f"{TABLE}{j}", [iteration], self.old.kernel.params[row[0]])
            for j, row in enumerate(dict.fromkeys(self.slots.values()))
        }
        made: dict[int, int] = {}
        for c in self._order():
            args = []
            for k, a in enumerate(self.roller.args[c]):
                if isinstance(a, int):
                    args.append(table[self.slots[c, k]] if (c, k) in self.slots else self.new[a])
                else:
                    lag = self.roller.lag(c, a)
                    args.append(state[a[0], lag] if lag else made[a[0]])
            i = self.old.instr(chains[c][0])
            made[c] = self._add(i.fn, args, i.dtype)
        for c, j in sorted(first):
            kept = self._add(CARRY, [state[c, j], made[c] if j == 1 else state[c, j - 1]], types[chains[c][0]])
            if j == 1:
                self.new[chains[c][0]] = kept

    def _order(self) -> list[int]:
        """Chains, each after those whose value of the same iteration it takes."""
        done: dict[int, None] = {}
        for c in sorted(range(len(self.roller.chains)), key=lambda c: self.roller.chains[c][0]):
            stack = [c]
            while stack:
                k = stack[-1]
                need = [
                    a[0]
                    for a in self.roller.args[k]
                    if isinstance(a, tuple) and a[0] not in done and self.roller.lag(k, a) == 0
                ]
                if k in done or not need:
                    done[stack.pop()] = None
                else:
                    stack += need
        return list(done)
