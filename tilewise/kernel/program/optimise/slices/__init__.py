"""Loops over elements of slices: several as one, block by block. In: a program. Out: one with other loops."""
