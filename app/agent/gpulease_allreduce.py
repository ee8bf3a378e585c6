"""One all-reduce over all GPUs of a group, before its first use. `gpulease_group.py` starts it on each member.

Standard input: JSON {rank, addresses, port, secret}, with addresses by rank. Standard output: JSON {result: ok, failed or
unavailable, detail, and with ok: gpus, gbps (bus bandwidth)}. Rank 0 gives NCCL's id to members that prove the secret, and
only when every member has GPUs and NCCL. The caller limits the time. Python 3.8 is enough.
"""

from __future__ import annotations

import ctypes
import glob
import hashlib
import hmac
import json
import os
import socket
import struct
import sys
import time
from ctypes import byref
from typing import Any

GATHER_SECONDS, ELEMENTS, ROUNDS, SAMPLE = 20.0, 16 << 20, 20, 1024
PLACES = ("/usr/lib/*/libnccl.so.2", "/opt/*/lib/libnccl.so.2", "/usr/local/*/lib/libnccl.so.2")


class Unavailable(Exception):
    """A member that does not take part."""


class NcclId(ctypes.Structure):
    """ncclUniqueId."""

    _fields_ = (("internal", ctypes.c_ubyte * 128),)


def called(library: Any, name: str, *arguments: Any) -> None:
    status = getattr(library, name)(
        *(ctypes.c_int64(argument) if isinstance(argument, int) else argument for argument in arguments)
    )
    if status:
        raise RuntimeError("%s: %d" % (name, status))


def load(*names: str) -> Any:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise Unavailable("no " + names[0])


class Gpus:
    """The GPUs of this member. Raises Unavailable without driver, GPUs or NCCL."""

    def __init__(self) -> None:
        self.cuda = load("libcuda.so.1")
        self.nccl = load("libnccl.so.2", *(path for place in PLACES for path in sorted(glob.glob(place))))
        count = ctypes.c_int()
        if self.cuda.cuInit(0) or self.cuda.cuDeviceGetCount(byref(count)) or not count.value:
            raise Unavailable("no GPU")
        self.count = count.value
        self.contexts = [ctypes.c_void_p() for _ in range(self.count)]

    def unique_id(self) -> bytes:
        made = NcclId()
        called(self.nccl, "ncclGetUniqueId", byref(made))
        return bytes(made.internal)

    def select(self, index: int) -> None:
        called(self.cuda, "cuCtxSetCurrent", self.contexts[index])

    def wait(self) -> None:
        for index in range(self.count):
            self.select(index)
            called(self.cuda, "cuCtxSynchronize")

    def reduce(self, unique: bytes, first: int, world: int) -> float:
        """The bus bandwidth in GB/s. Raises RuntimeError for a wrong sum. Rank `first` is this member's first GPU."""
        sources, sums = ([ctypes.c_uint64() for _ in range(self.count)] for _ in range(2))
        communicators = [ctypes.c_void_p() for _ in range(self.count)]
        for index in range(self.count):
            device = ctypes.c_int()
            called(self.cuda, "cuDeviceGet", byref(device), index)
            called(self.cuda, "cuDevicePrimaryCtxRetain", byref(self.contexts[index]), device)
            self.select(index)
            for buffer in (sources[index], sums[index]):
                called(self.cuda, "cuMemAlloc_v2", byref(buffer), ELEMENTS * 4)
            (bits,) = struct.unpack("<I", struct.pack("<f", first + index + 1))
            called(self.cuda, "cuMemsetD32_v2", sources[index], bits, ELEMENTS)
        called(self.nccl, "ncclGroupStart")
        for index, communicator in enumerate(communicators):
            self.select(index)
            called(
                self.nccl,
                "ncclCommInitRank",
                byref(communicator),
                world,
                NcclId.from_buffer_copy(unique),
                first + index,
            )
        called(self.nccl, "ncclGroupEnd")
        started = 0.0
        for number in range(ROUNDS + 1):
            if number == 1:
                self.wait()  # the first round connects the members
                started = time.monotonic()
            called(self.nccl, "ncclGroupStart")
            for index, communicator in enumerate(communicators):
                self.select(index)  # below, 7 is fp32 and 0 the sum
                called(self.nccl, "ncclAllReduce", sources[index], sums[index], ELEMENTS, 7, 0, communicator, None)
            called(self.nccl, "ncclGroupEnd")
        self.wait()
        took = (time.monotonic() - started) / ROUNDS
        for index in range(self.count):
            self.check(index, sums[index].value, world * (world + 1) / 2)
        return ELEMENTS * 4 * 2 * (world - 1) / world / took / 1e9

    def check(self, index: int, address: int, expected: float) -> None:
        self.select(index)
        sums = ctypes.create_string_buffer(SAMPLE * 4)
        for offset in (0, (ELEMENTS - SAMPLE) * 4):
            called(self.cuda, "cuMemcpyDtoH_v2", sums, address + offset, SAMPLE * 4)
            if set(struct.unpack("<%df" % SAMPLE, sums.raw)) != {expected}:
                raise RuntimeError("GPU %d has a wrong sum" % index)


def seal(secret: bytes, nonce: bytes, body: bytes) -> bytes:
    return hmac.new(secret, nonce + body, hashlib.sha256).hexdigest().encode() + b" " + body + b"\n"


def unseal(secret: bytes, nonce: bytes, line: bytes) -> Any:
    """Raises ValueError for a line that a stranger wrote."""
    body = line.partition(b" ")[2].rstrip(b"\n")
    if not hmac.compare_digest(line, seal(secret, nonce, body)):
        raise ValueError("not a member")
    return json.loads(body)


def greet(peer: socket.socket, secret: bytes) -> Any:
    """What a member says about itself. Raises ValueError for a stranger."""
    nonce = os.urandom(32).hex().encode()
    peer.settimeout(2)
    peer.sendall(nonce + b"\n")
    with peer.makefile("rb") as lines:
        return unseal(secret, nonce, lines.readline(4096))


def lead(task: dict[str, Any], secret: bytes, gpus: Gpus | None) -> Any:
    """Rank 0: gathers the members, then gives all of them the same answer. Strangers are closed and forgotten."""
    members: dict[int, tuple[int, bytes, socket.socket]] = {}
    size, until = len(task["addresses"]), time.monotonic() + GATHER_SECONDS
    with socket.create_server((task["addresses"][0], task["port"]), backlog=256) as server:
        while len(members) < size - 1 and time.monotonic() < until:
            server.settimeout(max(0.1, until - time.monotonic()))
            try:
                peer = server.accept()[0]
            except OSError:
                continue
            try:
                hello = greet(peer, secret)
                members[int(hello["rank"])] = (int(hello["gpus"]), hello["nonce"].encode(), peer)
            except (OSError, ValueError, KeyError):
                peer.close()
    counts = [gpus.count if gpus else 0] + [members[rank][0] if rank in members else 0 for rank in range(1, size)]
    unique = gpus.unique_id().hex() if gpus and all(counts) else None
    answer = {"id": unique, "counts": counts}
    for _, nonce, peer in members.values():
        try:
            peer.sendall(seal(secret, nonce, json.dumps(answer).encode()))
        except OSError:
            continue
    return answer


def reach(address: str, port: int) -> socket.socket:
    """A connection to rank 0, which may begin later than this member."""
    until = time.monotonic() + GATHER_SECONDS
    while True:
        try:
            return socket.create_connection((address, port), timeout=5)
        except OSError:
            if time.monotonic() > until:
                raise Unavailable("rank 0 does not answer") from None
            time.sleep(0.2)


def follow(task: dict[str, Any], secret: bytes, gpus: Gpus | None) -> Any:
    peer, nonce = reach(task["addresses"][0], task["port"]), os.urandom(32).hex()
    with peer, peer.makefile("rb") as lines:
        peer.settimeout(GATHER_SECONDS + 5)
        hello = {"rank": task["rank"], "gpus": gpus.count if gpus else 0, "nonce": nonce}
        peer.sendall(seal(secret, lines.readline(128).strip(), json.dumps(hello).encode()))
        return unseal(secret, nonce.encode(), lines.readline(1 << 16))


def run(task: dict[str, Any]) -> dict[str, Any]:
    secret, gpus, lacks = task["secret"].encode(), None, "a member has no GPU or no NCCL"
    try:
        gpus = Gpus()
    except Unavailable as error:
        lacks = str(error)
    answer = (follow if task["rank"] else lead)(task, secret, gpus)
    if gpus is None or answer["id"] is None:
        raise Unavailable(lacks)
    first, world = sum(answer["counts"][: task["rank"]]), sum(answer["counts"])
    gbps = gpus.reduce(bytes.fromhex(answer["id"]), first, world)
    return {"result": "ok", "gpus": world, "gbps": round(gbps, 1)}


def main() -> None:
    task = json.loads(sys.stdin.read())
    try:
        result = run(task)
    except Unavailable as error:
        result = {"result": "unavailable", "detail": str(error)}
    except (OSError, RuntimeError, ValueError, KeyError, AttributeError) as error:
        result = {"result": "failed", "detail": repr(error)}
    sys.stdout.write(json.dumps(result) + "\n")
    sys.stdout.flush()
    if result["result"] == "ok":
        time.sleep(1)  # NCCL's threads may still send to others
    os._exit(0)  # they may hold the process


if __name__ == "__main__":
    main()
