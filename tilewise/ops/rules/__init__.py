"""What a mesh may do with an operator: the rules by letters, by cuts, and of workers that talk."""

from tilewise.ops.rules import cuts, letters, talks
from tilewise.ops.rules.rule import Rule, rules

__all__ = ["Rule", "cuts", "letters", "rules", "talks"]
