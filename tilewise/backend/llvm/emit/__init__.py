"""LLVM IR as text. In: a kernel, its specialisation. Out: values, loops, loads and stores, the body of one point."""
