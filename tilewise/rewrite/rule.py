"""A rule: one identity and its condition. In: a node. Out: an equal node, or None where the rule does not apply."""

from __future__ import annotations

from collections.abc import Callable

from tilewise.ir.node import Node, Op
from tilewise.records import dataclass


@dataclass(frozen=True)
class Rule:
    """`make` gives an equal node (same shape and dtype) or None; its docstring is `before => after`.

    `shaped` is the part of the condition that plans' keys know about (operators, dtypes and numbers of axes, but no
    sizes and values): a structure in which no node is so shaped is never looked at again. `rounds` are the kinds of
    dtypes ("fc") for which the last bits may differ: for these, the rule does not run under `exact=True`.
    """

    roots: tuple[type[Op], ...]
    shaped: Callable[[Node], bool]
    make: Callable[[Node], Node | None]
    rounds: str = ""

    @property
    def name(self) -> str:
        """How it is called."""
        return self.make.__name__

    def allowed(self, node: Node, exact: bool) -> bool:
        """Whether it may be tried on a node."""
        return not (exact and node.dtype.kind in self.rounds)
