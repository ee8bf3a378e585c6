"""Benchmarks, as the API stores them and as offerings show them."""

import time
from typing import Any

import pytest
from fastapi import FastAPI

from app.db.fleet import gpu_benchmarks
from app.domain.gpus.benchmarks import MeasuredPerformance
from app.domain.tokens import agent_hash
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

BENCHMARK = """
    INSERT INTO gpu_benchmark (attempt_id, uuid, lease_id, tenant_id, n, provider, account, region, zone, instance_type,
        agent, driver_version, libraries, counted, bf16_tflops)
    VALUES ('a', %s, 'l', 't', 1, 'aws', 'main', 'us-east-1', 'us-east-1a', %s, '1.0', '570', '{}', true, %s)
"""
ASKED = {"gpu": {"model": "A10G"}, "market": "on_demand", "ttl_seconds": 3600}
TOKEN = "0a" * 32
MEASURED = {
    "agent": "1.0",
    "driver_version": "570.1",
    "libraries": {"cublas": "12.8"},
    "gpus": [{"uuid": "GPU-1", "bf16_tflops": 61.25}],
}
GPU = {"uuid": "GPU-1", "model": "NVIDIA A10G", "memory_mib": 23028, "recovery_action": "none"}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


class Measuring:
    """A lease that requests a benchmark, whose VM has booted."""

    def __init__(self, fleet: Fleet, agent: Caller, lease_id: str) -> None:
        self._fleet, self._agent, self._lease_id = fleet, agent, lease_id

    async def prove(self, **gpu: Any) -> None:
        self._fleet.run("UPDATE lease SET state = 'booting' WHERE id = %s", self._lease_id)
        body = {"version": 1, "agent": "1.0", "at": time.time(), "gpus": [{**GPU, **gpu}]}
        assert (await self._agent.post("/v1/agent/proof", json=body)).status_code == 204

    async def measure(self, tflops: float) -> list[Any]:
        """Sends a benchmark with a sample, as the agent does. Answers the events `lease.benchmark`."""
        measured = {**MEASURED, "gpus": [{"uuid": "GPU-1", "bf16_tflops": tflops}]}
        sample = {"at": time.time(), "gpus": []}
        body = {"version": 1, "agent": "1.0", "boot_id": "b", "samples": [sample], "benchmark": measured}
        assert (await self._agent.post("/v1/agent/samples", json=body)).status_code == 204
        return self._fleet.run("SELECT data FROM event WHERE type = 'lease.benchmark'")

    def later(self, seconds: int) -> None:
        shift = "UPDATE lease SET proof = proof || jsonb_build_object('at', now() - %s * interval '1 second')"
        self._fleet.run(shift, seconds)


@pytest.fixture
async def vm(app: FastAPI, alice: Caller, fleet: Fleet) -> Measuring:
    lease = (await alice.post("/v1/leases", json={**ASKED, "benchmark": "quick"})).json()
    attempt_id = fleet.attempt(lease["id"], 1)
    fleet.run("UPDATE attempt SET agent_hash = %s WHERE id = %s", agent_hash(TOKEN), attempt_id)
    return Measuring(fleet, Caller(app, TOKEN), lease["id"])


async def counted(app: FastAPI) -> Any:
    async with app.state.services.context.database.transaction(None, read_only=True) as connection:
        return gpu_benchmarks.performance_by_type(await connection.execute(gpu_benchmarks.counted()))


async def test_a_benchmark_that_follows_the_proof_is_stored_with_its_event(app: FastAPI, vm: Measuring) -> None:
    await vm.prove()
    (recorded,) = await vm.measure(61.25)
    assert recorded["data"] == {
        "n": 1,
        "gpus": 1,
        "bf16_tflops": 61.25,
        "fp16_tflops": None,
        "fp32_tflops": None,
        "memory_gbps": None,
        "allreduce_gbps": None,
    }
    expected = MeasuredPerformance(bf16_tflops_p50=61.25, n=1, driver_version="570.1")
    assert await counted(app) == {("aws", "g5.xlarge"): expected}


@pytest.mark.parametrize(
    ("proof", "seconds", "tflops"),
    [(None, 0, 61.25), ({"remap_failed": True}, 0, 61.25), ({}, 91, 61.25), ({}, 0, 99_999.0)],
    ids=["no proof", "failed proof", "after the start-up script", "impossible for the model"],
)
async def test_what_root_in_the_vm_can_send_at_leisure_concerns_its_lease_alone(
    app: FastAPI, vm: Measuring, proof: dict[str, Any] | None, seconds: int, tflops: float
) -> None:
    if proof is not None:
        await vm.prove(**proof)
        vm.later(seconds)
    assert len(await vm.measure(tflops)) == 1
    assert await counted(app) == {}


async def test_offerings_show_what_was_measured_and_sort_by_it(alice: Caller, fleet: Fleet) -> None:
    fleet.run(BENCHMARK, "GPU-1", "g5.xlarge", 60.0)
    fleet.run(BENCHMARK, "GPU-2", "p4d.24xlarge", 250.0)
    query = {"sort": "price_performance", "market": "on_demand", "count": "true"}
    page = (await alice.get("/v1/offerings", params=query)).json()
    best, second = page["items"][:2]
    assert (best["instance_type"], second["instance_type"]) == ("p4d.24xlarge", "g5.xlarge")
    assert best["benchmark"] == {
        "bf16_tflops_p50": 250.0,
        "n": 1,
        "driver_version": "570",
        "tflops_per_usd": round(250 * 8 / float(best["price_per_hour"]), 1),
    }
    assert page["items"][-1]["benchmark"] is None, "what is not measured comes last"
    walked, more = [], query
    while more:
        step = (await alice.get("/v1/offerings", params={**more, "limit": "1"})).json()
        walked += step["items"]
        more = {**query, "cursor": step["next_cursor"]} if step["next_cursor"] else {}
    assert walked == page["items"]
    assert len(walked) == page["total_count"]
