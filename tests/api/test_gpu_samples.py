"""POST /v1/agent/samples: what a VM's agent may store, and only on its own lease."""

import asyncio
import json
import secrets
import time
from itertools import pairwise
from typing import Any

import httpx
import pytest

from app import bootstrap
from app.domain.tokens import agent_hash
from app.prerequisites import ensure_operator_key
from tests.api.conftest import Caller, MakeSettings, new_tenant, serving
from tests.api.fleet import Fleet
from tests.domain.gpus.test_samples import gpu, report, sample


class Vm:
    """A VM with an agent."""

    def __init__(self, fleet: Fleet, owner: Caller, lease_id: str) -> None:
        self._fleet, self._owner, self.lease_id = fleet, owner, lease_id
        self.token = secrets.token_hex(32)
        fleet.run("UPDATE attempt SET agent_hash = %s WHERE lease_id = %s", agent_hash(self.token), lease_id)

    async def send(self, body: Any, token: str | None = None, **headers: str) -> httpx.Response:
        async with Caller(self._owner.app, token or self.token) as agent:
            content = body if isinstance(body, bytes) else json.dumps(body)
            return await agent.post(
                "/v1/agent/samples", content=content, headers={"Content-Type": "application/json", **headers}
            )

    def stored(self) -> list[Any]:
        return list(self._fleet.run("SELECT * FROM gpu_sample WHERE lease_id = %s ORDER BY at", self.lease_id))

    def latest(self) -> Any:
        rows = list(self._fleet.run("SELECT * FROM gpu_latest WHERE lease_id = %s", self.lease_id))
        return rows[0] if rows else None

    def wait(self) -> None:
        """As if a minute had passed since the newest samples."""
        self._fleet.run("UPDATE gpu_latest SET received_at = received_at - interval '1 minute'")


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
async def vm(fleet: Fleet, alice: Caller) -> Vm:
    return await make_vm(fleet, alice)


async def make_vm(fleet: Fleet, owner: Caller) -> Vm:
    made = await owner.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
    lease_id = made.json()["id"]
    fleet.activate(lease_id)
    return Vm(fleet, owner, lease_id)


def at(seconds: float = 0.0, **changes: Any) -> dict[str, Any]:
    """A sample of so many seconds ago."""
    return sample(at=time.time() - seconds, **changes)


async def test_samples_are_stored_with_the_newest_one(vm: Vm) -> None:
    answer = await vm.send(report(at(120), at(60), at(1, gpus=[gpu(utilization=90)])))
    assert (answer.status_code, answer.content) == (204, b"")
    stored = vm.stored()
    assert [row["gpu_percent"] for row in stored] == [40, 40, 90]
    assert stored[0]["uuids"] == [gpu()["uuid"]]
    assert stored[0]["gpu_values"] == [[40], [2], [33], [51]]
    latest = vm.latest()
    assert (latest["gpu_percent"], latest["busiest_percent"], latest["gpu_percents"], latest["gpus"]) == (
        90,
        90,
        [90],
        1,
    )
    assert latest["sampled_at"] == stored[-1]["at"]
    assert latest["sample"]["gpus"][0]["power_w"] == 51.2


async def test_idle_samples_in_a_row_are_counted_and_a_busy_one_ends_them(vm: Vm) -> None:
    idle = {"gpus": [gpu(utilization=5)]}
    await vm.send(report(*(at(61 + 60 * n, **idle) for n in range(5, 0, -1))))
    first = vm.latest()
    assert first["idle_samples"] == 5
    assert first["idle_since"] == vm.stored()[0]["at"]
    vm.wait()
    await vm.send(report(at(61, **idle)))
    assert (vm.latest()["idle_samples"], vm.latest()["idle_since"]) == (6, first["idle_since"])
    vm.wait()
    await vm.send(report(at(1)))
    assert (vm.latest()["idle_samples"], vm.latest()["idle_since"]) == (0, None)
    assert [row["idle"] for row in vm.stored()] == [True] * 6 + [False]


async def test_samples_whose_answer_was_lost_are_stored_once(vm: Vm) -> None:
    body = report(at(60), at(1))
    await vm.send(body)
    vm.wait()
    assert (await vm.send(body)).status_code == 204
    assert len(vm.stored()) == 2


async def test_samples_come_once_in_half_a_period_whichever_process_asks(vm: Vm) -> None:
    await vm.send(report(at(60)))
    soon = await vm.send(report(at(1)))
    assert (soon.status_code, soon.json()["code"]) == (429, "rate_limited")
    assert 20 <= int(soon.headers["retry-after"]) <= 30
    other = await vm.send(report(at(1)))
    assert other.status_code == 429
    assert len(vm.stored()) == 1


async def test_what_is_stored_has_half_a_period_between_two_samples_whatever_arrives(vm: Vm, alice: Caller) -> None:
    """Of sample times: a request may bring ten. The lease shows how many were not stored."""
    for first in (300, 290, 280):
        assert (await vm.send(report(*(at(first - n) for n in range(10))))).status_code == 204
        vm.wait()
    times = [row["at"] for row in vm.stored()]
    assert len(times) == 1
    assert vm.latest()["refused"] == 29
    shown = (await alice.get(f"/v1/leases/{vm.lease_id}")).json()["utilization"]
    assert shown["refused"] == 29
    assert (await vm.send(report(*(at(200 - 16 * n) for n in range(10))))).status_code == 204
    times = [row["at"] for row in vm.stored()]
    steps = [(later - earlier).total_seconds() for earlier, later in pairwise(times)]
    assert len(times) == 6
    assert min(steps) >= 30
    assert vm.latest()["sampled_at"] > times[-1]


async def test_a_busy_sample_ends_an_idle_run_although_it_is_not_stored(vm: Vm) -> None:
    idle = {"gpus": [gpu(utilization=0)]}
    await vm.send(report(at(200, **idle), at(140, **idle), at(130), at(80, **idle)))
    assert [row["idle"] for row in vm.stored()] == [True, True, True]
    assert (vm.latest()["idle_samples"], vm.latest()["idle_since"]) == (1, vm.stored()[-1]["at"])


async def test_no_more_gpus_are_stored_than_the_vm_has(vm: Vm) -> None:
    """One, by its offering."""
    many = [gpu(uuid=f"GPU-{n}", utilization=n) for n in range(64)]
    assert (await vm.send(report(at(60, gpus=many)))).status_code == 204
    (stored,) = vm.stored()
    assert (stored["uuids"], stored["gpu_values"][0], stored["gpu_percent"]) == (["GPU-0"], [0], 0)
    latest = vm.latest()
    assert (latest["gpus"], latest["refused"], len(latest["sample"]["gpus"])) == (1, 1, 1)


async def test_the_gpus_of_the_proof_are_those_of_the_samples(fleet: Fleet, vm: Vm) -> None:
    proof = {"n": 1, "at": "2026-11-28T10:00:00Z", "gpus": [{"uuid": "GPU-proven", "model": None, "memory_mib": None}]}
    fleet.run("UPDATE lease SET proof = %s WHERE id = %s", json.dumps(proof), vm.lease_id)
    await vm.send(report(at(120, gpus=[gpu(uuid="GPU-other")]), at(60, gpus=[gpu(uuid="GPU-proven")])))
    assert [row["uuids"] for row in vm.stored()] == [[], ["GPU-proven"]]
    assert [row["idle"] for row in vm.stored()] == [False, False]


async def test_after_the_lease_an_agent_gets_401_at_once(fleet: Fleet, vm: Vm) -> None:
    """Not 429, which would keep it sending."""
    assert (await vm.send(report(at(60)))).status_code == 204
    fleet.finish(vm.lease_id)
    answers = await asyncio.gather(vm.send(report(at(1))), vm.send(report(at(1))), vm.send(b"{"))
    assert [answer.status_code for answer in answers] == [401, 401, 401]


@pytest.mark.parametrize("wrong", [-1200, 1200])
async def test_an_api_host_with_a_wrong_clock_accepts_samples(
    vm: Vm, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    """With the times of the VM: no answer tells what a wrong clock of the host would make of them."""
    body, right = report(at(60)), time.time
    monkeypatch.setattr(time, "time", lambda: right() + wrong)
    answer = await vm.send(body)
    assert (answer.status_code, answer.text) == (204, "")
    [sent], [stored] = body["samples"], vm.stored()
    assert stored["at"].timestamp() == pytest.approx(sent["at"], abs=1)


async def test_two_requests_at_once_are_one_too_many(vm: Vm) -> None:
    answers = await asyncio.gather(*(vm.send(report(at(n))) for n in (60, 1)))
    assert sorted(answer.status_code for answer in answers) == [204, 429]
    assert len(vm.stored()) == 1


async def test_many_vms_are_stored_together_and_each_gets_its_own_answer(fleet: Fleet, alice: Caller, vm: Vm) -> None:
    other = await make_vm(fleet, alice)
    fleet.run("DELETE FROM gpu_latest")
    sent = [vm.send(report(at(1))), other.send(report(at(1))), vm.send(report(at(1)), token="f" * 64)]
    assert [answer.status_code for answer in await asyncio.gather(*sent)] == [204, 204, 401]
    assert (len(vm.stored()), len(other.stored())) == (1, 1)


async def test_nobody_else_may_send_samples(vm: Vm, fleet: Fleet, alice: Caller) -> None:
    for token in ("", "x", "f" * 64, vm.token.upper(), alice.key):
        answer = await vm.send(report(at(1)), Authorization=f"Bearer {token}")
        assert (answer.status_code, answer.json()["code"]) == (401, "invalid_token")
    assert (await vm.send(b"{}", token="f" * 64)).status_code == 401
    fleet.finish(vm.lease_id)
    assert (await vm.send(report(at(1)))).status_code == 401
    assert vm.stored() == []
    for path in ("/v1/leases", "/v1/me"):
        async with Caller(alice.app, vm.token) as agent:
            assert (await agent.get(path)).status_code == 401


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{", 422),
        (json.dumps(report(sample(at=time.time(), cpu_percent=float("nan")))).encode(), 422),
        (json.dumps(report(sample(at=time.time(), gpus=[gpu(uuid=f"{n}") for n in range(65)]))).encode(), 422),
        (b"[" * 16_000, 422),
        (b" " * 16_385, 413),
    ],
)
async def test_bad_samples_are_refused_and_counted_never_stored(vm: Vm, body: bytes, status: int) -> None:
    await vm.send(report(at(60)))
    before = vm.latest()["sampled_at"]
    answer = await vm.send(body)
    assert answer.status_code == status, answer.text
    deadline = time.monotonic() + 60
    while vm.latest()["refused"] == 0:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    assert (len(vm.stored()), vm.latest()["sampled_at"]) == (1, before)


async def test_refusals_are_counted_together_and_at_the_latest_when_the_api_ends(
    fleet: Fleet, database_url: str, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bootstrap, "COUNT_SECONDS", 600.0)
    async with serving(make_settings()) as app, Caller(app, ensure_operator_key(database_url, None)) as operator:
        alice = await new_tenant(operator, "alice", gpus=8, leases=10)
        vms = [await make_vm(fleet, alice) for _ in range(3)]
        for refused, vm in enumerate(vms):
            assert (await vm.send(report(at(1)))).status_code == 204
            for _ in range(refused):
                assert (await vm.send(b"{")).status_code == 422
    assert [vm.latest()["refused"] for vm in vms] == [0, 1, 2]
    changed = fleet.run("SELECT DISTINCT xmin::text FROM gpu_latest WHERE refused > 0")
    assert len(list(changed)) == 1, "one transaction"


async def test_another_type_of_body_is_refused(vm: Vm) -> None:
    answer = await vm.send(report(at(1)), **{"Content-Type": "text/plain"})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported_media_type")


async def test_a_sample_the_database_refuses_harms_only_its_own_lease(
    fleet: Fleet, alice: Caller, vm: Vm, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await make_vm(fleet, alice)
    samples = alice.app.state.services.gpu_samples._batches
    row_of = samples._row

    def poisoned(body: Any, row: Any) -> Any:
        made = row_of(body, row)
        return {**made, "gpu_percent": 40_000} if row["lease_id"] == vm.lease_id else made

    monkeypatch.setattr(samples, "_row", poisoned)
    answers = await asyncio.gather(vm.send(report(at(1))), other.send(report(at(1))))
    assert [answer.status_code for answer in answers] == [500, 204]
    assert len(other.stored()) == 1
