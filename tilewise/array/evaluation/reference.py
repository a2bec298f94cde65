"""Evaluating by NumPy alone, and checking every node against it. In: nodes and the values known. Out: all values.

`config(engine="numpy")` runs `reference`; `tilewise.testing.compare()` runs each node both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise import compiler
from tilewise.array.cell import ND
from tilewise.backend import host_backend
from tilewise.config import Settings
from tilewise.engine.run import Runner
from tilewise.errors import TilewiseError, message
from tilewise.ir.node import Length, Node, intern, known_leaf
from tilewise.ir.order import strides_of
from tilewise.ops.create import Empty
from tilewise.ops.views import Arrange, Cut, Window
from tilewise.plan.draft import Draft
from tilewise.stage.steps import ALIASES
from tilewise.store import pool


def reference(nodes: Sequence[Node], values: list[Any]) -> list[Any]:
    """Every node by its NumPy meaning, one after another."""
    at = {n: i for i, n in enumerate(nodes)}
    for i, n in enumerate(nodes):
        if values[i] is None:
            with np.errstate(all="ignore"):
                values[i] = _laid(np.asarray(n.op.numpy(*[values[at[x]] for x in n.inputs])), n)
            if n.op.name == "compress" and isinstance(n.shape[0], Length):
                n.shape[0].value = values[i].shape[0]
    return values


def _laid(value: ND, node: Node) -> ND:
    """A value in the memory order of its node, which views of it and writes to it go by."""
    if isinstance(node.op, VIEWS) or value.strides == strides_of(value.shape, value.itemsize, node.order):
        return value
    out = pool.empty(value.shape, value.dtype, node.order)
    out[...] = value
    return out


def compare(nodes: Sequence[Node], values: list[Any], settings: Settings) -> list[Any]:
    """Run node by node, natively and by NumPy, and name the first that differs."""
    at = {n: i for i, n in enumerate(nodes)}
    exact = reference(nodes, list(values))
    for i, n in enumerate(nodes):
        values[i], known = exact[i], values[i] is not None
        if known or type(n.op) is Empty:  # which is written before it is read
            continue
        stubs = [known_leaf(np.asarray(exact[at[x]]), x.order) for x in n.inputs]
        one = intern(n.op, tuple(stubs), n.shape, n.dtype, n.order)
        graph = [*dict.fromkeys(stubs), one]
        draft = Draft(graph, [g is one for g in graph], settings.fusion, merge=False)
        steps = compiler.compile_stages(draft, settings.without)[0].steps
        slots = [g.value for g in graph]
        Runner(steps, host_backend(settings.native)).run(graph, slots)
        check_same(n, np.asarray(slots[-1]), np.asarray(exact[i]), [exact[at[x]] for x in n.inputs])
    return values


VIEWS = (Window, Cut, Arrange, *ALIASES)
SUMS = ("reduce", "scan", "contract")


def check_same(n: Node, got: ND, want: ND, operands: Sequence[Any]) -> None:
    """Raise if a node's value differs from NumPy's beyond what docs/semantics.md allows."""
    same = got.dtype == want.dtype and got.shape == want.shape
    if same and n.dtype.kind in "fc":
        tolerance = 0.0 if n.op.name not in ("map", *SUMS) else 1e-6 if n.dtype.char in "efF" else 1e-12
        with np.errstate(all="ignore"):
            size = n.op.numpy(*map(np.abs, operands)) if n.op.name in SUMS else want  # of terms, which may cancel
            scale = np.nanmax(np.abs(np.where(np.isfinite(size), size, 0)), initial=0.0)
            same = bool(np.allclose(got, want, rtol=tolerance, atol=tolerance * float(scale), equal_nan=True))
    elif same:
        same = bool(np.array_equal(got, want))
    if not same:
        where = f"{n.site[0]}:{n.site[1]}" if n.site else None
        raise TilewiseError(message(f"{n.op.label()} differs from NumPy", got=f"{got!r}, not {want!r}", where=where))
