"""POST /v1/leases/{id}/reboot and GET /v1/leases/{id}/console."""

import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet

REQUEST = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


@pytest.fixture
async def lease_id(alice: Caller) -> str:
    return str((await alice.post("/v1/leases", json=REQUEST)).json()["id"])


def requested(fleet: Fleet) -> bool:
    (row,) = fleet.run("SELECT reboot_requested_at, next_due <= now() AS due FROM lease")
    return row["reboot_requested_at"] is not None and row["due"]


async def test_an_active_lease_can_be_rebooted(alice: Caller, fleet: Fleet, lease_id: str) -> None:
    fleet.activate(lease_id)
    before = (await alice.get(f"/v1/leases/{lease_id}")).json()
    assert before["actions"]["reboot"] == {"available": True, "reason_code": None}
    answer = await alice.post(f"/v1/leases/{lease_id}/reboot")
    assert answer.status_code == 202, answer.text
    assert answer.json()["state"] == "active"
    assert answer.json()["version"] == before["version"] + 1
    assert requested(fleet)
    told = fleet.run("SELECT type, request_id FROM event ORDER BY lease_sequence DESC LIMIT 1")
    assert told == [{"type": "lease.rebooting", "request_id": answer.headers["x-request-id"]}]
    (entry,) = fleet.run("SELECT target, tenant_id FROM audit WHERE action = 'lease.reboot'")
    assert entry == {"target": lease_id, "tenant_id": alice.tenant_id}


async def test_a_lease_that_is_not_active_yet_cannot(alice: Caller, fleet: Fleet, lease_id: str) -> None:
    answer = await alice.post(f"/v1/leases/{lease_id}/reboot")
    assert (answer.status_code, answer.json()["code"]) == (409, "lease_not_active")
    assert answer.json()["retryable"]
    assert not requested(fleet)


async def test_a_lease_that_ends_cannot(alice: Caller, fleet: Fleet, lease_id: str) -> None:
    fleet.activate(lease_id)
    released = (await alice.delete(f"/v1/leases/{lease_id}")).json()
    assert released["actions"]["reboot"]["reason_code"] == "lease_ending"
    answer = await alice.post(f"/v1/leases/{lease_id}/reboot")
    assert (answer.status_code, answer.json()["code"]) == (409, "lease_ending")
    assert not requested(fleet)


async def test_repeating_a_reboot_under_its_key_asks_once(alice: Caller, fleet: Fleet, lease_id: str) -> None:
    fleet.activate(lease_id)
    headers = {"Idempotency-Key": "again"}
    first, second = [await alice.post(f"/v1/leases/{lease_id}/reboot", headers=headers) for _ in range(2)]
    assert (first.status_code, second.status_code) == (202, 202)
    assert second.headers["idempotency-replayed"] == "true"
    assert second.json() == first.json()
    assert fleet.run("SELECT count(*) FROM event WHERE type = 'lease.rebooting'") == [{"count": 1}]


async def test_a_reboot_of_another_version_is_refused(alice: Caller, fleet: Fleet, lease_id: str) -> None:
    fleet.activate(lease_id)
    answer = await alice.post(f"/v1/leases/{lease_id}/reboot", headers={"If-Match": f'"{lease_id}.999"'})
    assert answer.status_code == 412
    assert not requested(fleet)


async def test_viewers_and_strangers_reboot_nothing_and_read_no_console(
    alice: Caller, bob: Caller, fleet: Fleet, lease_id: str
) -> None:
    fleet.activate(lease_id)
    viewer = await alice.member("viewer")
    shown = (await viewer.get(f"/v1/leases/{lease_id}")).json()
    assert shown["actions"]["reboot"] == {"available": False, "reason_code": "forbidden"}
    for caller, status in ((viewer, 403), (bob, 404)):
        assert (await caller.post(f"/v1/leases/{lease_id}/reboot")).status_code == status
        assert (await caller.get(f"/v1/leases/{lease_id}/console")).status_code == status
    assert not requested(fleet)


def printed(fleet: Fleet, lease_id: str, tenant_id: str, n: int, text: str) -> None:
    statement = "INSERT INTO lease_console (lease_id, tenant_id, n, text) VALUES (%s, %s, %s, %s)"
    fleet.run(statement, lease_id, tenant_id, n, text)


async def test_the_console_shows_each_vm_that_did_not_boot(alice: Caller, fleet: Fleet, lease_id: str) -> None:
    path = f"/v1/leases/{lease_id}/console"
    nothing = await alice.get(path)
    assert nothing.json() == {"items": [], "next_cursor": None}
    printed(fleet, lease_id, alice.tenant_id, 2, "second\n")
    printed(fleet, lease_id, alice.tenant_id, 1, "first <b>\n")
    found = await alice.get(path)
    assert [(one["n"], one["text"]) for one in found.json()["items"]] == [(1, "first <b>\n"), (2, "second\n")]
    assert found.headers["etag"] != nothing.headers["etag"]
    assert (await alice.get(path, headers={"If-None-Match": found.headers["etag"]})).status_code == 304


async def test_row_level_security_alone_keeps_consoles_apart(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    for caller in (alice, bob):
        lease_id = (await caller.post("/v1/leases", json=REQUEST)).json()["id"]
        printed(fleet, lease_id, caller.tenant_id, 1, "mine")
    with fleet.connection() as connection:
        connection.execute("SET ROLE gpulease_api")
        for tenant, seen in ((alice.tenant_id, 1), ("", 0), ("*", 2)):
            connection.execute("SELECT set_config('gpulease.tenant', %s, false)", (tenant,))
            assert len(connection.execute("SELECT 1 FROM lease_console").fetchall()) == seen
