"""Elementary and special functions on lanes. In: `Val`s of emit/text.py. Out: `Val`s; scalar.py is the table.

The modules imported here put their functions into table.py: whoever asks that finds them all.
"""

from tilewise.backend.llvm.math import elementary, gamma, hyperbolic, power, roots, special, trig

__all__ = ["elementary", "gamma", "hyperbolic", "power", "roots", "special", "trig"]
