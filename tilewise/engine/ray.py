"""Workers as Ray actors. In: a mesh, perhaps the address of a Ray cluster. Out: a Cluster. The only door to Ray.

Ray places the processes of workers, says which are alive, and ends them. Everything else goes over connections of our
own (process_cluster.py). Ray restarts nothing: what a lost worker held is made again by the driver (cluster.py).
"""

from __future__ import annotations

import atexit
import logging
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.backend import threads as thread_pool
from tilewise.engine import Options
from tilewise.engine.footprint import Footprint
from tilewise.engine.host import ServedHost
from tilewise.engine.network import ray_address
from tilewise.engine.network.links import Address
from tilewise.engine.network.wire import Wire
from tilewise.engine.process_cluster import WiredCluster
from tilewise.errors import TilewiseError, message
from tilewise.interrupts import allowed, to_the_end
from tilewise.layout import Mesh
from tilewise.machine import machine

try:
    import ray
    import ray.exceptions as lost
    from ray import cloudpickle
    from ray._private import node, ray_constants
    from ray._private import worker as worker_state
except ImportError as error:
    raise TilewiseError(
        message("the engine 'ray' needs Ray, which is not installed", cure="pip install tilewise[ray]")
    ) from error

SERVER_SECONDS = 5.0  # for Ray's own processes to end
BLAS_VARIABLES = "OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS VECLIB_MAXIMUM_THREADS".split()
# Ray gives way to the driver with what it starts (15). The scheduler then runs all workers on the processors that the
# driver leaves: two workers of two processors on one of them, and a step waits for both.
NICENESS = "RAY_worker_niceness"


class Actor:
    """A process that hosts workers: a thread of it serves the driver, the first one stays Ray's."""

    def __init__(self, number: int, mesh: Mesh, memory: int | None, threads: int, secret: bytes, local: bool) -> None:
        thread_pool.set_threads(threads)
        own_address: Any = ray.util.get_node_ip_address  # untyped
        self.wire = Wire(number, secret, "127.0.0.1" if local else own_address())
        self.host = ServedHost((), mesh, memory, self.wire)
        self.host.footprint = Footprint(memory)
        self.thread = threading.Thread(target=self.host.serve, args=(cloudpickle.dumps,), daemon=True)
        self.thread.start()

    def address(self) -> tuple[Address, str, dict[str, str]]:
        """Where it listens, the node that it is on, and the versions it has."""
        return self.wire.address, ray.get_runtime_context().get_node_id(), versions()


def versions() -> dict[str, str]:
    """Of the packages whose code and arrays workers and the driver share."""
    try:
        ours = metadata.version("tilewise")
    except metadata.PackageNotFoundError:
        ours = "not installed"
    return {"tilewise": ours, "numpy": np.__version__}


def check_versions(theirs: dict[str, str]) -> None:
    """Raise if a worker has others than this process."""
    ours = versions()
    differ = [
        f"{name} {theirs.get(name)} (here {version})" for name, version in ours.items() if version != theirs.get(name)
    ]
    if differ:
        raise TilewiseError(
            message(
                "workers have the versions of the program that uses them",
                got=", ".join(differ),
                cure="Install the same versions on all nodes of the cluster",
            )
        )


class RayCluster(WiredCluster):
    """One actor per worker. Joins the Ray cluster at `address`, or the one in use, or starts one on this machine."""

    name = "ray"

    def __init__(self, mesh: Mesh, options: Options) -> None:
        super().__init__(mesh, options.memory, options.on_loss, options.least)
        own = options.threads or max(1, machine().cores // mesh.workers)  # if Ray runs here
        self.connection = _connect(options.address, own, mesh.workers)
        _open.append(self)
        self.label = f"tilewise-{uuid.uuid4().hex[:12]}"
        resources: Any = ray.cluster_resources  # untyped
        cpus = int(resources().get("CPU", 0))
        self.threads = own if self.connection.local else options.threads or max(1, cpus // mesh.workers)
        fits = cpus >= mesh.workers or options.least is not None  # those without a CPU wait for one
        self.cpus = 1 if fits and not self.connection.local else 0
        self.actors: dict[int, Any] = {}
        self.starting: dict[int, Any] = {}  # futures of addresses, also of those that have started
        self.nodes: dict[int, str] = {}
        self.open()

    def pack(self, value: Any) -> bytes:
        """Pickled with what only this program has."""
        dumps: Any = cloudpickle.dumps  # untyped
        packed: bytes = dumps(value)
        return packed

    def spawn(self, hosts: Collection[int]) -> None:
        """Start actors."""
        # A process with an environment of its own takes Ray a second more to start.
        env = {} if self.connection.threads == self.threads else {"env_vars": _blas_variables(self.threads)}
        for h in hosts:
            self.actors[h] = _Actor.options(
                name=self._name(h),
                num_cpus=self.cpus,
                scheduling_strategy="SPREAD",
                runtime_env=env,
            ).remote(h, self.mesh, self.memory, self.threads, self.secret, self.connection.local)
            self.starting[h] = self.actors[h].address.remote()

    def places(self, hosts: Collection[int], seconds: float) -> dict[int, Address]:
        """The actors that answer; one that died while it started is started again."""
        until, found = time.monotonic() + seconds, {}
        left = {self.starting[h]: h for h in hosts}
        while left:
            done, _ = ray.wait(list(left), num_returns=1, timeout=max(0.0, until - time.monotonic()))
            if not done:
                break
            for future in done:
                host = left.pop(future)
                try:
                    found[host], self.nodes[host], theirs = ray.get(future)
                    check_versions(theirs)
                except lost.RayActorError as error:
                    if "__init__" in str(error):
                        raise TilewiseError(message(f"a worker did not start: {error}")) from error
                    with to_the_end():
                        self.end(host)
                        self.spawn([host])
                    left[self.starting[host]] = host
        return found

    def alive(self, host: int) -> bool:
        """What Ray knows of an actor."""
        if not ray.is_initialized():
            raise TilewiseError(message("Ray was shut down under an open session", cure="Close the session first"))
        try:
            with allowed():  # Ray asks a process of its own
                ray.get_actor(self._name(host), namespace=NAMESPACE)
        except ValueError:
            return False
        return True

    def node_of(self, host: int) -> str:
        """Ray's number of the node."""
        return self.nodes[host]

    def end(self, host: int) -> None:
        """Kill an actor."""
        actor = self.actors.pop(host, None)
        self.starting.pop(host, None)
        self.nodes.pop(host, None)
        if actor is not None and ray.is_initialized():
            ray.kill(actor, no_restart=True)

    def close(self) -> None:
        """End the actors, and Ray if it was started for them."""
        if self.closed:
            return
        with to_the_end():
            super().close()
            for host in list(self.actors):
                self.end(host)
            _open.remove(self)
        if not any(c.connection is self.connection for c in _open):
            self.connection.end()

    def _name(self, host: int) -> str:
        return f"{self.label}-{host}"


def open(mesh: Mesh, options: Options) -> RayCluster:
    """The engine for a session."""
    return RayCluster(mesh, options)


NAMESPACE = "tilewise"
_remote: Any = ray.remote
_Actor = _remote(max_restarts=0, max_task_retries=0, max_concurrency=1, namespace=NAMESPACE)(Actor)


# -- one connection to Ray per process -----------------------------------------------------------------------------

_open: list[Any] = []  # sessions in use, so that the last one to close ends what the first one started


class Connection:
    """A Ray that is in use. Ours: to be ended when nobody needs it; in `folder` (a temporary one) if it runs here.

    `threads`: what the environment of its processes says of threads of BLAS, if we know.
    """

    def __init__(self, ours: bool, folder: str | None = None, threads: int | None = None) -> None:
        self.ours = ours
        self.folder = folder
        self.threads = threads
        self.local = folder is not None

    def end(self) -> None:
        """Shut Ray down if it is ours to do so."""
        if self.ours and ray.is_initialized():
            servers = _servers()
            ray.shutdown()
            for server in servers:  # on a busy machine Ray does not wait for their end
                with suppress(Exception):
                    server.wait(SERVER_SECONDS)
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


def _servers() -> list[Any]:
    """The processes that Ray has started here beside its workers (in versions of Ray that tell)."""
    held = getattr(getattr(worker_state, "_global_node", None), "all_processes", {})
    return [info.process for infos in held.values() for info in infos]


def _connect(address: str | None, threads: int, workers: int) -> Connection:
    if ray.is_initialized():
        return next((c.connection for c in _open), None) or Connection(ours=False)
    # Errors are told by `wait`, once; Ray would also print one for each piece that a lost worker did not send.
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    if address is None:
        return start(threads=threads, workers=workers)
    ray_address.check(address)
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.ERROR, namespace=NAMESPACE)
    except (ConnectionError, ValueError, RuntimeError) as error:
        text = str(error).strip().split("\n")[0]
        raise TilewiseError(message(f"no Ray cluster at {address!r}: {text}", cure=ray_address.CURE)) from error
    return Connection(ours=True)


def start(object_store_memory: int | None = None, threads: int | None = None, workers: int = 0) -> Connection:
    """A Ray on this machine, for this process: on loopback, without dashboard, leaving no file behind."""
    variables = {NICENESS: os.environ.get(NICENESS, "0"), **({} if threads is None else _blas_variables(threads))}
    folder = tempfile.mkdtemp(prefix="tilewise-", dir=_short_temporary())  # ours alone; Ray opens its own to everyone
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    _set_token()
    try:
        with _on_loopback(), _few_processes(), _environment(variables):  # which the processes of workers inherit
            ray.init(
                "local",
                num_cpus=workers,  # Ray starts a process for each at once, which our actors take (they ask for no CPU)
                num_gpus=0,
                include_dashboard=False,
                object_store_memory=object_store_memory,
                log_to_driver=False,
                logging_level=logging.ERROR,
                namespace=NAMESPACE,
                _node_ip_address="127.0.0.1",
                _temp_dir=os.path.join(folder, "ray"),
            )
    except Exception as error:
        shutil.rmtree(folder, ignore_errors=True)
        text = str(error).strip().split("\n")[0]
        raise TilewiseError(
            message(f"Ray did not start on this machine: {text}", cure="Try again when the machine is less busy")
        ) from error
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Connection(ours=True, folder=folder, threads=threads)


def _blas_variables(threads: int) -> dict[str, str]:
    """Read when NumPy is loaded."""
    return dict.fromkeys(BLAS_VARIABLES, str(threads))


# What Ray starts beside its own servers: for clusters that grow, for logs of workers on the driver's terminal, for the
# dashboard (of which a part runs even where there is none). They take two thirds of the time of ray.init.
UNNEEDED = ("start_monitor", "start_log_monitor", "start_api_server")


@contextmanager
def _few_processes() -> Iterator[None]:
    """Inside, Ray starts without processes that nothing here asks for (in versions of Ray that have them by name)."""
    before = {name: getattr(node.Node, name) for name in UNNEEDED if hasattr(node.Node, name)}
    for name in before:
        setattr(node.Node, name, lambda self, **options: None)
    try:
        yield
    finally:
        for name, method in before.items():
            setattr(node.Node, name, method)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Inside, the environment has these, too."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
