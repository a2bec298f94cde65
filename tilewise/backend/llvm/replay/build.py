"""How a line lies. In: steps, and the values of one run. Out: what memory a line needs, and its native calls in order.

What lies where in memory says which buffer each kernel reads and writes and which updates were in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from tilewise.backend import threads
from tilewise.backend.base import Unfit
from tilewise.backend.host.arrays import walked
from tilewise.backend.host.boxes import address_of, slices
from tilewise.backend.host.steps import apart, box_around, kept_axes
from tilewise.backend.llvm.call.compiled import compile
from tilewise.backend.llvm.call.tile_walk import Ref, calls_of, copied
from tilewise.backend.llvm.replay.entries import Look, Native, Other, Product, Tiles, owner_of, scratch_of
from tilewise.backend.llvm.replay.parallel import Seen, parts, way_of
from tilewise.kernel.loops import Instr, Kernel, Output
from tilewise.ops.contract import Contract, folded
from tilewise.ops.create import Arange, Empty
from tilewise.ops.elementwise import Map, code_name
from tilewise.ops.index import Update
from tilewise.ops.join import Copy
from tilewise.ops.views import Window
from tilewise.ops.views import memory as strided_memory
from tilewise.records import dataclass
from tilewise.stage.cut_axis import single, space_of
from tilewise.stage.steps import Call, Pass, Step, Tiled, View, Write, makes, reads
from tilewise.tuning import tuned

ND = np.ndarray[Any, Any]
MULTIPLY: dict[str, Any] = {"matmul": np.matmul, "dot": np.dot}
Steps = list[tuple[Step, Any]]  # with what runs them

COPY_NS = 0.08  # of a byte that is copied
# What has the same bits by NumPy and by native code.
EXACT = frozenset("add subtract multiply divide sqrt negative positive square absolute minimum maximum".split())


@dataclass
class Memory:
    """A piece of memory that steps share: the array it was made as, and when it is first and last used."""

    slot: int
    array: ND
    first: int
    last: int
    position: int  # whose value it was made for
    given: bool  # by the caller, or by a step that runs as ever: another array each time
    result: bool = False


class Layer:
    """Works out the memory and the calls of a line."""

    def __init__(
        self,
        steps: Steps,
        groups: Sequence[tuple[Tiled, int]],
        nodes: Sequence[Any],
        values: list[Any],
        given: set[int],
        wanted: Sequence[int],
    ) -> None:
        self.nodes, self.values, self.given = nodes, values, given
        self.memories: list[Memory] = []
        self.by_owner: dict[int, Memory] = {}
        self.looks: dict[int, Look] = {}
        self.items: list[Any] = []
        self.calls: list[Any] = []  # that wait to be put together
        self.phases: list[tuple[list[Any], list[list[Any]] | None]] = []  # calls before these, whole and in parts
        self.shared_ns = 0.0  # how long those take that have parts
        self.waiting: set[int] = set()  # what they make, and views of it
        self.numbers: dict[int, Look | None] = {}  # what they are given
        self.laid: list[tuple[Pass, Any, Seen]] = []  # the passes of this group so far
        self.laid_ns = 0.0  # how long they take
        inner = {now + k for group, now in groups for k in range(len(group.steps))}
        lone = [(s, now) for now, (s, _) in enumerate(steps) if type(s) is Pass and now not in inner]
        groups = [*groups, *[(Tiled((s,), s.inputs, s.outs), now) for s, now in lone]]
        ends = {now + len(group.steps) - 1: group for group, now in groups}
        begins = {now for _, now in groups}
        self.mark = 0  # calls before this group
        for now, (step, kernel) in enumerate(steps):
            for pos in reads(step):
                if pos not in self.looks and isinstance(values[pos], np.ndarray):
                    self._see(pos, -1)
                if pos in self.looks:
                    self.memories[self.looks[pos].slot].last = now
            if now in begins:
                self.laid, self.laid_ns, self.mark = [], 0.0, len(self.calls)
            self._step(step, kernel, now)
            if now in ends and len(self.laid) == len(ends[now].steps):
                self._share(ends[now], now)
        self._close()
        for pos in wanted:
            memory = self.memories[self.looks[pos].slot] if pos in self.looks else None
            if memory is None or memory.first < 0 or memory.result:
                raise Unfit("a result that shares its memory")
            memory.result, memory.last = True, len(steps)

    def settled(self) -> list[ND | None]:
        """The memory that stays, by slot (None: other arrays each time); used again after its last reader."""
        out: list[ND | None] = []
        idle: dict[int, list[tuple[int, ND]]] = {}  # by bytes: last use, and memory
        for m in self.memories:
            kept: ND | None = None
            if m.first < 0:
                kept = None if m.given else m.array
            elif not m.given and not m.result:
                there = idle.setdefault(m.array.nbytes, [])
                k = next((k for k, (last, _) in enumerate(there) if last < m.first), None)
                kept = np.empty(m.array.nbytes, np.uint8) if k is None else there.pop(k)[1]
                there.append((m.last, kept))
            out.append(kept)
        if sum(a.nbytes for a in {id(a): a for a in out if a is not None}.values()) > tuned().replay_most_bytes:
            raise Unfit("more memory than a line keeps")
        return out

    def _see(self, pos: int, now: int) -> Look:
        """Where a value lies; memory that nobody has seen yet is new (now = -1: was there before the first step)."""
        array: ND = self.values[pos]
        if not isinstance(array, np.ndarray):
            raise Unfit("a value that is no array")
        owner = owner_of(array)
        memory = self.by_owner.get(id(owner))
        if memory is None:
            memory = Memory(len(self.memories), array, now, now, pos, now < 0 and pos in self.given)
            self.memories.append(memory)
            self.by_owner[id(owner)] = memory
            if not strided_memory(array).flags.c_contiguous:
                raise Unfit("memory with gaps")
        elif now < 0 and (memory.given or pos in self.given):
            raise Unfit("arguments that share memory")
        memory.last = max(memory.last, now)
        offset = address_of(array) - address_of(memory.array)
        whole = array.shape == memory.array.shape and array.strides == memory.array.strides and not offset
        self.looks[pos] = Look(memory.slot, offset, array.shape, array.strides, array.dtype, whole)
        return self.looks[pos]

    def ref(self, pos: int, seen: ND) -> Any:
        """The operand of a call: a value, or a view of it."""
        look = self.looks[pos]
        return Ref(seen, slot=look.slot, offset=look.offset + address_of(seen) - address_of(self.values[pos]))

    # -- steps ------------------------------------------------------------------------------------------------------

    def _step(self, step: Step, kernel: Any, now: int) -> None:
        calls: list[Any] | None = None
        match step:
            case View() if id(owner_of(self.values[step.pos])) not in self.by_owner:
                self._other(step, kernel, now)  # of an array that lies otherwise: a copy, which every run has to make
                return
            case View():
                self._see(step.pos, now)
                if step.input in self.waiting:
                    self.waiting.add(step.pos)
                return
            case Call():
                calls = self._call(step, now)
            case Write():
                calls = self._write(step, now)
            case Pass():
                calls = self._pass(step, kernel, now)
        if calls is None:
            self._other(step, kernel, now)
        else:
            self.calls += calls
            self.waiting.update(makes(step))

    def _call(self, step: Call, now: int) -> list[Any] | None:
        op = self.nodes[step.pos].op
        if type(op) is Empty:
            self._see(step.pos, now)
            return []
        if type(op) is Arange:
            self._see(step.pos, -1)  # the same in all runs
            return []
        if type(op) is Map and not self.nodes[step.pos].shape and op.fn.name in EXACT:
            return self._number(step, op, now)
        if type(op) is not Copy or not self._alike(step.inputs[0], step.pos):
            return None
        self._see(step.pos, now)
        return self._copy([], step.inputs[0], self.values[step.inputs[0]], step.pos, self.values[step.pos])

    def _number(self, step: Call, op: Map, now: int) -> list[Any] | None:
        """One operation on numbers that other steps have made."""
        sources = [(x, self.values[x]) for x in step.inputs]
        params = [x for x, v in sources if not isinstance(v, np.ndarray) and x in self.given]
        made = self.values[step.pos]
        if params or not isinstance(made, np.ndarray):
            return None
        self._see(step.pos, now)
        refs = [self.ref(x, v.reshape(1)) if isinstance(v, np.ndarray) else self._constant(v) for x, v in sources]
        kinds = tuple(r.array.dtype.name for r in refs)
        n = len(refs)
        body = (Instr(code_name(op), tuple(range(n)), made.dtype.name),)
        kernel = compile(Kernel(kinds, (), body, (Output(n),), (False,)))
        refs.append(self.ref(step.pos, made.reshape(1)))
        calls: list[Any] | None = calls_of(kernel, (1,), refs, (), scratch_of(), None)
        return calls

    def _constant(self, number: Any) -> Any:
        """The operand of a call that is the same number in all runs."""
        array = np.asarray(number).reshape(1)
        self.memories.append(Memory(len(self.memories), array, -1, -1, -1, given=False))
        return Ref(array, slot=self.memories[-1].slot, offset=0)

    def _write(self, step: Write, now: int) -> list[Any] | None:
        op, value = self.nodes[step.pos].op, self.values[step.inputs[0]]
        if isinstance(value, np.generic) and step.inputs[0] not in self.given:
            self.values[step.inputs[0]] = np.asarray(value)
            self._see(step.inputs[0], -1)
        if not isinstance(op, Update) or not self._alike(step.inputs[0], step.pos):
            return None
        before = self._around(step.base, step.pos, op.window, now)
        source, target = self.values[step.inputs[0]], op.window.on(self.values[step.pos])
        if before is None or source.ndim > target.ndim or not apart(source, target):
            return None
        return self._copy(before, step.inputs[0], np.broadcast_to(source, target.shape), step.pos, target)

    def _around(self, base: int, pos: int, window: Window, now: int) -> list[Any] | None:
        """What comes before an update: nothing if it is in place, else copies of all that the window leaves out."""
        if not self._alike(base, pos):
            return None
        old, new = self.values[base], self.values[pos]
        in_place = address_of(old) == address_of(new)
        self._see(pos, now)
        if in_place:
            memory = self.memories[self.looks[base].slot]
            return None if memory.given or memory.first < 0 else []
        calls: list[Any] = []
        for key in box_around(window, new.shape):
            some = self._copied(base, old[key], pos, new[key])
            if some is None:
                return None
            calls += some
        return calls

    def _pass(self, step: Pass, kernel: Any, now: int) -> list[Any] | None:
        if step.blas or step.iterations is not None:
            return None
        if step.letters is not None and single(step, self.nodes):
            return None
        dims = space_of(step, self.nodes)
        if 0 in dims or not all(isinstance(self.values[x], np.ndarray) for x in step.inputs):
            return None
        before: list[Any] = []
        seen: Seen = []
        for k, x in enumerate(step.inputs):
            value = self.values[x]
            seen.append((x, value if step.letters is None else walked(value, step.letters[k], len(dims))))
        for k, pos in enumerate(step.outs):
            node, base = self.nodes[pos], step.writes[k]
            if base is None:
                self._see(pos, now)
                seen.append((pos, kept_axes(self.values[pos], node, step, k)))
                continue
            around = self._around(base, pos, node.op.window, now)
            if around is None:
                return None
            before += around
            seen.append((pos, node.op.window.on(self.values[pos])))
        work_ns = kernel.work_ns(dims, [a for _, a in seen])
        if work_ns > tuned().replay_most_ns:
            return None
        refs = [self.ref(x, a) for x, a in seen]
        found = calls_of(kernel, dims, refs, step.params, scratch_of(), None)
        if found is None:
            return None
        if not self.waiting.isdisjoint(step.params):
            self._close()  # numbers are filled in before calls begin
        self.numbers |= {x: self.looks.get(x) for x in step.params if x in self.looks or x in self.given}
        self.laid.append((step, kernel, seen))
        self.laid_ns += work_ns
        return before + list(found)

    def _share(self, group: Tiled, now: int) -> None:
        """Offer the calls of a group in parts, if it is worth a phase."""
        count, whole = threads.get_threads(), self.calls[self.mark :]
        way = way_of(group, self.nodes) if count > 1 and self.laid_ns > tuned().replay_phase_ns else None
        if way is None or way.length < count:
            return
        shared = parts(self.laid, way, self.nodes, self.ref, count, scratch_of)
        if shared is None or any(_trees(calls) != _trees(whole) for calls in shared):
            return  # a sum in another order has other bits
        for pos in {pos for _, _, seen in self.laid for pos, _ in seen}:
            self.memories[self.looks[pos].slot].last = now  # a part may be at the last pass while another begins
        del self.calls[self.mark :]
        self._offer(whole, shared, self.laid_ns)

    def _copy(self, before: list[Any], source: int, seen: ND, target: int, place: ND) -> list[Any] | None:
        """The calls of a copy, and those before it; long copies are a phase of their own."""
        whole, count = self._copied(source, seen, target, place), threads.get_threads()
        cut: list[tuple[ND, ND]] = []
        shared: list[list[Any]] = []
        if place.ndim and count > 1 and place.nbytes * COPY_NS > tuned().replay_phase_ns:
            axis = max(range(place.ndim), key=lambda d: abs(place.strides[d]))
            edges = [place.shape[axis] * k // count for k in range(count + 1)]
            cut = [
                (slices(seen, axis, *edge), slices(place, axis, *edge)) for edge in pairwise(edges) if len({*edge}) > 1
            ]
            found = [self._copied(source, s, target, p, part) for part, (s, p) in enumerate(cut)]
            shared = [calls for calls in found if calls is not None]
        if whole is None or len(shared) < max(len(cut), 2):
            return None if whole is None else before + whole
        self.calls += before
        self._offer(whole, shared, place.nbytes * COPY_NS)
        return []

    def _offer(self, whole: list[Any], shared: list[list[Any]], work_ns: float) -> None:
        """Add calls that threads may share, as parts."""
        self._flush()
        self.phases.append((whole, shared))
        self.shared_ns += work_ns

    def _copied(self, source: int, seen: ND, target: int, place: ND, part: int = 0) -> list[Any] | None:
        calls: list[Any] | None = copied(self.ref(source, seen), self.ref(target, place), scratch_of(part), None)
        return calls

    def _alike(self, a: int, b: int) -> bool:
        x, y = self.values[a], self.values[b]
        return isinstance(x, np.ndarray) and isinstance(y, np.ndarray) and x.dtype == y.dtype and x.size * y.size > 0

    def _other(self, step: Step, kernel: Any, now: int) -> None:
        """A step that runs as ever, on values that are looked up for it."""
        self._close()
        needs = tuple((x, self.looks[x]) for x in reads(step) if x in self.looks)
        made = []
        for pos in makes(step):
            look = self._see(pos, now)
            memory = self.memories[look.slot]
            if not look.whole or memory.first != now:
                raise Unfit("a step that writes in place, or gives a view")
            memory.given = True
            made.append((pos, look))
        other = Other(step, kernel, needs, tuple(made))
        self.items.append(Tiles(other, self.nodes, self.values) if isinstance(step, Tiled) else self._called(other))

    def _called(self, other: Other) -> Other | Product:
        """A step as it is, or a product of two arrays as nothing but that."""
        op = self.nodes[other.made[0][0]].op
        if not isinstance(other.step, Call) or not isinstance(op, Contract) or op.part or len(other.step.inputs) != 2:
            return other
        multiply = MULTIPLY.get(op.how) if op.axes is None else partial(folded, left=op.axes[0], right=op.axes[1])
        a, b = (self.looks.get(x) for x in other.step.inputs)
        return other if multiply is None or a is None or b is None else Product(multiply, (a, b), other.made[0][1])

    def _flush(self) -> None:
        """Calls so far come before a phase."""
        if self.calls:
            self.phases.append((self.calls, None))
        self.calls, self.mark = [], 0

    def _close(self) -> None:
        """Put the calls together that wait, in phases if it is worth threads."""
        self._flush()
        together: list[list[list[Any]]] = []
        for whole, shared in self.phases:
            if shared is not None and self.shared_ns > tuned().replay_share_ns:
                together.append(shared)
            elif together and len(together[-1]) == 1:
                together[-1][0].extend(whole)
            else:
                together.append([whole])
        if together:
            self.items.append(Native(together, self.numbers))
        self.phases, self.shared_ns, self.numbers, self.laid = [], 0.0, {}, []
        self.waiting.clear()


def _trees(calls: Sequence[Any]) -> list[Any]:
    """In which order calls reduce."""
    return [c.tree for c in calls if c.tree is not None]
