"""All rules, as passes over a graph; within a pass, in the order in which they are tried at a node."""

from __future__ import annotations

from tilewise.rewrite import algebra, chains, onehot, periodic, reroll, scatter
from tilewise.rewrite.rule import Rule

# Re-rolling comes first: what is done to one sibling alone (x * 1) hides that they are alike.
PASSES: tuple[tuple[Rule, ...], ...] = (
    reroll.RULES,
    (*algebra.RULES, *scatter.RULES, *onehot.RULES, *chains.RULES, *periodic.RULES),
)
LOCAL = periodic.NAMES  # not on meshes
