"""Loops on workers of a cluster. In: a job. Out: its results.

`driver.py` hands out tasks, `worker.py` runs them, `packing.py` says how the body and its values travel, `pieces.py`
how parts of arrays stand for the whole.
"""
