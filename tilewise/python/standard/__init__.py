"""Functions of Python itself: builtins, math, sums and extremes of several."""
