"""Expressions of Python's operators as one loop: its text and its code."""
