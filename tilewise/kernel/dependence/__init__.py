"""Which iterations of a loop touch the same cells. In: accesses with subscripts over loop indices. Out: verdicts.

`expr.py` has the subscripts, `affine_tests.py` the tests on their forms, `inspect.py` the exact answer by evaluation,
`decide.py` takes the cheapest that decides. Nothing here knows of Python's syntax or of NumPy's arrays.
"""
