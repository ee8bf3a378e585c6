"""PATCH, extend and DELETE of a lease."""

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.api.conftest import Caller
from tests.api.fleet import Fleet


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def make(caller: Caller, **changes: Any) -> str:
    answer = await caller.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600, **changes})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def test_name_and_labels_change_alone_and_the_same_again_is_no_change(alice: Caller, fleet: Fleet) -> None:
    path = f"/v1/leases/{await make(alice, name='old', labels={'a': '1'})}"
    named = (await alice.patch(path, json={"name": "new"})).json()
    assert (named["name"], named["labels"], named["version"]) == ("new", {"a": "1"}, 2)
    assert named["request"]["name"] == "old"
    labelled = (await alice.patch(path, json={"labels": {"b": "2"}})).json()
    assert (labelled["name"], labelled["labels"], labelled["version"]) == ("new", {"b": "2"}, 3)
    again = await alice.patch(path, json={"name": "new", "labels": {"b": "2"}})
    assert (again.status_code, again.json()["version"]) == (200, 3)
    assert (await alice.patch(path, json={})).json()["version"] == 3
    told = fleet.run("SELECT type, data FROM event ORDER BY row_id OFFSET 1")
    assert [(one["type"], one["data"]) for one in told] == [
        ("lease.updated", {"name": "new", "labels": None, "max_cost": None, "expiry_warnings_seconds": None}),
        ("lease.updated", {"name": None, "labels": {"b": "2"}, "max_cost": None, "expiry_warnings_seconds": None}),
    ]


async def test_a_patch_of_anything_else_or_to_null_is_refused(alice: Caller) -> None:
    path = f"/v1/leases/{await make(alice)}"
    for content, pointer in (
        ({"state": "active"}, "#/body/state"),
        ({"name": None}, "#/body/name"),
        ({"labels": None}, "#/body/labels"),
    ):
        answer = await alice.patch(path, json=content)
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)


async def test_a_change_of_an_old_version_is_refused(alice: Caller) -> None:
    path = f"/v1/leases/{await make(alice)}"
    old = (await alice.get(path)).headers["etag"]
    new = (await alice.patch(path, json={"name": "new"}, headers={"If-Match": old})).headers["etag"]
    assert new == (await alice.get(path)).headers["etag"]
    calls: list[tuple[str, str, Any]] = [
        ("PATCH", path, {"name": "newer"}),
        ("POST", f"{path}/extend", {"extend_by_seconds": 3600}),
        ("DELETE", path, None),
    ]
    for method, target, content in calls:
        answer = await alice.request(method, target, json=content, headers={"If-Match": old})
        assert (answer.status_code, answer.json()["code"]) == (412, "version_conflict")
    assert (await alice.get(path)).json()["state"] == "queued"
    assert (await alice.delete(path, headers={"If-Match": new})).status_code == 202


async def test_extending_adds_to_the_term_and_wakes_a_worker_to_write_the_deadline(alice: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    fleet.run("UPDATE lease SET next_due = NULL, expires_at = created_at + interval '2 hours'")
    answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
    assert answer.status_code == 200, answer.text
    row = fleet.run("SELECT expires_at - created_at AS ttl, next_due, wake_count FROM lease")[0]
    assert row["ttl"].total_seconds() == 3 * 3600
    assert row["next_due"] is not None
    assert row["wake_count"] == 1
    assert fleet.run("SELECT type FROM event ORDER BY row_id DESC LIMIT 1") == [{"type": "lease.extended"}]


async def test_an_extension_behind_the_spend_cap_leaves_what_was_told_of_the_end(alice: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    fleet.run(
        "UPDATE lease SET expires_at = now() + interval '1 hour', cost_reached_at = now() + interval '119 seconds',"
        " expiry_told_for = now() + interval '119 seconds', expiry_told_seconds = 120"
    )
    answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
    assert answer.status_code == 200, answer.text
    told = "SELECT expiry_told_seconds, expiry_told_for = least(expires_at, cost_reached_at) AS same FROM lease"
    assert fleet.run(told) == [{"expiry_told_seconds": 120, "same": True}]
    fleet.run("UPDATE lease SET cost_reached_at = NULL")
    await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 60})
    [row] = fleet.run(told)
    assert row["same"]
    assert row["expiry_told_seconds"] == pytest.approx(7260, abs=60)


async def test_a_lease_is_extended_to_a_time(alice: Caller) -> None:
    lease_id = await make(alice)
    before = datetime.fromisoformat((await alice.get(f"/v1/leases/{lease_id}")).json()["expires_at"])
    until = before + timedelta(hours=5)
    answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"expires_at": until.isoformat()})
    assert datetime.fromisoformat(answer.json()["expires_at"]) == until


async def test_what_is_no_extension_is_refused(alice: Caller) -> None:
    lease_id = await make(alice, ttl_seconds=7200)
    before = (await alice.get(f"/v1/leases/{lease_id}")).json()
    same = await alice.post(f"/v1/leases/{lease_id}/extend", json={"expires_at": before["expires_at"]})
    assert (same.status_code, same.json()["code"]) == (422, "not_later")
    assert before["expires_at"] in same.json()["detail"]
    both = {"extend_by_seconds": 3600, "expires_at": before["expires_at"]}
    for content in ({}, both):
        answer = await alice.post(f"/v1/leases/{lease_id}/extend", json=content)
        pointers = [error["pointer"] for error in answer.json()["errors"]]
        assert (answer.status_code, pointers) == (422, ["#/body/extend_by_seconds", "#/body/expires_at"])
    assert (await alice.get(f"/v1/leases/{lease_id}")).json()["version"] == before["version"]


@pytest.mark.parametrize(
    ("terms", "longest"), [({"max_total_seconds": 7200}, 3600), ({"max_ttl_seconds": 5400}, 1750)], ids=["total", "now"]
)
async def test_an_extension_stays_within_the_terms(
    alice: Caller, operator: Caller, terms: dict[str, int], longest: int
) -> None:
    limits = {"max_ttl_seconds": 7200, "max_total_seconds": 14400, **terms}
    assert (await operator.patch(f"/v1/tenants/{alice.tenant_id}", json=limits)).status_code == 200
    lease_id = await make(alice)
    answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": longest + 60})
    assert (answer.status_code, answer.json()["code"]) == (422, "term_exceeded")
    assert answer.json()["latest_expires_at"].endswith("Z")
    answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": longest})
    assert answer.status_code == 200


async def test_a_lease_whose_vm_the_cloud_ends_is_not_extended_and_says_so_in_advance(
    alice: Caller, fleet: Fleet
) -> None:
    lease_id = await make(alice)
    fleet.activate(lease_id)
    assert (await alice.get(f"/v1/leases/{lease_id}")).json()["actions"]["extend"]["available"]
    fleet.run("""UPDATE lease SET placement = placement || '{"extendable": false}', version = version + 1""")
    answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
    assert (answer.status_code, answer.json()["code"]) == (409, "not_extendable")
    assert "main" in answer.json()["detail"]
    lease = (await alice.get(f"/v1/leases/{lease_id}")).json()
    assert lease["actions"]["extend"] == {"available": False, "reason_code": "not_extendable"}
    assert lease["placement"]["extendable"] is False
    fleet.run("UPDATE lease SET placement = NULL, version = version + 1")
    answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
    assert answer.status_code == 200, "without a VM nothing ends it"


async def test_what_ends_is_not_extended_and_says_so_in_advance(alice: Caller, fleet: Fleet) -> None:
    released, expired = await make(alice), await make(alice)
    await alice.delete(f"/v1/leases/{released}")
    fleet.run("UPDATE lease SET expires_at = now() - interval '1 second' WHERE id = %s", expired)
    for lease_id in (released, expired):
        answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
        assert (answer.status_code, answer.json()["code"]) == (409, "lease_ending")
        lease = (await alice.get(f"/v1/leases/{lease_id}")).json()
        assert lease["actions"]["extend"] == {"available": False, "reason_code": "lease_ending"}


async def test_a_suspended_tenant_extends_nothing_and_may_release(
    alice: Caller, operator: Caller, fleet: Fleet
) -> None:
    lease_id = await make(alice)
    fleet.activate(lease_id)
    await operator.patch(f"/v1/tenants/{alice.tenant_id}", json={"status": "suspended"})
    answer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
    assert (answer.status_code, answer.json()["code"]) == (403, "tenant_suspended")
    shown = (await alice.get(f"/v1/leases/{lease_id}")).json()["actions"]
    assert shown["extend"] == {"available": False, "reason_code": "tenant_suspended"}
    assert (await alice.delete(f"/v1/leases/{lease_id}")).status_code == 202


async def test_a_repeated_extension_counts_once(alice: Caller) -> None:
    lease_id = await make(alice)
    headers = {"Idempotency-Key": "longer"}
    first = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600}, headers=headers)
    again = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600}, headers=headers)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()


async def test_a_release_is_asked_for_once_whoever_asks(alice: Caller, fleet: Fleet) -> None:
    lease_id = await make(alice)
    fleet.run("UPDATE lease SET next_due = NULL")
    answers = await asyncio.gather(*(alice.delete(f"/v1/leases/{lease_id}") for _ in range(8)))
    assert {answer.status_code for answer in answers} == {202}
    lease = answers[0].json()
    assert (lease["state"], lease["desired"], lease["version"]) == ("releasing", "end", 2)
    assert lease["reason"] == {
        "code": "released_by_user",
        "message": "a user of the tenant requested the release",
        "origin": "user",
        "retryable": False,
    }
    assert lease["release_requested_at"] is not None
    assert lease["actions"]["release"] == {"available": False, "reason_code": "lease_ending"}
    row = fleet.run("SELECT next_due <= now() AS due, wake_count FROM lease")[0]
    assert row == {"due": True, "wake_count": 1}
    assert fleet.run("SELECT count(*) AS n FROM event WHERE type = 'lease.releasing'") == [{"n": 1}]
    assert fleet.run("SELECT count(*) AS n FROM audit WHERE action = 'lease.release'") == [{"n": 1}]


async def test_releasing_is_legal_in_every_state(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    active, ended = await make(alice), await make(alice)
    fleet.activate(active)
    by_operator = (await operator.delete(f"/v1/leases/{active}")).json()
    assert (by_operator["state"], by_operator["reason"]["code"]) == ("releasing", "released_by_operator")
    assert by_operator["billable"]
    fleet.finish(ended, "failed")
    answer = await alice.delete(f"/v1/leases/{ended}")
    assert (answer.status_code, answer.json()["state"], answer.json()["terminal"]) == (202, "failed", True)
