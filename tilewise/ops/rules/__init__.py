"""What a mesh may do with an operator: the rules by letters, by cuts, of matrices, and of workers that talk."""

from tilewise.ops.rules import cuts, letters, matrices, talks
from tilewise.ops.rules.rule import Rule, rules

__all__ = ["Rule", "cuts", "letters", "matrices", "rules", "talks"]
