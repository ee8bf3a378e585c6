"""What callers may choose, and what becomes of it in metrics and in stored arrays: never one series for each value."""

import re
import time
from typing import Any

import pytest
from sqlalchemy import ARRAY, Text

from app.db.schema.tables import lease
from tests.api.conftest import Caller
from tests.api.fleet import Fleet
from tests.api.test_gpu_samples import Vm, make_vm
from tests.domain.gpus.test_samples import gpu, report, sample

LABELS = {
    "UUID": "app.domain.metric_labels",
    "gpu": "as many as the offering has",
    "device": "as many as the offering has",
    "modelName": "one for each UUID, of a proof that is stored once",
    "Hostname": "app.domain.metric_labels",
    "lease_name": "app.domain.metric_labels",
    "lease_id": "a lease",
    "tenant_id": "a tenant",
    "provider": "the catalogue",
    "region": "the catalogue",
    "instance_type": "the catalogue",
}
"""What limits the number of each label's values."""
ARRAYS = {
    "gpu_sample.uuids": "app.domain.metric_labels",
    "gpu_series.uuids": "app.domain.metric_labels",
    "gpu_rollup.uuids": "app.domain.metric_labels",
    "reservation.tenants": "the operator's settings",
}
"""What limits the texts in each array that is stored."""
REPORTS = 24
STEP = 31
"""Seconds: more than half a sample period."""
STORED = """
    SELECT (SELECT coalesce(sum(cardinality(uuids)), 0) FROM gpu_sample) AS uuids,
        (SELECT count(DISTINCT u) FROM gpu_sample, unnest(uuids) u) AS different,
        (SELECT count(*) FROM gpu_sample) AS samples,
        (SELECT coalesce(sum(pg_column_size(s.*)), 0) FROM gpu_sample s) AS sample_bytes,
        (SELECT coalesce(sum(pg_column_size(g.*)), 0) FROM gpu_latest g) AS latest_bytes,
        (SELECT coalesce(sum(pg_column_size(l.proof) + pg_column_size(l.gpu_health)), 0) FROM lease l) AS lease_bytes
"""
SERIES = re.compile(r"^\w+\{.*\}", re.MULTILINE)


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
async def vm(fleet: Fleet, alice: Caller) -> Vm:
    return await make_vm(fleet, alice)


def honest(n: int, at: float) -> dict[str, Any]:
    return report(sample(at=at))


def uuids(n: int, at: float) -> dict[str, Any]:
    return report(sample(at=at, gpus=[{"uuid": f"GPU-{n}-{place}" + "x" * 80} for place in range(64)]))


def one_uuid(n: int, at: float) -> dict[str, Any]:
    return report(sample(at=at, gpus=[gpu(uuid=f"GPU-{n}")]))


def boots_with_uuids(n: int, at: float) -> dict[str, Any]:
    return report(sample(at=at, gpus=[gpu(uuid=f"GPU-{n}")]), boot_id=f"boot {n}")


def dense(n: int, at: float) -> dict[str, Any]:
    return report(*(sample(at=at + place / 10, gpus=[gpu(uuid=f"GPU-{n}-{place}")]) for place in range(10)))


def texts(n: int, at: float) -> dict[str, Any]:
    """Every other text of a report."""
    xids = [{"code": code, "gpu": f"{n}-{code}" + "x" * 80} for code in range(64)]
    return report(sample(at=at), agent=f"agent {n}", boot_id=f"boot {n}", xids=xids)


async def test_every_label_and_every_array_of_texts_has_a_limit(vm: Vm, alice: Caller) -> None:
    await vm.send(report(sample(at=time.time())))
    labels = {name for series in await _series(alice) for name in re.findall(r'(\w+)="', series)}
    assert labels == set(LABELS)
    arrays = {
        f"{table.name}.{column.name}"
        for table in lease.metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, ARRAY) and isinstance(column.type.item_type, Text)
    }
    assert arrays == set(ARRAYS)


async def _series(caller: Caller) -> set[str]:
    return set(SERIES.findall((await caller.get("/v1/metrics/leases")).text))


async def _send(vm: Vm, fleet: Fleet, caller: Caller, make: Any) -> tuple[set[str], Any]:
    """All series that readers see in the time of REPORTS reports, and what the database stores."""
    seen: set[str] = set()
    began = time.time() - 890 + 30
    for n in range(REPORTS):
        answer = await vm.send(make(n, began + n * STEP))
        assert answer.status_code == 204, answer.text
        fleet.run("UPDATE gpu_latest SET sampled_at = now()")
        seen |= await _series(caller)
        fleet.run("UPDATE gpu_latest SET sampled_at = to_timestamp(%s)", began + n * STEP)
        vm.wait()
    return seen, next(iter(fleet.run(STORED)))


@pytest.mark.parametrize("make", [uuids, one_uuid, boots_with_uuids, dense, texts], ids=lambda make: make.__name__)
async def test_what_an_agent_chooses_makes_no_more_series_than_an_honest_one(
    vm: Vm, fleet: Fleet, alice: Caller, make: Any
) -> None:
    usual, least = await _send(vm, fleet, alice, honest)
    fleet.run("DELETE FROM gpu_sample")
    fleet.run("DELETE FROM gpu_latest")
    seen, stored = await _send(vm, fleet, alice, make)
    assert len(seen) <= len(usual)
    assert stored["different"] <= 1, "an offering of one GPU"
    assert stored["samples"] <= REPORTS
    assert stored["uuids"] <= REPORTS
    assert stored["sample_bytes"] <= 2 * least["sample_bytes"]
    assert stored["latest_bytes"] <= 3 * 16_384


async def test_a_lease_that_is_renamed_again_and_again_has_the_series_of_one_name(
    vm: Vm, fleet: Fleet, alice: Caller
) -> None:
    seen: set[str] = set()
    for n in range(5):
        renamed = await alice.patch(f"/v1/leases/{vm.lease_id}", json={"name": f"name-{n}"})
        assert renamed.status_code == 200, renamed.text
        assert (await vm.send(report(sample(at=time.time() - 5 + n)))).status_code == 204
        vm.wait()
        seen |= await _series(alice)
    assert {name for series in seen for name in re.findall(r'lease_name="([^"]*)"', series)} == {"name-0"}
    hour = "jsonb_build_object('name_since', now() - interval '1 hour')"
    fleet.run(f"UPDATE gpu_latest SET metric_labels = metric_labels || {hour}")
    assert (await vm.send(report(sample(at=time.time() + 5)))).status_code == 204
    assert all('lease_name="name-4"' in series for series in await _series(alice))
