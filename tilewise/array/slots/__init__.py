"""Operators of handles as machine code: where things lie (layout.py), and when the code takes over (takeover.py)."""
