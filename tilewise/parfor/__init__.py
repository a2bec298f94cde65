"""Loops whose iterations run in parallel, proved to be independent. In: Python functions with loops.

Out: the plain loop's results.
"""
