"""What a backend is. In: stages of a plan, sizes, buffers. Out: buffers with the results.

A plan decides which passes share tiles, asking the `facts`; lengths of tiles and scratch are the backend's. A stage is
bound once per geometry and then run on buffers, as often as there are any. `HostBackend` adds what the path for arrays
of this process needs (`engine/run.py`, `tw.jit`): there, buffers are NumPy arrays and no `Buffer` is made per call.
tests/backend/test_conformance.py runs on every backend; docs/extending.md shows how one is added.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from tilewise.backend.chains import Arrived, Expression
from tilewise.backend.entry import Places
from tilewise.backend.handles import Offsets
from tilewise.ir.buffer import Buffer
from tilewise.kernel.loops import Kernel
from tilewise.records import dataclass
from tilewise.stage.steps import Stage, Step, Tiled
from tilewise.stage.tiles import Formed, Tiling

if TYPE_CHECKING:
    from tilewise.kernel.program.ir import Host, Program

Each = Callable[..., None]  # runs a step: step, what it is bound to, nodes, values, noted


@dataclass(frozen=True)
class Facts:
    """What a plan may ask of a device: memories in bytes, and what tiles have room for."""

    vector_bytes: int  # of a register; 0: not known before the backend is opened
    l1_bytes: int
    l2_bytes: int  # of one core
    l3_bytes: int
    memory_bytes: int
    tile_bytes: int  # of all values of a tile together, where results depend on its length
    tile_rows: int  # tiles are multiples of it where they can
    product_rows: int  # of a tile in which matrices are multiplied, at least
    scratch_bytes: int  # of a tile that has a halo, at most

    def tile_length(self, each: int) -> int:
        """How many slices of some bytes a tile has."""
        length = max(1, self.tile_bytes // max(1, each))
        return length // self.tile_rows * self.tile_rows if length >= self.tile_rows else length


@dataclass(frozen=True)
class Geometry:
    """The sizes of one binding: for each position a node (dims, dtype, order, operator), as a block sees it."""

    nodes: Sequence[Any]


class Listing(NamedTuple):
    """The code of a kernel for people: the compiler's language, and the device's instructions."""

    ir: str
    assembly: str


class TileReport(NamedTuple):
    """How passes that share tiles run, for people."""

    kernels: int
    tiles: int
    tile: int  # slices of each
    tuned: bool


class Outcome(NamedTuple):
    """How a program ended: 0 returned, 1 failed, 2 was made for other arguments. Which result or fault it is; whether
    it had written to arguments by then; numbers of a fault; what it returned: numbers, arrays, or (k,) for argument k.
    """

    status: int
    which: int
    written: bool
    payload: Sequence[int]
    values: Sequence[Any]


class Direct(NamedTuple):
    """How compiled code is called: call(pack(words), room), then head(room) is its status and which result it is.

    Rooms are where it leaves its results; reads[which](room, at) gives them, if they are numbers.
    """

    call: Callable[..., None]
    pack: Callable[..., bytes]
    head: Callable[[Any], tuple[int, int]]
    rooms: list[Any]
    room: Callable[[], Any]
    reads: Sequence[Callable[..., tuple[Any, ...]] | None]
    at: int
    singles: Sequence[Callable[[Any, Sequence[Any]], Any] | None]  # of results that are one ndarray: that
    results: Callable[[Any, int, Sequence[Any]], Sequence[Any]]  # of any kind, as `Outcome.values`
    outcome: Callable[[Any, list[Any]], Outcome]  # of what is left in a room, which goes back
    kinds: Sequence[Sequence[tuple[np.dtype[Any], int | None, int]]]  # dtype, rank of an array, bytes in a room
    arrays: Sequence[int]  # which arguments they are
    host: int  # the address that is given beside the arguments; 0: nothing is


class Backend(Protocol):
    """Runs stages on one device."""

    name: str
    device: str

    @property
    def facts(self) -> Facts:
        """What the device has."""

    def supports(self, kernel: Kernel) -> bool:
        """Whether there is code for a kernel."""

    def bind(self, stage: Stage, geometry: Geometry) -> Any:
        """Everything that can be worked out before there are buffers; what `run` takes."""

    def run(self, binding: Any, buffers: Mapping[int, Buffer]) -> dict[int, Buffer]:
        """The results of a stage by position. May return before the work has ended: the buffers say when it has.

        `buffers` has what the stage is given, numbers included; none of it is overwritten.
        """

    def empty(self, dims: tuple[int, ...], dtype: np.dtype[Any], order: tuple[int, ...] | None = None) -> Buffer:
        """Memory for a dense value, with its axes in some order."""

    def copy_in(self, array: np.ndarray[Any, Any]) -> Buffer:
        """A copy of an array of the host."""

    def copy_out(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        """A copy for the host, when the buffer is ready."""

    def listing(self, kernel: Kernel, shape: tuple[int, ...]) -> Listing:
        """The code of a kernel over a space, for operands in C order."""


class HostBackend(Backend, Protocol):
    """A backend whose buffers are arrays of this process."""

    def warm_up(self) -> None:
        """Get ready what the first run needs, in time that nobody waits for (backend/ahead.py)."""

    def ask_ahead(
        self, steps: Sequence[tuple[Step, Any]], nodes: Sequence[Any], values: Sequence[Any], least: int
    ) -> Iterator[None]:
        """Get ready what bound steps will need, for arrays that lie so, if they have so many kernels at least.

        Piece by piece, each a turn of the iterator.
        """

    def bound(self, step: Step) -> Any:
        """What runs a step: for a pass a function (dims, inputs, params, outs), for a group a `Group`, else None."""

    def select(self, values: np.ndarray[Any, Any], mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """values[mask]."""

    def tiling(self, group: Tiled, nodes: Sequence[Any], forced: int | None = None) -> Tiling | None:
        """The tiles of a group with the sizes at hand; None if its passes run one by one."""

    def formed(self, group: Tiled, nodes: Sequence[Any]) -> Formed | None:
        """A group as it runs with the sizes at hand: some of its passes may be computed again where they are read."""

    def report(self, group: Tiled, nodes: Sequence[Any]) -> TileReport | None:
        """The same for people, as a run with these sizes and settings has it."""

    def replays(self, runner: Any, nodes: Sequence[Any], given: Iterable[int], wanted: Sequence[int]) -> Replays:
        """Runs of a plan that are repeated as few native calls."""

    def program(self, program: Program, host: Sequence[Host] = ()) -> Callable[[list[Any]], Outcome]:
        """A program with loops: a function of its params, ndarrays and numbers. host: what its HostCalls call."""

    def passed(
        self, program: Program, without: Collection[str], passes: Callable[[Program, Collection[str]], Program]
    ) -> Program:
        """What passes (all but some) make of a program; it may be known from before."""

    def vector_loops(self, program: Program) -> int:
        """How many loops of a program work on several elements at once."""

    def operators(self, at: Offsets, state: int) -> dict[str, int]:
        """Addresses of machine code for the operators of handles, by name (backend/handles.py); none if it has none."""

    def entry(self, at: Places) -> int:
        """The address of machine code that takes calls of compiled functions (backend/entry.py); 0 if it has none."""

    def chain(self, expression: Expression, arrived: Arrived) -> None:
        """Hand over the code of an expression (backend/chains.py): now, later, or never if it has none."""


class Group(Protocol):
    """Passes that share their tiles, bound."""

    kernels: list[Any]  # of its steps, one by one

    def run(self, nodes: Sequence[Any], values: list[Any], noted: set[Any], each: Each) -> None:
        """Fill in what they make: tile by tile, or by running each of them."""


class Unfit(Exception):
    """A run that cannot be repeated by a replay, or was not."""


class Replay(Protocol):
    """Repeats a run on other arrays of the same geometry."""

    def run(self, values: list[Any]) -> None:
        """Fill in the results. Raises Unfit."""


class Replays(Protocol):
    """The replays of a plan, by geometry."""

    lean: bool  # it matters little that they let go of values at the end only

    def found(self, values: list[Any]) -> Replay | None:
        """The replay for arrays that lie so, if there is one."""

    def run(self, values: list[Any]) -> None:
        """Fill in the results, by a replay or as ever."""
