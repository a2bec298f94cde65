"""Loop programs beside plain Python, Numba and C: `python -m benchmarks.loops`."""
