"""Generators of random numbers: made, and drawn from. In: functions, values. Out: values; writes are recorded.

A draw is a write to the generator, which orders iterations unless the generator is their own. Methods that fill or
shuffle an argument write to it besides.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import gather
from tilewise.parfor.walk.calls import library
from tilewise.parfor.walk.calls.library_calls import LibraryCalls
from tilewise.parfor.walk.knowns import Alike
from tilewise.parfor.walk.record import unknown
from tilewise.parfor.walk.values import ANYTHING, Val, join, may_be_anything, objects

CHOOSING = frozenset("choice permutation permuted".split())  # their results hold what they are given


class RandomCalls(LibraryCalls):
    """Follows what makes generators, and their methods."""

    def new_generator(self, function: Any, args: list[Val], named: dict[str, Val], text: str) -> Val:
        """A generator; one that is made of another draws from the same stream."""
        given = [v for v in (*args, *named.values()) if not (v.is_known and v.known is None)]
        for value in given:
            self.use(value)
        if not given:
            self.hazard(text, "random", "a generator without a seed differs in every run")
        new = self.made([v for v in given if not v.scalar], array=False, name="a generator")
        for obj in new.objs:
            obj.cls = function if isinstance(function, type) else np.random.Generator
        if function is np.random.SeedSequence:
            return new
        for value in given:
            held = [o for o in objects(value) if library.has_stream(o)]
            if held and len(held) == len(objects(value)) and not may_be_anything(value):
                return value
            if held or may_be_anything(value):
                return join(value, new)
        return new

    def draw(self, base: Val, name: str, args: list[Val], named: dict[str, Val], text: str) -> Val:
        """The result of a method of a generator."""
        if name == "spawn" or not self._drawn_apart(base):
            for obj in base.objs:
                if obj.key:
                    self.hazard(text.rsplit(".", 1)[0], "random", "all iterations draw from one generator")
                self.touch_object(obj, write=True)
        if any(v.function is not None or v.method is not None for v in (*args, *named.values())):
            return self._opaque([base, *args], named, text)
        if name == "spawn":
            if any(o.content or o.anything for o in base.objs):  # the seed counts what is spawned
                return self._opaque([base, *args], named, text)
            child = self.made([], array=False, name="a generator")
            for obj in child.objs:
                obj.cls = np.random.Generator
            return self.made([child], array=False, name="a list")
        if name == "shuffle":
            for value in (*args[:1], *(named[k] for k in named if k == "x")):
                self.use(value)
                self.touch_value(value, write=True)
            return Val(known=None, scalar=True)
        at = library.OUT_AT.get(name)
        out = named.get("out", args[at] if at is not None and len(args) > at else None)
        if out is not None and not (out.is_known and out.known is None):
            return self._into(out, [a for a in args if a is not out], named)
        for value in (*args, *named.values()):
            self.use(value)
        made = self.made([])
        if name in CHOOSING:
            for value in (*args[:1], *(named[k] for k in named if k in ("a", "x"))):
                if value.kind == "O":
                    return ANYTHING
                if value.view is None and not value.scalar:
                    held = self.contents(value)
                    made = made if held.scalar else join(made, held)
        return made

    def _drawn_apart(self, base: Val) -> bool:
        """Record a draw from one generator of a list: those with streams of their own are told apart."""
        if not isinstance(base.known, Alike) or any(type(g) is not np.random.Generator for g in base.known.values):
            return False
        streams = [self.memory.container(g.bit_generator, next(iter(base.objs)).name) for g in base.known.values]
        at = gather(np.array([s.code for s in streams], dtype=np.int64), [base.known.at])
        self.touch("cells", (at, unknown()), frozenset(streams), write=True)
        return True
