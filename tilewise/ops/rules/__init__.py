"""What a mesh may do with an operator: by letters, by cuts, of matrices, of workers that talk, of user functions."""

from tilewise.ops.rules import cuts, letters, matrices, talks, user
from tilewise.ops.rules.rule import Rule, rules

__all__ = ["Rule", "cuts", "letters", "matrices", "rules", "talks", "user"]
