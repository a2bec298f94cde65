"""Connections between the processes of a session. In: their addresses, the session's secret. Out: messages both ways.

Whoever connects and whoever is connected to prove to each other that they know the secret (HMAC of fresh random
numbers) before anything else is read. Nothing is encrypted. One thread uses the links of a process; it reads whatever
comes also while it waits to send, so that two that send to each other both get on. An interrupt comes while it waits,
not in the middle of a message (interrupts.py): what has not been sent by then is kept and goes later.
"""

from __future__ import annotations

import hmac
import secrets
import select
import socket
import struct
import sys
import time
from dataclasses import field
from typing import Any

from tilewise.engine.network.frames import Reader, frame, write
from tilewise.engine.network.transport import PeerLost
from tilewise.interrupts import allowed, waits
from tilewise.records import dataclass

Address = tuple[str, int]
LOCAL = sys.platform == "linux"  # names of sockets that are no files
_POLLIN = select.POLLIN
GREETING_SECONDS = 30.0  # for the other side to prove who it is
CONNECT_SECONDS = 15.0  # for a process that has said where it listens to answer
MOST_GREETINGS = 128  # connections that have not proved anything yet
SILENT_SECONDS = 20  # a machine that has not acknowledged anything for so long is gone
_NONCE = _PROOF = 32  # bytes
_HELLO = struct.Struct("<qq")  # who connects, and of which epoch


class Stranger(Exception):
    """The other side does not know the secret."""


@dataclass
class Link:
    """A connection to another process of the session."""

    sock: socket.socket
    epoch: int
    reader: Reader = field(default_factory=Reader)
    unsent: list[Any] = field(default_factory=list)  # buffers that the other side has not taken yet


@dataclass
class _Greeting:
    """A connection that has not proved yet that it belongs here."""

    sock: socket.socket
    until: float
    got: bytes = b""
    nonces: bytes = b""  # both sides', once they are known


class Links:
    """The connections of process `me` to others, by their numbers. Subclasses say what to do with what comes."""

    def __init__(self, me: int, secret: bytes, listen_at: str | None = None) -> None:
        self.me = me
        self.links: dict[int, Link] = {}
        self._secret = secret
        self._poll = select.poll()
        self._by_fd: dict[int, int] = {}
        self._unsent: set[int] = set()  # processes for which something waits
        self._greetings: dict[int, _Greeting] = {}
        self._listeners: dict[int, socket.socket] = {}  # the first one for the network, another for this machine
        if listen_at is not None:
            self._listen(socket.create_server((listen_at, 0)))
            if (local := self._local_listener()) is not None:
                self._listen(local)

    # -- what subclasses do -------------------------------------------------------------------------------------------

    def arrived(self, who: int, message: Any) -> None:
        """A message came."""
        raise NotImplementedError

    def ended(self, who: int) -> None:
        """A connection has ended."""

    # -- for subclasses -----------------------------------------------------------------------------------------------

    @property
    def address(self) -> Address:
        """Where others can connect to."""
        host, port = next(iter(self._listeners.values())).getsockname()[:2]
        return host, port

    def connect(self, who: int, address: Address, epoch: int) -> None:
        """Connect to another process of the session; raises PeerLost if it does not answer."""
        try:
            with allowed():
                sock = self._connected(address)
        except OSError as error:
            raise PeerLost(f"no connection to {address[0]}:{address[1]}: {error}") from error
        try:
            mine = secrets.token_bytes(_NONCE)
            sock.sendall(mine)
            with allowed():
                theirs, proof = _exactly(sock, _NONCE), _exactly(sock, _PROOF)
            if not hmac.compare_digest(proof, self._proof(b"listens", mine + theirs)):
                raise Stranger(f"what listens at {address[0]}:{address[1]} is not of this session")
            hello = _HELLO.pack(self.me, epoch)
            sock.sendall(self._proof(b"connects", mine + theirs + hello) + hello)
        except OSError as error:
            sock.close()
            raise PeerLost(f"no answer from {address[0]}:{address[1]}: {error}") from error
        except BaseException:
            sock.close()
            raise
        self._add(who, sock, epoch)

    def post(self, who: int, message: Any) -> None:
        """Send a message; raises PeerLost."""
        self.post_frame(who, frame(message))

    def post_frame(self, who: int, buffers: list[Any]) -> None:
        """Send, and read what comes as long as the other side does not take it."""
        self.queue_frame(who, buffers)
        if who in self._unsent:
            self.flush()
            if who not in self.links:
                raise PeerLost(f"process {who} is gone")

    def post_bytes(self, who: int, data: bytes) -> None:
        """The same for a message that is one buffer, as most are."""
        self.queue_bytes(who, data)
        if self._unsent and who in self._unsent:
            self.flush()
            if who not in self.links:
                raise PeerLost(f"process {who} is gone")

    def queue_bytes(self, who: int, data: bytes) -> None:
        """`queue_frame` for a message that is one buffer."""
        link, sent = self.links.get(who), 0
        if link is not None and not link.unsent:
            try:
                sent = link.sock.send(data)
            except OSError:
                sent = 0  # `queue_frame` sees to it
            if sent == len(data):
                return
        self.queue_frame(who, [memoryview(data)[sent:] if sent else data])

    def queue_frame(self, who: int, buffers: list[Any]) -> None:
        """Send what goes without waiting; the rest, of which the buffers must stay as they are, goes with `flush`."""
        link = self.links.get(who)
        if link is None:
            raise PeerLost(f"process {who} is gone")
        if link.unsent:
            link.unsent += buffers
            return
        try:
            left = write(link.sock, buffers)
        except OSError as error:
            self.drop(who)
            raise PeerLost(f"process {who} is gone: {error}") from error
        if left:
            link.unsent = [*left]
            self._unsent.add(who)
            self._poll.modify(link.sock, select.POLLIN | select.POLLOUT)

    def flush(self) -> None:
        """Wait until everything is sent; what was for a process that is gone meanwhile is dropped."""
        try:
            while self._unsent:
                self.progress()
        except BaseException:
            for who in self._unsent:  # their owners may overwrite them from here on
                self.links[who].unsent = [bytes(b) for b in self.links[who].unsent]
            raise

    def progress(self, seconds: float | None = None) -> bool:
        """Wait until something can be read or written, and do that; whether anything happened."""
        if seconds == 0.0 or not waits():
            events = self._poll.poll(None if seconds is None else seconds * 1e3)
        else:
            with allowed():
                events = self._poll.poll(None if seconds is None else seconds * 1e3)
        for fd, what in events:
            who = self._by_fd.get(fd)
            if who is not None:
                if what == _POLLIN:
                    self._read(who, self.links[who])
                    continue
                if what & select.POLLOUT:
                    self._write(who, self.links[who])
                if what != select.POLLOUT and who in self.links:
                    self._read(who, self.links[who])
            elif fd in self._greetings:
                self._greet(fd)
            elif fd in self._listeners:
                self._accept(self._listeners[fd])
        return bool(events)

    def drop(self, who: int) -> None:
        """End a connection, if it is there."""
        link = self.links.pop(who, None)
        if link is not None:
            self._unsent.discard(who)
            self._poll.unregister(link.sock)
            del self._by_fd[link.sock.fileno()]
            link.sock.close()
            self.ended(who)

    def close(self) -> None:
        """End all connections."""
        for who in list(self.links):
            self.drop(who)
        for fd in list(self._greetings):
            self._dismiss(fd)
        for listener in self._listeners.values():
            listener.close()

    # -- inside -------------------------------------------------------------------------------------------------------

    def _listen(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listeners[listener.fileno()] = listener
        self._poll.register(listener, select.POLLIN)

    def _name(self, address: Address) -> bytes:
        """The name of a process for others on its machine: no file, gone with the process, guessed by nobody."""
        return b"\0tilewise-" + self._proof(b"local", repr(address).encode())[:16].hex().encode()

    def _local_listener(self) -> socket.socket | None:
        """A socket of this machine, which costs processors half of what one of its network does (0091)."""
        if not LOCAL:
            return None
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(self._name(self.address))
            listener.listen(MOST_GREETINGS)
        except OSError:  # a machine that allows none
            listener.close()
            return None
        return listener

    def _connected(self, address: Address) -> socket.socket:
        """A connection to who has this address: within the machine, if it is there."""
        if LOCAL:
            sock = socket.socket(socket.AF_UNIX)
            sock.settimeout(CONNECT_SECONDS)
            try:
                sock.connect(self._name(address))
                return sock
            except OSError:
                sock.close()
        return socket.create_connection(address, CONNECT_SECONDS)

    def _proof(self, role: bytes, said: bytes) -> bytes:
        return hmac.digest(self._secret, role + said, "sha256")

    def _add(self, who: int, sock: socket.socket, epoch: int) -> None:
        self.drop(who)
        if not LOCAL or sock.family != socket.AF_UNIX:
            _watch(sock)
        sock.setblocking(False)
        self.links[who] = Link(sock, epoch)
        self._by_fd[sock.fileno()] = who
        self._poll.register(sock, select.POLLIN)

    def _write(self, who: int, link: Link) -> None:
        """Send on."""
        try:
            link.unsent = write(link.sock, link.unsent)
        except OSError:
            self.drop(who)
            return
        if not link.unsent:
            self._unsent.discard(who)
            self._poll.modify(link.sock, select.POLLIN)

    def _read(self, who: int, link: Link) -> None:
        reader = link.reader
        try:
            for message in reader.read(link.sock):
                self.arrived(who, message)
        except BaseException:
            self.drop(who)  # nobody knows where the next message begins
            raise
        if reader.closed and self.links.get(who) is link:
            self.drop(who)

    def _accept(self, listener: socket.socket) -> None:
        now = time.monotonic()
        for fd in [fd for fd, g in self._greetings.items() if g.until < now]:
            self._dismiss(fd)
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        if len(self._greetings) >= MOST_GREETINGS:
            sock.close()
            return
        sock.setblocking(False)
        self._greetings[sock.fileno()] = _Greeting(sock, now + GREETING_SECONDS)
        self._poll.register(sock, select.POLLIN)

    def _greet(self, fd: int) -> None:
        """Read on in a greeting: a random number, for which ours and a proof go back; then a proof and who it is."""
        g = self._greetings[fd]
        wanted = _PROOF + _HELLO.size if g.nonces else _NONCE
        try:
            got = g.sock.recv(wanted - len(g.got))
            g.got += got
            if not got:
                self._dismiss(fd)
            elif len(g.got) < wanted:
                return
            elif not g.nonces:
                g.nonces = g.got + secrets.token_bytes(_NONCE)
                g.got = b""
                g.sock.send(g.nonces[_NONCE:] + self._proof(b"listens", g.nonces))
            else:
                proof, hello = g.got[:_PROOF], g.got[_PROOF:]
                known = hmac.compare_digest(proof, self._proof(b"connects", g.nonces + hello))
                self._dismiss(fd, close=not known)
                if known:
                    who, epoch = _HELLO.unpack(hello)
                    self._add(who, g.sock, epoch)
        except BlockingIOError:
            return
        except OSError:
            self._dismiss(fd)

    def _dismiss(self, fd: int, close: bool = True) -> None:
        g = self._greetings.pop(fd)
        self._poll.unregister(fd)
        if close:
            g.sock.close()


def _watch(sock: socket.socket) -> None:
    """Send at once; find out when the other machine is gone."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for name, value in (
        ("TCP_KEEPIDLE", SILENT_SECONDS // 4),
        ("TCP_KEEPINTVL", SILENT_SECONDS // 4),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", SILENT_SECONDS * 1000),
    ):
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _exactly(sock: socket.socket, count: int) -> bytes:
    """So many bytes of a socket that waits."""
    got = b""
    while len(got) < count:
        more = sock.recv(count - len(got))
        if not more:
            raise ConnectionResetError("the connection was closed")
        got += more
    return got
