"""POST, GET and DELETE /v1/volumes."""

import asyncio
from typing import Any

import pytest
from psycopg.types.json import Jsonb

from app.domain.vm_parts import PartsFacts
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

VOLUME = {"name": "data", "size_gib": 100, "account": "main", "region": "us-east-1", "zone": "us-east-1a"}
PRICE = """
    INSERT INTO part_price (account, region, part, instance_type, price, price_as_of, price_source, price_live)
    VALUES ('main', 'us-east-1', 'disk', '*', 0.08, now(), 'list', false)
"""


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    made.run(PRICE)
    return made


async def create(caller: Caller, **changes: Any) -> dict[str, Any]:
    made = await caller.post("/v1/volumes", json={**VOLUME, **changes})
    assert made.status_code == 201, made.text
    assert made.headers["location"] == f"/v1/volumes/{made.json()['id']}"
    found: dict[str, Any] = made.json()
    return found


def used(fleet: Fleet, tenant_id: str) -> int:
    rows = fleet.run("SELECT used FROM quota WHERE resource = 'volume_gib' AND tenant_id = %s", tenant_id)
    return int(rows[0]["used"]) if rows else 0


async def test_a_new_volume_is_created_by_workers_and_costs_nothing_yet(alice: Caller, fleet: Fleet) -> None:
    volume = await create(alice, labels={"team": "vision"})
    assert volume["id"].startswith("vol_")
    assert (volume["state"], volume["provider"], volume["kind"], volume["lease_id"]) == ("creating", "aws", None, None)
    assert (volume["price_per_hour"], volume["cost"]) == ("0.010959", "0.00")
    assert (await alice.get(f"/v1/volumes/{volume['id']}")).json() == volume
    assert used(fleet, alice.tenant_id) == 100
    [row] = fleet.run("SELECT retry_at <= now() AS due, key_id FROM volume")
    assert row["due"]


async def test_a_volume_costs_its_price_from_when_the_cloud_has_it(alice: Caller, fleet: Fleet) -> None:
    volume = await create(alice)
    fleet.run(
        "UPDATE volume SET state = 'available', cloud_id = 'vol-1', billing_started_at = now() - interval '20 hours', "
        "billing_ended_at = now() - interval '10 hours'"
    )
    shown = (await alice.get(f"/v1/volumes/{volume['id']}")).json()
    assert shown["cost"] == "0.10959"


async def test_a_growing_cost_does_not_change_the_etag(alice: Caller, fleet: Fleet) -> None:
    volume = await create(alice)
    fleet.run("UPDATE volume SET billing_started_at = now() - interval '1 hour', price_per_hour = 100000")
    for path in (f"/v1/volumes/{volume['id']}", "/v1/volumes"):
        first, second = await alice.get(path), await alice.get(path)
        assert first.content != second.content
        assert first.headers["etag"] == second.headers["etag"]


async def test_a_repeated_create_gets_its_first_response(alice: Caller, fleet: Fleet) -> None:
    headers = {"Idempotency-Key": "once"}
    answers = [await alice.post("/v1/volumes", json=VOLUME, headers=headers) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()
    assert used(fleet, alice.tenant_id) == 100


async def test_a_name_is_taken_while_its_volume_lives(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    volume = await create(alice)
    await create(bob)
    refused = await alice.post("/v1/volumes", json=VOLUME)
    assert (refused.status_code, refused.json()["code"]) == (409, "name_taken")
    assert refused.json()["volume_id"] == volume["id"]
    fleet.run("UPDATE volume SET state = 'failed', ended_at = now() WHERE id = %s", volume["id"])
    fleet.run("UPDATE quota SET used = 0 WHERE resource = 'volume_gib' AND tenant_id = %s", alice.tenant_id)
    await create(alice)


async def test_the_quota_is_claimed_with_the_volume(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    limits = {"limits": [{"resource": "volume_gib", "limit": 250}]}
    assert (await operator.patch(f"/v1/tenants/{alice.tenant_id}/quotas", json=limits)).status_code == 200
    made = await asyncio.gather(*(alice.post("/v1/volumes", json={**VOLUME, "name": f"v{n}"}) for n in range(8)))
    assert sorted(answer.status_code for answer in made) == [201, 201] + [409] * 6
    refused = next(answer.json() for answer in made if answer.status_code == 409)
    assert (refused["code"], refused["resource"], refused["asked"]) == ("quota_exceeded", "volume_gib", 100)
    assert used(fleet, alice.tenant_id) == 200
    assert len(fleet.run("SELECT id FROM volume")) == 2


async def test_an_exhausted_budget_refuses_new_volumes(alice: Caller, fleet: Fleet) -> None:
    budget = {"scope": {"kind": "tenant"}, "period": "month", "amount": "5.00", "when_exceeded": "refuse"}
    budget_id = (await alice.post("/v1/budgets", json=budget)).json()["id"]
    await create(alice)
    fleet.run("UPDATE quota SET spent = 5 WHERE resource = %s", f"budget:{budget_id}")
    refused = await alice.post("/v1/volumes", json={**VOLUME, "name": "more"})
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exceeded"), refused.text
    assert refused.json()["budget_id"] == budget_id
    assert used(fleet, alice.tenant_id) == 100


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"account": "other"}, "#/body/account"),
        ({"region": "eu-west-1"}, "#/body/region"),
        ({"zone": "us-east-1z"}, "#/body/zone"),
        ({"size_gib": 0}, "#/body/size_gib"),
        ({"size_gib": 16_385}, "#/body/size_gib"),
        ({"name": ""}, "#/body/name"),
    ],
)
async def test_a_volume_that_no_vm_could_mount_is_refused(alice: Caller, changes: Any, pointer: str) -> None:
    refused = await alice.post("/v1/volumes", json={**VOLUME, **changes})
    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


async def test_a_tenant_has_a_bounded_number_of_volumes(
    alice: Caller, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.volumes.MOST_OF_TENANT", 1)
    volume = await create(alice)
    refused = await alice.post("/v1/volumes", json={**VOLUME, "name": "more"})
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert (await alice.delete(f"/v1/volumes/{volume['id']}")).status_code == 202
    assert (await alice.post("/v1/volumes", json={**VOLUME, "name": "more"})).status_code == 409, (
        "its disk still exists"
    )


async def test_a_deleted_volume_is_deleted_by_workers_and_keeps_its_quota_until_then(
    alice: Caller, fleet: Fleet
) -> None:
    volume = await create(alice)
    for _ in range(2):
        deleted = await alice.delete(f"/v1/volumes/{volume['id']}")
        assert (deleted.status_code, deleted.json()["state"]) == (202, "deleting")
    assert used(fleet, alice.tenant_id) == 100
    assert fleet.run("SELECT count(*) AS n FROM audit WHERE action = 'volume.delete'") == [{"n": 1}]


async def test_a_volume_in_use_is_not_deleted(alice: Caller, fleet: Fleet) -> None:
    volume_id = fleet.volume(alice.tenant_id)
    lease = {
        "instance_types": ["g5.xlarge"],
        "ttl_seconds": 3600,
        "volumes": [{"name": "data", "path": "/data"}],
    }
    lease_id = (await alice.post("/v1/leases", json=lease)).json()["id"]
    refused = await alice.delete(f"/v1/volumes/{volume_id}")
    assert (refused.status_code, refused.json()["code"]) == (409, "volume_in_use")
    assert refused.json()["lease_id"] == lease_id
    assert (await alice.get(f"/v1/volumes/{volume_id}")).json()["lease_id"] == lease_id


async def test_volumes_are_listed_by_state_and_name(alice: Caller, bob: Caller, operator: Caller, fleet: Fleet) -> None:
    await create(bob)
    volume = await create(alice)
    free = fleet.volume(alice.tenant_id, "free")
    everything = (await alice.get("/v1/volumes")).json()["items"]
    assert [item["id"] for item in everything] == [free, volume["id"]]
    for params, expected in (
        ({"state": "available"}, [free]),
        ({"state": ["available", "creating"]}, [free, volume["id"]]),
        ({"name": "data"}, [volume["id"]]),
        ({"state": "lost"}, []),
    ):
        page = (await alice.get("/v1/volumes", params=params)).json()
        assert [item["id"] for item in page["items"]] == expected
    assert (await alice.get("/v1/volumes", params={"tenant_id": bob.tenant_id})).status_code == 422
    assert len((await operator.get("/v1/volumes")).json()["items"]) == 3
    mine = await operator.get("/v1/volumes", params={"tenant_id": alice.tenant_id})
    assert len(mine.json()["items"]) == 2


async def test_a_volume_that_no_type_of_its_zone_attaches_is_refused(alice: Caller, fleet: Fleet) -> None:
    """As in a zone of Google Cloud with nothing but A4."""
    alone = dict.fromkeys(("g5.xlarge", "g5.12xlarge", "p4d.24xlarge"), "hyperdisk-")
    facts = PartsFacts(volume_kind="pd-balanced", attached_kinds=alone)
    fleet.run("UPDATE account SET vm_parts = %s", Jsonb(facts.settings_json()))
    refused = await alice.post("/v1/volumes", json=VOLUME)
    assert refused.status_code == 422, refused.text
    (error,) = refused.json()["errors"]
    assert error["pointer"] == "#/body/zone"
    for words in ("hyperdisk-* volumes alone", "pd-balanced", "another zone", "disk_type"):
        assert words in error["detail"]
    assert used(fleet, alice.tenant_id) == 0


async def test_an_account_that_is_set_aside_gets_no_volume(alice: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE account SET state = 'failing', last_error = '{\"class\": \"NotPermitted\"}'")
    refused = await alice.post("/v1/volumes", json=VOLUME)
    assert (refused.status_code, refused.json()["retryable"]) == (409, True), refused.text
