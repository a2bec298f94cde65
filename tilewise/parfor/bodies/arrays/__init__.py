"""Bodies as array expressions: all iterations at once, with one axis per loop."""
