"""Expressions of arrays of middling size: their operators wait for one another, and run as one loop."""
