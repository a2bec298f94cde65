"""How loops run or ran, for people. In: decisions. Out: `LoopReport`, `ParallelPlan` with their texts."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tilewise.array.handle import Array, from_node, node_of
from tilewise.parfor.plan.optimise import Decision
from tilewise.parfor.verdict import Verdict


class AllPlanned(BaseException):
    """All loops of a function have been planned: the rest of it is not run."""


@dataclass(frozen=True)
class LoopReport:
    """How a loop runs: `str` says it in a line, `plan` has the tree, the numbers and the reasons."""

    where: str
    verdict: Verdict | None  # None: the check was off
    mode: str
    workers: int
    tasks: tuple[int, ...]
    partition: str
    body: str = "python"  # "native": machine code, "arrays": array expressions, "recorded": plans of the session
    why: str = ""  # not another way
    plan: Decision | None = None

    def __str__(self) -> str:
        """One line."""
        checked = "not checked (check=False)" if self.verdict is None else str(self.verdict)
        how = f"{self.mode}, {self.workers} workers, {len(self.tasks)} tasks ({self.partition})"
        body = f"body: {self.body}{' (' * bool(self.why)}{self.why}{')' * bool(self.why)}"
        return f"parfor at {self.where}: {checked}; {how}; {body}"


@dataclass(frozen=True)
class ParallelPlan:
    """What `tw.explain(f, *args)` says of a function under @tw.parallel: one report per loop that was reached."""

    name: str
    loops: tuple[LoopReport, ...]
    count: int  # of loops in the function

    def __str__(self) -> str:
        lines = []
        for loop in self.loops:
            checked = "not checked (check=False)" if loop.verdict is None else str(loop.verdict)
            lines.append(f"parfor at {loop.where}: {checked}")
            lines += [f"  {line}" for line in loop.plan.lines()] if loop.plan is not None else []
            why = loop.why or "machine code, which takes less than these times of Python's" * (loop.body == "native")
            lines.append(f"  body: {loop.body}{': ' * bool(why)}{why}")
        missing = self.count - len(self.loops)
        if missing:
            lines.append(f"{missing} of {self.count} loops of {self.name} are not reached")
        return "\n".join(lines)


@contextmanager
def stopped_copies(args: Sequence[Any]) -> Iterator[list[Any]]:
    """Copies of arguments for a run that skips loops; it ends where all are planned."""
    copies = []
    held: dict[int, Any] = {}
    for value in args:
        if isinstance(value, Array):
            copies.append(from_node(node_of(value)))  # what is written to it changes no other, and nothing is copied
            continue
        try:
            copies.append(copy.deepcopy(value, held))
        except Exception:  # whatever it is: some objects cannot be copied
            copies.append(value)
    with suppress(AllPlanned):
        yield copies
