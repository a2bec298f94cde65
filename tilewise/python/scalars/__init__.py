"""Numbers of compiled functions. In: operators, numbers. Out: numbers."""
