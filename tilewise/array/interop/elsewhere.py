"""What is read of arrays that are elsewhere: in files, on workers. In: Arrays. Out: ndarrays of what is asked for, or a
refusal where that is more than memory= allows.

Without this, whoever wants ten rows of a file, or prints it, would have all of it brought into memory.
"""

from __future__ import annotations

import mmap
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tilewise.array import force as forcing
from tilewise.array.cell import ND
from tilewise.array.handle import Array, meta
from tilewise.array.schedule import sites
from tilewise.array.session import on_workers, session_here
from tilewise.errors import MemoryBudgetError, message
from tilewise.ir.node import Node
from tilewise.store.base import Source

CORNERS = 16  # parts of an array that are read to print it: more are not better than the whole
NO_RESERVE = 0x4000  # MAP_NORESERVE, which Python's mmap has a name for from 3.13 on
PIECE_BYTES = 1 << 20  # of an array that is read element by element


def parts_here(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments with copies, to read, of those that are small parts of arrays elsewhere; the very same if none is.

    Only for functions whose results are new arrays.
    """
    few = tuple([_part_here(x) for x in args])
    return args if all(a is b for a, b in zip(few, args, strict=True)) else few


def _part_here(x: Any) -> Any:
    if type(x) is list or type(x) is tuple:
        few = parts_here(tuple(x))
        return x if all(a is b for a, b in zip(few, x, strict=True)) else type(x)(few)
    if type(x) is not Array or not is_small_part(x):
        return x
    part = forcing.fetch(x).view()
    if x._cell.node is None:  # it is here after all
        return x
    if part.flags.forc and not meta(x).flags.forc:
        part = _with_gaps(part)
    part.flags.writeable = False
    return part


def is_small_part(x: Array) -> bool:
    """Whether an array is a part of one elsewhere, small enough that the rest had better stay there."""
    node = x._cell.node
    if node is None or not (on_workers() or _stays(node)):
        return False
    return node.known and 2 * x.nbytes <= node.nbytes


def in_blocks(*args: Any) -> bool:
    """Whether blocks do what NumPy could do at once: on workers, or in turns as arguments exceed memory=."""
    return on_workers() or (_limit() is not None and exceed([x for x in args if type(x) is Array]))


def stays_elsewhere(x: Array) -> bool:
    """Whether an array is not brought here whole when it is gone through."""
    return exceed([x]) or is_small_part(x)


def exceed(arrays: Sequence[Array]) -> bool:
    """Whether arrays that are elsewhere are together larger than memory= allows."""
    limit = _limit()
    return limit is not None and sum(x.nbytes for x in arrays if (n := x._cell.node) is not None and n.known) > limit


def _stays(node: Node) -> bool:
    """Whether a value is in a file, or will be as it is larger than memory= allows."""
    limit = _limit()
    return isinstance(node.value, Source) or (limit is not None and node.known and node.nbytes > limit)


def _limit() -> int | None:
    """What arrays in this process may take up, where blocks take turns in it."""
    session = session_here()
    return None if session is None or session.cluster is not None else session.memory


def _with_gaps(part: ND) -> ND:
    """A copy in the same order that is not in one piece, as the view that it is of: NumPy's results may lie by that."""
    axes = sorted(range(part.ndim), key=lambda a: -part.strides[a])
    *slow, fast = (part.shape[a] for a in axes)
    copy = np.empty((*slow, fast + 1), part.dtype)[..., :fast].transpose(np.argsort(axes))
    copy[...] = part
    return copy


def refuse_larger(name: str, arrays: Sequence[Array]) -> None:
    """An error if arrays that a function needs whole are elsewhere, and larger than memory= allows."""
    limit = _limit()
    if limit is None:
        return
    nodes = {id(n): n for x in arrays if (n := x._cell.node) is not None and n.known}
    if (size := sum(n.nbytes for n in nodes.values())) > limit:
        odd = next((f" of {x.dtype}" for x in arrays if x.dtype.kind in "OSUTMmV" or not x.dtype.isnative), "")
        raise MemoryBudgetError(
            message(
                f"{name}{odd} needs its arguments whole, and memory= allows {limit:,} bytes",
                got=f"{size:,} bytes",
                where="{}:{}".format(*sites.outside(sys._getframe(1))),
                cure=f"Set memory={2 * size} or more, or give it parts",
            )
        )


def printed(x: Array, threshold: int | None = None, edgeitems: int | None = None) -> ND:
    """An array's elements, to print; of a large one elsewhere those that NumPy's summary shows, and zeros."""
    options: Any = np.get_printoptions()
    if x._cell.node is None or x._fixed or x.size <= (options["threshold"] if threshold is None else threshold):
        return forcing.fetch(x)
    if x._nd is None:
        forcing.evaluate([x._cell])
    node, edge = x._cell.node, options["edgeitems"] if edgeitems is None else edgeitems
    if node is None or not isinstance(node.value, Source) or x.dtype.hasobject or edge < 1:
        return forcing.fetch(x)  # without edges, NumPy's widths are those of all elements
    ends = [(slice(0, edge), slice(n - edge, n)) if n > 2 * edge else (slice(0, n),) for n in x.shape]
    if prod(map(len, ends)) > CORNERS:
        return forcing.fetch(x)
    try:
        shown = _untouched(x.shape, x.dtype)
    except OSError:  # the system gives no more addresses than it has memory
        return forcing.fetch(x)
    for corner in product(*ends):
        shown[corner] = forcing.fetch(x[corner])
    return shown


def _untouched(shape: tuple[int, ...], dtype: np.dtype[Any]) -> ND:
    """An array of zeros of which only those pages take up memory that are written to."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | (NO_RESERVE if sys.platform == "linux" else 0)
    return np.frombuffer(mmap.mmap(-1, prod(shape) * dtype.itemsize, flags), dtype).reshape(shape)


def rows_of(x: Array) -> Iterator[Any]:
    """What iteration over the first axis of an array elsewhere gives: views, or numbers of a vector."""
    rows: Any = x if x.ndim > 1 else Elements(x)
    for i in range(x.shape[0]):
        yield rows[i]


class Elements:
    """Elements of an array elsewhere by their positions in C order: read piece by piece, and again after a write."""

    def __init__(self, x: Array) -> None:
        self.x, self.node = x, x._cell.node
        self.start, self.piece = 0, np.empty(0)

    def __getitem__(self, at: int) -> Any:
        x, node = self.x, self.x._cell.node
        if node is None or not x.ndim:  # it is here by now
            return forcing.fetch(x).flat[at]
        if node is not self.node or not self.start <= at < self.start + self.piece.size:
            row = prod(x.shape[1:])
            first, rows = at // row, max(PIECE_BYTES // (row * x.dtype.itemsize or 1), 1)
            self.node, self.start, self.piece = node, first * row, forcing.fetch(x[first : first + rows])
        return self.piece.flat[at - self.start]
