"""Two threads for every system. Imports none of them: their pools read the environment when they are loaded."""

from __future__ import annotations

import os

THREADS = 2
VARIABLES = "OMP_NUM_THREADS OPENBLAS_NUM_THREADS MKL_NUM_THREADS NUMBA_NUM_THREADS NUMEXPR_NUM_THREADS".split()


def two_threads() -> None:
    """Call it before any system is imported."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
    for variable in (*VARIABLES, "NUMEXPR_MAX_THREADS"):
        os.environ[variable] = str(THREADS)
    # Threads that spin would slow whoever has the next turn.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ["OPENBLAS_THREAD_TIMEOUT"] = "4"  # 2**4 cycles, instead of some 50 ms
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["TILEWISE_WAIT_FOR_NATIVE"] = "1"  # times are those of good code
    os.environ.setdefault("NUMBA_THREADING_LAYER", "omp")
