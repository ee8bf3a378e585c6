"""The largest traffic of agents that is accepted, and samples that cannot be summed up: other leases have their sums in time."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.db.operations.purge import STATEMENTS
from app.domain.gpus.samples import LEAST_STEP
from app.domain.gpus.series import MOST_GPUS, SeriesPeriod
from app.services.gpus import metrics as gpu_metrics
from app.services.gpus.metrics import LeaseSeries
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.test_gpu_metrics import ADD, UUIDS, leased
from workers.jobs import gpu_samples
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

GPUS, PERIOD = 16, 60
"""The most GPUs of an offering, and the sample period in seconds."""
LEASES, AT_ONCE = 60, 50
"""Leases of one tenant, and those that one statement sums up, which are 250 otherwise."""
JOB_SECONDS, READ_SECONDS = 15.0, 2.0
LARGEST = f"""
    INSERT INTO gpu_sample (lease_id, tenant_id, at, idle, gpu_percent, memory_percent, power_w, temperature_c, sm_clock_mhz,
        cpu_percent, host_memory_percent, disk_percent, uuids, gpu_values)
    SELECT l, 'tenant_large', at, false, 50, 50, 50, 50, 50, 50, 50, 50,
        (SELECT array_agg(rpad('GPU-' || n || extract(hour FROM at) || (extract(minute FROM at) >= 30), 100, 'x'))
         FROM generate_series(1, {GPUS}) n),
        array_fill(50::smallint, ARRAY[4, {GPUS}])
    FROM unnest(%s::text[]) l,
        generate_series(%s::timestamptz, %s::timestamptz - interval '1 ms', %s * interval '1 second') at
"""
"""Two sets of GPUs with the longest names in each hour."""
LATEST = """
    INSERT INTO gpu_latest (lease_id, tenant_id, attempt_id, sampled_at, received_at)
    SELECT DISTINCT lease_id, tenant_id, 'attempt', now(), now() FROM gpu_sample
"""


class Job:
    """The job of a worker, and what it counts as failed."""

    def __init__(self, database_url: str) -> None:
        self.failed: list[str] = []
        self.database = WorkerDatabase(database_url, pool_size=1)
        metrics = SimpleNamespace(job_failed=lambda kind, _account, _error: self.failed.append(kind))
        settings = SimpleNamespace(raw_sample_days=7)
        made = SimpleNamespace(database=self.database, stopping=Event(), settings=settings, metrics=metrics)
        self.runtime = cast(Runtime, made)

    def run(self) -> int:
        return gpu_samples.roll_up_samples(self.runtime, "", "")


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
def job(database_url: str) -> Any:
    made = Job(database_url)
    yield made
    made.database.close()


def last_hour() -> tuple[datetime, datetime]:
    end = (datetime.now(UTC) - timedelta(minutes=16)).replace(minute=0, second=0, microsecond=0)  # noqa: TID251
    return end - timedelta(hours=1), end


def fill(
    fleet: Fleet, leases: list[str], since: datetime, until: datetime, *, step: float = LEAST_STEP * PERIOD
) -> None:
    fleet.run(LARGEST, leases, since, until, step)


async def test_the_largest_traffic_is_summed_up_in_time_and_changes_no_other_sums(
    fleet: Fleet, alice: Caller, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_samples, "_BATCH", AT_ONCE)
    lease_id = await leased(fleet, alice)
    since, until = last_hour()
    fleet.run(ADD, UUIDS, since, until, lease_id)
    fill(fleet, [f"lease_{n:04}" for n in range(LEASES)], since, until)
    fleet.run(LATEST)
    started = time.monotonic()
    assert job.run() == LEASES + 1
    assert time.monotonic() - started < JOB_SECONDS
    assert job.failed == []
    (own,) = fleet.run("SELECT * FROM gpu_rollup WHERE lease_id = %s", lease_id)
    assert (own["samples"], own["gpu_percent"], own["gpu_values"]) == (60, 30, [[30, 40, 60, 300], [32, 40, 60, 300]])


async def test_samples_that_cannot_be_summed_up_keep_no_other_lease_from_its_sums(
    fleet: Fleet, alice: Caller, operator: Caller, job: Job
) -> None:
    """As stored by an error of ours: 36,000 in an hour, more than its sum can count."""
    bad, good = await leased(fleet, alice), await leased(fleet, alice)
    since, until = last_hour()
    before = since - timedelta(hours=1)
    for one in (bad, good):
        fleet.run(ADD, UUIDS, before, until, one)
    fleet.run("DELETE FROM gpu_sample WHERE lease_id = %s AND at >= %s", bad, since)
    values = "SELECT lease_id, tenant_id, t, idle, uuids, gpu_values FROM gpu_sample s, generate_series(%s::timestamptz, %s, "
    fleet.run(
        "INSERT INTO gpu_sample (lease_id, tenant_id, at, idle, uuids, gpu_values) "
        f"{values} interval '0.1 s') t WHERE s.lease_id = %s AND s.at = %s",
        since,
        until - timedelta(seconds=1),
        bad,
        before,
    )
    fill(fleet, [f"lease_{n:04}" for n in range(6)], before, until, step=600)
    fleet.run(LATEST)
    assert job.run() == 8 + 7
    assert job.failed == ["gpu_samples"]
    assert next(iter(fleet.run("SELECT samples_rolled_until AS until FROM usage_progress")))["until"] == until
    sums = fleet.run("SELECT lease_id, starts_at FROM gpu_rollup WHERE lease_id = ANY (%s)", [bad, good])
    assert sorted((row["lease_id"], row["starts_at"]) for row in sums) == sorted(
        [(bad, before), (good, before), (good, since)]
    )
    (stuck,) = (await operator.get("/v1/ops/summary")).json()["stuck"]
    assert (stuck["kind"], stuck["lease_id"], stuck["since"]) == ("samples", bad, f"{since:%Y-%m-%dT%H:%M:%SZ}")
    assert "smallint" in stuck["reason"]
    assert "samples" not in (await alice.get("/v1/me")).text
    fleet.run("UPDATE gpu_latest SET sampled_at = %s", since)
    with job.database.begin() as connection:
        for statement in STATEMENTS:
            connection.execute(statement)
    left = {row["lease_id"] for row in fleet.run("SELECT lease_id FROM gpu_latest")}
    assert left == {bad, good}, "the rows of leases that are no more were purged"


async def test_the_largest_series_are_read_in_time_beside_other_requests(
    fleet: Fleet, alice: Caller, bob: Caller
) -> None:
    """A day of samples of 16 GPUs, and of another set of them in each half an hour."""
    lease_id = await leased(fleet, alice)
    since, until = last_hour()[1] - timedelta(hours=23), last_hour()[1]
    fill(fleet, [lease_id], since, until)
    fleet.run("UPDATE gpu_sample SET tenant_id = l.tenant_id FROM lease l WHERE l.id = lease_id")
    for step in (60, 300, 3600):
        query = {"from": since.isoformat(), "to": until.isoformat(), "step": f"{step}"}
        await read_in_time(alice, bob, lease_id, query)


async def read_in_time(alice: Caller, bob: Caller, lease_id: str, query: dict[str, str]) -> None:
    """Reads series four times at once, while another tenant reads its leases."""
    slowest, done = 0.0, asyncio.Event()

    async def others() -> None:
        nonlocal slowest
        while not done.is_set():
            began = time.monotonic()
            assert (await bob.get("/v1/leases", params={"limit": "1"})).status_code == 200
            slowest = max(slowest, time.monotonic() - began)

    beside = asyncio.create_task(others())
    started = time.monotonic()
    found = await asyncio.gather(*(alice.get(f"/v1/leases/{lease_id}/metrics", params=query) for _ in range(4)))
    seconds = time.monotonic() - started
    done.set()
    await beside
    assert [answer.status_code for answer in found] == [200] * 4
    body = found[0].json()
    assert len(body["gpus"]) == MOST_GPUS
    assert set(body["series"]["gpu_percent"]) == {50}
    assert seconds < 4 * READ_SECONDS
    assert slowest < READ_SECONDS / 2


async def test_series_are_made_beside_the_event_loop_from_the_means_of_each_step(
    fleet: Fleet, alice: Caller, bob: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """120 samples in twelve steps. Another tenant's read is answered while the series are being made."""
    lease_id = await leased(fleet, alice)
    since, until = last_hour()
    fill(fleet, [lease_id], since, until)
    fleet.run("UPDATE gpu_sample SET tenant_id = l.tenant_id FROM lease l WHERE l.id = lease_id")
    make, loop = gpu_metrics._series, asyncio.get_running_loop()
    begun, answered = asyncio.Event(), Event()
    cells: list[int] = []

    def make_later(lease_id: str, period: SeriesPeriod, rows: Any) -> LeaseSeries:
        cells.extend(len(row["cells"]) for row in rows.recent)
        loop.call_soon_threadsafe(begun.set)
        assert answered.wait(10), "the event loop waits for the series"
        return make(lease_id, period, rows)

    monkeypatch.setattr(gpu_metrics, "_series", make_later)
    query = {"from": since.isoformat(), "to": until.isoformat(), "step": "300"}
    reading = asyncio.create_task(alice.get(f"/v1/leases/{lease_id}/metrics", params=query))
    async with asyncio.timeout(20):
        await begun.wait()
        assert (await bob.get("/v1/leases")).status_code == 200
        answered.set()
        assert (await reading).status_code == 200
    assert len(cells) == 1 + 2 * GPUS
    assert max(cells) <= 12
