"""The table of scores in float32. In: the packed lanes of a frame, a `Score`. Out: code that fills it, its vectors.

Panels as wide as a tile of argmin_f32.py has vectors: first a line of what the sums of the lanes start from, then a
line for each step. Lanes that are not there start from what no score comes to.
"""

from __future__ import annotations

from tilewise.backend.llvm.emit.control import each, loop, minimum, within
from tilewise.backend.llvm.emit.frame import Frame
from tilewise.backend.llvm.emit.memory import load, store
from tilewise.backend.llvm.emit.text import Val, fma, joined, of_lanes
from tilewise.backend.llvm.loops.sums import State
from tilewise.backend.llvm.patterns.argmin_pattern import Score

STEP, LANE = 1, 2  # dims
F32 = "float32"
TINY = 2.0**-50  # a length that is as good as none
FAR = 2.0**128 - 2.0**104  # the largest float32: where a bound is finite, scores are a hundredth less at least


class Table:
    """In memory of the call's own: the stack of a thread may be small. Without any, nothing is guessed."""

    def __init__(self, frame: Frame, score: Score, vectors: int, more: int) -> None:
        """`more` are bytes for each step, that are left to others."""
        self.frame, self.fn, self.score, self.vectors = frame, frame.fn, score, vectors
        self.lanes = frame.spec.machine.vector_bytes // 4
        self.width = self.lanes * vectors
        fn, steps = self.fn, frame.sizes[STEP]
        self.panels = fn.hoist(f"udiv i64 {fn.hoist(f'add i64 {frame.sizes[LANE]}, {self.width - 1}')}, {self.width}")
        floats = fn.hoist(f"mul i64 {fn.hoist(f'add i64 {steps}, 1')}, {self.width}")
        self._panel_bytes = fn.hoist(f"mul i64 {floats}, 4")
        size, after = fn.hoist(f"mul i64 {self._panel_bytes}, {self.panels}"), fn.hoist(f"mul i64 {steps}, {8 + more}")
        fn.declares |= {"declare ptr @malloc(i64)", "declare void @free(ptr)"}
        self._place = fn.hoist(f"call ptr @malloc(i64 {fn.hoist(f'add i64 {size}, {after}')})")
        self.there = fn.hoist(f"icmp ne ptr {self._place}, null")
        self._pivot = fn.hoist(f"getelementptr i8, ptr {self._place}, i64 {size}")
        self.rest = fn.hoist(f"getelementptr double, ptr {self._pivot}, i64 {steps}")
        # At least the length of every lane, and the sizes of all terms that its sum starts from.
        self.length, self.start = (fn.hoist("alloca float, align 4") for _ in range(2))

    def leave(self) -> None:
        """Give the memory back."""
        self.fn.do(f"call void @free(ptr {self._place})")

    def line(self, panel: str, down: str) -> list[Val]:
        """The vectors of a line of a panel."""
        fn, at = self.fn, self._line(self._corner(panel), down)
        places = [fn.let(f"getelementptr float, ptr {at}, i64 {v * self.lanes}") for v in range(self.vectors)]
        return [load(fn, place, F32, self.lanes) for place in places]

    def about_pivot(self, value: Val, s: str) -> Val:
        """Elements of a row or of lanes (one for all) at some steps: where differences are squared, less the pivot."""
        if not self.score.squared:
            return value
        return value - load(self.fn, self._pivot_place(s), "float64", value.lanes)

    def _corner(self, panel: str) -> str:
        offset = self.fn.let(f"mul i64 {panel}, {self._panel_bytes}")
        return self.fn.let(f"getelementptr i8, ptr {self._place}, i64 {offset}")

    def _line(self, corner: str, down: str) -> str:
        return self.fn.let(f"getelementptr float, ptr {corner}, i64 {self.fn.let(f'mul i64 {down}, {self.width}')}")

    def fill(self) -> None:
        """Lanes as float32, times their factor; what their sums start from; the largest of both."""
        frame, fn, squared = self.frame, self.fn, self.score.squared
        if squared:
            each(fn, "0", frame.sizes[STEP], "1", self._keep_pivot)
        groups = fn.let(f"mul i64 {self.panels}, {self.vectors}")
        none = Val(fn, "", "double", self.lanes).const(0.0)

        def group(g: str, most: State) -> State:
            lane = fn.let(f"mul i64 {g}, {self.lanes}")
            there = within(fn, lane, frame.sizes[LANE], self.lanes)
            corner = self._corner(fn.let(f"udiv i64 {lane}, {self.width}"))
            top = fn.let(f"getelementptr float, ptr {corner}, i64 {fn.let(f'urem i64 {lane}, {self.width}')}")
            sources = self._sources(lane)

            def step(s: str, state: State) -> State:
                value = joined([load(fn, self._packed(at, s), "float64", frame.lanes) for at in sources])
                if squared:
                    value = value - load(fn, self._pivot_place(s), "float64", 1).splat(self.lanes)
                value = there.select(value, 0.0)
                scaled = (value * self._factor()).convert("fptrunc", "float")
                store(fn, self._line(top, fn.let(f"add i64 {s}, 1")), scaled, F32)
                return [fma(value, value, state[0])]

            (squares,) = loop(fn, "0", frame.sizes[STEP], "1", step, [none])
            start, size = self._starts(lane, squares)
            store(fn, top, there.select(start, FAR).convert("fptrunc", "float"), F32)
            return [most[0].intrinsic("maximum", squares), most[1].intrinsic("maximum", there.select(size, 0.0))]

        squares, sizes = (_most(v) for v in loop(fn, "0", groups, "1", group, [none, none]))
        length = squares.intrinsic("sqrt") * abs(self._factor()) + TINY
        for place, value in ((self.length, length), (self.start, sizes)):
            store(fn, place, value.convert("fptrunc", "float") * 1.01, F32)

    def _factor(self) -> float:
        """Scores are turned so that the least is looked for."""
        factor = self.score.factor * (-2 if self.score.squared else 1)
        return factor if self.score.least else -factor

    def _keep_pivot(self, s: str) -> None:
        """The first lane, which others and all rows are less."""
        value = load(self.fn, self._packed(self.frame.bases[self.score.lane], s), "float64", 1)
        store(self.fn, self._pivot_place(s), value, "float64")

    def _pivot_place(self, s: str) -> str:
        return self.fn.let(f"getelementptr double, ptr {self._pivot}, i64 {s}")

    def _packed(self, at: str, s: str) -> str:
        """A place of the packed lanes, some steps on."""
        offset = self.fn.let(f"mul i64 {s}, {self.frame.strides[self.score.lane][STEP]}")
        return self.fn.let(f"getelementptr i8, ptr {at}, i64 {offset}")

    def _sources(self, lane: str) -> list[str]:
        """Where the vectors of float64 for one of float32 are packed; the last one there, for what is after it."""
        frame, fn, k = self.frame, self.fn, self.score.lane
        width = frame.lanes * frame.spec.vectors
        panel = fn.let(f"mul i64 {frame.sizes[STEP]}, {frame.strides[k][STEP]}")
        final = fn.let(f"and i64 {fn.let(f'sub i64 {frame.sizes[LANE]}, 1')}, {-frame.lanes}")
        found = []
        for first in range(0, self.lanes, frame.lanes):
            here = minimum(fn, fn.let(f"add i64 {lane}, {first}"), final)
            corner = fn.let(f"mul i64 {fn.let(f'udiv i64 {here}, {width}')}, {panel}")
            at = fn.let(f"getelementptr i8, ptr {frame.bases[k]}, i64 {corner}")
            found.append(fn.let(f"getelementptr double, ptr {at}, i64 {fn.let(f'urem i64 {here}, {width}')}"))
        return found

    def _starts(self, lane: str, squares: Val) -> tuple[Val, Val]:
        """The terms of lanes, added up, and the sum of their sizes."""
        fn, frame = self.fn, self.frame
        factor = self.score.factor if self.score.squared else 0.0
        total, size = squares * factor, squares * abs(factor)
        last = fn.let(f"sub i64 {frame.sizes[LANE]}, 1")
        for v, times in self.score.lanes:
            places = [minimum(fn, fn.let(f"add i64 {lane}, {i}"), last) for i in range(self.lanes)]
            value = of_lanes([value_at(frame, v, frame.bases, here) for here in places]) * times
            total, size = total + value, size + value.intrinsic("fabs")
        return (total if self.score.least else -total), size


def value_at(frame: Frame, v: int, at: list[str], lane: str) -> Val:
    """A value of the kernel in one lane, which no sum inside is a part of."""
    if v < frame.n_inputs:
        return load(frame.fn, frame.address(v, at, lane), frame.dtypes[v], 1)
    if frame.is_constant(v):
        return frame.constant(v, 1)
    return frame.evaluate(v, lambda a: value_at(frame, a, at, lane), 1)


def _most(value: Val) -> Val:
    """The largest lane; a NaN, if there is one."""
    while value.lanes > 1:
        half = value.lanes // 2
        value = value.shuffle(0, half).intrinsic("maximum", value.shuffle(half, half))
    return value
