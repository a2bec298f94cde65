"""Accumulations. In: operators, values before the loop, what tasks found. Out: values as of the loop.

`combine.py` has names and arrays, `cells.py` cells of lists, dicts and instances, `late.py` minima that the later value
decides, `in_place.py` names that are arrays.
"""
