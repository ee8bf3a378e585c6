"""Operators cordon some offerings of an account: one name in each view, and what is refused."""

import time
from typing import Any

import psycopg
import pytest

from app.api.schemas.accounts import Account
from app.api.schemas.ops_summary import OpsSummary
from tests.api.conftest import Caller, MakeSettings
from tests.api.fleet import Fleet
from tests.api.test_ops import keeps_to, make


@pytest.fixture
def make_settings(make_settings: MakeSettings) -> MakeSettings:
    """As ever, with a summary that is always read anew."""
    return lambda **overrides: make_settings(catalogue_cache_seconds=0, **overrides)


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


WHERE = {"region": "us-east-1", "zone": "us-east-1a", "instance_type": "g5.xlarge", "market": None}
CORDON = "/v1/ops/accounts/main/cordon"


async def cordon(operator: Caller, *, cordoned: bool = True, note: str | None = None, **where: str) -> list[Any]:
    """The cordons of the region after the change."""
    selected = {"region": "us-east-1", **where}
    answer = await operator.put(CORDON, json={"cordoned": cordoned, "note": note, "offerings": selected})
    assert answer.status_code == 200, answer.text
    keeps_to(Account, answer.content)
    assert answer.json()["cordoned"] is None, "the account as a whole stays open"
    (region,) = answer.json()["regions"]
    cordons: list[Any] = region["cordons"]
    return cordons


async def test_a_cordon_of_offerings_has_one_name_in_each_view(alice: Caller, operator: Caller) -> None:
    (cordoned,) = await cordon(operator, zone="us-east-1a", instance_type="g5.xlarge", note="bad image")
    assert (cordoned["zone"], cordoned["instance_type"], cordoned["market"]) == ("us-east-1a", "g5.xlarge", None)
    wish = {"instance_types": ["g5.xlarge"], "market": "any", "ttl_seconds": 3600}
    plan = (await alice.post("/v1/leases/plan", json=wish)).json()
    assert [one["offering"]["zone"] for one in plan["candidates"]] == ["us-east-1b"]
    excluded = [one for one in plan["excluded"] if one["code"] == "cordoned"]
    assert {one["offering"]["market"] for one in excluded} == {"on_demand", "spot"}
    assert {one["detail"] for one in excluded} == {"cordoned by an operator"}
    listed = (await alice.get("/v1/offerings?instance_type=g5.xlarge")).json()["items"]
    assert "bad image" not in str((plan, listed)), "the note is for operators"
    reasons = {one["zone"]: (one["availability"]["status"], one["availability"]["reason"]) for one in listed}
    assert reasons["us-east-1a"] == ("unavailable", "cordoned by an operator")
    assert reasons["us-east-1b"] == ("unknown", None)
    summary = await operator.get("/v1/ops/summary")
    keeps_to(OpsSummary, summary.content)
    (brake,) = summary.json()["active_brakes"]
    assert (brake["brake"], brake["account"], brake["region"]) == ("offering_cordon", "main", "us-east-1")
    assert brake["message"] == f"g5.xlarge, us-east-1a, every market, by {cordoned['by']}: bad image"
    (account,) = (await operator.get("/v1/ops/accounts")).json()["items"]
    assert (account["brakes"], account["regions"][0]["cordons"]) == (["offering_cordon"], [cordoned])
    assert await cordon(operator, zone="us-east-1a", instance_type="g5.xlarge", cordoned=False) == []
    assert len((await alice.post("/v1/leases/plan", json=wish)).json()["candidates"]) == 3


async def test_a_lease_of_which_every_offering_is_cordoned_is_refused_or_waits_by_that_name(
    alice: Caller, operator: Caller
) -> None:
    waiting = await make(alice)
    await cordon(operator)
    refused = await alice.post("/v1/leases", json={"gpu": {"model": "A10G"}, "ttl_seconds": 3600})
    assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (409, "no_offering", True)
    assert "cordoned" in {group["code"] for group in refused.json()["excluded"]}
    groups = (await alice.get(f"/v1/leases/{waiting}/explain")).json()["excluded"]
    assert "cordoned by an operator" in {group["nearest_detail"] for group in groups}


async def test_a_cordon_that_is_sent_twice_is_made_once(operator: Caller, fleet: Fleet) -> None:
    first = await cordon(operator, instance_type="g5.xlarge", note="slow")
    assert await cordon(operator, instance_type="g5.xlarge", note="slow") == first
    (other,) = await cordon(operator, instance_type="g5.xlarge", note="slower")
    assert (other["note"], len(first)) == ("slower", 1)
    for _ in range(2):
        assert await cordon(operator, instance_type="g5.xlarge", cordoned=False) == []
    entries = fleet.run("SELECT action, target, before, after FROM audit WHERE action LIKE 'offerings.%%' ORDER BY id")
    assert [(one["action"], one["target"]) for one in entries] == [
        *(("offerings.cordon", "main/us-east-1"), ("offerings.cordon", "main/us-east-1")),
        ("offerings.uncordon", "main/us-east-1"),
    ]
    assert [one["before"]["cordoned"] for one in entries] == [None, first[0], other]
    assert [one["after"]["cordoned"] for one in entries] == [first[0], other, None]


async def test_a_narrow_and_a_wide_cordon_end_one_by_one(alice: Caller, operator: Caller) -> None:
    await cordon(operator, market="spot")
    assert len(await cordon(operator, zone="us-east-1a", instance_type="g5.xlarge")) == 2
    await cordon(operator, zone="us-east-1a", instance_type="g5.xlarge", cordoned=False)
    wish = {"instance_types": ["g5.xlarge"], "market": "any", "ttl_seconds": 3600}
    candidates = (await alice.post("/v1/leases/plan", json=wish)).json()["candidates"]
    assert [one["offering"]["market"] for one in candidates] == ["on_demand"] * 2


@pytest.mark.parametrize(
    ("where", "pointer"),
    [
        ({"region": "eu-west-1"}, "#/body/offerings/region"),
        ({"region": "us-east-1", "instance_type": "g5.xlarg"}, "#/body/offerings"),
        ({"region": "us-east-1", "zone": "us-east-1b", "market": "spot"}, "#/body/offerings"),
    ],
)
async def test_a_cordon_of_nothing_is_refused(
    operator: Caller, fleet: Fleet, where: dict[str, str], pointer: str
) -> None:
    answer = await operator.put(CORDON, json={"cordoned": True, "offerings": where})
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer)
    assert fleet.run("SELECT FROM audit WHERE action LIKE 'offerings.%%'") == []


async def test_only_operators_cordon_offerings_of_accounts_that_exist(alice: Caller, operator: Caller) -> None:
    wish = {"cordoned": True, "offerings": WHERE}
    forbidden = await alice.put(CORDON, json=wish)
    assert (forbidden.status_code, forbidden.json()["code"]) == (403, "forbidden")
    assert (await operator.put("/v1/ops/accounts/other/cordon", json=wish)).status_code == 404


async def test_a_region_has_a_hundred_cordons_at_most(operator: Caller, fleet: Fleet) -> None:
    for number in range(101):
        fleet.offering("g5.xlarge", zone=f"zone-{number}")
    for number in range(100):
        await cordon(operator, zone=f"zone-{number}")
    answer = await operator.put(
        CORDON, json={"cordoned": True, "offerings": {"region": "us-east-1", "zone": "zone-100"}}
    )
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "#/body/offerings")
    assert len(await cordon(operator, zone="zone-0", note="changed")) == 100
    assert len(await cordon(operator, zone="zone-0", cordoned=False)) == 99


async def test_a_cordon_waits_for_no_locked_row(operator: Caller, fleet: Fleet, database_url: str) -> None:
    with psycopg.connect(database_url) as other:
        other.execute("SELECT FROM account_region FOR UPDATE")
        began = time.monotonic()
        answer = await operator.put(CORDON, json={"cordoned": True, "offerings": WHERE})
        assert (answer.status_code, time.monotonic() - began < 10) == (503, True)
    assert fleet.run("SELECT cordons FROM account_region") == [{"cordons": []}]
