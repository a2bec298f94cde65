"""Sessions: which engine runs what is recorded now. In: an engine's name and size. Out: the current session."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise import engine as engines
from tilewise.alive import Alive
from tilewise.backend import threads as thread_pool
from tilewise.config import current, parse_bytes
from tilewise.engine.counters import DiskCounters
from tilewise.errors import ConfigError, message
from tilewise.ir.node import Node
from tilewise.later import later
from tilewise.layout import Mesh
from tilewise.store import files
from tilewise.store.checkpoint_interval import DEFAULT, Due

if TYPE_CHECKING:
    from tilewise.engine.cluster import Cluster
    from tilewise.engine.recovery import saved
    from tilewise.store import checkpoint as disk
else:
    disk, saved = later("tilewise.store.checkpoint"), later("tilewise.engine.recovery.saved")


class Session:
    """An engine and its workers. Use it as a context manager, or for the rest of the program by just making it.

    >>> import tilewise as tw
    >>> with tw.session(engine="virtual", workers=4):
    ...     x = tw.arange(1000.0)
    ...     float((x * x).sum())
    332833500.0
    """

    def __init__(
        self,
        engine: str = "local",
        workers: int | None = None,
        mesh: Any = None,
        threads: int | None = None,
        memory: Any = None,
        address: str | None = None,
        on_loss: str = "shrink",
        checkpoint: Any = None,
        every: Any = None,
        least: int | None = None,
    ) -> None:
        if engine not in (known := engines.names()):
            raise ConfigError(message(f"no engine {engine!r}", cure=f"Choose one of {', '.join(known)}"))
        if every is not None and checkpoint is None:
            raise ConfigError(
                message("every says how often checkpoints are written", cure="Say where, too: checkpoint=path")
            )
        due = Due(DEFAULT if every is None else every)
        if checkpoint is not None:
            files.check_parent(files.full_path(checkpoint))
            disk.read_manifest(files.full_path(checkpoint))  # a damaged one is refused before anything is computed
        self.checkpoint, self.every = checkpoint, every
        if on_loss not in engines.ON_LOSS:
            raise ConfigError(
                message(
                    "on_loss says what happens when workers are lost and there is no place for others",
                    got=f"on_loss={on_loss!r}",
                    cure=f"Choose one of {', '.join(engines.ON_LOSS)}",
                )
            )
        self.engine = engine
        self.closed = False
        self.memory = byte_budget(memory)
        self.mesh = mesh_of(engine, workers, mesh, current().blocks)
        if least is not None and ((fewest := _whole(least)) is None or not 1 <= fewest <= self.mesh.workers):
            raise ConfigError(
                message(
                    "least says how many workers must have a process of their own to begin with",
                    got=f"least={least!r}, workers={self.mesh.workers}",
                    cure="Choose a number from 1 to workers",
                )
            )
        self.cluster: Cluster | None = None
        self.moved: dict[
            tuple[str, int], int
        ] = {}  # by the line that needed values: bytes, since results were asked for
        self.disk = DiskCounters()  # of plans that ran block by block
        self.noted = Alive[Node]()  # nodes of pending work that have the value which workers hold
        self._token: Token[Session | None] | None = None
        if threads is not None:
            if not isinstance(threads, int) or threads < 1:
                raise ConfigError(message("a session needs at least one thread", got=f"threads={threads!r}"))
            thread_pool.set_threads(threads)
        if engine != engines.LOCAL:
            self.cluster = engines.open(
                engine, self.mesh, engines.Options(self.memory, address, threads, on_loss, least)
            )
            self.disk = self.cluster.disk
            if checkpoint is not None:
                self.cluster.saved = saved.Saved(disk.make_folder(checkpoint), due)
        self._before = _current.get()
        _current.set(self)

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self.mesh.workers

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the session: its workers go, and the session before it is the current one again."""
        self.closed = True
        if _current.get() is self:
            before = self._before
            while before is not None and before.closed:
                before = before._before
            _current.set(before)
        for node in list(self.noted):
            node.value = None
        if self.cluster is not None and not self.cluster.closed:
            self.cluster.close()

    def __repr__(self) -> str:
        return f"<session {self.engine}, {self.workers} worker{'s' if self.workers > 1 else ''}>"


def _whole(value: Any) -> int | None:
    """A whole number (not a truth value); None if it is none."""
    try:
        return None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        return None


@contextmanager
def no_session() -> Iterator[None]:
    """The local engine, whatever session is the current one."""
    token = _current.set(None)
    try:
        yield
    finally:
        _current.reset(token)


def byte_budget(memory: Any) -> int | None:
    """Bytes per worker from what the user gave."""
    try:
        return None if memory is None else parse_bytes(memory)
    except (TypeError, ValueError):
        raise ConfigError(
            message("memory is a number of bytes", got=repr(memory), cure='Write memory="4GiB"')
        ) from None


MOST_BLOCKS = 1 << 16  # of a mesh: plans have a line of numbers for each


def mesh_of(engine: str, workers: int | None, mesh: Any, blocks: int) -> Mesh:
    """The workers asked for, in a line or a grid, checked."""
    columns = 1
    if mesh is not None:
        dims = [_whole(d) for d in (mesh if isinstance(mesh, tuple | list) else (mesh,))]
        lengths = [d for d in dims if d is not None and d >= 1]
        if len(lengths) != len(dims) or len(dims) not in (1, 2):
            raise ConfigError(
                message(
                    "a mesh has one or two lengths, each at least one", got=f"mesh={mesh!r}", cure="Write mesh=(2, 4)"
                )
            )
        count = math.prod(lengths)
        if workers is not None and _whole(workers) != count:
            raise ConfigError(message("workers and mesh differ", got=f"workers={workers}, mesh={mesh}"))
        workers, columns = count, lengths[1] if len(lengths) == 2 and lengths[0] > 1 else 1
    if workers is None:
        workers = 1 if engine == engines.LOCAL else 2
    asked, workers = workers, _whole(workers)
    if workers is None or workers < 1:
        raise ConfigError(message("a session needs at least one worker", got=f"workers={asked!r}"))
    if workers * blocks > MOST_BLOCKS:
        raise ConfigError(
            message(f"at most {MOST_BLOCKS:,} blocks can be planned for", got=f"{workers:,} workers of {blocks}")
        )
    if engine == engines.LOCAL and workers != 1:
        raise ConfigError(
            message(
                "the local engine is one worker with many threads",
                got=f"workers={workers}",
                cure="threads=n, or another engine",
            )
        )
    return Mesh(workers, blocks, columns)


_current: ContextVar[Session | None] = ContextVar("tilewise session", default=None)
_blocked: dict[int, Cluster] = {}


session_here = _current.get  # as current_session, without a call in between: recording asks every time


def current_session() -> Session | None:
    """The session in force here; None is the local engine."""
    return _current.get()


def cluster_here(blocks: int) -> tuple[Cluster | None, bool]:
    """The cluster that runs what is evaluated now, and whether results stay on it."""
    session = _current.get()
    if session is not None and session.cluster is not None:
        return session.cluster, True
    if blocks > 1:
        if blocks not in _blocked:
            _blocked[blocks] = engines.open("virtual", Mesh(1, blocks), engines.Options())
        return _blocked[blocks], False
    return None, False


def on_workers() -> bool:
    """Whether workers, or blocks, run what is evaluated now."""
    return cluster_here(current().blocks)[0] is not None


def begin_anew() -> None:
    """What the user asked for has been computed: what moves from now on is for something else."""
    session = _current.get()
    if session is not None:
        session.moved.clear()


def unlimited_memory() -> bool:
    """Whether no session sets a limit to memory (which recorded work is measured by)."""
    session = _current.get()
    return session is None or session.memory is None
