"""Random programs, run by NumPy and by Tilewise under many settings. `python -m tests.fuzz --help`."""
