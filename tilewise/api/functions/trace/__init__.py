"""Functions run once on stand-ins. In: a function, its arguments. Out: what it did with them, as a graph or a tape."""
