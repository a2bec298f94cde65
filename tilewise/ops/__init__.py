"""Operators, one file per family: class, inference, NumPy meaning, and what a mesh may do with it (`rules`)."""
