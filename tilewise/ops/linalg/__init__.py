"""Operators on matrices: NumPy's functions of whole matrices, and QR and Cholesky in blocks on a mesh."""
