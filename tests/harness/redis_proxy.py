"""Redis behind a proxy of the test, which answers single commands with an error reply instead of passing them on."""

import socket
import socketserver
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO
from urllib.parse import urlsplit

REPLIES: Mapping[str, str] = {
    "OOM": "OOM command not allowed when used memory > 'maxmemory'.",
    "READONLY": "READONLY You can't write against a read only replica.",
    "LOADING": "LOADING Redis is loading the dataset in memory",
    "MASTERDOWN": "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "NOAUTH": "NOAUTH Authentication required.",
    "WRONGPASS": "WRONGPASS invalid username-password pair or user is disabled.",
    "NOPERM": "NOPERM this user has no permissions to run this command",
    "MISCONF": "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    "BUSY": "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "CLUSTERDOWN": "CLUSTERDOWN The cluster is down",
    "EXECABORT": "EXECABORT Transaction discarded because of previous errors.",
    "NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
    "CLIENTS": "ERR max number of clients reached",
    "ERR": "ERR unknown command",
    "TRYAGAIN": "TRYAGAIN Multiple keys request during rehashing of slot",
    "NOSCRIPT": "NOSCRIPT No matching script.",
}
"""The error replies that Redis documents and a server may give to any client, by a short name."""
ENDING = frozenset({"LOADING", "NOAUTH", "WRONGPASS", "CLIENTS"})
"""After these Redis or its client ends the connection."""
GARBAGE, RESET, SILENCE = "garbage", "reset", "silence"
BROKEN = frozenset({GARBAGE, RESET, SILENCE})
"""Not an answer of Redis: bytes of another protocol, an end of the connection, or nothing until `relent`."""


class Proxy:
    """`refuse` says what is refused. `seen`: the names of all commands so far. `refused`: how many were."""

    def __init__(self, url: str, port: int) -> None:
        parts = urlsplit(url)
        assert parts.hostname
        assert parts.port
        self.server = (parts.hostname, parts.port)
        self.url = parts._replace(netloc=f":{parts.password or ''}@127.0.0.1:{port}").geturl()
        self.seen: set[str] = set()
        self.refused = 0
        self._refusal: tuple[str | None, str] | None = None
        self._relented = threading.Event()
        self._clients: set[socket.socket] = set()

    def refuse(self, reply: str, command: str | None = None) -> None:
        """From here on this command (None: each one) is answered with this error, one of REPLIES or of BROKEN."""
        self.refused = 0
        self._relented.clear()
        self._refusal = (command, reply)

    def relent(self) -> None:
        """From here on Redis answers everything itself."""
        self._refusal = None
        self._relented.set()

    def wait_until_relented(self) -> None:
        """Returns when nothing is refused."""
        self._relented.wait()

    def drop(self) -> None:
        """Ends all connections; clients have to make new ones."""
        for client in tuple(self._clients):
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def reply_to(self, command: str) -> str | None:
        """The short name of the error that this command gets."""
        self.seen.add(command)
        if self._refusal is None or self._refusal[0] not in (None, command):
            return None
        self.refused += 1
        return self._refusal[1]

    def serve(self, client: socket.socket) -> None:
        """Passes on what this client sends, one command after the other, until either side ends."""
        self._clients.add(client)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            with socket.create_connection(self.server) as server:
                server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                _Conversation(self, client.makefile("rb"), client, server.makefile("rb"), server).run()
        except (OSError, EOFError, ValueError):
            return
        finally:
            self._clients.discard(client)


class _Conversation:
    """One connection. A command that is refused within MULTI makes its EXEC fail, as with Redis."""

    def __init__(
        self, proxy: Proxy, asked: BinaryIO, client: socket.socket, answered: BinaryIO, server: socket.socket
    ) -> None:
        self._proxy, self._asked, self._client = proxy, asked, client
        self._answered, self._server = answered, server
        self._in_multi = self._spoiled = False

    def run(self) -> None:
        while True:
            command, raw = _command(self._asked)
            error = self._proxy.reply_to(command)
            if error in BROKEN:
                self._break(error)
                error = None
            if command == "EXEC" and (error or self._spoiled):
                self._pass_on(b"*1\r\n$7\r\nDISCARD\r\n")
                error = error or "EXECABORT"
                self._in_multi = self._spoiled = False
            elif error:
                self._spoiled = self._in_multi
            if error:
                self._client.sendall(f"-{REPLIES[error]}\r\n".encode())
                if error == "CLIENTS":
                    self._client.shutdown(socket.SHUT_RDWR)
                    return
                continue
            self._client.sendall(self._pass_on(raw))
            self._in_multi = command == "MULTI" or (self._in_multi and command not in ("EXEC", "DISCARD"))

    def _break(self, how: str) -> None:
        """Raises EOFError when the connection ends by this."""
        if how == SILENCE:
            self._proxy.wait_until_relented()
            return
        if how == GARBAGE:
            self._client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        else:
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._client.close()
        raise EOFError

    def _pass_on(self, raw: bytes) -> bytes:
        self._server.sendall(raw)
        return _reply(self._answered)


def _line(stream: BinaryIO) -> bytes:
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise EOFError
    return line


def _command(stream: BinaryIO) -> tuple[str, bytes]:
    """The name of the next command, and all its bytes."""
    raw = _reply(stream)
    name = raw.split(b"\r\n", 3)[2]
    return name.decode().upper(), raw


def _reply(stream: BinaryIO) -> bytes:
    """All bytes of the next value (RESP2 and RESP3)."""
    line = _line(stream)
    kind, size = line[:1], line[1:-2]
    if kind in b"$=!":
        return line + (stream.read(int(size) + 2) if int(size) >= 0 else b"")
    if kind in b"*~>%|":
        count = max(int(size), 0) * (2 if kind in b"%|" else 1)
        return line + b"".join(_reply(stream) for _ in range(count))
    return line


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False


@contextmanager
def running(url: str) -> Iterator[Proxy]:
    """A proxy before the Redis at `url`, on a port of its own."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            proxy.serve(self.request)

    with _Server(("127.0.0.1", 0), Handler) as server:
        proxy = Proxy(url, server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield proxy
        finally:
            server.shutdown()
            proxy.drop()
            thread.join()
