"""Functions of doubles with code of their own, by name. In: a function of lanes. Out: a row here, and in `COSTLY`.

Each is registered beside its code (`@body`); float32 has some of its own (single.py), else goes through double. That a
kernel may have the function for a dtype is said in ir/scalar.py, or for NumPy's and SciPy's kernel/native_support.py.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewise.backend.llvm.emit.text import Val
from tilewise.errors import message

Body = Callable[..., Val]

MATH: dict[str, Body] = {}
COSTLY = {"floor_divide", "remainder", "fmod", "gcd", "lcm"}  # functions of many instructions: all of MATH, and these
FOREIGN: set[str] = set()  # functions whose code is elsewhere: no name on disk would tell its versions apart


def body(f: Body) -> Body:
    """Register the code of the function of this name."""
    name = f.__name__
    found = MATH.setdefault(name, f)
    if found is not f and found.__code__ != f.__code__:
        raise ValueError(message(f"there is code for {name} already, perhaps in use", cure="Choose another name"))
    COSTLY.add(name)
    if not f.__module__.startswith(__name__.rpartition(".")[0]):
        FOREIGN.add(name)
    return f
