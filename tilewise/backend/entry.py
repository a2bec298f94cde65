"""What a backend and compiled functions agree on, so that machine code can take Python's calls of them.

There is one piece of machine code for all functions. It is given a table of words: a head (`HEAD`), what each argument
has to be, what each name, function and cell that the compiled code was made for has to stand for, where the nodes of
each result begin, and the nodes.
"""

from __future__ import annotations

from tilewise.records import dataclass

# Objects: what is returned for calls that others have to take (`missed`), classes, the settings of a call (a list of
# one, which the code was made for; the variable and the dict that say what they are now), variables that have to be
# None (`tracing`) or a known object (`errors`, `state`; of another one `strict` has to return `false`), whom to call
# when code has not returned (`ended`), for results that are not made here (`finish`), rooms for results that are free,
# and what makes one. Addresses: of the compiled code, and of what it calls Python with, if it does. Then counts.
HEAD = (
    "missed", "tuple", "ndarray", "true", "false", "none", "settings", "here", "config", "base", "tracing", "errors",
    "state", "strict", "ended", "finish", "rooms", "room", "code", "host", "arguments", "names", "functions", "cells",
    "results",
)  # fmt: skip
AT = {name: k for k, name in enumerate(HEAD)}
ARGUMENT, NAME, FUNCTION, CELL, NODE = 4, 3, 3, 2, 5  # words of one
MOST_WORDS = 64  # of the arguments, as compiled code takes them

# Kinds of arguments. Words: kind, class, then of an array its dtype and rank, of an int the least and the greatest.
ARRAY, INT, BOOL, BYTES1, BYTES2, BYTES4, BYTES8, BYTES16 = range(8)
BYTES = {1: BYTES1, 2: BYTES2, 4: BYTES4, 8: BYTES8, 16: BYTES16}  # numbers, copied as they are

# Kinds of nodes. Words: kind, where the number lies among the results in bytes, an object (of NumPy's numbers and
# arrays the dtype), the length of a tuple or the rank of an array, the bytes of an array's element. Behind an array:
# the arguments that are arrays. Behind a tuple: its items.
OBJECT, FLOAT, WHOLE, TRUTH, COMPLEX, SCALAR, TUPLE, NDARRAY, OTHER = range(9)


@dataclass(frozen=True)
class Places:
    """Where things lie in objects, in bytes, and addresses of NumPy's functions."""

    ndim: int  # of an ndarray
    dtype: int
    data: int
    value: int  # of a number
    items: int  # of a tuple
    length: int
    bytes: int  # of a bytes object
    room: int  # of an object of ctypes: where its memory is
    new_array: int
    new_number: int
    set_base: int
