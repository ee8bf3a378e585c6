"""Samples of the agents in VMs: who may send them, and how often. Refusals are counted."""

import re
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import orjson

from app.db.core.engine import fetch
from app.db.gpus import samples as statements
from app.domain.gpus.benchmarks import parse_benchmark
from app.domain.gpus.samples import parse_samples
from app.domain.tokens import agent_hash
from app.services.context import ServiceContext
from app.services.errors import InvalidToken, RateLimited
from app.services.gpus.agents import AgentService
from app.services.gpus.benchmarks import GpuBenchmarkService
from app.services.gpus.health import GpuHealthService
from app.services.gpus.sample_batches import SampleBatches, invalid

_TOKEN = re.compile(r"[0-9a-f]{64}")
COUNT_SECONDS = 1.0
"""Between two calls of `write_counts`."""
_MOST_COUNTED = 500


class GpuSampleService:
    """Accepts samples."""

    def __init__(
        self,
        context: ServiceContext,
        agents: AgentService,
        health: GpuHealthService,
        benchmarks: GpuBenchmarkService,
    ) -> None:
        self._database = context.database
        self._agents = agents
        self._benchmarks = benchmarks
        self._batches = SampleBatches(context, agents, health)
        self._refused: Counter[bytes] = Counter()

    async def is_known(self, token: str) -> bool:
        """Whether `token` belongs to a VM that has not ended. Text that cannot be a token costs no query."""
        return _TOKEN.fullmatch(token) is not None and bool(await self._batches.reporters([agent_hash(token)]))

    async def accept(self, token: str | None, body: bytes) -> None:
        """Stores the samples of a request. What is refused or left out counts.

        Raises InvalidToken for an unknown token or an ended VM, InvalidRequest, RateLimited and DatabaseUnavailable.
        """
        token, presented = _presented(token)
        try:
            report = parse_samples(orjson.loads(body))
            if report.benchmark is not None:
                parse_benchmark(report.benchmark)
        except ValueError as error:
            await self._refuse(token, presented)
            raise invalid(error) from None
        try:
            await self._batches.add(token, presented, report)
        except RateLimited:
            self._count(presented)
            raise
        if report.benchmark is not None:
            await self._store_benchmark(token, report.benchmark)

    async def write_counts(self) -> None:
        """Adds what was refused since the last call to the counts of its leases. Raises DatabaseUnavailable."""
        counts, self._refused = self._refused, Counter()
        if counts:
            async with self._database.transaction(None) as connection:
                parameters = {"hashes": list(counts), "refused": list(counts.values())}
                await fetch(connection, statements.COUNT_REFUSED, parameters)

    async def _store_benchmark(self, token: str, benchmark: Mapping[str, Any]) -> None:
        """Nothing happens when the attempt has just ended."""
        agent = await self._agents.find(token)
        if agent is not None:
            await self._benchmarks.accept(agent, benchmark)

    async def refuse_body(self, token: str | None) -> None:
        """Counts a body that is not read: too large, or of another type. Raises InvalidToken."""
        await self._refuse(*_presented(token))

    async def _refuse(self, token: str, presented: bytes) -> None:
        """Counts a report that is not stored. Raises InvalidToken."""
        with suppress(RateLimited):  # another report of the same VM is being stored
            await self._batches.add(token, presented, None)
        self._count(presented)

    def _count(self, presented: bytes) -> None:
        """Counts a refusal; `write_counts` stores it."""
        if presented in self._refused or len(self._refused) < _MOST_COUNTED:
            self._refused[presented] += 1


def _presented(token: str | None) -> tuple[str, bytes]:
    """The token and its hash. Raises InvalidToken for text that cannot be a token."""
    if token is None or _TOKEN.fullmatch(token) is None:
        raise InvalidToken
    return token, agent_hash(token)
