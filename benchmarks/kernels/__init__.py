"""Array programs under Tilewise, its peers and hand-written C. `python -m benchmarks.kernels` prints the table."""
