"""Calls within a loop's source. `call`: any call or method; `functions`: functions with source, which are followed;
`library`: what others do to their arguments; `library_calls`: NumPy's and Python's; `random_calls`: generators.
"""
