"""Indexing with arrays, and writing: selections (gather.py, compress.py), new values of a base (write.py)."""

from tilewise.ops.index.compress import Compress, compress, counted
from tilewise.ops.index.gather import Gather, counts_through
from tilewise.ops.index.key import Key, picked, rebuild, together
from tilewise.ops.index.view_key import KeyInBase, key_in_base
from tilewise.ops.index.write import At, Put, Unchanged, Update, Write

__all__ = [
    "At",
    "Compress",
    "Gather",
    "Key",
    "KeyInBase",
    "Put",
    "Unchanged",
    "Update",
    "Write",
    "compress",
    "counted",
    "counts_through",
    "key_in_base",
    "picked",
    "rebuild",
    "together",
]
