"""NCCL between processes: the sum of what all ranks hold, over sockets on loopback.

The process that makes the unique id adds the values up. The id holds its port. In the state file, `allreduce` is `wrong` for
a sum that is too large by one on these GPUs, and `hangs` for one that never comes.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from typing import Any

from cloudsim.gpus.fake_cuda import DEVICES, FakeNccl

_OK = 0
_ID_BYTES = 128


class FakeNcclCluster(FakeNccl):
    """One process of a job. What is called between ncclGroupStart and ncclGroupEnd happens at its end."""

    def __init__(self, path: Any) -> None:
        super().__init__(path)
        self._port = self._world = 0
        self._ranks: list[int] = []
        self._lines: Any = None
        self._sums: list[tuple[int, int]] = []
        """Address of the values and of the sum."""

    def ncclGetUniqueId(self, target: Any) -> int:
        server = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=_add_up, args=(server,), daemon=True).start()
        port = server.getsockname()[1].to_bytes(2, "big")
        target._obj.internal[:] = port + bytes(_ID_BYTES - len(port))
        return _OK

    def ncclCommInitRank(self, communicator: Any, world: Any, unique: Any, rank: Any) -> int:
        self._port, self._world = int.from_bytes(bytes(unique.internal)[:2], "big"), world.value
        self._ranks.append(rank.value)
        communicator._obj.value = len(self._ranks)
        return _OK

    def ncclAllReduce(self, *arguments: Any) -> int:
        if self._port:
            self._sums.append((arguments[0].value, arguments[1].value))
        return super().ncclAllReduce(*arguments)

    def ncclGroupEnd(self) -> int:
        if self._port and self._lines is None:
            connection = socket.create_connection(("127.0.0.1", self._port))
            self._lines = connection.makefile("rw")
            self._exchange({"ranks": len(self._ranks), "world": self._world, "pid": os.getpid()})
        if self._sums:
            if self._gpus().state.get("allreduce") == "hangs":
                threading.Event().wait()
            held = [_number(DEVICES.contents[source]) for source, _ in self._sums]
            total = float(self._exchange({"sum": sum(held)}))
            for _, target in self._sums:
                DEVICES.contents[target] = (4, _bits(total + (self._gpus().state.get("allreduce") == "wrong")))
            self._sums = []
        return _OK

    def _exchange(self, message: Any) -> Any:
        """Waits until all ranks have said as much."""
        self._lines.write(json.dumps(message) + "\n")
        self._lines.flush()
        return json.loads(self._lines.readline())


def _add_up(server: socket.socket) -> None:
    """Answers its own process last, since that may end with the answer and take this thread with it."""
    joined: list[Any] = []
    ranks, world = 0, 1
    while ranks < world:
        lines = server.accept()[0].makefile("rw")
        hello = json.loads(lines.readline())
        ranks, world = ranks + hello["ranks"], hello["world"]
        joined.insert(len(joined) if hello["pid"] == os.getpid() else 0, lines)
    _answer(joined, 0)
    while True:
        heard = [lines.readline() for lines in joined]
        if not all(heard):
            return
        _answer(joined, sum(json.loads(line)["sum"] for line in heard))


def _answer(joined: list[Any], value: float) -> None:
    for lines in joined:
        lines.write(f"{value}\n")
        lines.flush()


def _number(content: tuple[int, int]) -> float:
    return float(struct.unpack("<f", content[1].to_bytes(4, "little"))[0])


def _bits(number: float) -> int:
    return int.from_bytes(struct.pack("<f", number), "little")
