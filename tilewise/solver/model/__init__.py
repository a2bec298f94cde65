"""A graph as a problem with tables of costs, and a solution as a graph with layouts written in."""
