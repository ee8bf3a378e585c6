"""Batches of samples: what arrives within a tenth of a second is stored by one transaction, and answered after its commit."""

import asyncio
import math
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson
import structlog

from app.db.core.api_errors import DatabaseUnavailable
from app.db.core.engine import fetch
from app.db.gpus import samples as statements
from app.domain.gpus.reports import GpuReport, GpuState
from app.domain.gpus.samples import LEASE_SERIES, LEAST_STEP, Sample, SampleReport
from app.domain.idleness import IdleRun, grace_ends_at, sample_is_idle
from app.domain.metric_labels import MetricLabels, VmReport
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest, InvalidToken, RateLimited
from app.services.gpus.agents import AgentService
from app.services.gpus.health import GpuHealthService

_WINDOW_SECONDS = 0.1
"""How long a sample waits for others."""
_LARGEST_BATCH = 200

_log = structlog.get_logger("gpulease.gpu_samples")


@dataclass(slots=True, eq=False)
class _Item:
    token: str = field(repr=False)
    hash: bytes
    report: SampleReport | None
    answer: asyncio.Future[None] = field(repr=False)


class _PendingReport(NamedTuple):
    """A report to store. `row`: of REPORTERS."""

    item: _Item
    report: SampleReport
    row: Mapping[str, Any]


class SampleBatches:
    """Stores samples of several VMs at once. What goes wrong with one of them is the answer of that one alone."""

    def __init__(self, context: ServiceContext, agents: AgentService, health: GpuHealthService) -> None:
        settings = context.settings
        self._database = context.database
        self._agents = agents
        self._health = health
        self._period = float(settings.sample_seconds)
        self._grace_seconds = settings.idle_grace_seconds
        self._step = timedelta(seconds=LEAST_STEP * self._period)
        self._pending: dict[bytes, _Item] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._storing = False

    async def add(self, token: str, presented: bytes, report: SampleReport | None) -> None:
        """Returns after the commit. `presented`: the hash of the token. `report` None: the token is looked up alone.

        Raises InvalidToken for an unknown token or an ended VM, RateLimited, and DatabaseUnavailable.
        """
        before = self._pending.get(presented)
        if before is not None:
            await asyncio.wait([before.answer])
            if not before.answer.cancelled() and isinstance(before.answer.exception(), InvalidToken):
                raise InvalidToken
            raise too_soon(self._step)
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
            ready = [due for item in items if (due := self._due(item, known.get(item.hash))) is not None]
            changed = [due for due in ready if _must_judge(due)]
            for due in changed:
                self._start(self._judge_and_write(due))
            await self._write([due for due in ready if due not in changed])
        except Exception as error:  # noqa: BLE001 - each request gets it as its own
            if isinstance(error, DatabaseUnavailable) or len(items) == 1:
                _refuse_all(items, error)
                return
            _log.exception("samples are stored one by one")
            for item in items:
                if not item.answer.done():
                    await self._store([item])

    def _due(self, item: _Item, row: Mapping[str, Any] | None) -> _PendingReport | None:
        """None: the item has its answer."""
        report = item.report
        if row is None:
            return _answer(item, InvalidToken())
        if report is None:
            return _answer(item)
        report = report.timely(row["now"])
        if _is_same(row) and (wait := self._step - timedelta(seconds=float(row["received_ago"]))) > timedelta(0):
            return _answer(item, too_soon(wait))
        if _is_same(row) and report.samples[-1].at <= row["sampled_at"]:
            return _answer(item)  # a repeat: its answer was lost
        return _PendingReport(item, report, row)

    async def _judge_and_write(self, due: _PendingReport) -> None:
        """Apart from the others: the lease may be locked. An error makes the agent repeat the samples."""
        try:
            await self._judge(due)
            await self._write([due])
        except Exception as error:  # noqa: BLE001 - the request gets it as its own
            _refuse_all([due.item], error)

    async def _judge(self, due: _PendingReport) -> None:
        """What the VM reports, its unknown GPUs too: health concerns this lease alone."""
        agent = await self._agents.find(due.item.token)
        if agent is None:
            raise InvalidToken
        newest = due.report.samples[-1]
        gpus = tuple(
            GpuState(
                index=index,
                uuid=gpu.uuid,
                memory_mib=None if gpu.memory_mib is None else int(gpu.memory_mib),
                ecc_uncorrected=gpu.ecc_uncorrected,
                remap_failed=gpu.remap_failed,
                recovery_action=gpu.recovery_action,
                impossible=gpu.impossible,
            )
            for index, gpu in enumerate(newest.gpus)
        )
        report = GpuReport(gpus=gpus, driver_gpus=newest.driver_gpus, xids=due.report.xids, errors=newest.errors)
        await self._health.judge(agent, report)

    async def _write(self, ready: Sequence[_PendingReport]) -> None:
        rows = [self._row(due.report, due.row) for due in ready]
        stored: set[str] = set()
        if rows:
            async with self._database.transaction(None) as connection:
                done = await fetch(connection, statements.STORE, {"items": orjson.dumps(rows).decode()})
                stored = {row["lease_id"] for row in done}
        for due in ready:
            _answer(due.item, None if due.row["lease_id"] in stored else too_soon(self._step))

    def _row(self, report: SampleReport, row: Mapping[str, Any]) -> dict[str, Any]:
        labels = _labels(report, row)
        stored, run, refused = self._to_store(report, row, labels)
        newest = report.samples[-1].only(labels.uuids)
        values = dict(zip(LEASE_SERIES, newest.lease_values(), strict=True))
        return {
            "lease_id": row["lease_id"],
            "tenant_id": row["tenant_id"],
            "attempt_id": row["attempt_id"],
            "previous": row["received_at"],
            "sampled_at": newest.at,
            "gpu_percent": values["gpu_percent"],
            "busiest_percent": newest.busiest_percent,
            "memory_percent": values["memory_percent"],
            "gpus": len(newest.gpus),
            "idle_since": run.since,
            "idle_samples": run.samples,
            "gpu_percents": newest.gpu_values()[0],
            "sample": newest,
            "xids": report.xids,
            "metric_labels": labels.as_json(),
            "refused": refused + report.left_out,
            "samples": stored,
        }

    def _to_store(
        self, report: SampleReport, row: Mapping[str, Any], labels: MetricLabels
    ) -> tuple[list[dict[str, Any]], IdleRun, int]:
        """The samples to store, the run of idle samples, and how many samples are not stored as they came.

        An agent repeats what got no answer. A busy sample ends the run although it is not stored.
        """
        run, last = IdleRun(), None
        if _is_same(row):
            last = row["sampled_at"]
            run = IdleRun(since=row["idle_since"], samples=row["idle_samples"], last_at=last)
        counts_from = grace_ends_at(row["ready_at"], self._grace_seconds)
        arrived = [sample for sample in report.samples if last is None or sample.at > last]
        stored, refused = [], 0
        for sample in arrived:
            of_lease = sample.only(labels.uuids)
            idle = sample_is_idle(of_lease.percentages, row["gpu_count"] or 1)
            run = run.after(sample.at, idle=idle, counts_from=counts_from, period=self._period)
            is_stored = last is None or sample.at - last >= self._step
            if is_stored:
                last = sample.at
                stored.append(_sample_row(of_lease, idle=idle))
            refused += not is_stored or len(of_lease.gpus) < len(sample.gpus)
        return stored, run, refused


def _labels(report: SampleReport, row: Mapping[str, Any]) -> MetricLabels:
    """Those of the VM's samples after this report."""
    known = VmReport(
        uuids=report.uuids,
        boot_id=report.boot_id,
        name=row["name"],
        count=row["gpu_count"] or 1,
        now=row["now"],
        proven=[gpu["uuid"] for gpu in orjson.loads(row["proven"] or "[]") if gpu["uuid"] is not None],
        proven_at=None if row["proven_at"] is None else datetime.fromisoformat(row["proven_at"]),
    )
    if not _is_same(row) or row["metric_labels"] is None:
        return MetricLabels.first(known)
    return MetricLabels.from_json(orjson.loads(row["metric_labels"])).after(known)


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


def _must_judge(due: _PendingReport) -> bool:
    """Whether the evidence of the GPUs' health differs from that of the newest sample, or was never judged."""
    row = due.row
    if not _is_same(row) or row["is_unjudged"]:
        return True
    newest = orjson.loads(orjson.dumps({"sample": due.report.samples[-1], "xids": due.report.xids}))
    return _evidence({name: orjson.loads(row[name]) for name in newest}) != _evidence(newest)


def _evidence(report: Mapping[str, Any]) -> tuple[Any, ...]:
    """What the judgement of a report in its stored form reads. Times of Xids are none of it."""
    sample = report["sample"]
    gpus = [[gpu[name] for name in ("uuid", "remap_failed", "recovery_action", "impossible")] for gpu in sample["gpus"]]
    xids = [(xid["code"], xid["gpu"]) for xid in report["xids"]]
    return gpus, sample["driver_gpus"], sample["errors"], xids


def _answer(item: _Item, error: Exception | None = None) -> None:
    """Its first answer counts."""
    if item.answer.done():
        return
    if error is not None:
        item.answer.set_exception(error)
    else:
        item.answer.set_result(None)


def _refuse_all(items: Iterable[_Item], error: Exception) -> None:
    for item in items:
        _answer(item, error)


def too_soon(wait: timedelta) -> RateLimited:
    """The refusal of samples that come within half a sample period."""
    seconds = max(math.ceil(wait.total_seconds()), 1)
    return RateLimited("Samples of this VM have just been stored.", headers={"Retry-After": str(seconds)})


def invalid(error: ValueError) -> InvalidRequest:
    """The refusal of a report. The pointer names the field with which the message begins."""
    if isinstance(error, orjson.JSONDecodeError):
        return InvalidRequest(errors=[FieldError("#/body", "must be one JSON document in UTF-8 with finite numbers")])
    name, _, rest = str(error).partition(" ")
    pointer = "#/" + name.replace("[", "/").replace("]", "").replace(".", "/")
    return InvalidRequest(errors=[FieldError(pointer, rest)])
