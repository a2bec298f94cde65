"""Native code by LLVM: `compile` a kernel, call it on arrays. In: `Kernel`. Out: `Compiled`.

LLVM itself is loaded by `compiler.py`, when something is to be compiled that is not on disk.
"""

from __future__ import annotations

from tilewise.kernel.native import supports, supports_reduce
from tilewise.target.llvm.build import compiled_count
from tilewise.target.llvm.drive import drive, driver
from tilewise.target.llvm.gram import gram
from tilewise.target.llvm.handing import Parts
from tilewise.target.llvm.launch import Compiled, compile, nests, run
from tilewise.target.llvm.listing import Listing, listing
from tilewise.target.llvm.notes import keep, recall
from tilewise.target.llvm.packing import packed
from tilewise.target.llvm.product import product
from tilewise.target.llvm.scalar import identity
from tilewise.target.llvm.select import select
from tilewise.target.llvm.tiles import SCRATCH_BYTES, Ref, Scratch, Stretch, Table, Walk, bits, calls_of, copied

__all__ = [
    "SCRATCH_BYTES",
    "Compiled",
    "Listing",
    "Parts",
    "Ref",
    "Scratch",
    "Stretch",
    "Table",
    "Walk",
    "bits",
    "calls_of",
    "compile",
    "compiled_count",
    "copied",
    "drive",
    "driver",
    "gram",
    "identity",
    "keep",
    "listing",
    "nests",
    "packed",
    "product",
    "recall",
    "run",
    "select",
    "supports",
    "supports_reduce",
]
