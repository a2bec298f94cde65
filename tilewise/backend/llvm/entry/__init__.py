"""Machine code that takes Python's calls of compiled functions."""
