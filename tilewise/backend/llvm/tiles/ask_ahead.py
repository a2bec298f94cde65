"""Code for a whole plan, asked for before its first step runs. In: steps, arrays that are there. Out: requests.

The compiler's process has more than one thread, and the steps before a kernel take time: so all kernels of a plan are
asked for at once, for arrays as they will lie. What a step makes is stood in for by an array of its shape and strides
that nobody fills. A guess that is wrong costs code that nobody uses: what fails here is no error, as a step that finds
no code asks for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.backend.host.arrays import walked
from tilewise.backend.host.steps import kept_axes
from tilewise.backend.llvm.compile import build, helper
from tilewise.backend.llvm.tiles.group import planned
from tilewise.config import Settings, current
from tilewise.stage.cut_axis import space_of
from tilewise.stage.steps import Pass, Step, Tiled, View, makes, passes

ND = np.ndarray[Any, Any]
LEAST = 2  # kernels of a plan


def ask_ahead(steps: Sequence[tuple[Step, Any]], nodes: Sequence[Any], values: Sequence[Any]) -> None:
    """Ask for the code of steps, if it is being compiled at all: not where it comes from disk."""
    settings = current()
    if settings.wait_for_native or not helper.running() or sum(len(passes(s)) for s, _ in steps) < LEAST:
        return
    seen = list(values)
    with build.asking(), contextlib.suppress(Exception):
        for step, kernel in steps:
            if not _ask(step, kernel, nodes, seen, settings):
                return


def _ask(step: Step, kernel: Any, nodes: Sequence[Any], seen: list[Any], settings: Settings) -> bool:
    """Ask for the code of one step, and stand in for what it makes; False if that is not known."""
    if isinstance(step, View):
        seen[step.pos] = nodes[step.pos].op.numpy(seen[step.input])
        return True
    made = makes(step)
    if not all(nodes[x].known for x in made):
        return False
    with contextlib.suppress(Exception):
        if isinstance(step, Tiled):
            if planned(step, kernel, nodes, seen, settings) is None:
                return all(_ask(s, k, nodes, seen, settings) for s, k in zip(step.steps, kernel.kernels, strict=True))
        elif isinstance(step, Pass) and not step.blas and not any(b is not None for b in step.writes):
            _ask_pass(step, kernel, nodes, seen)
    for x in made:
        seen[x] = _stand_in(nodes[x])
    return True


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
