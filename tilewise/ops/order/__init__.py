"""Operators that compare elements of all workers: different ones, and the order by several keys."""
