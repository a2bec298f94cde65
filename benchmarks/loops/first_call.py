"""Seconds of the first calls of `tw.jit` with what is on disk: `python -m benchmarks.loops.first_call NAME SIZE`.

Run it after row.py with the same `TILEWISE_CACHE_DIR`. Numba is not loaded (`LOOPS_WITHOUT_NUMBA`).
"""

import os
import sys
import time
import warnings

from benchmarks.kernels.threads import THREADS, two_threads
from benchmarks.loops.parallel_range import WITHOUT

MARK = "first:"


def main() -> None:
    two_threads()
    os.environ[WITHOUT] = "1"
    import numpy as np

    import tilewise as tw
    from benchmarks.loops.rivals import copied, evaluated_any
    from benchmarks.loops.row import find, small

    program = find(sys.argv[1])
    args = copied(program.inputs(program.size(sys.argv[2])))
    with tw.config(threads=THREADS, fallback="silent"), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        tw.jit(small)(np.ones(3))
        start = time.perf_counter()
        evaluated_any(tw.jit(program.function)(*args))
        print(f"{MARK}{time.perf_counter() - start}", flush=True)


if __name__ == "__main__":
    main()
