"""Functions with loops, as values. In: what python/ reads. Out: what a backend compiles, or interpret.py runs."""
