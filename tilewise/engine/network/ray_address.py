"""Whether anybody listens at the address of a Ray cluster. In: what the user gave. Out: nothing, or an error at once.

Ray itself tries for minutes, and says little.
"""

from __future__ import annotations

import socket

from tilewise.errors import TilewiseError, message

CONNECT_SECONDS = 5.0
FOUND_BY_RAY = ("auto", "local")
CURE = (
    "Start one there (ray start --head --port=6379), correct host and port, or leave out address= to use this machine"
)


def check(address: str) -> None:
    """Raise if an address is none of a Ray cluster, or nobody answers there.

    >>> check("127.0.0.1")
    Traceback (most recent call last):
        ...
    tilewise.errors.TilewiseError: an address of a Ray cluster is host:port, or "auto", got '127.0.0.1'. Start one ...
    """
    if address in FOUND_BY_RAY:
        return
    if address.startswith("ray://"):
        raise TilewiseError(
            message(
                "workers and the program must reach each other, which Ray's client (ray://) does not allow",
                got=repr(address),
                cure='Run the program on a node of the cluster (ray job submit, or kubectl exec) with address="auto"',
            )
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise TilewiseError(
            message('an address of a Ray cluster is host:port, or "auto"', got=repr(address), cure=CURE)
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        why = error.strerror or str(error)
        raise TilewiseError(message(f"no Ray cluster at {address!r}: {why}", cure=CURE)) from error
