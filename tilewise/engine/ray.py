"""Workers as Ray actors. In: a mesh, perhaps the address of a Ray cluster. Out: a Cluster. The only door to Ray.

An actor owns its blocks; a round of a plan is one method call, and only the pieces that cross are Ray objects. Ray
retries no call: what a lost worker held is made again from the driver's log (cluster.py).
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewise.backend import threads as thread_pool
from tilewise.engine import Options
from tilewise.engine.cluster import Cluster, WorkerLost
from tilewise.engine.worker import Worker
from tilewise.errors import TilewiseError, message
from tilewise.layout import Mesh
from tilewise.machine import machine

try:
    import ray
    import ray.exceptions as lost
    from ray._private import ray_constants
except ImportError as error:
    raise TilewiseError(
        message("the engine 'ray' needs Ray, which is not installed", cure="pip install tilewise[ray]")
    ) from error

BEAT_SECONDS = 5.0  # how often a wait looks whether the workers are still there
START_SECONDS = 120.0  # a worker that has no place after this will not get one
SHARED_AT_BYTES = 64 * 1024  # smaller arguments travel inside the call (Ray does so below 100 KiB)
BLAS_VARIABLES = "OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS VECLIB_MAXIMUM_THREADS".split()

GONE = (
    lost.RayActorError,
    lost.ObjectLostError,
    lost.OwnerDiedError,
    lost.WorkerCrashedError,
    lost.NodeDiedError,
    lost.OutOfMemoryError,
)


class Actor(Worker):
    """A worker in a process of its own."""

    def __init__(self, index: int, mesh: Mesh, memory: int | None, threads: int) -> None:
        thread_pool.set_threads(threads)
        super().__init__(index, mesh, memory)


class RayCluster(Cluster):
    """One actor per worker. Joins the Ray cluster at `address`, or the one in use, or starts one on this machine."""

    name = "ray"

    def __init__(
        self, mesh: Mesh, memory: int | None = None, address: str | None = None, threads: int | None = None
    ) -> None:
        super().__init__(mesh, memory)
        self.connection = _connect(address)
        _open.append(self)
        self.label = f"tilewise-{uuid.uuid4().hex[:12]}"
        self.born = 0
        resources: Any = ray.cluster_resources  # untyped
        cpus = int(resources().get("CPU", 0))
        cores = machine().cores if self.connection.local else cpus
        self.threads = threads or max(1, cores // mesh.workers)
        self.cpus = 1 if cpus >= mesh.workers else 0
        self.names: list[str] = [""] * mesh.workers
        self.actors: list[Any] = [None] * mesh.workers
        try:
            self._spawn(range(mesh.workers))
        except BaseException:
            self.close()
            raise

    def call(self, worker: int, method: str, *args: Any, returns: int = 1) -> list[Any]:
        """Submit a method call; Ray runs those of one actor in order, each when its arguments are there."""
        got = getattr(self.actors[worker], method).options(num_returns=returns).remote(*args)
        return [got] if returns == 1 else list(got)

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        """Results, once all calls are done."""
        wanted = list(futures)
        while True:
            try:
                return list(ray.get(wanted, timeout=BEAT_SECONDS))
            except lost.GetTimeoutError:
                self._check_alive()
            except lost.RayError:
                break
        # Something went wrong: see the other calls through, so that nothing is under way when the error is told.
        left = wanted
        while left:
            _, left = ray.wait(left, num_returns=len(left), timeout=BEAT_SECONDS)
            if left:
                self._check_alive()
        raise _most_telling(wanted) from None

    def share(self, value: Any) -> Any:
        """A Ray object for what is large or not an array."""
        if isinstance(value, list) and sum(x.nbytes for x in value) < SHARED_AT_BYTES:
            return value
        return ray.put(value)

    def restart(self) -> None:
        """Survivors forget everything, the others get successors."""
        gone = []
        for w in range(self.mesh.workers):
            try:
                self.wait(self.call(w, "reset"))
            except WorkerLost:
                gone.append(w)
        self._spawn(gone)

    def close(self) -> None:
        """End the actors, and Ray if it was started for them."""
        if self.closed:
            return
        super().close()
        if ray.is_initialized():
            for actor in self.actors:
                if actor is not None:
                    ray.kill(actor, no_restart=True)
        self.actors = []
        _open.remove(self)
        if not any(c.connection is self.connection for c in _open):
            self.connection.end()

    def _spawn(self, workers: Sequence[int]) -> None:
        """Start actors and wait until they answer."""
        env = {name: str(self.threads) for name in BLAS_VARIABLES}  # read when NumPy is loaded
        for w in workers:
            self.born += 1
            self.names[w] = f"{self.label}-{w}-{self.born}"
            self.actors[w] = _Actor.options(
                name=self.names[w],
                num_cpus=self.cpus,
                scheduling_strategy="SPREAD",
                runtime_env={"env_vars": env},
            ).remote(w, self.mesh, self.memory, self.threads)
        ready = [f for w in workers for f in self.call(w, "stored")]
        if not ready:
            return
        _, late = ray.wait(ready, num_returns=len(ready), timeout=START_SECONDS)
        if late:
            raise TilewiseError(
                message(
                    f"{len(late)} workers of {self.mesh.workers} found no place in the Ray cluster",
                    got=f"none in {START_SECONDS:.0f} s",
                    cure="Use fewer workers, or free CPUs there",
                )
            )
        self.wait(ready)

    def _check_alive(self) -> None:
        """Ray tells of a death through the calls under way; this is for when it does not."""
        if not ray.is_initialized():
            raise TilewiseError(message("Ray was shut down under an open session", cure="Close the session first"))
        for w, name in enumerate(self.names):
            try:
                ray.get_actor(name, namespace=NAMESPACE)
            except ValueError:
                raise WorkerLost(f"worker {w} is gone") from None


def open(mesh: Mesh, options: Options) -> RayCluster:
    """The engine for a session."""
    return RayCluster(mesh, options.memory, options.address, options.threads)


NAMESPACE = "tilewise"
_remote: Any = ray.remote
_Actor = _remote(max_restarts=0, max_task_retries=0, max_concurrency=1, namespace=NAMESPACE)(Actor)


def _most_telling(futures: Sequence[Any]) -> Exception:
    """Of all that went wrong: a lost worker if there is one, else the first error, as it was raised in the worker."""
    first: Exception | None = None
    for future in futures:
        try:
            ray.get(future)
        except lost.RayError as error:
            cause = getattr(error, "cause", None)
            for each in (error, cause):
                if isinstance(each, GONE):
                    return WorkerLost(str(each).split("\n")[0])
            first = first or (cause if isinstance(cause, Exception) else error)
    assert first is not None
    return first


# -- one connection to Ray per process -----------------------------------------------------------------------------

_open: list[RayCluster] = []  # sessions in use, so that the last one to close ends what the first one started


class Connection:
    """A Ray that is in use. Ours: to be ended when nobody needs it; in `folder` (a temporary one) if it runs here."""

    def __init__(self, ours: bool, folder: str | None = None) -> None:
        self.ours = ours
        self.folder = folder
        self.local = folder is not None

    def end(self) -> None:
        """Shut Ray down if it is ours to do so."""
        if self.ours and ray.is_initialized():
            ray.shutdown()
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _connect(address: str | None) -> Connection:
    if ray.is_initialized():
        return next((c.connection for c in _open), None) or Connection(ours=False)
    # Errors are told by `wait`, once; Ray would also print one for each piece that a lost worker did not send.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    if address is None:
        return start()
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, namespace=NAMESPACE)
    except (ConnectionError, ValueError, RuntimeError) as error:
        text = str(error).strip().split("\n")[0]
        raise TilewiseError(
            message(f"no Ray cluster at {address!r}: {text}", cure="Leave out address= to start one on this machine")
        ) from error
    return Connection(ours=True)


def start(object_store_memory: int | None = None) -> Connection:
    """A Ray on this machine, for this process: on loopback, without dashboard, leaving no file behind."""
    folder = tempfile.mkdtemp(prefix="tilewise-", dir=_short_temporary())  # ours alone; Ray opens its own to everyone
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    _set_token()
    try:
        with _on_loopback():
            ray.init(
                "local",
                num_cpus=0,  # our actors ask for none; Ray would start an idle process for each
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=object_store_memory,
                log_to_driver=False,
                logging_level=logging.ERROR,
                namespace=NAMESPACE,
                _node_ip_address="127.0.0.1",
                _temp_dir=os.path.join(folder, "ray"),
            )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Connection(ours=True, folder=folder)


def _set_token() -> None:
    """Give Ray, which asks for a token, one that only this process and its children know.

    Ray would write one to ~/.ray/auth_token, readable by everyone. Whoever has set up authentication keeps it. The
    variable stays after Ray's end, because Ray remembers the token as long as the process lives.
    """
    chosen = any(v in os.environ for v in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    if not chosen and not (Path.home() / ".ray" / "auth_token").exists():
        os.environ["RAY_AUTH_TOKEN"] = uuid.uuid4().hex + uuid.uuid4().hex


@contextmanager
def _on_loopback() -> Iterator[None]:
    """Ray takes 127.0.0.1 for the machine's outer address on Linux, unless it is told that there are no clusters."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _short_temporary() -> str | None:
    """Where Ray's sockets may lie: their paths must stay under some 100 characters."""
    return "/tmp" if len(tempfile.gettempdir()) > 24 and os.path.isdir("/tmp") else None


@atexit.register
def _close_all() -> None:
    for cluster in list(_open):
        cluster.close()
