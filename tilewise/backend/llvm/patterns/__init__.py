"""Kernels with code of their own: argmin, bucket reductions, scans, selection by a mask."""
