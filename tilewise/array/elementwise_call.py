"""Calls of elementwise functions, `np.sqrt(x)`. In: operands. Out: results at once, or what arithmetic.py records.

The lines of the call without options; machine code stands in front of them in long programs (array/slots/takeover.py).
Methods and options are in api/ufuncs.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.array import record as rec
from tilewise.array.arithmetic import BASES, ND, binary, few, unary
from tilewise.array.handle import Array, from_buffer


class ElementwiseCall:
    """An elementwise function that can be called."""

    __slots__ = ("__dict__", "__weakref__", "_one", "_two", "numpy")

    def __init__(self, numpy: np.ufunc) -> None:
        self.numpy = numpy
        plain = isinstance(numpy, np.ufunc) and numpy.nout == 1 and numpy.signature is None
        self._one = numpy if plain and numpy.nin == 1 else None  # what is called without options for one operand
        self._two = numpy if plain and numpy.nin == 2 else None  # and for two

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            count = len(args)
            if count == 1 and (f := self._one) is not None:
                x = args[0]
                nd = few(x)
                if nd is not None:
                    r = f(nd)
                    return from_buffer(r) if type(r) is ND else rec.wrap(r)
                base = BASES.get(type(x))
                return unary(f, x) if base is None else rec.wrap(f(base(x)))
            if count == 2 and (f := self._two) is not None:
                a, b = args
                if type(a) is Array or type(b) is Array:
                    return binary(f, a, b)
                return rec.at_once(f, args, {})
        return self._with_options(args, kwargs)

    def _with_options(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise NotImplementedError
