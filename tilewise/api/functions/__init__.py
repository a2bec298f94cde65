"""User functions: traced into the graph where they can be, else run on NumPy tiles."""
