"""POST /v1/quotes, and leases that are created from a quote."""

from decimal import Decimal
from typing import Any

import pytest

from tests.api.conftest import Caller, MakeSettings, serving
from tests.api.fleet import SSH_KEY, Fleet

EXPIRE = "UPDATE quote SET valid_until = now()"
ASKED: dict[str, Any] = {"gpu": {"model": "A10G"}, "market": "on_demand", "ttl_seconds": 7200, "labels": {"team": "a"}}


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


async def quoted(caller: Caller, **changes: Any) -> dict[str, Any]:
    made = await caller.post("/v1/quotes", json={**ASKED, **changes})
    assert made.status_code == 201, made.text
    quote: dict[str, Any] = made.json()
    assert made.headers["location"] == f"/v1/quotes/{quote['id']}"
    return quote


async def refused(caller: Caller, **body: Any) -> dict[str, Any]:
    answer = await caller.post("/v1/leases", json=body)
    assert answer.status_code >= 400
    problem: dict[str, Any] = answer.json()
    return problem


def pointers(problem: dict[str, Any]) -> list[str]:
    return [error["pointer"] for error in problem["errors"]]


async def test_a_quote_shows_at_most_twenty_candidates(alice: Caller, fleet: Fleet) -> None:
    for number in range(30):
        fleet.offering("g5.xlarge", zone=f"us-east-1-{number:02}")
    assert len((await quoted(alice))["plan"]["candidates"]) == 20


async def test_a_quote_is_the_plan_with_its_price_for_the_term(alice: Caller) -> None:
    quote = await quoted(alice)
    assert (quote["price_per_hour"], quote["total"], quote["currency"]) == ("1.006", "2.012", "USD")
    plan = quote["plan"]
    assert [one["offering"]["zone"] for one in plan["candidates"]] == ["us-east-1a", "us-east-1b"]
    assert (plan["admissible"], plan["quota"]["fits"]) == (True, True)
    assert (await alice.get(f"/v1/quotes/{quote['id']}")).json() == quote


PARTS = """
    INSERT INTO part_price (account, region, part, instance_type, price, price_as_of, price_source, price_live)
    SELECT DISTINCT account, region, part, '*', price, now(), 'test', true
    FROM offering, (VALUES ('disk', 0.073), ('address', 0.005)) AS p (part, price)
"""
SMALL = {**ASKED, "disk_gib": 30}


async def test_quote_plan_and_admission_count_the_disks_and_the_address_that_are_billed(
    alice: Caller, fleet: Fleet
) -> None:
    fleet.run(PARTS)
    fleet.run("""UPDATE account SET vm_parts = '{"data_disk_gib": 200}'""")
    fleet.run("""INSERT INTO account_region (account, region) SELECT DISTINCT account, region FROM offering
        ON CONFLICT DO NOTHING""")
    fleet.run("""UPDATE account_region SET image_gib = '{"driver:nvidia": 75}'""")
    quote = await quoted(alice, disk_gib=30)
    rate = Decimal("1.006") + Decimal("0.0275") + Decimal("0.005")
    assert (Decimal(quote["price_per_hour"]), Decimal(quote["total"])) == (rate, rate * 2)
    first = quote["plan"]["candidates"][0]
    assert (first["disk_gib"], Decimal(first["offering"]["price_per_hour"]), Decimal(first["price_for_term"])) == (
        275,
        rate,
        rate * 2,
    )
    plan = (await alice.post("/v1/leases/plan", json=SMALL)).json()
    assert (Decimal(plan["cost"]["price_per_hour"]), Decimal(plan["cost"]["price_for_term"])) == (rate, rate * 2)
    lease = (await alice.post("/v1/leases", json={"quote_id": quote["id"]})).json()
    assert (Decimal(lease["estimate"]["price_per_hour"]), lease["estimate"]["covers"]) == (rate, "compute_disk_address")
    assert fleet.run("SELECT minimum_rate, max_rate FROM lease") == [{"minimum_rate": rate, "max_rate": rate}]


async def test_an_account_without_public_addresses_quotes_none(alice: Caller, fleet: Fleet) -> None:
    fleet.run(PARTS)
    fleet.run("""UPDATE account SET vm_parts = '{"public_addresses": false}'""")
    quote = await quoted(alice, disk_gib=100)
    assert Decimal(quote["price_per_hour"]) == Decimal("1.016")


async def test_a_quote_covers_dearer_disks_no_more_than_dearer_compute(
    make_settings: MakeSettings, alice: Caller, fleet: Fleet
) -> None:
    fleet.run(PARTS)
    quote = await quoted(alice)
    fleet.run("UPDATE part_price SET price = price * 2 WHERE part = 'disk'")
    async with serving(make_settings()) as other:
        problem = await refused(Caller(other, alice.key, alice.tenant_id), quote_id=quote["id"])
    assert (problem["code"], pointers(problem)) == ("price_cap_too_low", ["#/body/quote_id"])


async def test_a_quote_of_what_nothing_serves_is_refused_like_the_lease(alice: Caller) -> None:
    answer = await alice.post("/v1/quotes", json={**ASKED, "regions": ["us-east-1"], "min_vcpus": 1000})
    assert (answer.status_code, answer.json()["code"]) == (409, "no_offering")


async def test_a_quote_buys_no_offering_that_was_cordoned_since(
    make_settings: MakeSettings, alice: Caller, operator: Caller
) -> None:
    quote = await quoted(alice)
    wish = {"cordoned": True, "offerings": {"region": "us-east-1", "instance_type": "g5.xlarge"}}
    assert (await operator.put("/v1/ops/accounts/main/cordon", json=wish)).status_code == 200
    async with serving(make_settings()) as other:
        problem = await refused(Caller(other, alice.key, alice.tenant_id), quote_id=quote["id"])
    assert (problem["code"], problem["retryable"]) == ("no_offering", True)
    assert "cordoned" in {group["code"] for group in problem["excluded"]}


async def test_a_lease_needs_only_the_quote_and_never_costs_more_an_hour(alice: Caller, fleet: Fleet) -> None:
    quote = await quoted(alice)
    made = await alice.post("/v1/leases", json={"quote_id": quote["id"]})
    assert made.status_code == 201, made.text
    lease = made.json()
    assert (lease["quote_id"], lease["labels"]) == (quote["id"], {"team": "a"})
    [stored] = fleet.run("SELECT max_rate FROM lease")
    assert stored["max_rate"] == Decimal(quote["price_per_hour"])
    assert (lease["request"]["ttl_seconds"], lease["request"]["gpu"]["model"]) == (7200, "A10G")


async def test_a_maximum_of_the_caller_stays(alice: Caller) -> None:
    quote = await quoted(alice, max_price_per_hour="9")
    made = await alice.post("/v1/leases", json={"quote_id": quote["id"], **ASKED, "max_price_per_hour": "9"})
    assert made.json()["request"]["max_price_per_hour"] == "9"


async def test_what_decides_no_price_may_differ_and_the_rest_must_equal_the_quote(alice: Caller) -> None:
    quote = await quoted(alice, startup_script="#!/bin/sh\ntrue")
    given = {"quote_id": quote["id"], "name": "run-1", "labels": {}, "ssh_public_keys": [SSH_KEY]}
    problem = await refused(alice, **given, gpu={"model": "A100"}, ttl_seconds=3600)
    assert problem["code"] == "invalid_request"
    assert sorted(pointers(problem)) == ["#/body/gpu", "#/body/startup_script", "#/body/ttl_seconds"]
    made = await alice.post("/v1/leases", json={**given, "ttl_seconds": 7200, "startup_script": "#!/bin/sh\ntrue"})
    assert made.status_code == 201, made.text
    lease = made.json()
    assert (lease["name"], lease["labels"], lease["request"]["ssh_public_keys"]) == ("run-1", {}, [SSH_KEY])


async def test_a_lease_whose_price_has_risen_fails(make_settings: MakeSettings, alice: Caller, fleet: Fleet) -> None:
    quote = await quoted(alice)
    fleet.run("UPDATE offering SET price_per_hour = price_per_hour * 1.05")
    async with serving(make_settings()) as other:
        problem = await refused(Caller(other, alice.key, alice.tenant_id), quote_id=quote["id"])
    assert (problem["code"], pointers(problem)) == ("price_cap_too_low", ["#/body/quote_id"])


async def test_an_expired_quote_is_refused_but_a_repeated_create_is_answered(alice: Caller, fleet: Fleet) -> None:
    quote = await quoted(alice)
    key = {"Idempotency-Key": "one"}
    first = await alice.post("/v1/leases", json={"quote_id": quote["id"]}, headers=key)
    fleet.run(EXPIRE)
    again = await alice.post("/v1/leases", json={"quote_id": quote["id"]}, headers=key)
    assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
    assert (await refused(alice, quote_id=quote["id"]))["code"] == "quote_expired"
    assert (await alice.get(f"/v1/quotes/{quote['id']}")).status_code == 200


async def test_a_quote_of_another_tenant_does_not_exist(alice: Caller, bob: Caller, operator: Caller) -> None:
    quote = await quoted(alice)
    assert (await bob.get(f"/v1/quotes/{quote['id']}")).status_code == 404
    assert (await refused(bob, quote_id=quote["id"]))["code"] == "invalid_request"
    assert (await refused(operator, quote_id=quote["id"], tenant_id=bob.tenant_id))["code"] == "invalid_request"
    made = await operator.post("/v1/leases", json={"quote_id": quote["id"], "tenant_id": alice.tenant_id})
    assert made.status_code == 201, made.text


@pytest.mark.parametrize("path", ["/v1/quotes", "/v1/leases/plan"])
async def test_only_a_create_takes_a_quote(alice: Caller, path: str) -> None:
    answer = await alice.post(path, json={"quote_id": (await quoted(alice))["id"]})
    assert (answer.status_code, pointers(answer.json())) == (422, ["#/body/quote_id"])


async def test_without_a_quote_a_term_is_required(alice: Caller) -> None:
    assert pointers(await refused(alice, gpu={"model": "A10G"})) == ["#/body/ttl_seconds"]
