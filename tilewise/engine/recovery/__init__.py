"""Lost workers brought back: plans to run again (log.py), copies of blocks (copies.py), when to copy (copying.py)."""
