"""Where elements are, how many there are, and which are equal: NumPy's functions for searching and counting."""
