"""GET /v1/offerings and POST /v1/leases/plan."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from app.api.schemas.offerings import LeasePlan, OfferingPage
from app.services.offering_cache import OfferingCache
from tests.api.conftest import Caller, MakeSettings, new_tenant, serving
from tests.api.fleet import Fleet


@pytest.fixture
def make_settings(make_settings: MakeSettings) -> MakeSettings:
    """As ever, with a catalogue that is always read anew."""
    return lambda **overrides: make_settings(catalogue_cache_seconds=0, **overrides)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


def wish(**changes: Any) -> dict[str, Any]:
    return {"gpu": {"model": "A10G"}, "ttl_seconds": 7200, **changes}


def keeps_to(model: type[BaseModel], content: bytes) -> None:
    parsed = model.model_validate_json(content, strict=True)
    assert json.loads(parsed.model_dump_json()) == json.loads(content)


async def names(caller: Caller, query: str) -> list[str]:
    answer = await caller.get(f"/v1/offerings{query}")
    assert answer.status_code == 200, answer.text
    return [f"{one['instance_type']} {one['zone'][-1]} {one['market']}" for one in answer.json()["items"]]


async def test_the_cheapest_comes_first_and_unknown_prices_last(alice: Caller, fleet: Fleet) -> None:
    fleet.offering("p4d.24xlarge", market="spot", price_per_hour=None)
    assert await names(alice, "") == [
        "g5.xlarge a spot",
        "g5.xlarge a on_demand",
        "g5.xlarge b on_demand",
        "g5.12xlarge a on_demand",
        "p4d.24xlarge a on_demand",
        "p4d.24xlarge a spot",
    ]
    by_gpu = await names(alice, "?sort=price_per_gpu")
    assert by_gpu[3:5] == ["g5.12xlarge a on_demand", "p4d.24xlarge a on_demand"]
    keeps_to(OfferingPage, (await alice.get("/v1/offerings")).content)


async def test_a_read_of_the_catalogue_makes_only_the_offerings_that_changed(alice: Caller, fleet: Fleet) -> None:
    catalogue: OfferingCache = alice.app.state.services.offerings._catalogue
    before = {offering.key: offering for offering in (await catalogue.snapshot()).offerings}
    fleet.run("UPDATE offering SET launches = launches + 1 WHERE instance_type = 'p4d.24xlarge'")
    fleet.run("DELETE FROM offering WHERE instance_type = 'g5.12xlarge'")
    after = (await catalogue.snapshot()).offerings
    changed = [offering for offering in after if offering is not before[offering.key]]
    assert [(offering.key.instance_type, offering.launches) for offering in changed] == [("p4d.24xlarge", 1)]
    assert len(after) == len(before) - 1


async def test_a_price_says_how_far_it_can_be_believed(alice: Caller, fleet: Fleet) -> None:
    fleet.run("DELETE FROM offering")
    for zone, age, live in (("a", "6 days", True), ("b", "8 days", True), ("c", "400 days", False)):
        fleet.offering("g5.xlarge", zone=f"us-east-1{zone}", price_live=live)
        fleet.run("UPDATE offering SET price_as_of = now() - %s::interval WHERE zone = %s", age, f"us-east-1{zone}")
    fleet.offering("p4d.24xlarge", price_per_hour=None)
    items = (await alice.get("/v1/offerings")).json()["items"]
    assert [one["price_status"] for one in items] == ["live", "stale", "listed", "missing"]
    plan = (await alice.post("/v1/leases/plan", json=wish(gpu={"model": "A100", "count": 8}))).json()
    assert {one["code"] for one in plan["excluded"] if one["offering"]["price_status"] == "missing"} == {"no_price"}


async def test_every_filter_keeps_what_it_says(alice: Caller) -> None:
    cases = {
        "?gpu_model=A100": ["p4d.24xlarge a on_demand"],
        "?min_gpus=4": ["g5.12xlarge a on_demand", "p4d.24xlarge a on_demand"],
        "?min_gpu_memory_gib=40": ["p4d.24xlarge a on_demand"],
        "?market=spot": ["g5.xlarge a spot"],
        "?gpu_vendor=AMD": [],
        "?interconnect=NVLink": [],
        "?min_vcpus=96&min_memory_gib=1152&gpu_vendor=NVIDIA": ["p4d.24xlarge a on_demand"],
        "?min_local_disk_gib=1": [],
        "?provider=gcp": [],
        "?account=main&region=us-east-1&instance_type=g5.12xlarge": ["g5.12xlarge a on_demand"],
        "?max_price_per_hour=1": ["g5.xlarge a spot"],
    }
    for query, expected in cases.items():
        assert await names(alice, query) == expected, query


async def test_what_the_account_cannot_buy_is_not_listed_but_explains_a_plan(alice: Caller, fleet: Fleet) -> None:
    fleet.offering("p4d.24xlarge", market="spot", price_per_hour=None, obstacle="reserved_only")
    assert await names(alice, "?gpu_model=A100&market=spot") == []
    eight = {"model": "A100", "count": 8}
    plan = (await alice.post("/v1/leases/plan", json=wish(gpu=eight, market="spot"))).json()
    assert "reserved_only" in {one["code"] for one in plan["excluded"]}
    refused = await alice.post("/v1/leases", json=wish(gpu=eight, market="spot"))
    (reason,) = [one for one in refused.json()["excluded"] if one["code"] == "reserved_only"]
    assert reason["nearest"].endswith("without a known price: aws sells it spot only as reserved capacity")


async def test_pages_show_each_offering_once(alice: Caller) -> None:
    for sort in ("price", "price_per_gpu"):
        page = (await alice.get(f"/v1/offerings?limit=2&sort={sort}")).json()
        seen = [json.dumps(one) for one in page["items"]]
        for _ in range(2):
            page = (await alice.get(f"/v1/offerings?limit=2&sort={sort}&cursor={page['next_cursor']}")).json()
            seen += [json.dumps(one) for one in page["items"]]
        assert page["next_cursor"] is None
        assert len(seen) == len(set(seen)) == 5
    wrong = await alice.get("/v1/offerings?sort=price&cursor=x")
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "#/query/cursor")


async def test_availability_says_what_is_known(alice: Caller, operator: Caller, fleet: Fleet) -> None:
    fleet.run("UPDATE offering SET launches = 3 WHERE instance_type = 'g5.12xlarge'")
    fleet.run(
        "UPDATE offering SET cool_until = now() + interval '1 minute', cool_reason = 'capacity', cool_count = 1 "
        "WHERE instance_type = 'p4d.24xlarge'"
    )
    fleet.cordon(zone="us-east-1b")
    found = {
        (one["instance_type"], one["zone"][-1], one["market"]): one["availability"]
        for one in (await alice.get("/v1/offerings")).json()["items"]
    }
    assert found["g5.12xlarge", "a", "on_demand"]["status"] == "available"
    assert found["g5.xlarge", "a", "spot"]["status"] == "unknown"
    cooling = found["p4d.24xlarge", "a", "on_demand"]
    assert (cooling["status"], cooling["reason"]) == ("cooling_off", "capacity")
    assert cooling["until"] is not None
    assert found["g5.xlarge", "b", "on_demand"]["status"] == "unavailable"
    fleet.run("""UPDATE account SET state = 'failing', last_error = '{"message": "role 1234 is denied"}'""")
    assert "1234" not in (await alice.get("/v1/offerings")).text
    assert "1234" in (await operator.get("/v1/offerings")).text


async def test_a_list_that_did_not_change_is_not_sent_again(alice: Caller, fleet: Fleet) -> None:
    first = await alice.get("/v1/offerings")
    known = {"If-None-Match": first.headers["etag"]}
    assert (await alice.get("/v1/offerings", headers=known)).status_code == 304
    fleet.run("UPDATE offering SET price_per_hour = 2 WHERE instance_type = 'g5.12xlarge'")
    assert (await alice.get("/v1/offerings", headers=known)).status_code == 200


async def test_a_plan_shows_order_exclusions_quota_and_cost_and_changes_nothing(alice: Caller, fleet: Fleet) -> None:
    answer = await alice.post("/v1/leases/plan", json=wish(gpu={"model": "A10G", "min_count": 1}))
    assert answer.status_code == 200, answer.text
    keeps_to(LeasePlan, answer.content)
    plan = answer.json()
    assert [(one["rank"], one["offering"]["instance_type"], one["quota_fits"]) for one in plan["candidates"]] == [
        (1, "g5.xlarge", True),
        (2, "g5.xlarge", True),
        (3, "g5.12xlarge", True),
    ]
    assert plan["cost"] == {
        "price_per_hour": "1.006",
        "parts": {"compute": "1.006", "disk": None, "address": None},
        "price_for_term": "2.012",
        "currency": "USD",
        "covers": "compute_disk_address",
    }
    assert [(one["code"], one["offering"]["market"]) for one in plan["excluded"]] == [
        ("market", "spot"),
        ("gpu_model", "on_demand"),
    ]
    groups = [(one["code"], one["count"], one["nearest"]["instance_type"]) for one in plan["excluded_by_reason"]]
    assert groups == [("gpu_model", 1, "p4d.24xlarge"), ("market", 1, "g5.xlarge")]
    assert (plan["admissible"], plan["quota"]["fits"], plan["launches_stopped"]) == (True, True, False)
    needs = {
        one["resource"]: (one["limit"], one["used"], one["asked"], one["fits"]) for one in plan["quota"]["resources"]
    }
    assert needs["gpus"] == (8, 0, 1, True)
    assert needs["gpus:A10G"] == (None, 0, 1, True)
    assert fleet.run("SELECT count(*) AS n FROM lease") == [{"n": 0}]
    assert fleet.run("SELECT count(*) AS n FROM quota WHERE used > 0") == [{"n": 0}]


async def test_a_plan_has_pages_and_a_limit_of_its_own(alice: Caller, fleet: Fleet) -> None:
    for number in range(30):
        fleet.offering("g5.xlarge", zone=f"us-east-1-{number:02}")
        fleet.offering("p4d.24xlarge", zone=f"us-east-1-{number:02}")
    asked = wish(gpu={"model": "A10G", "min_count": 1})
    plan = (await alice.post("/v1/leases/plan", json=asked)).json()
    assert (len(plan["candidates"]), plan["candidates_count"]) == (20, 33)
    assert (len(plan["excluded"]), plan["excluded_count"]) == (20, 32)
    whole = (await alice.post("/v1/leases/plan?limit=200", json=asked)).json()
    assert (len(whole["candidates"]), len(whole["excluded"])) == (33, 32)
    rest = (await alice.post("/v1/leases/plan?skip=20", json=asked)).json()
    for name in ("candidates", "excluded"):
        assert plan[name] + rest[name] == whole[name]
    for name in ("admissible", "cost", "quota", "excluded_by_reason"):
        assert plan[name] == rest[name] == whole[name]


async def test_a_plan_tells_short_quota_and_missing_offerings_without_refusing(operator: Caller) -> None:
    poor = await new_tenant(operator, "poor", gpus=2)
    plan = (await poor.post("/v1/leases/plan", json=wish(gpu={"model": "A10G", "min_count": 1}, market="any"))).json()
    assert [one["quota_fits"] for one in plan["candidates"]] == [True, True, True, False]
    nothing = (await poor.post("/v1/leases/plan", json=wish(gpu={"model": "A100"}))).json()
    assert (nothing["candidates"], nothing["admissible"], nothing["cost"]) == ([], False, None)
    assert len(nothing["excluded"]) == 5
    broke = (await poor.post("/v1/leases/plan", json=wish(gpu={"model": "A10G", "count": 4}))).json()
    assert (broke["admissible"], broke["quota"]["fits"]) == (False, False)


async def test_a_plan_refuses_what_a_create_would(alice: Caller, operator: Caller) -> None:
    long = await alice.post("/v1/leases/plan", json=wish(ttl_seconds=86_401))
    assert (long.status_code, long.json()["errors"][0]["pointer"]) == (422, "#/body/ttl_seconds")
    assert (await operator.post("/v1/leases/plan", json=wish())).status_code == 422
    await operator.patch(f"/v1/tenants/{alice.tenant_id}", json={"status": "suspended"})
    assert (await alice.post("/v1/leases/plan", json=wish())).json()["code"] == "tenant_suspended"


async def test_the_catalogue_is_read_once_within_its_cache_time(
    database_url: str, make_settings: MakeSettings, alice: Caller, fleet: Fleet
) -> None:
    async with serving(make_settings().model_copy(update={"catalogue_cache_seconds": 3600.0})) as app:
        async with Caller(app, alice.key) as caller:
            assert len(await names(caller, "")) == 5
            fleet.offering("g5.12xlarge", zone="us-east-1c")
            assert len(await names(caller, "")) == 5
        assert len(await names(alice, "")) == 6


FAILED_READING = """
    INSERT INTO periodic_job (name, kind, account, region, interval_seconds, last_error)
    VALUES ('offerings main us-east-1', 'offerings', 'main', 'us-east-1', 60, 'Unreachable: Timeout no answer')
    ON CONFLICT (name) DO UPDATE SET last_error = excluded.last_error
"""


async def test_a_catalogue_that_cannot_be_read_is_the_cause_in_plan_refusal_and_accounts(
    alice: Caller, operator: Caller, fleet: Fleet
) -> None:
    fleet.run("INSERT INTO account_region (account, region) VALUES ('main', 'us-east-1') ON CONFLICT DO NOTHING")
    plan = (await alice.post("/v1/leases/plan", json=wish())).json()
    assert plan["catalogue_error"] is None
    fleet.run("DELETE FROM offering")
    fleet.run(FAILED_READING)
    sentence = "The offerings of aws in us-east-1 cannot be read at present"
    plan = (await alice.post("/v1/leases/plan", json=wish())).json()
    assert plan["catalogue_error"] == f"{sentence}."
    refused = (await alice.post("/v1/leases", json=wish())).json()
    assert refused["detail"] == f"The catalogue is empty. {sentence}."
    asked = wish(tenant_id=alice.tenant_id)
    plan = (await operator.post("/v1/leases/plan", json=asked)).json()
    assert plan["catalogue_error"] == f"{sentence}: account main: Unreachable: Timeout no answer."
    (account,) = (await operator.get("/v1/ops/accounts")).json()["items"]
    assert account["state"] == "failing_catalogue"
    assert [region["catalogue_error"] for region in account["regions"]] == ["Unreachable: Timeout no answer"]
