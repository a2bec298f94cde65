"""Code for a whole plan, asked for before its first step runs. In: steps, arrays that are there. Out: requests.

The compiler's process has more than one thread, and the steps before a kernel take time: so all kernels of a plan are
asked for at once, for arrays as they will lie. What a step makes is stood in for by an array of its shape and strides
that nobody fills, and a length that a mask decides by a guess. A guess that is wrong costs code that nobody uses: what
fails here is no error, as a step that finds no code asks for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from tilewise.backend import threads
from tilewise.backend.host.arrays import walked
from tilewise.backend.host.steps import kept_axes
from tilewise.backend.llvm.call import parallel_for
from tilewise.backend.llvm.compile import build, helper
from tilewise.backend.llvm.tiles.group import planned
from tilewise.config import Settings, current
from tilewise.ir.node import Length, Node
from tilewise.stage.cut_axis import space_of
from tilewise.stage.steps import Pass, Step, Tiled, View, makes, passes

ND = np.ndarray[Any, Any]
HALF = 0.5


def ask_ahead(
    steps: Sequence[tuple[Step, Any]], nodes: Sequence[Any], values: Sequence[Any], least: int
) -> Iterator[None]:
    """Ask for the code of steps, in pieces, if it is being compiled at all: not where it comes from disk.

    `least`: of fewer kernels nothing is asked for.
    """
    settings = current()
    if settings.wait_for_native or not helper.running():
        return
    if threads.get_threads() > 1:
        with build.asking(), contextlib.suppress(Exception):
            parallel_for.ask()
    if sum(len(passes(s)) for s, _ in steps) < least:
        return
    seen, nodes = list(values), [n if n.known else _Guessed(n) for n in nodes]
    for step, kernel in steps:
        try:
            with build.asking():
                _ask(step, kernel, nodes, seen, settings)
        except Exception:  # what follows may hang on it
            return
        yield


def _ask(step: Step, kernel: Any, nodes: Sequence[Any], seen: list[Any], settings: Settings) -> None:
    """Ask for the code of one step, and stand in for what it makes."""
    if isinstance(step, View):
        seen[step.pos] = nodes[step.pos].op.numpy(seen[step.input])
        return
    made = makes(step)
    with contextlib.suppress(Exception):
        if isinstance(step, Tiled):
            if planned(step, kernel, nodes, seen, settings) is None:
                for s, k in zip(step.steps, kernel.kernels, strict=True):
                    _ask(s, k, nodes, seen, settings)
                return
        elif isinstance(step, Pass) and not step.blas and not any(b is not None for b in step.writes):
            _ask_pass(step, kernel, nodes, seen)
    for x in made:
        seen[x] = _stand_in(nodes[x])


class _Guessed:
    """A node as if a mask that decides its lengths had been counted."""

    known = True

    def __init__(self, node: Node) -> None:
        self._node = node
        self.shape = self.dims = tuple(_guess(d) if type(d) is Length else d for d in node.shape)
        self.size = prod(self.dims)
        self.nbytes = self.size * node.dtype.itemsize

    def __getattr__(self, name: str) -> Any:
        return getattr(self._node, name)


def _guess(length: Length) -> int:
    """How many elements a mask may select: as many as the last time, or half of them."""
    share = length.last_share()
    count = int(length.mask.size * (HALF if share is None else share))
    return max(count, 1) if length.value is None else length.value


def _ask_pass(step: Pass, kernel: Any, nodes: Sequence[Any], seen: Sequence[Any]) -> None:
    dims, inputs = space_of(step, nodes), [seen[x] for x in step.inputs]
    if step.letters is not None:
        inputs = [walked(x, along, len(dims)) for x, along in zip(inputs, step.letters, strict=True)]
    outs = [kept_axes(_stand_in(nodes[x]), nodes[x], step, k) for k, x in enumerate(step.outs)]
    kernel.ask(dims, [*inputs, *outs])


def _stand_in(node: Any) -> ND:
    """An array that lies as the result of a node: memory that the system hands over when someone touches it.

    Views may read an element of it, or copy it.
    """
    order = node.order or tuple(range(len(node.dims)))
    made: ND = np.empty([node.dims[axis] for axis in order], node.dtype)
    return made.transpose([order.index(axis) for axis in range(len(order))])
