"""Batches of samples: what arrives within a tenth of a second is stored by one transaction, and answered after its commit."""

import asyncio
import math
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog

from app.db.core.engine import DatabaseUnavailable, fetch
from app.db.gpus import samples as statements
from app.domain.gpu_reports import GpuState
from app.domain.gpu_samples import LEASE_SERIES, LEAST_INTERVAL_SECONDS, Sample, SampleReport
from app.domain.idleness import IdleRun, grace_ends_at, sample_is_idle
from app.services.agents import AgentService
from app.services.context import ServiceContext
from app.services.errors import InvalidToken, RateLimited
from app.services.gpu_health import GpuHealthService

_WINDOW_SECONDS = 0.1
"""How long a sample waits for others."""
_LARGEST_BATCH = 200

_log = structlog.get_logger("gpulease.gpu_samples")


@dataclass(slots=True, eq=False)
class _Item:
    token: str = field(repr=False)
    hash: bytes
    report: SampleReport
    answer: asyncio.Future[None] = field(repr=False)


class SampleBatches:
    """Stores samples of several VMs at once. What goes wrong with one of them is the answer of that one alone."""

    def __init__(self, context: ServiceContext, agents: AgentService, health: GpuHealthService) -> None:
        settings = context.settings
        self._database = context.database
        self._agents = agents
        self._health = health
        self._period = float(settings.sample_seconds)
        self._grace_seconds = settings.idle_grace_seconds
        self.interval = min(LEAST_INTERVAL_SECONDS, self._period / 2)
        """The least seconds between two requests of one VM."""
        self._pending: dict[bytes, _Item] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._storing = False

    async def add(self, token: str, presented: bytes, report: SampleReport) -> None:
        """Returns after the commit. `presented`: the hash of the token.

        Raises InvalidToken for an unknown token or an ended VM, RateLimited, and DatabaseUnavailable.
        """
        if presented in self._pending:
            raise too_soon(self.interval)
        item = _Item(token, presented, report, asyncio.get_running_loop().create_future())
        self._pending[presented] = item
        if not self._storing:
            self._storing = True
            self._start(self._store_pending())
        await item.answer

    async def reporters(self, hashes: Sequence[bytes]) -> dict[bytes, Mapping[str, Any]]:
        """Rows of REPORTERS by their tokens' hashes."""
        rows = await self._database.fetch(None, statements.REPORTERS, hashes=hashes)
        return {row["agent_hash"]: row for row in rows}

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` beside the caller."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _store_pending(self) -> None:
        """Until nothing is left. What is stored for several leases at once is decided for each of them alone."""
        while self._pending:
            await asyncio.sleep(_WINDOW_SECONDS)
            items = list(self._pending.values())[:_LARGEST_BATCH]
            await self._store(items)
            for item in items:
                del self._pending[item.hash]
        self._storing = False

    async def _store(self, items: Sequence[_Item]) -> None:
        """Gives each item its answer. Never raises."""
        try:
            known = await self.reporters([item.hash for item in items])
            ready = [(item, known[item.hash]) for item in items if self._is_due(item, known.get(item.hash))]
            changed = [pair for pair in ready if _must_judge(*pair)]
            for item, row in changed:
                self._start(self._judge_and_write(item, row))
            await self._write([pair for pair in ready if pair not in changed])
        except Exception as error:  # noqa: BLE001 - each request gets it as its own
            if isinstance(error, DatabaseUnavailable) or len(items) == 1:
                _refuse_all(items, error)
                return
            _log.exception("samples are stored one by one")
            for item in items:
                if not item.answer.done():
                    await self._store([item])

    def _is_due(self, item: _Item, row: Mapping[str, Any] | None) -> bool:
        if row is None:
            _answer(item, InvalidToken())
            return False
        ago = row["received_ago"]
        if _is_same(row) and float(ago) < self.interval:
            _answer(item, too_soon(self.interval - float(ago)))
            return False
        if _is_same(row) and item.report.samples[-1].at <= row["sampled_at"]:
            _answer(item)  # a repeat: its answer was lost
            return False
        return True

    async def _judge_and_write(self, item: _Item, row: Mapping[str, Any]) -> None:
        """Apart from the others: the lease may be locked. An error makes the agent repeat the samples."""
        try:
            await self._judge(item)
            await self._write([(item, row)])
        except Exception as error:  # noqa: BLE001 - the request gets it as its own
            _refuse_all([item], error)

    async def _judge(self, item: _Item) -> None:
        agent = await self._agents.find(item.token)
        if agent is None:
            raise InvalidToken
        gpus = [
            GpuState(
                index=index,
                uuid=gpu.uuid,
                memory_mib=None if gpu.memory_mib is None else int(gpu.memory_mib),
                ecc_uncorrected=gpu.ecc_uncorrected,
                remap_failed=gpu.remap_failed,
                recovery_action=gpu.recovery_action,
            )
            for index, gpu in enumerate(item.report.samples[-1].gpus)
        ]
        await self._health.judge_samples(agent, gpus, item.report.xids)

    async def _write(self, pairs: Sequence[tuple[_Item, Mapping[str, Any]]]) -> None:
        rows = [self._row(item.report, row) for item, row in pairs]
        stored: set[str] = set()
        if rows:
            async with self._database.transaction(None) as connection:
                done = await fetch(connection, statements.STORE, {"items": orjson.dumps(rows).decode()})
                stored = {row["lease_id"] for row in done}
        for item, row in pairs:
            _answer(item, None if row["lease_id"] in stored else too_soon(self.interval))

    def _row(self, report: SampleReport, row: Mapping[str, Any]) -> dict[str, Any]:
        """The new row of gpu_latest, and the samples that are not stored yet: an agent repeats what got no answer."""
        run, known_until = IdleRun(), None
        if _is_same(row):
            known_until = row["sampled_at"]
            run = IdleRun(since=row["idle_since"], samples=row["idle_samples"], last_at=known_until)
        counts_from = grace_ends_at(row["ready_at"], self._grace_seconds)
        fresh = []
        for sample in report.samples:
            if known_until is None or sample.at > known_until:
                idle = sample_is_idle(sample.percentages, row["gpu_count"] or 1)
                run = run.after(sample.at, idle=idle, counts_from=counts_from, period=self._period)
                fresh.append(_sample_row(sample, idle=idle))
        newest = report.samples[-1]
        return {
            "lease_id": row["lease_id"],
            "tenant_id": row["tenant_id"],
            "attempt_id": row["attempt_id"],
            "previous": row["received_at"],
            "sampled_at": newest.at,
            "gpu_percent": fresh[-1]["gpu_percent"],
            "busiest_percent": newest.busiest_percent,
            "memory_percent": fresh[-1]["memory_percent"],
            "gpus": len(newest.gpus),
            "idle_since": run.since,
            "idle_samples": run.samples,
            "gpu_percents": newest.gpu_values()[0],
            "sample": newest,
            "xids": report.xids,
            "samples": fresh,
        }


def _sample_row(sample: Sample, *, idle: bool) -> dict[str, Any]:
    return {
        "at": sample.at,
        "idle": idle,
        **dict(zip(LEASE_SERIES, sample.lease_values(), strict=True)),
        "uuids": [gpu.uuid for gpu in sample.gpus],
        "gpu_values": sample.gpu_values() if sample.gpus else [],
    }


def _is_same(row: Mapping[str, Any]) -> bool:
    """Whether the newest sample is of the same attempt."""
    return bool(row["sampled_attempt_id"] == row["attempt_id"])


def _must_judge(item: _Item, row: Mapping[str, Any]) -> bool:
    """Whether Xids, the GPUs or their flags differ from those of the newest sample, or were never judged."""
    if not _is_same(row) or row["is_unjudged"]:
        return True
    before, xids = orjson.loads(row["sample"]), orjson.loads(row["xids"])
    if len(item.report.xids) != len(xids) or orjson.loads(orjson.dumps(item.report.xids)) != xids:
        return True
    stored = [(gpu["uuid"], gpu["remap_failed"], gpu["recovery_action"]) for gpu in before["gpus"]]
    return stored != [(gpu.uuid, gpu.remap_failed, gpu.recovery_action) for gpu in item.report.samples[-1].gpus]


def _answer(item: _Item, error: Exception | None = None) -> None:
    if item.answer.done():
        return
    if error is None:
        item.answer.set_result(None)
    else:
        item.answer.set_exception(error)


def _refuse_all(items: Iterable[_Item], error: Exception) -> None:
    for item in items:
        _answer(item, error)


def too_soon(seconds: float) -> RateLimited:
    """The refusal of samples that come within the interval."""
    return RateLimited(
        "Samples of this VM have just been stored.", headers={"Retry-After": str(max(math.ceil(seconds), 1))}
    )
