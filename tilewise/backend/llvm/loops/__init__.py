"""Loop forms. In: a kernel, shapes and strides. Out: the loops of maps and reductions, their order, their parts."""
