"""Operators that compare elements of all workers: sorts, selection by order, different elements, tables."""
