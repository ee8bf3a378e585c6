"""Budgets through the API: who sets which, what they count, and what they refuse."""

import asyncio
from collections import Counter
from datetime import datetime
from typing import Any

import pytest

from app.domain.budgets import MOST, MOST_OF_KEY, MOST_SHARED
from tests.api.conftest import Caller
from tests.api.fleet import Fleet

WISH: dict[str, Any] = {"gpu": {"model": "A10G", "count": 1}, "market": "on_demand", "ttl_seconds": 3600}
"""Its cheapest offering costs 1.006 USD an hour."""


@pytest.fixture(autouse=True)
def fleet(database_url: str) -> Fleet:
    made = Fleet(database_url)
    made.catalogue()
    return made


def budget(amount: str, kind: str = "tenant", **changes: Any) -> dict[str, Any]:
    scope: dict[str, Any] = {
        "kind": kind,
        **{name: changes.pop(name) for name in ("tenant_id", "key_id", "label") if name in changes},
    }
    return {"scope": scope, "period": "lifetime", "amount": amount, **changes}


async def made(caller: Caller, amount: str, kind: str = "tenant", **changes: Any) -> dict[str, Any]:
    answer = await caller.post("/v1/budgets", json=budget(amount, kind, **changes))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def lease(caller: Caller, **changes: Any) -> Any:
    return await caller.post("/v1/leases", json={**WISH, **changes})


async def shown(caller: Caller, budget_id: str) -> dict[str, Any]:
    answer = await caller.get(f"/v1/budgets/{budget_id}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def amounts(found: dict[str, Any]) -> tuple[str, str, str, bool]:
    return found["spent"], found["committed"], found["available"], found["exceeded"]


async def test_a_budget_is_shown_with_its_period_and_amounts(alice: Caller) -> None:
    answer = await alice.post("/v1/budgets", json=budget("100", period="month", thresholds=[80, 50]))
    found = answer.json()
    assert answer.headers["Location"] == f"/v1/budgets/{found['id']}"
    assert found["scope"] == {"kind": "tenant", "tenant_id": alice.tenant_id, "key_id": None, "label": None}
    assert (found["amount"], found["thresholds"], found["when_exceeded"]) == ("100.00", [50, 80], "refuse")
    assert (found["set_by"], found["version"]) == ("admin", 1)
    assert amounts(found) == ("0.00", "0.00", "100.00", False)
    started, resets = (datetime.fromisoformat(found[name]) for name in ("period_started_at", "resets_at"))
    assert started <= datetime.fromisoformat(found["created_at"]) < resets
    assert (started.day, resets.day, (resets.month - started.month) % 12) == (1, 1, 1)
    assert (await alice.get("/v1/budgets")).json()["items"] == [found]
    assert await shown(await alice.member("viewer"), found["id"]) == found


async def test_a_lease_holds_its_rate_for_its_term_and_the_next_one_is_refused(alice: Caller) -> None:
    whole = await made(alice, "1.5")
    assert (await lease(alice)).status_code == 201
    assert amounts(await shown(alice, whole["id"])) == ("0.00", "1.006", "0.494", False)
    refused = await lease(alice)
    assert (refused.status_code, refused.json()["code"], refused.json()["retryable"]) == (409, "budget_exceeded", True)
    told = {name: refused.json()[name] for name in ("budget_id", "budget", "spent", "committed", "asked", "resets_at")}
    assert told == {
        "budget_id": whole["id"],
        "budget": "1.50",
        "spent": "0.00",
        "committed": "1.006",
        "asked": "1.006",
        "resets_at": None,
    }
    assert (await lease(alice, ttl_seconds=1500)).status_code == 201


async def test_a_plan_shows_which_budgets_have_no_room(alice: Caller) -> None:
    whole = await made(alice, "1.5")
    await made(alice, "9", when_exceeded="notify")
    for ttl, fits, asked in ((3600, True, "1.006"), (7200, False, "2.012")):
        plan = (await alice.post("/v1/leases/plan", json={**WISH, "ttl_seconds": ttl})).json()
        assert plan["admissible"] is fits
        assert plan["budgets"] == [
            {
                "budget_id": whole["id"],
                "amount": "1.50",
                "spent": "0.00",
                "committed": "0.00",
                "asked": asked,
                "fits": fits,
            }
        ]


@pytest.mark.parametrize("kind", ["tenant", "key", "label"])
async def test_of_many_creates_at_once_exactly_as_many_are_admitted_as_fit(
    operator: Caller, alice: Caller, kind: str
) -> None:
    limit = {"limits": [{"resource": resource, "limit": 1000} for resource in ("gpus", "leases")]}
    assert (await operator.put(f"/v1/tenants/{alice.tenant_id}/quotas", json=limit)).status_code == 200
    mine = (await alice.get("/v1/me")).json()["key_id"]
    named = {"key": {"key_id": mine}, "label": {"label": "team:race"}}.get(kind, {})
    scarce = await made(alice, "10.5", kind, **named)
    await made(alice, "1000", when_exceeded="notify")
    answers = await asyncio.gather(*(lease(alice, labels={"team": "race"}) for _ in range(30)))
    assert Counter(answer.status_code for answer in answers) == {201: 10, 409: 20}
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"budget_exceeded"}
    assert (await shown(alice, scarce["id"]))["committed"] == "10.06"


async def test_a_refused_lease_reserves_nothing_at_all(alice: Caller, fleet: Fleet) -> None:
    await made(alice, "10")
    await made(alice, "1", "label", label="team:vision")
    assert (await lease(alice, labels={"team": "vision"})).status_code == 409
    assert not any(row["used"] for row in fleet.run("SELECT used FROM quota"))
    assert (await lease(alice, labels={"team": "speech"})).status_code == 201


async def test_a_budget_that_notifies_refuses_nothing_and_is_shown_as_exceeded(alice: Caller) -> None:
    only_told = await made(alice, "1", when_exceeded="notify")
    assert (await lease(alice)).status_code == 201
    assert amounts(await shown(alice, only_told["id"])) == ("0.00", "1.006", "0.00", True)


async def test_what_a_lease_costs_is_spent_and_stays_spent_when_it_ends(alice: Caller, fleet: Fleet) -> None:
    whole = await made(alice, "5")
    lease_id = (await lease(alice)).json()["id"]
    fleet.activate(lease_id)
    found = await shown(alice, whole["id"])
    assert 1.006 <= float(found["spent"]) < 1.1
    fleet.run("UPDATE lease SET cost_closed = 0.3, rate_per_hour = NULL, rate_since = NULL WHERE id = %s", lease_id)
    assert amounts(await shown(alice, whole["id"]))[:2] == ("0.30", "0.706")


async def test_a_released_lease_commits_minutes_and_no_longer_its_term(alice: Caller, fleet: Fleet) -> None:
    whole = await made(alice, "2.5")
    lease_id = (await lease(alice, ttl_seconds=7200)).json()["id"]
    fleet.activate(lease_id)
    assert (await lease(alice)).json().get("code") == "budget_exceeded"
    assert (await alice.delete(f"/v1/leases/{lease_id}")).status_code == 202
    assert (await lease(alice)).status_code == 201
    found = await shown(alice, whole["id"])
    assert 1.006 + 0.15 < float(found["committed"]) < 1.006 + 0.18
    assert float(found["spent"]) >= 1.006, "its real cost counts in any case"


async def test_a_new_budget_counts_the_leases_that_run(alice: Caller, fleet: Fleet) -> None:
    lease_id = (await lease(alice, labels={"team": "vision"})).json()["id"]
    assert amounts(await made(alice, "5", "label", label="team:vision"))[1] != "0.00"
    assert amounts(await made(alice, "5", "label", label="team:speech"))[1] == "0.00"
    fleet.activate(lease_id)
    fleet.run("UPDATE attempt SET billing_started_at = now() - interval '30 minutes'")
    fleet.run("UPDATE lease SET rate_since = now() - interval '30 minutes'")
    month = await made(alice, "5", period="month", when_exceeded="notify")
    assert float(month["spent"]) <= 0.51
    lifetime = await made(alice, "5")
    assert float(lifetime["spent"]) < 0.01, "a lifetime begins with the budget"


async def test_an_amount_below_the_commitment_is_accepted_and_blocks_new_leases(alice: Caller) -> None:
    whole = await made(alice, "3")
    assert (await lease(alice)).status_code == 201
    lowered = await alice.patch(f"/v1/budgets/{whole['id']}", json={"amount": "1"})
    assert (lowered.status_code, lowered.json()["exceeded"], lowered.json()["version"]) == (200, True, 2)
    assert (await lease(alice, ttl_seconds=60)).status_code == 409
    assert (await alice.delete(f"/v1/budgets/{whole['id']}")).status_code == 204
    assert (await lease(alice)).status_code == 201


async def test_an_amount_raised_above_what_is_spent_lets_its_thresholds_be_reached_again(
    alice: Caller, fleet: Fleet
) -> None:
    whole = await made(alice, "100", when_exceeded="notify")
    fleet.run("UPDATE quota SET spent = 85 WHERE resource LIKE 'budget:%%'")
    fleet.run("UPDATE budget SET threshold_told = 80")
    for amount, highest in (("101", 80), ("150", 50), ("1000", 0), ("90", 0)):
        changed = await alice.patch(f"/v1/budgets/{whole['id']}", json={"amount": amount})
        assert changed.status_code == 200, changed.text
        assert fleet.run("SELECT threshold_told FROM budget") == [{"threshold_told": highest}], amount


async def test_a_change_of_another_version_is_refused(alice: Caller) -> None:
    whole = await made(alice, "3")
    path = f"/v1/budgets/{whole['id']}"
    tag = (await alice.get(path)).headers["ETag"]
    assert (await alice.patch(path, json={"amount": "4"}, headers={"If-Match": tag})).status_code == 200
    again = await alice.patch(path, json={"amount": "5"}, headers={"If-Match": tag})
    assert (again.status_code, again.json()["code"]) == (412, "version_conflict")


async def test_an_extension_holds_more_or_is_refused(alice: Caller) -> None:
    whole = await made(alice, "2.5")
    lease_id = (await lease(alice)).json()["id"]
    longer = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
    assert longer.status_code == 200, longer.text
    assert 2 < float((await shown(alice, whole["id"]))["committed"]) <= 2.012
    refused = await alice.post(f"/v1/leases/{lease_id}/extend", json={"extend_by_seconds": 3600})
    assert (refused.status_code, refused.json()["code"]) == (409, "budget_exceeded")
    assert 1 < float(refused.json()["asked"]) <= 1.006
    assert (await alice.get(f"/v1/leases/{lease_id}")).json()["expires_at"] == longer.json()["expires_at"]


async def test_labels_move_a_lease_between_budgets(alice: Caller) -> None:
    vision, speech = [await made(alice, "1.1", "label", label=f"team:{name}") for name in ("vision", "speech")]
    lease_id = (await lease(alice, labels={"team": "vision"})).json()["id"]
    path = f"/v1/leases/{lease_id}"
    assert (await alice.patch(path, json={"labels": {"team": "speech"}})).status_code == 200
    assert (await shown(alice, vision["id"]))["committed"] == "0.00"
    assert float((await shown(alice, speech["id"]))["committed"]) > 1
    assert (await lease(alice, labels={"team": "vision"})).status_code == 201
    refused = await alice.patch(path, json={"labels": {"team": "vision"}})
    assert (refused.status_code, refused.json()["budget_id"]) == (409, vision["id"])
    assert (await alice.get(path)).json()["labels"] == {"team": "speech"}


async def test_a_key_with_a_budget_creates_no_lease_beyond_it(alice: Caller) -> None:
    keys = f"/v1/tenants/{alice.tenant_id}/keys"
    key = await alice.post(keys, json={"name": "agent", "role": "member", "budget": "2.00"})
    assert key.status_code == 201, key.text
    (found,) = (await alice.get("/v1/budgets")).json()["items"]
    assert found["scope"] == {
        "kind": "key",
        "tenant_id": alice.tenant_id,
        "key_id": key.json()["id"],
        "label": None,
    }
    assert (found["period"], found["when_exceeded"], found["thresholds"]) == ("lifetime", "end", [50, 80, 100])
    agent = Caller(alice.app, key.json()["secret"], alice.tenant_id)
    assert (await lease(agent)).status_code == 201
    assert (await lease(agent)).json()["code"] == "budget_exceeded"
    assert (await lease(alice)).status_code == 201


MANY_BUDGETS = """
    INSERT INTO budget (id, tenant_id, kind, key_id, period, period_started_at, amount, thresholds, when_exceeded, set_by)
    SELECT %s || '_' || n, %s, %s, %s, 'lifetime', now(), 1, '[]', 'notify', 'admin' FROM generate_series(1, %s) n
"""


def fill(fleet: Fleet, tenant_id: str, kind: str, key_id: str | None, count: int) -> None:
    fleet.run(MANY_BUDGETS, f"budget_{kind}", tenant_id, kind, key_id, count)


async def test_a_tenant_has_a_limited_number_of_shared_budgets(alice: Caller, fleet: Fleet) -> None:
    fill(fleet, alice.tenant_id, "tenant", None, MOST_SHARED)
    refused = await alice.post("/v1/budgets", json=budget("1"))
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert str(MOST_SHARED) in refused.json()["detail"]


async def test_a_key_has_few_budgets_and_those_of_keys_count_against_the_limit_of_the_tenant(
    alice: Caller, operator: Caller, fleet: Fleet
) -> None:
    keys = f"/v1/tenants/{alice.tenant_id}/keys"
    first, second = [(await alice.post(keys, json={"name": "agent", "role": "member"})).json()["id"] for _ in "ab"]
    fill(fleet, alice.tenant_id, "key", first, MOST_OF_KEY)
    refused = await operator.post("/v1/budgets", json=budget("1", "key", key_id=first, tenant_id=alice.tenant_id))
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    assert str(MOST_OF_KEY) in refused.json()["detail"]
    await made(alice, "1", "key", key_id=second)
    fleet.run("DELETE FROM budget WHERE id LIKE 'budget_key_%%'")
    fill(fleet, alice.tenant_id, "key", first, MOST - 1)
    for refused in (
        await alice.post("/v1/budgets", json=budget("1", "key", key_id=second)),
        await alice.post(keys, json={"name": "agent", "role": "member", "budget": "1"}),
    ):
        assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
        assert str(MOST) in refused.json()["detail"]


async def test_what_leases_hold_above_what_they_may_cost_refuses_nothing(alice: Caller, fleet: Fleet) -> None:
    """A waiting lease holds less the shorter its rest is, and no job has noticed."""
    await made(alice, "2.1")
    first = (await lease(alice)).json()["id"]
    assert (await lease(alice)).status_code == 201
    assert (await lease(alice, ttl_seconds=600)).status_code == 409
    fleet.run("UPDATE lease SET expires_at = now() + interval '30 minutes' WHERE id = %s", first)
    assert (await lease(alice, ttl_seconds=600)).status_code == 201
    later = await alice.post(f"/v1/leases/{first}/extend", json={"extend_by_seconds": 600})
    assert later.status_code == 200, later.text
    fleet.run("UPDATE lease SET expires_at = now() + interval '10 minutes' WHERE id <> %s", first)
    assert (await alice.post(f"/v1/leases/{first}/extend", json={"extend_by_seconds": 1800})).status_code == 200
    refused = await alice.post(f"/v1/leases/{first}/extend", json={"extend_by_seconds": 3600})
    assert refused.json()["code"] == "budget_exceeded"


async def test_the_period_of_now_counts_although_nobody_rolled_the_budget(alice: Caller, fleet: Fleet) -> None:
    daily = await made(alice, "1.5", period="day")
    fleet.run("UPDATE quota SET spent = 1.5 WHERE resource LIKE 'budget:%%'")
    assert (await lease(alice, ttl_seconds=600)).status_code == 409
    fleet.run(
        "UPDATE budget SET period_started_at = period_started_at - interval '1 day', "
        "period_ends_at = period_ends_at - interval '1 day', threshold_told = 80"
    )
    assert (await lease(alice, ttl_seconds=600)).status_code == 201
    found = await shown(alice, daily["id"])
    assert (found["spent"], found["resets_at"]) == ("0.00", daily["resets_at"])


async def test_changes_of_a_lease_count_in_the_period_of_now_although_nobody_rolled_the_budget(
    alice: Caller, fleet: Fleet
) -> None:
    await made(alice, "1.5", period="day")
    created = (await lease(alice, ttl_seconds=600, max_cost="0.2")).json()["id"]
    members = {"gpu": {"model": "A10G"}, "ttl_seconds": 600}
    group = await alice.post("/v1/groups", json={"name": "train", "size": 2, "lease": members})
    assert group.status_code == 201, group.text

    def spend_yesterday() -> None:
        fleet.run("UPDATE quota SET spent = 1.4 WHERE resource LIKE 'budget:%%'")
        fleet.run(
            "UPDATE budget SET period_ends_at = now() - interval '1 second', period_started_at = now() - interval '1 day'"
        )

    spend_yesterday()
    assert (await alice.patch(f"/v1/leases/{created}", json={"max_cost": "0.3"})).status_code == 200
    spend_yesterday()
    later = {"extend_by_seconds": 600}
    assert (await alice.post(f"/v1/leases/{created}/extend", json=later)).status_code == 200
    spend_yesterday()
    extended = await alice.post(f"/v1/groups/{group.json()['id']}/extend", json=later)
    assert extended.status_code == 200, extended.text


async def test_many_creates_at_the_start_of_a_period_are_admitted_as_they_fit(
    operator: Caller, alice: Caller, fleet: Fleet
) -> None:
    limit = {"limits": [{"resource": resource, "limit": 1000} for resource in ("gpus", "leases")]}
    assert (await operator.put(f"/v1/tenants/{alice.tenant_id}/quotas", json=limit)).status_code == 200
    daily = await made(alice, "1.76", period="day")  # ten leases of ten minutes, and a half
    for amount in ("50", "60", "70"):
        await made(alice, amount, period="month")
    fleet.run("UPDATE quota SET spent = 1.7 WHERE resource LIKE 'budget:%%'")
    fleet.run(
        "UPDATE budget SET period_ends_at = now() - interval '1 second', period_started_at = now() - interval '1 day'"
    )
    answers = await asyncio.gather(*(lease(alice, ttl_seconds=600) for _ in range(24)))
    admitted = [answer for answer in answers if answer.status_code == 201]
    codes = Counter(answer.json()["code"] for answer in answers if answer.status_code != 201)
    assert set(codes) <= {"budget_exceeded"}
    assert len(admitted) >= 10, "a lease may reach beyond the day, and holds less of it then"
    assert (await shown(alice, daily["id"]))["spent"] == "0.00"


async def test_admins_set_budgets_below_those_of_operators_and_change_only_their_own(
    operator: Caller, alice: Caller
) -> None:
    own = await made(alice, "50", "label", label="team:vision")
    ceiling = await made(operator, "40", tenant_id=alice.tenant_id)
    path = f"/v1/budgets/{ceiling['id']}"
    for refused in (await alice.patch(path, json={"amount": "100"}), await alice.delete(path)):
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await shown(alice, ceiling["id"]))["set_by"] == "operator"
    above = await alice.post("/v1/budgets", json=budget("41"))
    assert (above.status_code, above.json()["errors"][0]["pointer"]) == (422, "#/body/amount")
    key = await alice.post(f"/v1/tenants/{alice.tenant_id}/keys", json={"name": "ci", "role": "member", "budget": "41"})
    assert (key.status_code, key.json()["errors"][0]["pointer"]) == (422, "#/body/budget")
    assert (await alice.patch(f"/v1/budgets/{own['id']}", json={"amount": "51"})).status_code == 422
    assert (await alice.patch(f"/v1/budgets/{own['id']}", json={"amount": "40"})).status_code == 200
    assert (await operator.patch(f"/v1/budgets/{own['id']}", json={"amount": "60"})).status_code == 200


async def test_members_and_viewers_read_budgets_only(alice: Caller, bob: Caller) -> None:
    whole = await made(alice, "5")
    member = await alice.member("member")
    assert (await member.post("/v1/budgets", json=budget("1"))).status_code == 403
    assert (await shown(member, whole["id"]))["amount"] == "5.00"
    for refused in (await bob.get(f"/v1/budgets/{whole['id']}"), await bob.delete(f"/v1/budgets/{whole['id']}")):
        assert refused.status_code == 404
    assert (await bob.get("/v1/budgets")).json()["items"] == []


async def test_budgets_are_in_no_list_of_quotas(operator: Caller, alice: Caller) -> None:
    await made(alice, "5")
    assert (await lease(alice)).status_code == 201
    for answer in (await alice.get("/v1/quotas"), await operator.get("/v1/ops/tenants")):
        assert "budget:" not in answer.text


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (budget("-1"), "#/body/amount"),
        (budget("1.0000001"), "#/body/amount"),
        (budget("Infinity"), "#/body/amount"),
        (budget("1e3x"), "#/body/amount"),
        (budget("1", thresholds=[50, 50]), "#/body/thresholds"),
        (budget("1", thresholds=[0]), "#/body/thresholds/0"),
        (budget("1", "key"), "#/body/scope/key_id"),
        (budget("1", "key", key_id="key_nobody"), "#/body/scope/key_id"),
        (budget("1", "label"), "#/body/scope/label"),
        (budget("1", "label", label="vision"), "#/body/scope/label"),
        (budget("1", label="team:vision"), "#/body/scope/label"),
        (budget("1", period="week"), "#/body/period"),
    ],
)
async def test_a_wrong_field_is_named(alice: Caller, body: dict[str, Any], pointer: str) -> None:
    answer = await alice.post("/v1/budgets", json=body)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, pointer), answer.text


async def test_a_repeated_creation_makes_one_budget(alice: Caller) -> None:
    header = {"Idempotency-Key": "once"}
    first, second = [await alice.post("/v1/budgets", json=budget("5"), headers=header) for _ in range(2)]
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json() == second.json()
    assert len((await alice.get("/v1/budgets")).json()["items"]) == 1
