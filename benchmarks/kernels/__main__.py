"""The table: Tilewise beside NumPy, Numba, JAX, numexpr, Dask, scikit-learn and C. Out: a table and JSON.

    python -m benchmarks.kernels [--only name,…] [--quick] [--seconds 5] [--systems numpy,numba,…] [--memory]

All systems run in one process with two threads each, turn by turn, so that ratios are of the same minutes; each time is
the best of the turns (the median where a row says so) after a first round that compiles. Every result is compared with
NumPy's. "of limit" is the limit's time over Tilewise's; the limit is hand-written C, or where there is none (marked *)
the bytes that must move over the bandwidth of a copy, or the work over BLAS's rate, measured in the same run. "of best
peer" is the best Python peer's time over Tilewise's. Tilewise's time is that of the plain program or, where it is less
(marked jit), of the same source under `tw.jit`: Numba and JAX run decorated functions as well. Then Tilewise, plain and
under `tw.jit`, against NumPy alone at 1e3, 1e5 and 1e7 elements; the better of both is judged there, too (marked !
where it is slower than NumPy, at 1e3 than 1.5 times NumPy).
"""

from benchmarks.kernels.threads import two_threads

two_threads()

from benchmarks.kernels.runner import main  # noqa: E402  # what it imports starts threads

raise SystemExit(main(__doc__))
