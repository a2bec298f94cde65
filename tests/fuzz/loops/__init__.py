"""Random functions with loops, run by plain Python and by `tw.jit`."""
