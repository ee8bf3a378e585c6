"""Groups through the API: all members are admitted or none, and they end together."""

import asyncio
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import httpx
import pytest

from app.api.schemas.groups import GroupPlan
from tests.api.conftest import Caller
from tests.api.fleet import CONNECTION, Fleet

LEASE: dict[str, Any] = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}
GROUP: dict[str, Any] = {"name": "train", "size": 4, "lease": LEASE}
POOL = '{"account": "main", "region": "us-east-1", "zone": null, "instance_type": "g5.xlarge", "market": "on_demand"}'


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def create(caller: Caller, **changes: Any) -> httpx.Response:
    return await caller.post("/v1/groups", json=wish(**changes))


def wish(**changes: Any) -> dict[str, Any]:
    lease = {**LEASE, **changes.pop("lease", {})}
    return {**GROUP, "lease": lease, **changes}


async def made(caller: Caller, **changes: Any) -> dict[str, Any]:
    answer = await create(caller, **changes)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def lasting(group: dict[str, Any]) -> dict[str, Any]:
    """A group without the time of the read."""
    return {**group, "cost": {name: value for name, value in group["cost"].items() if name != "as_of"}}


def run(fleet: Fleet, group: dict[str, Any], *ranks: int, state: str = "active") -> None:
    """As if workers had formed the group with these ranks."""
    for member in group["members"]:
        if member["rank"] in ranks:
            fleet.activate(member["lease_id"])
            address = {**CONNECTION, "private_ip": f"10.0.0.{10 + member['rank']}"}
            fleet.set_lease(member["lease_id"], connection=address)
    fleet.run("UPDATE lease_group SET state = %s, pool = %s WHERE id = %s", state, POOL, group["id"])


def pointers(answer: httpx.Response) -> set[str]:
    assert answer.status_code == 422, answer.text
    return {error["pointer"] for error in answer.json()["errors"]}


def used(fleet: Fleet, tenant: Caller) -> dict[str, int]:
    rows = fleet.run("SELECT resource, used FROM quota WHERE tenant_id = %s", tenant.tenant_id)
    return {row["resource"]: int(row["used"]) for row in rows if row["resource"] in {"gpus", "leases"}}


async def test_a_group_is_queued_with_its_members(alice: Caller, fleet: Fleet) -> None:
    answer = await create(alice, interconnect="preferred", placement="same_zone", lease={"labels": {"team": "vision"}})
    group = answer.json()
    assert answer.headers["Location"] == f"/v1/groups/{group['id']}"
    assert (group["state"], group["size"], group["min_size"], group["ready"]) == ("queued", 4, 4, 0)
    assert (group["form_seconds"], group["on_member_loss"], group["pool"]) == (900, "end", None)
    assert [(one["rank"], one["name"], one["state"]) for one in group["members"]] == [
        (rank, f"train-{rank}", "queued") for rank in range(4)
    ]
    assert group["lease"]["gpu"] == {"model": "A10G", "count": 1, "min_count": None, "memory_gib": None}
    lease = (await alice.get(f"/v1/leases/{group['members'][2]['lease_id']}")).json()
    assert (lease["group_id"], lease["rank"], lease["name"]) == (group["id"], 2, "train-2")
    assert lease["request"]["name"] == "train-2"
    assert lease["labels"] == {"team": "vision"}
    assert used(fleet, alice) == {"gpus": 4, "leases": 4}
    assert lasting((await alice.get(f"/v1/groups/{group['id']}")).json()) == lasting(group)


async def test_leases_are_listed_by_group(alice: Caller) -> None:
    group = await made(alice, size=2)
    alone = (await alice.post("/v1/leases", json=LEASE)).json()
    assert (alone["group_id"], alone["rank"]) == (None, None)
    found = (await alice.get("/v1/leases", params={"group_id": group["id"]})).json()["items"]
    assert {one["id"] for one in found} == {one["lease_id"] for one in group["members"]}
    assert pointers(await alice.get("/v1/leases", params={"group_id": "x"})) == {"#/query/group_id"}


async def test_groups_are_listed_by_state_and_name(alice: Caller, operator: Caller, bob: Caller) -> None:
    first, second = await made(alice, size=1), await made(alice, size=1, name="other")
    await alice.delete(f"/v1/groups/{first['id']}")
    listed = (await alice.get("/v1/groups", params={"count": "true"})).json()
    assert [one["id"] for one in listed["items"]] == [second["id"], first["id"]]
    assert listed["total_count"] == 2
    page = (await alice.get("/v1/groups", params={"limit": 1})).json()
    rest = (await alice.get("/v1/groups", params={"limit": 1, "cursor": page["next_cursor"]})).json()
    assert [one["id"] for one in page["items"] + rest["items"]] == [second["id"], first["id"]]
    by = {"state": "releasing"}, {"name": "train"}, {"state": "!ended", "name": "train"}
    for params in by:
        (one,) = (await alice.get("/v1/groups", params=params)).json()["items"]
        assert (one["id"], one["state"]) == (first["id"], "releasing")
    assert (await bob.get("/v1/groups")).json()["items"] == []
    assert len((await operator.get("/v1/groups", params={"tenant_id": alice.tenant_id})).json()["items"]) == 2


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"size": 0}, "#/body/size"),
        ({"size": 257}, "#/body/size"),
        ({"min_size": 5}, "#/body/min_size"),
        ({"name": "n" * 60}, "#/body/name"),
        ({"placement": "cluster", "lease": {"regions": ["us-east-1", "us-west-2"]}}, "#/body/lease/regions"),
        ({"interconnect": "required"}, "#/body/interconnect"),
        ({"lease": {"name": "mine"}}, "#/body/lease/name"),
        ({"lease": {"gpu": {"model": "A10Q"}}}, "#/body/lease/gpu/model"),
        ({"lease": {"ttl_seconds": None}}, "#/body/lease/ttl_seconds"),
        ({"lease": {"ttl_seconds": 31_000_000}}, "#/body/lease/ttl_seconds"),
        ({"lease": {"ssh_keys": ["nobody"]}}, "#/body/lease/ssh_keys/0"),
    ],
)
async def test_what_can_never_be_names_its_field(
    changes: dict[str, Any], pointer: str, alice: Caller, fleet: Fleet
) -> None:
    assert pointers(await create(alice, **changes)) == {pointer}
    assert fleet.run("SELECT id FROM lease_group") == []
    assert fleet.run("SELECT id FROM lease") == []


async def test_a_required_interconnect_names_the_types_that_have_one(alice: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE offering SET network_fabric = 'EFA' WHERE instance_type = 'p4d.24xlarge'")
    refusal = (await create(alice, interconnect="required")).json()
    assert refusal["known"] == ["p4d.24xlarge"]
    assert "gpu_networks" not in refusal["detail"]
    assert "p4d.24xlarge" in refusal["detail"]
    group = await made(alice, size=1, interconnect="required", lease={"gpu": {"model": "A100", "count": 8}})
    assert group["interconnect"] == "required"


async def test_a_refusal_names_the_settings_that_give_a_type_its_interconnect(alice: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE offering SET provider = 'gcp'")
    refusal = (await create(alice, interconnect="required")).json()
    assert (
        "at Google Cloud, types have one where the account sets gpu_networks and rdma_subnetworks" in refusal["detail"]
    )


async def test_a_cluster_is_no_larger_than_its_provider_places(operator: Caller, alice: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE offering SET provider = 'azure'")
    answer = await create(alice, size=201, placement="cluster")
    assert pointers(answer) == {"#/body/size"}
    assert answer.json()["limits"] == {"azure": 200}


async def test_quota_for_a_part_of_a_group_is_refused_whole_with_the_numbers(alice: Caller, fleet: Fleet) -> None:
    await alice.post("/v1/leases", json=LEASE)
    before = fleet.run("SELECT resource, used FROM quota ORDER BY resource")
    answer = await create(alice, size=8)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "quota_exceeded")
    assert (problem["resource"], problem["limit"], problem["used"], problem["asked"]) == ("gpus", 8, 1, 8)
    assert "for 8 members" in problem["detail"]
    assert fleet.run("SELECT resource, used FROM quota ORDER BY resource") == before
    assert fleet.run("SELECT id FROM lease WHERE group_id IS NOT NULL") == []
    await made(alice, size=7)


async def test_a_budget_counts_every_member(alice: Caller, fleet: Fleet) -> None:
    scope = {"scope": {"kind": "tenant"}, "period": "lifetime", "amount": "4.20"}
    budget = (await alice.post("/v1/budgets", json=scope)).json()
    answer = await create(alice, size=5)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "budget_exceeded")
    each = await made(alice, size=1)
    one = float((await alice.get(f"/v1/budgets/{budget['id']}")).json()["committed"])
    assert float(problem["asked"]) == pytest.approx(5 * one)
    await made(alice, name="other", size=3)
    shown = (await alice.get(f"/v1/budgets/{budget['id']}")).json()
    assert float(shown["committed"]) == pytest.approx(4 * one)
    assert len(each["members"]) == 1
    claims = fleet.run("SELECT sum(amount) AS held FROM quota_claim WHERE resource LIKE 'budget:%%'")
    assert claims == fleet.run("SELECT used AS held FROM quota WHERE resource LIKE 'budget:%%'")


async def test_names_of_live_groups_and_of_their_members_are_unique(alice: Caller, fleet: Fleet) -> None:
    lease = (await alice.post("/v1/leases", json={**LEASE, "name": "train-1"})).json()
    answer = await create(alice, size=2)
    assert (answer.status_code, answer.json()["code"]) == (409, "name_taken")
    assert answer.json()["lease_id"] == lease["id"]
    group = await made(alice, size=1)
    answer = await create(alice, size=1)
    assert (answer.status_code, answer.json()["group_id"]) == (409, group["id"])


async def test_of_groups_created_at_once_with_a_name_one_is_admitted(alice: Caller, fleet: Fleet) -> None:
    answers = await asyncio.gather(*(create(alice, size=2) for _ in range(3)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409]
    assert used(fleet, alice) == {"gpus": 2, "leases": 2}


async def test_a_repeated_request_gets_the_first_answer(alice: Caller, fleet: Fleet) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await alice.post("/v1/groups", json=GROUP, headers=headers)
    again = await alice.post("/v1/groups", json=GROUP, headers=headers)
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    assert used(fleet, alice) == {"gpus": 4, "leases": 4}
    other = await alice.post("/v1/groups", json={**GROUP, "size": 2}, headers=headers)
    assert other.json()["code"] == "idempotency_mismatch"


async def test_a_suspended_tenant_creates_no_group(operator: Caller, alice: Caller) -> None:
    await operator.patch(f"/v1/tenants/{alice.tenant_id}", json={"status": "suspended"})
    assert (await create(alice)).json()["code"] == "tenant_suspended"


async def test_a_group_grows_at_the_next_ranks_in_its_pool(alice: Caller, fleet: Fleet) -> None:
    group = await made(alice, size=2, lease={"startup_script": "#!/bin/sh\necho hi"})
    run(fleet, group, 0, 1)
    path = f"/v1/groups/{group['id']}"
    tag = (await alice.get(path)).headers["ETag"]
    answer = await alice.patch(path, json={"size": 4}, headers={"If-Match": tag})
    grown = answer.json()
    assert (answer.status_code, grown["size"], grown["min_size"]) == (200, 4, 2)
    assert [one["name"] for one in grown["members"]] == [f"train-{rank}" for rank in range(4)]
    assert used(fleet, alice) == {"gpus": 4, "leases": 4}
    added = fleet.run(
        "SELECT l.expires_at, l.group_pool, s.startup_script FROM lease l JOIN lease_secret s ON s.lease_id = l.id ORDER BY rank"
    )
    assert len({row["expires_at"] for row in added}) == 1
    assert {row["startup_script"] for row in added} == {"#!/bin/sh\necho hi"}
    assert added[3]["group_pool"]["instance_type"] == "g5.xlarge"
    stale = await alice.patch(path, json={"size": 3}, headers={"If-Match": tag})
    assert stale.json()["code"] == "version_conflict"
    too_many = await alice.patch(path, json={"size": 9})
    assert (too_many.status_code, too_many.json()["asked"], too_many.json()["used"]) == (409, 5, 4)
    assert used(fleet, alice) == {"gpus": 4, "leases": 4}


async def test_a_smaller_group_releases_its_last_ranks(alice: Caller, fleet: Fleet) -> None:
    group = await made(alice)
    path = f"/v1/groups/{group['id']}"
    fleet.run("UPDATE lease_group SET next_due = NULL")
    shrunk = (await alice.patch(path, json={"size": 2})).json()
    assert [one["state"] for one in shrunk["members"]] == ["queued", "queued", "releasing", "releasing"]
    assert (shrunk["size"], shrunk["min_size"], shrunk["version"]) == (2, 2, group["version"] + 1)
    assert shrunk["members"][3]["reason"]["code"] == "group_shrunk"
    assert fleet.run("SELECT next_due IS NOT NULL AS due FROM lease_group") == [{"due": True}]
    early = await alice.patch(path, json={"size": 4})
    assert (early.status_code, early.json()["retryable"]) == (409, True)
    for member in group["members"][2:]:
        fleet.finish(member["lease_id"])
    grown = (await alice.patch(path, json={"size": 3})).json()
    assert [one["rank"] for one in grown["members"]] == [0, 1, 2]
    assert grown["members"][2]["lease_id"] != group["members"][2]["lease_id"]


async def test_a_larger_group_fills_the_ranks_of_lost_members_first(alice: Caller, fleet: Fleet) -> None:
    """With `keep`, nothing else replaces a lost member."""
    group = await made(alice, size=3, min_size=1, on_member_loss="keep")
    path, lost = f"/v1/groups/{group['id']}", group["members"][1]["lease_id"]
    run(fleet, group, 0, 1, 2, state="degraded")
    fleet.set_lease(lost, state="releasing", desired="end", group_pool={"account": "main"})
    leaving = await alice.patch(path, json={"size": 4})
    assert (leaving.status_code, leaving.json()["retryable"], leaving.json()["lease_id"]) == (409, True, lost)
    fleet.finish(lost)
    unhandled = await alice.patch(path, json={"size": 4})
    assert (unhandled.status_code, unhandled.json()["lease_id"]) == (409, lost), "the group reports the loss first"
    fleet.set_lease(lost, group_pool=None)
    grown = (await alice.patch(path, json={"size": 4})).json()
    assert [(one["rank"], one["state"]) for one in grown["members"]] == [
        (0, "active"),
        (1, "queued"),
        (2, "active"),
        (3, "queued"),
    ]
    assert used(fleet, alice) == {"gpus": 4, "leases": 4}


async def test_a_group_that_replaces_lost_members_grows_beside_the_replacement(alice: Caller, fleet: Fleet) -> None:
    group = await made(alice, size=3, min_size=1, on_member_loss="replace")
    path, lost = f"/v1/groups/{group['id']}", group["members"][1]["lease_id"]
    run(fleet, group, 0, 1, 2)
    fleet.set_lease(lost, state="releasing", desired="end")
    grown = await alice.patch(path, json={"size": 4})
    assert grown.status_code == 200, grown.text
    assert [one["rank"] for one in grown.json()["members"]] == [0, 1, 2, 3]


async def test_a_released_group_ends_with_all_members_and_cannot_be_scaled(alice: Caller, fleet: Fleet) -> None:
    group = await made(alice, size=2)
    path = f"/v1/groups/{group['id']}"
    answer = await alice.delete(path)
    released = answer.json()
    assert (answer.status_code, released["state"], released["reason"]["code"]) == (202, "releasing", "released_by_user")
    assert {one["state"] for one in released["members"]} == {"releasing"}
    refusal = await alice.patch(path, json={"size": 3})
    assert (refusal.status_code, refusal.json()["code"]) == (409, "group_ending")
    again = await alice.delete(path)
    assert (again.status_code, lasting(again.json())) == (202, lasting(released))
    fleet.number_events()
    events = (await alice.get(f"{path}/events")).json()["items"]
    assert [one["type"] for one in events] == ["group.queued", "group.releasing"]


async def test_the_release_of_a_member_wakes_the_group(alice: Caller, fleet: Fleet) -> None:
    group = await made(alice, size=2)
    first, second = (member["lease_id"] for member in group["members"])
    calls: list[tuple[str, str, Any]] = [
        ("DELETE", f"/v1/leases/{first}", None),
        ("POST", "/v1/leases/release", {"ids": [second]}),
    ]
    for method, path, body in calls:
        fleet.run("UPDATE lease_group SET next_due = NULL")
        assert (await alice.request(method, path, json=body)).is_success
        assert fleet.run("SELECT next_due IS NOT NULL AS due FROM lease_group") == [{"due": True}]


async def test_hosts_are_the_active_members_by_rank(alice: Caller, fleet: Fleet) -> None:
    group = await made(alice)
    path = f"/v1/groups/{group['id']}/hosts"
    early = await alice.get(path, params={"format": "hostfile"})
    assert (early.status_code, early.json()["code"]) == (409, "group_not_formed")
    run(fleet, group, 0, 1, 3)
    partly = (await alice.get(path)).json()
    assert (partly["complete"], [one["rank"] for one in partly["hosts"]]) == (False, [0, 1, 3])
    run(fleet, group, 2)
    hosts = (await alice.get(path)).json()
    assert (hosts["complete"], hosts["master_addr"], hosts["master_port"]) == (True, "10.0.0.10", 29500)
    texts = {
        form: (await alice.get(path, params={"format": form})) for form in ("hostfile", "slurm", "ansible", "torchrun")
    }
    assert {answer.headers["Content-Type"] for answer in texts.values()} == {"text/plain; charset=utf-8"}
    assert texts["hostfile"].text == "".join(f"10.0.0.{n} slots=1\n" for n in range(10, 14))
    assert texts["slurm"].text == "10.0.0.[10-13]\n"
    assert texts["ansible"].text.startswith("[train]\ntrain-0 ansible_host=198.51.100.7 ansible_user=ubuntu")
    assert texts["torchrun"].text.count("--nnodes=4") == 4


async def test_a_vm_reads_the_nodes_of_its_own_group(alice: Caller, fleet: Fleet, anonymous: Caller) -> None:
    group = await made(alice, size=3, min_size=2)
    run(fleet, group, 0, 2)
    token = fleet.give_agent_token(group["members"][2]["lease_id"])
    headers = {"Authorization": f"Bearer {token}"}
    waiting = (await anonymous.get("/v1/group-hosts", headers=headers)).json()
    assert (waiting["complete"], waiting["size"]) == (False, 3)
    fleet.run("UPDATE lease_group SET state = 'degraded'")
    nodes = (await anonymous.get("/v1/group-hosts", headers=headers)).json()
    assert nodes == {
        "group_id": group["id"],
        "rank": 1,
        "size": 2,
        "complete": True,
        "master_addr": "10.0.0.10",
        "master_port": 29500,
        "hosts": [
            {"rank": 0, "private_ip": "10.0.0.10", "gpus": 1},
            {"rank": 1, "private_ip": "10.0.0.12", "gpus": 1},
        ],
    }
    assert (await anonymous.get("/v1/group-hosts")).status_code == 401
    assert (await alice.get("/v1/group-hosts")).status_code == 401


async def test_a_vm_outside_of_groups_has_no_nodes(alice: Caller, fleet: Fleet, anonymous: Caller) -> None:
    lease = (await alice.post("/v1/leases", json=LEASE)).json()
    fleet.activate(lease["id"])
    headers = {"Authorization": f"Bearer {fleet.give_agent_token(lease['id'])}"}
    assert (await anonymous.get("/v1/group-hosts", headers=headers)).status_code == 404
    found = {"nodes": 2, "mesh": "ok"}
    assert (await anonymous.post("/v1/group-hosts", json=found, headers=headers)).status_code == 404


async def test_a_vm_reports_what_it_found_in_its_group(alice: Caller, fleet: Fleet, anonymous: Caller) -> None:
    group = await made(alice, size=3, min_size=2)
    run(fleet, group, 0, 1)
    headers = {"Authorization": f"Bearer {fleet.give_agent_token(group['members'][1]['lease_id'])}"}
    found = {"nodes": 3, "mesh": "failed", "unreachable": [0, 2], "all_reduce": "unavailable", "all_reduce_gbps": None}
    assert (await anonymous.post("/v1/group-hosts", json=found, headers=headers)).status_code == 204
    first, second, third = (await alice.get(f"/v1/groups/{group['id']}")).json()["members"]
    assert (first["check"], third["check"]) == (None, None)
    assert second["check"].pop("checked_at")
    assert second["check"] == found
    later = {"nodes": 3, "mesh": "ok", "unreachable": [], "all_reduce": "ok", "all_reduce_gbps": 178.4}
    await anonymous.post("/v1/group-hosts", json=later, headers=headers)
    assert (await alice.get(f"/v1/groups/{group['id']}")).json()["members"][1]["check"].items() >= later.items()


async def test_a_report_that_is_none_is_refused(alice: Caller, fleet: Fleet, anonymous: Caller) -> None:
    group = await made(alice, size=2)
    run(fleet, group, 0, 1)
    headers = {"Authorization": f"Bearer {fleet.give_agent_token(group['members'][0]['lease_id'])}"}
    refused = await anonymous.post("/v1/group-hosts", json={"nodes": 2, "mesh": "good"}, headers=headers)
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/body")
    assert "mesh must be one of ok, failed" in refused.text
    anybody = await anonymous.post("/v1/group-hosts", json={"nodes": 2, "mesh": "ok"})
    assert anybody.status_code == 401
    assert (await alice.get(f"/v1/groups/{group['id']}")).json()["members"][0]["check"] is None


async def test_a_group_grows_to_no_size_that_its_provider_cannot_place_together(alice: Caller, fleet: Fleet) -> None:
    fleet.run('UPDATE quota SET "limit" = 1000 WHERE tenant_id = %s', alice.tenant_id)
    fleet.run("UPDATE offering SET provider = 'azure'")
    group = await made(alice, size=2, placement="cluster", lease={"gpu": {"model": "A10G", "count": 1}})
    assert pointers(await create(alice, name="large", size=201, placement="cluster")) == {"#/body/size"}
    assert pointers(await alice.patch(f"/v1/groups/{group['id']}", json={"size": 201})) == {"#/body/size"}
    run(fleet, group, 0, 1)
    answer = await alice.patch(f"/v1/groups/{group['id']}", json={"size": 201})
    assert (pointers(answer), answer.json()["limits"]) == ({"#/body/size"}, {"azure": 200})
    assert (await alice.patch(f"/v1/groups/{group['id']}", json={"size": 3})).status_code == 200


async def test_all_members_are_extended_together_and_none_where_a_budget_has_no_room(alice: Caller) -> None:
    group = await made(alice, size=3, lease={"market": "on_demand", "gpu": {"model": "A10G", "count": 1}})
    path, [first, *_] = f"/v1/groups/{group['id']}", group["members"]
    await alice.post(f"/v1/leases/{first['lease_id']}/extend", json={"extend_by_seconds": 600})
    answer = await alice.post(f"{path}/extend", json={"extend_by_seconds": 3000}, headers={"Idempotency-Key": "x"})
    assert answer.status_code == 200, answer.text
    again = await alice.post(f"{path}/extend", json={"extend_by_seconds": 3000}, headers={"Idempotency-Key": "x"})
    assert again.json() == answer.json()
    leases = [(await alice.get(f"/v1/leases/{one['lease_id']}")).json() for one in group["members"]]
    assert {lease["expires_at"] for lease in leases} == {answer.json()["expires_at"]}
    assert answer.json()["version"] > group["version"]
    earlier = await alice.post(f"{path}/extend", json={"expires_at": group["expires_at"]})
    assert (earlier.status_code, earlier.json()["code"]) == (422, "not_later")
    budget = {"scope": {"kind": "tenant"}, "period": "lifetime", "amount": "7.50", "when_exceeded": "refuse"}
    before = (await alice.post("/v1/budgets", json=budget)).json()
    refused = await alice.post(f"{path}/extend", json={"extend_by_seconds": 3600})
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exceeded")
    asked, hour = Decimal(refused.json()["asked"]), Decimal("1.006")
    assert abs(asked - 3 * hour) < Decimal("0.01"), "of the whole group"
    assert abs(Decimal(refused.json()["committed"]) - Decimal(before["committed"])) < Decimal("0.01")
    assert (await alice.get(path)).json()["expires_at"] == answer.json()["expires_at"]
    assert {(await alice.get(f"/v1/leases/{one['id']}")).json()["expires_at"] for one in leases} == {
        answer.json()["expires_at"]
    }
    await alice.delete(path)
    ending = await alice.post(f"{path}/extend", json={"extend_by_seconds": 60})
    assert (ending.status_code, ending.json()["code"]) == (409, "group_ending")


async def test_a_member_whose_term_is_over_is_not_extended_and_holds_no_other_back(alice: Caller, fleet: Fleet) -> None:
    """Nobody has handled its end yet. The group treats it as a lost member."""
    group = await made(alice, size=3, min_size=1, on_member_loss="keep")
    path, members = f"/v1/groups/{group['id']}", group["members"]
    run(fleet, group, 0, 1, 2)
    end_terms = "UPDATE lease SET expires_at = now() - interval '5 seconds' WHERE rank >= %s RETURNING expires_at"
    (over,) = (row["expires_at"] for row in fleet.run(end_terms, 2))
    answer = await alice.post(f"{path}/extend", json={"extend_by_seconds": 1800})
    assert answer.status_code == 200, answer.text
    ends = [(await alice.get(f"/v1/leases/{one['lease_id']}")).json()["expires_at"] for one in members]
    later = datetime.fromisoformat(group["expires_at"]) + timedelta(seconds=1800)
    assert [datetime.fromisoformat(end) for end in ends] == [later, later, over]
    fleet.run(end_terms, 0)
    late = await alice.post(f"{path}/extend", json={"extend_by_seconds": 1800})
    assert (late.status_code, late.json()["code"]) == (409, "group_ending")


async def test_a_plan_prices_each_member_and_all_of_them(alice: Caller, fleet: Fleet) -> None:
    answer = await alice.post("/v1/groups/plan", json=wish(size=4))
    assert answer.status_code == 200, answer.text
    GroupPlan.model_validate_json(answer.content, strict=True)
    plan = answer.json()
    each, every = (Decimal(plan[name]["price_per_hour"]) for name in ("member_cost", "cost"))
    first = plan["candidates"][0]
    assert (plan["size"], str(each), every) == (4, first["offering"]["price_per_hour"], each * 4)
    assert Decimal(plan["cost"]["price_for_term"]) == Decimal(first["price_for_term"]) * 4
    asked = {need["resource"]: need["asked"] for need in plan["quota"]["resources"]}
    assert (asked["gpus"], asked["leases"], Decimal(asked["spend_per_hour"])) == (4, 4, every)
    assert (fleet.run("SELECT id FROM lease"), fleet.run("SELECT id FROM lease_group")) == ([], [])
    group = await made(alice, size=4)
    assert Decimal(group["estimate"]["price_per_hour"]) == every
    taken = await alice.post("/v1/groups/plan", json=wish(size=4))
    assert (taken.status_code, taken.json()["code"]) == (409, "name_taken")


async def test_a_plan_of_a_group_names_what_is_wrong_below_lease(alice: Caller) -> None:
    for change, pointer in (
        ({"ssh_keys": ["unknown"]}, "#/body/lease/ssh_keys/0"),
        ({"gpu": {"model": "Z9000"}}, "#/body/lease/gpu/model"),
        ({"regions": ["mars-1"]}, "#/body/lease/regions/0"),
        ({"max_price_per_hour": "0.01"}, "#/body/lease/max_price_per_hour"),
        ({"ttl_seconds": 86_401}, "#/body/lease/ttl_seconds"),
        ({"image": "none"}, "#/body/lease/image"),
    ):
        answers = [await alice.post(path, json=wish(lease=change)) for path in ("/v1/groups/plan", "/v1/groups")]
        assert [pointers(answer) for answer in answers] == [{pointer}, {pointer}]
        assert answers[0].json()["code"] == answers[1].json()["code"]


async def test_a_plan_of_more_members_than_the_quota_allows_says_so(alice: Caller) -> None:
    plan = (await alice.post("/v1/groups/plan", json=wish(size=9))).json()
    assert (plan["admissible"], plan["quota"]["fits"], plan["candidates"][0]["quota_fits"]) == (False, False, False)


async def test_every_view_of_a_group_has_its_price_and_its_cost(alice: Caller, fleet: Fleet) -> None:
    group = await made(alice, size=2)
    each = Decimal(group["estimate"]["price_per_hour"]) / 2
    assert (group["cost"]["price_per_hour"], group["cost"]["parts"]) == (None, None)
    run(fleet, group, 0, 1)
    path = f"/v1/groups/{group['id']}"
    whole, listed = (await alice.get(path)).json(), (await alice.get("/v1/groups")).json()["items"][0]
    for seen in (whole, listed):
        assert Decimal(seen["cost"]["price_per_hour"]) == each * 2
        assert Decimal(seen["cost"]["parts"]["compute"]) == each * 2
        assert Decimal(seen["cost"]["accrued"]) >= each * 2, "an hour of two VMs"
    tag = (await alice.get("/v1/groups")).headers["ETag"]
    again = await alice.get("/v1/groups", headers={"If-None-Match": tag})
    assert again.status_code == 304, "what it costs grows, and is no change"
    for member in group["members"]:
        fleet.finish(member["lease_id"])
    over = (await alice.get(path)).json()
    assert (over["cost"]["price_per_hour"], over["estimate"]) == (None, None)
    assert Decimal(over["cost"]["accrued"]) > 0
