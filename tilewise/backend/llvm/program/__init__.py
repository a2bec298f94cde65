"""Programs with loops as machine code. In: a program of kernel/program. Out: LLVM IR, and calls of it."""
