"""All rules, in the order in which they are tried at a node."""

from __future__ import annotations

from tilewise.rewrite import algebra
from tilewise.rewrite.rule import Rule

RULES: tuple[Rule, ...] = (*algebra.RULES,)
