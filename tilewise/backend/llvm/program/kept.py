"""Programs after our passes, on disk. In: a program before them, names of passes to leave out. Out: the one after them.

Passes take longer than loading the code that is made of their result: for nests of slice statements a second, in every
process. The name of what is kept is a hash of the program before, and of all sources that passes are made of.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path

from tilewise.backend.llvm.compile import disk, key
from tilewise.config import current
from tilewise.kernel.program.encode import Odd, decoded, encoded
from tilewise.kernel.program.ir import Program
from tilewise.kernel.program.walk import size

LEAST = 8  # statements: on fewer, passes take no longer than reading a file
KERNEL = Path(__file__).parents[3] / "kernel"
OPTIMISE = KERNEL / "program" / "optimise"
FOLDERS = (KERNEL, KERNEL / "dependence", KERNEL / "program", OPTIMISE, OPTIMISE / "slices")
Passes = Callable[[Program, Collection[str]], Program]


@cache
def _makers() -> bytes:
    """A hash of what decides how programs come out of passes. Raises FileNotFoundError where there are no sources."""
    return key.sources((*FOLDERS, Path(__file__).parent))


def kept(program: Program, without: Collection[str], passes: Passes) -> Program:
    """What passes make of a program: from disk, if that was done before."""
    if size(program.body) + sum(size(p.body) for p in program.functions) < LEAST:
        return passes(program, without)
    try:
        facts = _makers() + repr(sorted(without)).encode() + encoded(program)
    except (Odd, OSError):
        return passes(program, without)
    folder, name = current().cache_dir / "code", hashlib.sha256(facts).hexdigest()
    data = disk.get(folder, name)
    if data is not None:
        return decoded(data)
    made = passes(program, without)
    with contextlib.suppress(Odd):
        disk.put(folder, name, encoded(made))
    return made
