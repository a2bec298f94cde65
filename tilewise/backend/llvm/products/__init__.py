"""Sums of products. In: kernels and tiles of matrices. Out: register tiles, calls into BLAS, X.T @ X by halves."""
