"""POST /v1/leases."""

import asyncio
from typing import Any

import pytest

from tests.api.conftest import Caller, new_tenant
from tests.api.fleet import SSH_KEY, Fleet


def body(**changes: Any) -> dict[str, Any]:
    """A request for one A10G for an hour."""
    return {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, **changes}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def test_a_new_lease_is_queued_and_shows_the_request_with_its_defaults(alice: Caller) -> None:
    made = await alice.post("/v1/leases", json=body(name="train-7b", labels={"team": "vision"}))
    assert made.status_code == 201, made.text
    lease = made.json()
    assert made.headers["location"] == f"/v1/leases/{lease['id']}"
    assert (lease["state"], lease["desired"], lease["terminal"], lease["billable"]) == ("queued", "run", False, False)
    assert (lease["name"], lease["labels"], lease["tenant_id"]) == ("train-7b", {"team": "vision"}, alice.tenant_id)
    assert lease["request"] == {
        "name": "train-7b",
        "gpu": {"model": "A10G", "count": 1, "min_count": None, "memory_gib": None},
        "instance_types": None,
        "min_vcpus": None,
        "min_memory_gib": None,
        "min_local_disk_gib": None,
        "market": "on_demand",
        "providers": None,
        "regions": None,
        "max_price_per_hour": None,
        "ttl_seconds": 3600,
        "wait_seconds": 0,
        "ssh_public_keys": [],
        "ssh_keys": [],
        "startup_script": None,
        "image": None,
        "disk_gib": 100,
        "public_ip": True,
        "allowed_cidrs": None,
        "on_interruption": "end",
        "proof": "auto",
        "on_gpu_failure": "notify",
        "idle": None,
        "benchmark": "off",
        "volumes": [],
        "labels": {"team": "vision"},
    }
    assert (lease["cost"]["accrued"], lease["cost"]["covers"]) == ("0.00", "compute_disk_address")
    assert lease["estimate"] == {
        "price_per_hour": "1.006",
        "price_for_term": "1.006",
        "currency": "USD",
        "covers": "compute_disk_address",
    }
    assert lease["actions"] == {
        "release": {"available": True, "reason_code": None},
        "extend": {"available": True, "reason_code": None},
        "reboot": {"available": False, "reason_code": "lease_not_active"},
    }


async def test_the_answer_of_a_create_is_what_a_get_shows(alice: Caller) -> None:
    made = (await alice.post("/v1/leases", json=body())).json()
    read = (await alice.get(f"/v1/leases/{made['id']}")).json()
    assert {**made, "cost": None} == {**read, "cost": None}


async def test_a_lease_without_a_name_gets_one(alice: Caller) -> None:
    lease = (await alice.post("/v1/leases", json=body())).json()
    assert lease["name"] == lease["request"]["name"] == f"lease-{lease['id'][-8:]}"


async def test_admission_claims_the_minimum_of_the_candidates_and_tells_an_event(alice: Caller, fleet: Fleet) -> None:
    wish = body(gpu={"model": "A10G"}, market="on_demand")
    lease = (await alice.post("/v1/leases", json=wish)).json()
    claims = fleet.run("SELECT resource, amount FROM quota_claim WHERE lease_id = %s ORDER BY 1", lease["id"])
    assert [(row["resource"], f"{row['amount']:f}") for row in claims] == [
        ("gpus", "1.000000"),
        ("gpus:A10G", "1.000000"),
        ("leases", "1.000000"),
        ("spend_per_hour", "1.006000"),
    ]
    events = fleet.run("SELECT type, lease_sequence FROM event WHERE lease_id = %s", lease["id"])
    assert events == [{"type": "lease.queued", "lease_sequence": 1}]


async def test_the_database_sets_expiry_and_the_end_of_waiting(alice: Caller, fleet: Fleet) -> None:
    lease = (await alice.post("/v1/leases", json=body(ttl_seconds=7200, wait_seconds=600))).json()
    row = fleet.run("SELECT expires_at - created_at AS ttl, wait_until - created_at AS wait FROM lease")[0]
    assert (row["ttl"].total_seconds(), row["wait"].total_seconds()) == (7200, 600)
    assert lease["expires_at"].endswith("Z")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"unknown": 1}, "#/body/unknown"),
    ({"ttl_seconds": 59}, "#/body/ttl_seconds"),
    ({"ttl_seconds": "3600"}, "#/body/ttl_seconds"),
    ({"ttl_seconds": True}, "#/body/ttl_seconds"),
    ({"ttl_seconds": 31_536_001}, "#/body/ttl_seconds"),
    ({"wait_seconds": 86_401}, "#/body/wait_seconds"),
    ({"wait_seconds": -1}, "#/body/wait_seconds"),
    ({"gpu": None}, "#/body/gpu"),
    ({"instance_types": ["g5.xlarge"]}, "#/body/instance_types"),
    ({"gpu": {"count": 1}}, "#/body/gpu/model"),
    ({"gpu": {"model": "A10G", "count": 0}}, "#/body/gpu/count"),
    ({"gpu": {"model": "A10G", "min_count": 0}}, "#/body/gpu/min_count"),
    ({"gpu": {"model": "A10G", "count": 1, "min_count": 1}}, "#/body/gpu/min_count"),
    ({"gpu": {"model": "A10G", "memory_gib": 0}}, "#/body/gpu/memory_gib"),
    ({"gpu": {"model": "A\x00"}}, "#/body/gpu/model"),
    ({"market": None}, "#/body/market"),
    ({"market": "cheapest"}, "#/body/market"),
    ({"providers": ["oracle"]}, "#/body/providers/0"),
    ({"providers": []}, "#/body/providers"),
    ({"regions": ["US EAST"]}, "#/body/regions/0"),
    ({"max_price_per_hour": 40}, "#/body/max_price_per_hour"),
    ({"max_price_per_hour": "0"}, "#/body/max_price_per_hour"),
    ({"max_price_per_hour": "NaN"}, "#/body/max_price_per_hour"),
    ({"max_price_per_hour": "-1"}, "#/body/max_price_per_hour"),
    ({"max_price_per_hour": "1.0000001"}, "#/body/max_price_per_hour"),
    ({"disk_gib": 29}, "#/body/disk_gib"),
    ({"min_vcpus": 0}, "#/body/min_vcpus"),
    ({"gpu": {"model": "A10G", "interconnect": "wire"}}, "#/body/gpu/interconnect"),
    ({"disk_gib": 16_385}, "#/body/disk_gib"),
    ({"public_ip": "yes"}, "#/body/public_ip"),
    ({"allowed_cidrs": ["10.0.0.0/8", "203.0.113.7/24"]}, "#/body/allowed_cidrs/1"),
    ({"allowed_cidrs": ["203.0.113.7"]}, "#/body/allowed_cidrs/0"),
    ({"allowed_cidrs": ["10.0.0.0/33"]}, "#/body/allowed_cidrs/0"),
    ({"allowed_cidrs": ["fe80::%eth0/64"]}, "#/body/allowed_cidrs/0"),
    ({"allowed_cidrs": ["10.0.0.0/8\n"]}, "#/body/allowed_cidrs/0"),
    ({"allowed_cidrs": [f"10.0.{n}.0/24" for n in range(51)]}, "#/body/allowed_cidrs"),
    ({"allowed_cidrs": []}, "#/body/allowed_cidrs"),
    ({"on_interruption": "pray"}, "#/body/on_interruption"),
    ({"name": ""}, "#/body/name"),
    ({"name": "x" * 64}, "#/body/name"),
    ({"name": "a\nb"}, "#/body/name"),
    ({"labels": {"-team": "x"}}, "#/body/labels/-team"),
    ({"labels": {"team": "x" * 64}}, "#/body/labels/team"),
    ({"labels": {"team": "a\x00"}}, "#/body/labels/team"),
    ({"labels": {f"k{n}": "v" for n in range(21)}}, "#/body/labels"),
    ({"startup_script": "#!/bin/sh\n" + "x" * 12_279}, "#/body/startup_script"),
    ({"startup_script": "#!/bin/sh\n\x00"}, "#/body/startup_script"),
    ({"ssh_public_keys": ["hello"]}, "#/body/ssh_public_keys/0"),
    ({"ssh_public_keys": [SSH_KEY, SSH_KEY + "\nssh-rsa AAAA"]}, "#/body/ssh_public_keys/1"),
    ({"ssh_public_keys": ['command="sh" ' + SSH_KEY]}, "#/body/ssh_public_keys/0"),
    ({"tenant_id": "tenant_01h455vb4pex5vsknk084sn02q"}, "#/body/tenant_id"),
]


async def test_each_wrong_field_is_pointed_at(alice: Caller) -> None:
    for changes, pointer in WRONG:
        answer = await alice.post("/v1/leases", json=body(**changes))
        assert answer.status_code == 422, (changes, answer.text)
        assert answer.json()["code"] == "invalid_request"
        assert pointer in [error["pointer"] for error in answer.json()["errors"]], (changes, answer.text)


async def test_the_refusal_of_a_long_term_names_the_maximum(alice: Caller) -> None:
    for path in ("/v1/leases", "/v1/leases/plan"):
        answer = await alice.post(path, json=body(ttl_seconds=86_401))
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem["max_ttl_seconds"]) == (422, "term_exceeded", 86_400)
        assert problem["errors"] == [
            {"pointer": "#/body/ttl_seconds", "detail": "must be at most 86400 for this tenant"}
        ]


async def test_operators_act_for_the_tenant_they_name(operator: Caller, alice: Caller) -> None:
    missing = await operator.post("/v1/leases", json=body())
    assert (missing.status_code, missing.json()["errors"][0]["pointer"]) == (422, "#/body/tenant_id")
    unknown = await operator.post("/v1/leases", json=body(tenant_id="tenant_01h455vb4pex5vsknk084sn02q"))
    assert (unknown.status_code, unknown.json()["errors"][0]["pointer"]) == (422, "#/body/tenant_id")
    made = await operator.post("/v1/leases", json=body(tenant_id=alice.tenant_id))
    assert (made.status_code, made.json()["tenant_id"]) == (201, alice.tenant_id)
    assert "tenant_id" not in made.json()["request"]
    assert (await alice.get(f"/v1/leases/{made.json()['id']}")).status_code == 200


async def test_what_is_short_is_named(operator: Caller) -> None:
    poor = await new_tenant(operator, "poor", gpus=8, leases=0, spend_per_hour="1.00")
    answer = await poor.post("/v1/leases", json=body(market="on_demand"))
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["retryable"]) == (409, "quota_exceeded", True)
    assert {name: problem[name] for name in ("resource", "limit", "used", "asked")} == {
        "resource": "leases",
        "limit": 0,
        "used": 0,
        "asked": 1,
    }
    assert [(one["resource"], one["limit"], one["asked"]) for one in problem["shortages"]] == [
        ("leases", 0, 1),
        ("spend_per_hour", "1.00", "1.006"),
    ]


async def test_a_tenant_without_a_gpu_limit_gets_none(operator: Caller) -> None:
    nobody = await new_tenant(operator, "nobody")
    problem = (await nobody.post("/v1/leases", json=body())).json()
    assert (problem["code"], problem["resource"], problem["limit"]) == ("quota_exceeded", "gpus", None)


async def test_no_offering_says_why_grouped_by_reason(alice: Caller) -> None:
    answer = await alice.post("/v1/leases", json=body(gpu={"model": "A10G", "count": 2}))
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["retryable"]) == (409, "no_offering", False)
    assert problem["excluded"] == [
        {
            "code": "gpu_count",
            "count": 4,
            "message": "4 offerings have another number of GPUs",
            "nearest": ("g5.xlarge on demand in us-east-1a (aws) at 1.006 USD an hour: has 1 GPUs, requested 2"),
        },
        {
            "code": "gpu_model",
            "count": 1,
            "message": "1 offering has another GPU model",
            "nearest": "p4d.24xlarge on demand in us-east-1a (aws) at 21.96 USD an hour: has A100, requested A10G",
        },
    ]
    assert problem["detail"] == (
        "None of 5 offerings fits: 4 offerings have another number of GPUs, 1 offering has another GPU model."
    )


async def test_an_account_set_aside_is_explained_to_operators_only(
    alice: Caller, operator: Caller, fleet: Fleet
) -> None:
    fleet.run("""UPDATE account SET state = 'failing', last_error = '{"message": "role 1234 is denied"}'""")
    told = (await alice.post("/v1/leases", json=body())).text
    assert "set aside" in told
    assert "1234" not in told
    assert "1234" in (await operator.post("/v1/leases", json=body(tenant_id=alice.tenant_id))).text


async def test_viewers_create_nothing(alice: Caller) -> None:
    viewer = await alice.member("viewer")
    for path in ("/v1/leases", "/v1/leases/plan"):
        answer = await viewer.post(path, json={"nonsense": True})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_suspended_tenant_starts_nothing(alice: Caller, operator: Caller) -> None:
    await operator.patch(f"/v1/tenants/{alice.tenant_id}", json={"status": "suspended"})
    for wish in (body(), body(gpu={"model": "A10G", "count": 2}), body(gpu={"model": "B200"})):
        answer = await alice.post("/v1/leases", json=wish)
        assert (answer.status_code, answer.json()["code"]) == (403, "tenant_suspended")


async def test_sixteen_repeats_at_once_make_one_lease(alice: Caller, fleet: Fleet) -> None:
    headers = {"Idempotency-Key": "storm"}
    wish = body(name="mine")
    answers = await asyncio.gather(*(alice.post("/v1/leases", json=wish, headers=headers) for _ in range(16)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} <= {"idempotency_in_flight"}
    again = await alice.post("/v1/leases", json=wish, headers=headers)
    assert again.headers["idempotency-replayed"] == "true"
    made = {answer.json()["id"] for answer in [*answers, again] if answer.status_code == 201}
    assert len(made) == 1
    assert fleet.run("SELECT count(*) AS n FROM lease") == [{"n": 1}]
    assert again.headers["location"] == f"/v1/leases/{again.json()['id']}"


async def test_a_repeat_gets_the_first_answer_even_when_nothing_fits_any_more(alice: Caller, fleet: Fleet) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await alice.post("/v1/leases", json=body(), headers=headers)
    fleet.cordon()
    fleet.run('UPDATE quota SET "limit" = 0')
    second = await alice.post("/v1/leases", json=body(), headers=headers)
    assert (second.status_code, second.json()) == (201, first.json())
    other = await alice.post("/v1/leases", json=body(ttl_seconds=7200), headers=headers)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_mismatch")


async def test_a_refused_create_may_be_repeated_under_its_key(alice: Caller, operator: Caller) -> None:
    headers = {"Idempotency-Key": "later"}
    poor = await new_tenant(operator, "poor", gpus=0)
    assert (await poor.post("/v1/leases", json=body(), headers=headers)).status_code == 409
    limits = {"limits": [{"resource": "gpus", "limit": 1}]}
    await operator.put(f"/v1/tenants/{poor.tenant_id}/quotas", json=limits)
    assert (await poor.post("/v1/leases", json=body(), headers=headers)).status_code == 201


async def test_concurrent_creates_never_pass_a_quota(operator: Caller, fleet: Fleet) -> None:
    tenant = await new_tenant(operator, "crowd", gpus=10)
    answers = await asyncio.gather(*(tenant.post("/v1/leases", json=body()) for _ in range(64)))
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [201] * 10 + [409] * 54, [a.text for a in answers if a.status_code >= 500][:1]
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"quota_exceeded"}
    used = fleet.run("SELECT used FROM quota WHERE tenant_id = %s AND resource = 'gpus'", tenant.tenant_id)
    assert used[0]["used"] == 10


async def test_a_startup_script_is_shown_on_reading_one_lease_and_never_to_viewers(
    alice: Caller, operator: Caller, fleet: Fleet
) -> None:
    made = await alice.post("/v1/leases", json=body(startup_script="#!/bin/sh\necho hidden"))
    path = f"/v1/leases/{made.json()['id']}"
    assert "hidden" not in made.text
    viewer, member = await alice.member("viewer"), await alice.member("member")
    for caller in (alice, member, operator):
        assert (await caller.get(path)).json()["request"]["startup_script"] == "#!/bin/sh\necho hidden"
        assert "hidden" not in (await caller.get("/v1/leases")).text
    assert "hidden" not in (await viewer.get(path)).text
    assert fleet.run("SELECT count(*) AS n FROM lease WHERE request::text LIKE '%%hidden%%'") == [{"n": 0}]


async def test_allowed_networks_are_kept_in_their_usual_form(alice: Caller) -> None:
    networks = ["203.0.113.0/24", "2001:DB8:0::/32", "0.0.0.0/0"]
    lease = (await alice.post("/v1/leases", json=body(allowed_cidrs=networks))).json()
    assert lease["request"]["allowed_cidrs"] == ["203.0.113.0/24", "2001:db8::/32", "0.0.0.0/0"]
