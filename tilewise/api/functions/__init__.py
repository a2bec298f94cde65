"""User functions: traced into the graph where they can be, else compiled (native/), else run on NumPy tiles."""
