"""A connection pooler as PgBouncer is one: by session or by transaction, and strict about start-up parameters.

It speaks PostgreSQL's wire protocol to its clients, asks no password of them, and opens its own connections to the server.
What matters here is which server connection a client's message reaches.
"""

import os
import secrets
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit, urlunsplit

import psycopg

from app.local.ports import LOOPBACK

_SSL, _GSS, _PROTOCOL_3 = 80877103, 80877104, 196608
_TRACKED = frozenset(
    {"user", "database", "client_encoding", "datestyle", "timezone", "standard_conforming_strings", "application_name"}
)
"""Start-up parameters that PgBouncer 1.18 takes; it refuses all others unless told to ignore them."""
_REPORTED = ("server_version", "server_encoding", "client_encoding", "DateStyle", "TimeZone", "integer_datetimes")


class Mode(StrEnum):
    """How long a client keeps a server connection."""

    SESSION = "session"
    TRANSACTION = "transaction"


@dataclass
class _Server:
    """One connection to PostgreSQL: opened by psycopg, then used byte by byte."""

    connection: psycopg.Connection
    socket: socket.socket

    def close(self) -> None:
        self.socket.close()
        self.connection.close()


@dataclass
class Pooler:
    """`ignored` are start-up parameters that it drops silently, as `ignore_startup_parameters` does. It lends the server
    connection that was used last, or with `round_robin` first (`server_round_robin`).
    """

    server_url: str
    mode: Mode
    ignored: frozenset[str] = frozenset()
    round_robin: bool = False
    _idle: list[_Server] = field(default_factory=list)
    _all: list[_Server] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def serve(self, listener: socket.socket) -> None:
        """Until the listener is closed."""
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._client, args=[client], daemon=True).start()

    def close(self) -> None:
        with self._lock:
            for server in self._all:
                server.close()

    def _client(self, client: socket.socket) -> None:
        with suppress(OSError, EOFError), client:
            parameters = _read_startup(client)
            for name in parameters:
                if name.lower() not in _TRACKED | self.ignored:
                    client.sendall(_error(f"unsupported startup parameter: {name}"))
                    return
            self._welcome(client)
            self._relay(client)

    def _welcome(self, client: socket.socket) -> None:
        server = self._take()
        values = {name: server.connection.info.parameter_status(name) for name in _REPORTED}
        self._give_back(server)
        reports = (_message(b"S", _text(name) + _text(value or "")) for name, value in values.items())
        key = _message(b"K", secrets.token_bytes(8))
        client.sendall(_message(b"R", bytes(4)) + b"".join(reports) + key + _message(b"Z", b"I"))

    def _relay(self, client: socket.socket) -> None:
        """Messages go both ways as they come: a client may also wait for an answer before it ends its request (Flush)."""
        server: _Server | None = None
        try:
            while True:
                readable, _, _ = select.select([client] if server is None else [client, server.socket], [], [])
                if client in readable:
                    message = _read_message(client)
                    if message[:1] == b"X":
                        return
                    server = server or self._take()
                    server.socket.sendall(message)
                elif server is not None:
                    message = _read_message(server.socket)
                    client.sendall(message)
                    if message[:1] + message[5:] == b"ZI" and self.mode is Mode.TRANSACTION:
                        self._give_back(server)
                        server = None
        finally:
            if server is not None:
                server.close()

    def _take(self) -> _Server:
        with self._lock:
            return self._idle.pop(0 if self.round_robin else -1) if self._idle else self._open()

    def keep_idle(self, number: int) -> None:
        """Opens this many server connections in advance, as other clients have."""
        with self._lock:
            self._idle += [self._open() for _ in range(number)]

    def _open(self) -> _Server:
        connection = psycopg.connect(self.server_url, autocommit=True)
        server = _Server(connection, socket.socket(fileno=os.dup(connection.fileno())))
        server.socket.setblocking(True)
        self._all.append(server)
        return server

    def _give_back(self, server: _Server) -> None:
        with self._lock:
            self._idle.append(server)


@contextmanager
def pooled(pooler: Pooler) -> Iterator[str]:
    """The pooler's URL, with the same database and user as the server's."""
    parts = urlsplit(pooler.server_url)
    with socket.create_server((LOOPBACK, 0)) as listener:
        threading.Thread(target=pooler.serve, args=[listener], daemon=True).start()
        port = listener.getsockname()[1]
        yield urlunsplit(parts._replace(netloc=f"{parts.username}@{LOOPBACK}:{port}"))
        listener.shutdown(socket.SHUT_RDWR)
    pooler.close()


def _read_startup(client: socket.socket) -> dict[str, str]:
    while True:
        (length,) = struct.unpack("!i", _read(client, 4))
        body = _read(client, length - 4)
        (code,) = struct.unpack("!i", body[:4])
        if code == _PROTOCOL_3:
            words = [word.decode() for word in body[4:].rstrip(b"\0").split(b"\0")]
            return dict(zip(words[::2], words[1::2], strict=True))
        if code not in {_SSL, _GSS}:
            raise EOFError
        client.sendall(b"N")


def _read_message(source: socket.socket) -> bytes:
    head = _read(source, 5)
    (length,) = struct.unpack("!i", head[1:])
    return head + _read(source, length - 4)


def _read(source: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (part := source.recv(size - len(data))):
            raise EOFError
        data += part
    return data


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _text(value: str) -> bytes:
    return value.encode() + b"\0"


def _error(text: str) -> bytes:
    return _message(b"E", b"SFATAL\0C08P01\0M" + _text(text) + b"\0")
