"""Code that runs kernels: threads here, native code in `llvm/` (the only door to llvmlite)."""
