"""Rewriting: a graph in, an equal graph out that costs less. Rules are in files by what they look at.

`driver.py` applies them; docs/design/0011-rewrites.md says when, and why so.
"""

from tilewise.rewrite.driver import may_fire, rewrite
from tilewise.rewrite.rules import LOCAL, PASSES

RULE_NAMES = tuple(rule.name for rules in PASSES for rule in rules)

__all__ = ["LOCAL", "PASSES", "RULE_NAMES", "may_fire", "rewrite"]
