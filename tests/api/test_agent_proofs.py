"""POST /v1/agent/proof: the first proof of an attempt is judged and shown; nobody else can send one."""

from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from app.api.http.routing import AgentRoute
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

AT = 1_790_000_000.0
GPU = {"uuid": "GPU-1", "model": "NVIDIA A10G", "memory_mib": 23028, "recovery_action": "none"}
PROOF = {"version": 1, "agent": "1.0", "at": AT, "boot_id": "b-1", "driver_version": "570.1", "gpus": [GPU]}


class Booting:
    """A lease whose VM boots, with its agent's token."""

    def __init__(self, fleet: Fleet, owner: Caller, lease_id: str) -> None:
        self._fleet = fleet
        self._owner = owner
        self.id = lease_id
        self.token = fleet.give_agent_token(lease_id)

    async def send(self, body: Any, token: str | None = None) -> httpx.Response:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        async with Caller(self._owner.app, None) as vm:
            return await vm.post("/v1/agent/proof", json=body, headers=headers)

    async def lease(self) -> Any:
        return (await self._owner.get(f"/v1/leases/{self.id}")).json()


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
async def booting(fleet: Fleet, alice: Caller) -> Booting:
    made = await alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
    lease_id = made.json()["id"]
    fleet.attempt(lease_id, 1)
    fleet.run("UPDATE lease SET state = 'booting' WHERE id = %s", lease_id)
    return Booting(fleet, alice, lease_id)


async def test_a_proof_is_shown_and_wakes_the_lease(booting: Booting, fleet: Fleet) -> None:
    fleet.run("UPDATE lease SET next_due = NULL WHERE id = %s", booting.id)
    assert (await booting.lease())["proof"] is None
    answer = await booting.send(PROOF)
    assert (answer.status_code, answer.content) == (204, b"")
    shown = (await booting.lease())["proof"]
    at = shown.pop("at")
    assert at.endswith("Z")
    assert shown == {
        "status": "passed",
        "via": "network",
        "driver_version": "570.1",
        "cuda_version": None,
        "gpus": [{"uuid": "GPU-1", "model": "NVIDIA A10G", "memory_mib": 23028}],
        "findings": [],
    }
    (event,) = fleet.run("SELECT data FROM event WHERE type = 'lease.proof'")
    assert event["data"] == {"n": 1, "status": "passed", "via": "network", "findings": []}
    (row,) = fleet.run("SELECT next_due IS NOT NULL AS due FROM lease WHERE id = %s", booting.id)
    assert row["due"]


async def test_a_proof_of_a_vm_that_was_not_seen_running_is_refused_until_it_is(booting: Booting, fleet: Fleet) -> None:
    """A VM of the same create call may know the token before this VM has booted."""
    fleet.run("UPDATE lease SET state = 'provisioning' WHERE id = %s", booting.id)
    refused = await booting.send({**PROOF, "gpus": [{**GPU, "matmul": "failed"}]})
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1"), "the agent repeats it: test_service.py"
    assert (await booting.lease())["proof"] is None
    fleet.run("UPDATE lease SET state = 'booting' WHERE id = %s", booting.id)
    assert (await booting.send(PROOF)).status_code == 204
    assert (await booting.lease())["proof"]["status"] == "passed"


async def test_the_first_proof_counts(booting: Booting) -> None:
    await booting.send({**PROOF, "gpus": [{**GPU, "remap_failed": True}]})
    assert (await booting.send({**PROOF, "boot_id": "b-2"})).status_code == 204
    shown = (await booting.lease())["proof"]
    assert (shown["status"], [one["code"] for one in shown["findings"]]) == ("failed", ["remap_failed"])


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ({"us-east-1": ["own"]}, True),
        ({"us-east-1": ["tenant_b"]}, False),
        ({"us-east-1": ["tenant_b", "tenant_c"]}, True),
        ({"us-east-1": ["tenant_b"], "us-west-2": ["tenant_b", "tenant_c", "own"]}, False),
    ],
    ids=["of this tenant", "of another tenant", "of two others", "of another region"],
)
async def test_a_gpu_that_failed_lately_is_recognised(
    booting: Booting, fleet: Fleet, alice: Caller, words: dict[str, list[str]], *, known: bool
) -> None:
    place = "'aws', 'GPU-1', 'main', %s, 'us-east-1a', 'g5.xlarge', 'xid_79', %s"
    columns = "provider, uuid, account, region, zone, instance_type, finding, tenant_id, first_seen_at, last_seen_at"
    for region, tenants in words.items():
        for tenant in tenants:
            fleet.run(
                f"INSERT INTO bad_gpu ({columns}) VALUES ({place}, now(), now() - interval '29 days')",
                region,
                alice.tenant_id if tenant == "own" else tenant,
            )
    await booting.send(PROOF)
    assert [one["code"] for one in (await booting.lease())["proof"]["findings"]] == ["known_bad_gpu"] * known


async def test_a_proof_of_an_active_lease_counts_for_its_health_alone(booting: Booting, fleet: Fleet) -> None:
    fleet.run("UPDATE lease SET state = 'active', ready_at = now() WHERE id = %s", booting.id)
    await booting.send({**PROOF, "xids": [{"code": 79}]})
    shown = await booting.lease()
    assert shown["proof"] is None
    assert (shown["health"]["status"], shown["health"]["findings"][0]["code"]) == ("failing", "xid_79")
    (event,) = fleet.run("SELECT data FROM event WHERE type = 'lease.gpu_health'")
    assert (event["data"]["n"], event["data"]["status"]) == (1, "failing")


async def test_a_lease_without_the_wish_for_a_proof_gets_none(booting: Booting, fleet: Fleet) -> None:
    fleet.run("""UPDATE lease SET request = request || '{"proof": "off"}' WHERE id = %s""", booting.id)
    assert (await booting.send(PROOF)).status_code == 204
    assert (await booting.lease())["proof"] is None


async def test_every_wrong_token_gets_the_same_answer(booting: Booting, fleet: Fleet, alice: Caller) -> None:
    host_key_token = fleet.give_token(booting.id)
    wrong = ["x", "f" * 64, booting.token.upper(), booting.token + "0", host_key_token, alice.key]
    answers = [await booting.send(PROOF, token) for token in wrong]
    fleet.run("UPDATE attempt SET state = 'dead', clean = true, ended_at = now(), billing_ended_at = now()")
    answers.append(await booting.send(PROOF))
    bodies = [{**answer.json(), "request_id": None} for answer in answers]
    assert [answer.status_code for answer in answers] == [401] * len(answers)
    assert all(body == bodies[0] for body in bodies)
    assert bodies[0]["code"] == "invalid_token"
    assert (await booting.lease())["proof"] is None


async def test_the_token_opens_nothing_else(booting: Booting, alice: Caller) -> None:
    async with Caller(alice.app, booting.token) as vm:
        assert (await vm.get("/v1/leases")).status_code == 401
        assert (await vm.post("/v1/host-keys", json={"keys": []})).status_code == 401


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({**PROOF, "gpus": [{}] * 10_000}, "proof.gpus"),
        ({**PROOF, "at": "today"}, "proof.at"),
        ({**PROOF, "gpus": [{**GPU, "model": 7}]}, "proof.gpus[0].model"),
        ({}, "proof.version is required"),
    ],
)
async def test_a_malformed_proof_is_refused_and_not_stored(booting: Booting, body: Any, message: str) -> None:
    answer = await booting.send(body)
    if answer.status_code != 413:
        assert answer.status_code == 422
        assert message in answer.json()["errors"][0]["detail"]
    assert (await booting.lease())["proof"] is None


async def test_numbers_that_are_none_are_refused(booting: Booting, alice: Caller) -> None:
    headers = {"Authorization": f"Bearer {booting.token}", "Content-Type": "application/json"}
    async with Caller(alice.app, None) as vm:
        answer = await vm.post(
            "/v1/agent/proof", content='{"version": 1, "agent": "1", "at": NaN, "gpus": []}', headers=headers
        )
    assert answer.status_code in (400, 422)


async def test_a_large_body_is_not_read(booting: Booting) -> None:
    answer = await booting.send({**PROOF, "errors": ["x" * AgentRoute.largest_body]})
    assert answer.status_code == 413


async def test_an_agent_that_reports_without_end_is_told_to_wait(booting: Booting) -> None:
    answers = [await booting.send(PROOF) for _ in range(31)]
    assert {answer.status_code for answer in answers} == {204, 429}
    assert int(answers[-1].headers["Retry-After"]) > 0


async def test_use_and_idleness_are_shown_of_an_active_lease(booting: Booting, fleet: Fleet, alice: Caller) -> None:
    columns = "lease_id, tenant_id, attempt_id, sampled_at, received_at, gpu_percent, memory_percent, idle_since"
    hour = fleet.run("SELECT date_trunc('hour', now()) AS hour")[0]["hour"]
    fleet.run(
        f"INSERT INTO gpu_latest ({columns}) VALUES (%s, %s, 'a', now(), now(), 3, 7, %s)",
        booting.id,
        alice.tenant_id,
        hour,
    )
    rule = """{"idle": {"after_seconds": 3600, "action": "end"}}"""
    fleet.run("UPDATE lease SET request = request || %s::jsonb WHERE id = %s", rule, booting.id)
    before = await booting.lease()
    fleet.run("UPDATE lease SET state = 'active', ready_at = %s WHERE id = %s", hour, booting.id)
    shown = await booting.lease()
    assert (before["utilization"], before["idle"]) == (None, None)
    assert (shown["utilization"]["gpu_percent"], shown["utilization"]["memory_percent"]) == (3, 7)
    since, ends_at = (datetime.fromisoformat(shown["idle"][name]) for name in ("since", "ends_at"))
    assert (since, ends_at) == (hour, hour + timedelta(hours=1))
