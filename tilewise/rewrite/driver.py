"""Apply rules to a graph, inputs first. In: wanted nodes. Out: for every node of the graph, an equal one.

A graph is walked once and iteratively. What no rule touches keeps its very nodes, so that work which others hold, too,
is still recognised as theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from tilewise.ir.node import Node, Op, intern, numbered
from tilewise.ir.order import same_order
from tilewise.ops.index import Write
from tilewise.ops.join import copy
from tilewise.rewrite.rule import Rule
from tilewise.rewrite.rules import PASSES

Index = dict[type[Op], list[Rule]]
MAX_FIRINGS = 8  # of rules at one node, one after the other


def _indexed(rules: Sequence[Rule]) -> Index:
    found: Index = {}
    for rule in rules:
        for root in rule.roots:
            found.setdefault(root, []).append(rule)
    return found


_BY_ROOT = _indexed([rule for rules in PASSES for rule in rules])


def may_fire(nodes: Iterable[Node]) -> bool:
    """Whether any node is shaped as a rule wants it, as far as a plan's key can tell."""
    for n in nodes:
        if n.value is None:
            for rule in _BY_ROOT.get(type(n.op), ()):
                if rule.shaped(n):
                    return True
    return False


@lru_cache(maxsize=64)
def _but(without: frozenset[str]) -> tuple[Index, ...]:
    return tuple(_indexed([rule for rule in rules if rule.name not in without]) for rules in PASSES)


def rewrite(
    roots: Sequence[Node],
    exact: bool,
    without: frozenset[str] = frozenset(),
    passes: Sequence[Sequence[Rule]] | None = None,
) -> dict[Node, Node]:
    """Each node of a graph with an equal one. A wanted node stays one that must be computed, and has its memory order.

    Rules named in `without` are left out.

    What a mask decides the length of is left alone, inputs and all: its shape names the mask.
    """
    indices = _but(without) if passes is None else [_indexed(rules) for rules in passes]
    new = _pass(roots, exact, indices[0])
    for index in indices[1:]:
        more = _pass([new[r] for r in roots], exact, index)
        new = {n: more.get(m, m) for n, m in new.items()}
    return new


def _pass(roots: Sequence[Node], exact: bool, index: Index) -> dict[Node, Node]:
    ends = set(roots)
    new: dict[Node, Node] = {}
    for n in numbered(roots):
        new[n] = n
        if n.value is not None:
            continue
        changed = any([new[x] is not x for x in n.inputs])
        looked_at = type(n.op) in index
        if not (changed or looked_at) or not n.known:
            continue
        made = intern(n.op, _operands(n, new), n.shape, n.dtype, n.order) if changed else n
        if looked_at:
            made = _fired(made, index, exact)
        if made is not n:
            new[n] = _dressed(made, n, n in ends)
    return new


def _operands(n: Node, new: dict[Node, Node]) -> tuple[Node, ...]:
    """A node's new operands. What it writes to must not be an array that was there before: others have it, too."""
    first, *rest = n.inputs
    base = new[first]
    if isinstance(n.op, Write) and base.value is not None and base is not first:
        base = copy(base, first.order)
    return (base, *[new[x] for x in rest])


def _fired(node: Node, index: Index, exact: bool) -> Node:
    """The node after all rules that apply."""
    for _ in range(MAX_FIRINGS):
        for rule in index.get(type(node.op), ()):
            if rule.allowed(node, exact) and rule.shaped(node) and (made := rule.make(node)) is not None:
                assert made.shape == node.shape and made.dtype == node.dtype, f"{rule.name} changes the type"
                node = made
                break
        else:
            return node
        if node.value is not None:
            return node
    return node


def _dressed(made: Node, n: Node, wanted: bool) -> Node:
    """A node in the place of another: its memory order, and for errors the user's line."""
    if not same_order(n.shape, made.order, n.order) or (wanted and made.value is not None):
        made = copy(made, n.order)
    stack = [made]
    while stack:
        x = stack.pop()
        if x.site is None and x.value is None:
            x.site = n.site
            stack += x.inputs
    if made.inputs:  # a number hangs on nothing, and may outlive what the bits mean
        made.trail |= n.trail
    return made
