"""NumPy's own tests with Tilewise in NumPy's place: `python -m tests.numpy_suite`."""
