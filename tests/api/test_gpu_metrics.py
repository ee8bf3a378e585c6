"""Metrics of GPUs over HTTP: what agents sent comes back, in steps, to its own tenant."""

from datetime import UTC, datetime, timedelta
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest
from psycopg.types.json import Jsonb

from app.db.core.ids import new_id
from app.observability.gpu_exposition import METRIC_NAMES
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from workers.jobs.gpu_samples import keep_partitions, roll_up_samples
from workers.runtime.database import WorkerDatabase
from workers.runtime.runtime import Runtime

UUIDS = ["GPU-a", "GPU-b"]
ADD = """
    INSERT INTO gpu_sample (lease_id, tenant_id, at, idle, gpu_percent, memory_percent, power_w, temperature_c, sm_clock_mhz,
        cpu_percent, host_memory_percent, disk_percent, uuids, gpu_values)
    SELECT id, tenant_id, at, false, p, 40, 600, 60, 1980, 20, 30, 44, %s,
        ARRAY[ARRAY[p, p + 2], ARRAY[40, 40], ARRAY[60, 60], ARRAY[300, 300]]
    FROM lease, generate_series(%s::timestamptz, %s::timestamptz - interval '1 second', interval '1 minute') at,
        LATERAL (SELECT extract(minute FROM at)::smallint AS p) percent
    WHERE id = %s
"""
LATEST = """
    INSERT INTO gpu_latest (lease_id, tenant_id, attempt_id, sampled_at, received_at, gpu_percents, sample, xids, metric_labels)
    SELECT l.id, l.tenant_id, a.id, now() - %s * interval '1 second', now(), %s, %s, %s,
        jsonb_build_object('name', l.name, 'uuids', %s::jsonb)
    FROM lease l JOIN attempt a ON a.lease_id = l.id WHERE l.id = %s
"""
"""The utilization is the minute of the hour."""


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def leased(fleet: Fleet, owner: Caller, **values: Any) -> str:
    made = await owner.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600, **values})
    lease_id: str = made.json()["id"]
    fleet.activate(lease_id)
    return lease_id


def report(fleet: Fleet, lease_id: str, percents: list[int | None], *, age: int = 5, xids: Any = ()) -> None:
    gpus = [
        {
            "uuid": f"GPU-{n}",
            "utilization": percent,
            "memory_used_mib": 1000,
            "memory_mib": 24000,
            "power_w": 250.5,
            "temperature_c": 61,
            "sm_clock_mhz": 1980,
            "ecc_uncorrected": 0,
            "throttle": 1,
            "remap_failed": False,
            "recovery_action": "none",
        }
        for n, percent in enumerate(percents)
    ]
    sample = {"gpus": gpus, "cpu_percent": 20.5, "memory_percent": 30, "disk_percent": None}
    fleet.run(LATEST, age, percents, Jsonb(sample), Jsonb([*xids]), Jsonb([one["uuid"] for one in gpus]), lease_id)


def runtime(database_url: str) -> Runtime:
    database = WorkerDatabase(database_url, pool_size=1)
    settings = SimpleNamespace(raw_sample_days=7)
    return cast(Runtime, SimpleNamespace(database=database, stopping=Event(), settings=settings))


def last_hours(count: int) -> tuple[datetime, datetime]:
    """Hours whose last samples cannot be late any more; yesterday has a partition."""
    end = (datetime.now(UTC) - timedelta(minutes=16)).replace(minute=0, second=0, microsecond=0)  # noqa: TID251
    return end - timedelta(hours=count), end


async def test_series_are_the_same_from_samples_and_from_sums(fleet: Fleet, alice: Caller, database_url: str) -> None:
    lease_id = await leased(fleet, alice)
    since, until = last_hours(2)
    fleet.run(ADD, UUIDS, since, until, lease_id)
    report(fleet, lease_id, [50, 52])
    query = {"from": since.isoformat(), "to": until.isoformat(), "step": "300"}
    before = (await alice.get(f"/v1/leases/{lease_id}/metrics", params=query)).json()
    jobs = runtime(database_url)
    assert roll_up_samples(jobs, "", "") == 2
    assert roll_up_samples(jobs, "", "") == 0
    fleet.run("DELETE FROM gpu_sample")
    after = (await alice.get(f"/v1/leases/{lease_id}/metrics", params=query)).json()
    jobs.database.close()
    assert after == before
    assert after["step_seconds"] == 300
    assert len(after["at"]) == 24
    assert after["at"][0] == since.isoformat().replace("+00:00", "Z")
    assert after["series"]["gpu_percent"][:3] == [2, 7, 12]
    assert after["series"]["power_w"] == [600] * 24
    assert [gpu["uuid"] for gpu in after["gpus"]] == UUIDS
    assert after["gpus"][1]["gpu_percent"][:3] == [4, 9, 14]
    (first, second) = fleet.run("SELECT * FROM gpu_rollup ORDER BY starts_at")
    assert (first["samples"], first["idle_samples"], first["gpu_percent"]) == (60, 0, 30)
    assert first["gpu_values"] == [[30, 40, 60, 300], [32, 40, 60, 300]]
    assert second["starts_at"] - first["starts_at"] == timedelta(hours=1)


async def test_utilization_of_several_leases_in_one_call(fleet: Fleet, alice: Caller, bob: Caller) -> None:
    mine, others = await leased(fleet, alice), await leased(fleet, bob)
    now = datetime.now(UTC)  # noqa: TID251
    fleet.run(ADD, UUIDS, now - timedelta(minutes=70), now, mine)
    found = (await alice.get("/v1/metrics/utilization", params={"ids": f"{others},{mine}", "hours": "1"})).json()
    (item,) = found["items"]
    assert (item["lease_id"], found["step_seconds"], len(item["gpu_percent"])) == (mine, 300, 12)
    assert None not in item["gpu_percent"][:11]
    day = (await alice.get("/v1/metrics/utilization", params={"ids": mine, "hours": "24"})).json()
    assert len(day["items"][0]["gpu_percent"]) == 24 * 3600 // day["step_seconds"] <= 60
    assert (await alice.get("/v1/metrics/utilization", params={"ids": others})).json()["items"] == []
    assert (await alice.get("/v1/metrics/utilization", params={"ids": ""})).status_code == 422
    for count, status in ((100, 200), (101, 422)):
        ids = ",".join(new_id("lease") for _ in range(count))
        assert (await alice.get("/v1/metrics/utilization", params={"ids": ids})).status_code == status


async def test_the_fleet_counts_gpus_in_use_idle_and_unknown(fleet: Fleet, alice: Caller, operator: Caller) -> None:
    busy, idle, silent = [await leased(fleet, alice, name=name) for name in ("busy", "idle", "silent")]
    fleet.run("UPDATE lease SET gpu_count = 2, rate_per_hour = 4")
    report(fleet, busy, [90, 6])
    report(fleet, idle, [5, None])
    report(fleet, silent, [0, 0], age=600)
    found = (await alice.get("/v1/metrics/fleet")).json()
    sums = {name: found[name] for name in found if name != "leases"}
    assert sums == {
        "gpus_paid": 6,
        "gpus_in_use": 2,
        "gpus_idle": 1,
        "gpus_unknown": 3,
        "idle_cost_per_hour": "2.00",
    }
    assert {one["name"]: one["gpus"] for one in found["leases"]} == {
        "busy": [90, 6],
        "idle": [5, None],
        "silent": [None, None],
    }
    fleet.run("""UPDATE lease SET gpu_health = '{"status": "failing"}' WHERE name = 'silent'""")
    order = [lease["name"] for lease in (await operator.get("/v1/metrics/fleet")).json()["leases"]]
    assert order == ["silent", "idle", "busy"], "failing, idle, busy, unknown"
    fleet.run("UPDATE lease SET gpu_health = NULL")
    order = [lease["name"] for lease in (await operator.get("/v1/metrics/fleet")).json()["leases"]]
    assert order == ["idle", "busy", "silent"]
    assert (await operator.get("/v1/metrics/fleet")).json()["gpus_paid"] == 6


async def test_prometheus_reads_the_callers_leases_with_the_names_of_dcgm(
    fleet: Fleet, alice: Caller, bob: Caller
) -> None:
    lease_id = await leased(fleet, alice, name='train "a"'.replace('"', "-").replace(" ", "-").strip("-"))
    report(fleet, lease_id, [87, None], xids=[{"code": 13}, {"code": 79}])
    answer = await alice.get("/v1/metrics/leases")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    values = {line.split("{")[0]: line.rsplit(" ", 1)[1] for line in reversed(lines) if not line.startswith("#")}
    assert values["DCGM_FI_DEV_GPU_UTIL"] == "87"
    assert values["DCGM_FI_DEV_FB_FREE"] == "23000"
    assert values["DCGM_FI_DEV_XID_ERRORS"] == "79"
    assert values["gpulease_lease_cpu_percent"] == "20.5"
    assert "gpulease_lease_disk_percent" not in values
    assert sum(line.startswith("DCGM_FI_DEV_GPU_UTIL{") for line in lines) == 1
    (gauge,) = [line for line in lines if line.startswith("DCGM_FI_DEV_GPU_TEMP{") and 'gpu="1"' in line]
    assert f'UUID="GPU-1",device="nvidia1",modelName="A10G",Hostname="train--a",lease_id="{lease_id}"' in gauge
    assert {line.split()[2] for line in lines if line.startswith("# TYPE")} == METRIC_NAMES
    assert lease_id not in (await bob.get("/v1/metrics/leases")).text
    fleet.run("UPDATE gpu_latest SET sampled_at = now() - interval '10 minutes'")
    assert lease_id not in (await alice.get("/v1/metrics/leases")).text


@pytest.mark.parametrize("path", ["/v1/leases/{}/metrics", "/v1/metrics/fleet", "/v1/metrics/leases"])
async def test_unknown_parameters_are_refused(fleet: Fleet, alice: Caller, bob: Caller, path: str) -> None:
    lease_id = await leased(fleet, alice)
    assert (await alice.get(path.format(lease_id), params={"stpe": "60"})).status_code == 422
    if "{}" in path:
        assert (await bob.get(path.format(lease_id))).status_code == 404
        wrong = await alice.get(path.format(lease_id), params={"step": "360"})
        assert wrong.json()["errors"][0]["pointer"] == "#/query/step"


def test_partitions_are_made_ahead_and_dropped_after_their_time(fleet: Fleet, database_url: str) -> None:
    jobs = runtime(database_url)
    assert keep_partitions(jobs, "", "") == 0
    with jobs.database.begin() as connection:
        names = connection.exec_driver_sql(
            "SELECT relname FROM pg_class WHERE relnamespace = 'gpu_partitions'::regnamespace AND relkind = 'r'"
        ).scalars()
        days = sorted(name for name in names if name.startswith("gpu_sample"))
    assert len(days) == 9
    jobs.database.close()
