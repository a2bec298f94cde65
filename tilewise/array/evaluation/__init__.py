"""How cells get values: here, on workers (workers.py), block by block (in_turns.py), by NumPy alone (reference.py)."""
