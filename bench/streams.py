"""Event streams: memory of one API process with many of them open, and how soon each tells of a change."""

import argparse
import asyncio
import math
import statistics
import time

import httpx

from app.services.event_stream import MOST_OF_A_KEY
from bench import report, stack
from bench.plant import LEASE_BODY
from bench.stack import Stack
from cloudsim.testing import NO_TLS

_CHANGES = 5
_PATIENCE = 60.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.streams", description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    arguments = parser.parse_args()
    with stack.running("--profile", "fast", "--clouds", "aws", max_streams=str(4 * arguments.streams)) as running:
        asyncio.run(measure(running, arguments.streams))


class StreamEvent:
    """What the streams have told: (lease, when). `enough` is set after `wanted` of them."""

    def __init__(self, wanted: int) -> None:
        self.times: list[tuple[str, float]] = []
        self.enough = asyncio.Event()
        self._wanted = wanted
        self._open = asyncio.Semaphore(0)

    async def until_open(self, count: int) -> None:
        """Until so many streams have begun."""
        for _ in range(count):
            await self._open.acquire()

    async def listen(self, running: Stack, key: str) -> None:
        """One stream, over a bare connection: a thousand readers must cost less than the process that is measured."""
        reader, writer = await asyncio.open_connection("127.0.0.1", running.api_port)
        head = f"GET /v1/events/stream HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer {key}\r\n\r\n"
        writer.write(head.encode())
        await reader.readuntil(b"retry: ")
        self._open.release()
        try:
            while line := await reader.readline():
                if line.startswith(b"data: ") and b'"lease.queued"' in line:
                    self._note(line)
        finally:
            writer.close()

    def _note(self, line: bytes) -> None:
        lease = line.partition(b'"lease_id":"')[2].partition(b'"')[0]
        self.times.append((lease.decode(), time.monotonic()))
        if len(self.times) == self._wanted:
            self.enough.set()


async def measure(running: Stack, count: int) -> None:
    """Opens the streams, makes some leases, and waits until every stream has told of each."""
    running.ample_quota()
    before = running.memory_mib()["api"]
    told = StreamEvent(count * _CHANGES)
    headers = {"Authorization": f"Bearer {running.tenant_key}"}
    async with httpx.AsyncClient(
        base_url=running.api_url, headers=headers, timeout=_PATIENCE, trust_env=False, verify=NO_TLS
    ) as client:
        keys = [await _make_key(client, running) for _ in range(math.ceil(count / MOST_OF_A_KEY))]
        streams = [asyncio.create_task(told.listen(running, keys[n // MOST_OF_A_KEY])) for n in range(count)]
        await asyncio.wait_for(told.until_open(count), _PATIENCE)
        cpu = running.cpu_seconds()["api"]
        asked = {await _create(client, n): time.monotonic() for n in range(_CHANGES)}
        await asyncio.wait_for(told.enough.wait(), _PATIENCE)
        spent = running.cpu_seconds()["api"] - cpu
        after = running.memory_mib()["api"]
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)
    delays = [at - asked[lease] for lease, at in told.times]
    what = f"{count} open event streams"
    report.figure(f"{what}: memory of the API process", after, "MiB", ("with none", before))
    report.figure(
        f"{what}: longest time until a change is told", max(delays), "s", ("median", statistics.median(delays))
    )
    report.figure(
        f"{what}: CPU of the API process", 1000 * spent / len(delays), "ms a told change", ("changes", len(delays))
    )


async def _make_key(client: httpx.AsyncClient, running: Stack) -> str:
    headers = {"Authorization": f"Bearer {running.operator_key}"}
    path, body = f"/v1/tenants/{running.tenant_id}/keys", {"name": "bench", "role": "viewer"}
    answer = await client.post(path, json=body, headers=headers)
    return str(answer.raise_for_status().json()["secret"])


async def _create(client: httpx.AsyncClient, number: int) -> str:
    answer = await client.post("/v1/leases", json=LEASE_BODY | {"name": f"change {number}"})
    return str(answer.raise_for_status().json()["id"])


if __name__ == "__main__":
    main()
