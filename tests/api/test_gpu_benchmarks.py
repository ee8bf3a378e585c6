"""Benchmarks, as the API stores them and as offerings show them."""

import pytest
from fastapi import FastAPI

from app.db.fleet import gpu_benchmarks
from app.domain.gpu_benchmarks import MeasuredPerformance
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
PROOF = {"version": 1, "agent": "1.0", "at": 1_790_000_000.0, "gpus": []}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_a_benchmark_in_a_proof_is_stored_with_its_event(app: FastAPI, alice: Caller, fleet: Fleet) -> None:
    lease = (await alice.post("/v1/leases", json={**ASKED, "benchmark": "quick"})).json()
    attempt_id = fleet.attempt(lease["id"], 1)
    fleet.run("UPDATE attempt SET agent_hash = %s WHERE id = %s", agent_hash(TOKEN), attempt_id)
    agent = Caller(app, TOKEN)
    refused = await agent.post("/v1/agent/proof", json={**PROOF, "benchmark": {**MEASURED, "gpus": []}})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/body/benchmark")
    for _ in range(2):  # an agent repeats what got no answer
        assert (await agent.post("/v1/agent/proof", json={**PROOF, "benchmark": MEASURED})).status_code == 204
    (recorded,) = fleet.run("SELECT data FROM event WHERE type = 'lease.benchmark'")
    assert recorded["data"] == {
        "n": 1,
        "gpus": 1,
        "bf16_tflops": 61.25,
        "fp16_tflops": None,
        "fp32_tflops": None,
        "memory_gbps": None,
        "allreduce_gbps": None,
    }
    async with app.state.services.context.database.transaction(None, read_only=True) as connection:
        shown = gpu_benchmarks.performance_by_type(await connection.execute(gpu_benchmarks.newest()))
    assert shown == {("aws", "g5.xlarge"): MeasuredPerformance(bf16_tflops_p50=61.25, n=1, driver_version="570.1")}


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
