"""The loop IR of fused kernels and its NumPy meaning. In: nothing. Out: `Kernel` values. Compiled by `backend/`."""
