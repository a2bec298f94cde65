"""Python functions with loops, read from their source. In: a function, types of arguments. Out: programs of kernel/program."""
