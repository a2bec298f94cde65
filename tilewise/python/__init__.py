"""Python functions with loops, read from their source. In: a function, types. Out: programs of kernel/program."""
