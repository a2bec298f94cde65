"""How a loop runs best. In: a loop, its values, options, a machine. Out: a tree of costs, and what was decided.

`estimate.py` makes the tree (`tree.py`) from the source and the values at the start of the loop, with the costs of
`operators.py` and `profile.py`; `inputs.py` says which parts of inputs each task reads; `optimise.py` decides.
"""
