"""`python -m tests.harness.fork_server LISTENER LIFELINE`: starts Python programs by a fork. It has imported what they need.

An order is one message of a connection, with three descriptors: the program's input, output and error output. The server
answers with the number of the process, and later with its exit code. The end of the connection ends the program.
"""

import gc
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from setproctitle import setproctitle

LONGEST_ORDER = 1 << 17
_LONGEST_ERROR = 500
_ORDERLY_SECONDS = 30.0


@dataclass(eq=False, slots=True)
class _Client:
    """A connection, until it ends, and the program that it ordered. `process`: readable when the program has ended."""

    connection: socket.socket | None
    pid: int | None = None
    process: int | None = None


class _Server:
    """Serves until `lifeline` is closed at its other end. Then it ends the programs that are left."""

    def __init__(self, listener: socket.socket, lifeline: int) -> None:
        self._listener = listener
        self._clients: set[_Client] = set()
        self._lifeline = lifeline
        self._ended = False
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(lifeline, selectors.EVENT_READ, self._end)

    def serve(self) -> None:
        while not self._ended:
            self._turn(None)
        self._selector.unregister(self._listener)
        for client in [client for client in self._clients if client.connection is not None]:
            self._hang_up(client)
        until = time.monotonic() + _ORDERLY_SECONDS
        while self._clients and time.monotonic() < until:
            self._turn(until - time.monotonic())
        for client in self._clients:
            if client.pid is not None:
                os.kill(client.pid, signal.SIGKILL)

    def _turn(self, seconds: float | None) -> None:
        for key, _ in self._selector.select(seconds):
            key.data()

    def _end(self) -> None:
        self._ended = True
        self._selector.unregister(self._lifeline)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        client = _Client(connection)
        self._clients.add(client)
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._read(client))

    def _read(self, client: _Client) -> None:
        assert client.connection is not None
        try:
            message, descriptors, _, _ = socket.recv_fds(client.connection, LONGEST_ORDER, 3)
        except ConnectionError:
            message, descriptors = b"", []
        if message:
            self._start(client, json.loads(message), descriptors)
        else:
            self._hang_up(client)

    def _start(self, client: _Client, order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
        try:
            _import(order["imports"])
        except Exception as error:  # noqa: BLE001 - it is the client's
            _answer(client, repr(error)[:_LONGEST_ERROR])
            return
        client.pid = os.fork()
        if client.pid == 0:
            _become(order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        client.process = os.pidfd_open(client.pid)
        self._selector.register(client.process, selectors.EVENT_READ, lambda: self._report(client))
        _answer(client, client.pid)

    def _report(self, client: _Client) -> None:
        """The program stays a zombie until its client hangs up, so that no other process is given its number."""
        assert client.pid is not None
        assert client.process is not None
        self._selector.unregister(client.process)
        os.close(client.process)
        client.process = None
        end = os.waitid(os.P_PID, client.pid, os.WEXITED | os.WNOWAIT)
        assert end is not None
        _answer(client, end.si_status if end.si_code == os.CLD_EXITED else -end.si_status)
        if client.connection is None:
            self._forget(client)

    def _hang_up(self, client: _Client) -> None:
        assert client.connection is not None
        self._selector.unregister(client.connection)
        client.connection.close()
        client.connection = None
        if client.pid is not None and client.process is not None:
            os.kill(client.pid, signal.SIGTERM)
        else:
            self._forget(client)

    def _forget(self, client: _Client) -> None:
        self._clients.discard(client)
        if client.pid is not None:
            os.waitpid(client.pid, 0)


def _import(modules: Sequence[str]) -> None:
    gc.disable()
    for module in modules:
        import_module(module)
    gc.freeze()
    gc.enable()


def _become(order: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    from tests.harness.forked import run_forked  # noqa: PLC0415 - most runs of a few tests fork nothing

    run_forked(order["argv"], order["environment"], descriptors, folder=order["folder"], session=order["session"])


def _answer(client: _Client, word: int | str) -> None:
    if client.connection is not None:
        with suppress(ConnectionError):
            client.connection.send(str(word).encode())


def main(listener: int, lifeline: int) -> None:
    """Serves until the process that started this one has ended."""
    # the first call finds its place in memory by the environment
    setproctitle("tests.harness.fork_server")
    _Server(socket.socket(fileno=listener), lifeline).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
