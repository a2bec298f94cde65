"""Operators of array handles as machine code: what runs before NumPy where both operands are small and known."""
