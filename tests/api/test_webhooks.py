"""Webhooks: made, changed and looked after by the admins of a tenant."""

import asyncio
import threading
from typing import Any

import pytest
from fastapi import FastAPI

from app.db.core.ids import new_id
from app.name_lookup import Lookup
from tests.api.conftest import Caller, MakeSettings, serving
from tests.api.fleet import Fleet

URL = "https://93.184.216.34/hook"
UNKNOWN = "webhook_01jz0000000000000000000000"


@pytest.fixture
def fleet(database_url: str) -> Fleet:
    return Fleet(database_url)


async def make(caller: Caller, **body: Any) -> dict[str, Any]:
    made = await caller.post("/v1/webhooks", json={"url": URL, **body})
    assert made.status_code == 201, made.text
    answer: dict[str, Any] = made.json()
    assert made.headers["location"] == f"/v1/webhooks/{answer['id']}"
    return answer


def leading(app: FastAPI, lookup: Lookup) -> None:
    """What names lead to."""
    app.state.services.webhooks._lookup = lookup


def delivered(fleet: Fleet, hook: dict[str, Any]) -> str:
    """A delivery that was given up."""
    delivery_id = new_id("delivery")
    fleet.run(
        "INSERT INTO webhook_delivery (id, webhook_id, tenant_id, event_id, event_type, sequence, about, state, tries, status, "
        "error, next_try_at, gives_up_at, ended_at) VALUES (%s, %s, %s, %s, 'lease.active', 1, '{}', 'given_up', 7, 500, "
        "'answered 500', NULL, now(), now())",
        delivery_id,
        hook["id"],
        hook["tenant_id"],
        new_id("event"),
    )
    return delivery_id


async def test_a_webhook_is_made_read_changed_and_deleted(alice: Caller) -> None:
    made = await make(alice, description="ours", event_types=["lease.active", "lease.failed"])
    assert made.pop("secret").startswith("whsec_")
    path = f"/v1/webhooks/{made['id']}"
    read = await alice.get(path)
    assert read.json() == made
    assert made["tenant_id"] == alice.tenant_id
    assert (await alice.get("/v1/webhooks")).json() == {"items": [made], "next_cursor": None, "total_count": None}
    changed = await alice.patch(
        path, json={"enabled": False, "event_types": None}, headers={"If-Match": read.headers["etag"]}
    )
    assert changed.json() == {
        **made,
        "enabled": False,
        "event_types": None,
        "disabled_reason": "by_user",
        "version": 2,
        "updated_at": changed.json()["updated_at"],
    }
    late = await alice.patch(path, json={"description": "x"}, headers={"If-Match": read.headers["etag"]})
    assert (late.status_code, late.json()["code"]) == (412, "version_conflict")
    assert (await alice.delete(path)).status_code == 204
    assert (await alice.get(path)).status_code == 404
    assert (await alice.delete(path)).status_code == 404


async def test_the_format_is_standard_unless_set(alice: Caller) -> None:
    assert (await make(alice))["format"] == "standard"
    made = await make(alice, format="slack")
    path = f"/v1/webhooks/{made['id']}"
    assert made["format"] == "slack"
    assert (await alice.patch(path, json={"format": None, "description": "chat"})).json()["format"] == "slack"
    assert (await alice.patch(path, json={"format": "standard"})).json()["format"] == "standard"
    wrong = await alice.patch(path, json={"format": "carrier pigeon"})
    assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "#/body/format")


async def test_the_secret_is_shown_once_and_the_api_cannot_read_it_back(alice: Caller, fleet: Fleet) -> None:
    repeat = {"Idempotency-Key": "one"}
    made = await alice.post("/v1/webhooks", json={"url": URL}, headers=repeat)
    again = await alice.post("/v1/webhooks", json={"url": URL}, headers=repeat)
    assert again.json() == {**made.json(), "secret": None}
    assert again.headers["idempotency-replayed"] == "true"
    secret = made.json()["secret"]
    for path in ("/v1/webhooks", f"/v1/webhooks/{made.json()['id']}", "/v1/audit"):
        assert secret not in (await alice.get(path)).text
    kept = fleet.run("SELECT secret FROM webhook_secret")
    assert kept == [{"secret": secret}]
    assert secret not in str(fleet.run("SELECT response FROM idempotency"))


async def test_a_rotation_keeps_the_secret_before_for_a_day_and_ends_older_ones(alice: Caller, fleet: Fleet) -> None:
    made = await make(alice)
    path = f"/v1/webhooks/{made['id']}/rotate-secret"
    secrets = [made["secret"]]
    for _ in range(2):
        rotated = await alice.post(path)
        assert rotated.status_code == 201
        secrets.append(rotated.json()["secret"])
        assert rotated.json()["previous_valid_until"] is not None
    rows = fleet.run(
        "SELECT secret, extract(epoch FROM valid_until - now()) AS left FROM webhook_secret ORDER BY created_at"
    )
    assert [row["secret"] for row in rows] == secrets
    assert rows[0]["left"] <= 0
    assert 86_300 < rows[1]["left"] <= 86_400
    assert rows[2]["left"] is None


async def test_only_a_webhook_of_cloudevents_receives_usage(alice: Caller) -> None:
    body = {"url": URL, "format": "cloudevents", "event_types": ["usage.hour"]}
    made = await alice.post("/v1/webhooks", json=body)
    assert (made.status_code, made.json()["format"], made.json()["event_types"]) == (201, "cloudevents", ["usage.hour"])
    standard = (await alice.post("/v1/webhooks", json={"url": URL})).json()
    assert standard["format"] == "standard"
    refused = await alice.patch(f"/v1/webhooks/{standard['id']}", json={"event_types": ["usage.hour"]})
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/body/event_types")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "#/body/url"),
        ({"url": None}, "#/body/url"),
        ({"url": "http://93.184.216.34/"}, "#/body/url"),
        ({"url": "https://127.0.0.1/"}, "#/body/url"),
        ({"url": "https://2130706433/"}, "#/body/url"),
        ({"url": "https://[::ffff:10.0.0.1]/"}, "#/body/url"),
        ({"url": "https://169.254.169.254/latest/meta-data"}, "#/body/url"),
        ({"url": "https://user@93.184.216.34/"}, "#/body/url"),
        ({"url": "https://localhost/"}, "#/body/url"),
        ({"url": URL + "a" * 2000}, "#/body/url"),
        ({"url": URL, "event_types": []}, "#/body/event_types"),
        ({"url": URL, "event_types": ["lease.unheard"]}, "#/body/event_types/0"),
        ({"url": URL, "event_types": ["lease.active", "lease.active"]}, "#/body/event_types"),
        ({"url": URL, "event_types": ["usage.hour"]}, "#/body/event_types"),
        ({"url": URL, "format": "xml"}, "#/body/format"),
        ({"url": URL, "description": "x" * 201}, "#/body/description"),
        ({"url": URL, "secret": "mine"}, "#/body/secret"),
        ({"url": URL, "tenant_id": "tenant_01jz0000000000000000000000"}, "#/body/tenant_id"),
    ],
)
async def test_a_wrong_field_is_pointed_at(alice: Caller, body: dict[str, Any], pointer: str) -> None:
    refused = await alice.post("/v1/webhooks", json=body)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert [error["pointer"] for error in refused.json()["errors"]] == [pointer]


async def test_a_name_is_looked_up_and_all_it_leads_to_must_be_public(alice: Caller, app: FastAPI) -> None:
    leads_to: dict[str, list[str]] = {
        "good.example.org": ["93.184.216.34", "2606:4700:4700::1111"],
        "half.example.org": ["93.184.216.34", "10.0.0.1"],
        "bad.example.org": ["fe80::1"],
        "nothing.example.org": [],
    }
    leading(app, lambda host, _port: leads_to[host])
    statuses = [(await alice.post("/v1/webhooks", json={"url": f"https://{name}/"})).status_code for name in leads_to]
    assert statuses == [201, 422, 422, 422]
    made = (await alice.get("/v1/webhooks")).json()["items"][0]
    moved = await alice.patch(f"/v1/webhooks/{made['id']}", json={"url": "https://half.example.org/"})
    assert (moved.status_code, moved.json()["errors"][0]["pointer"]) == (422, "#/body/url")


async def test_a_tenant_has_at_most_ten_whoever_asks_at_once(alice: Caller, operator: Caller, bob: Caller) -> None:
    both = [(alice, {}), (operator, {"tenant_id": alice.tenant_id})]
    asked = [caller.post("/v1/webhooks", json={"url": URL, **more}) for caller, more in both for _ in range(7)]
    answers = await asyncio.gather(*asked)
    assert sorted(answer.status_code for answer in answers) == [201] * 10 + [409] * 4
    assert {answer.json()["code"] for answer in answers if answer.status_code == 409} == {"conflict"}
    await make(bob)


async def test_anothers_webhooks_do_not_exist(alice: Caller, bob: Caller, fleet: Fleet) -> None:
    hook = await make(bob)
    delivery = delivered(fleet, hook)
    for webhook_id in (hook["id"], UNKNOWN, "nonsense"):
        path = f"/v1/webhooks/{webhook_id}"
        answers = [
            await alice.get(path),
            await alice.patch(path, json={"enabled": False}),
            await alice.delete(path),
            await alice.post(f"{path}/rotate-secret"),
            await alice.post(f"{path}/test"),
            await alice.get(f"{path}/deliveries"),
            await alice.post(f"{path}/deliveries/{delivery}/replay"),
        ]
        assert {(one.status_code, one.json()["code"]) for one in answers} == {(404, "not_found")}
    mine = await make(alice)
    crossed = await alice.post(f"/v1/webhooks/{mine['id']}/deliveries/{delivery}/replay")
    assert crossed.status_code == 404
    assert [one["id"] for one in (await alice.get("/v1/webhooks")).json()["items"]] == [mine["id"]]


async def test_an_operator_acts_for_a_tenant_and_sees_every_one(operator: Caller, alice: Caller, bob: Caller) -> None:
    assert (await operator.post("/v1/webhooks", json={"url": URL})).json()["errors"][0]["pointer"] == "#/body/tenant_id"
    made = await make(operator, tenant_id=alice.tenant_id)
    await make(bob)
    assert made["tenant_id"] == alice.tenant_id
    assert (await alice.get(f"/v1/webhooks/{made['id']}")).status_code == 200
    assert len((await operator.get("/v1/webhooks")).json()["items"]) == 2
    named = await operator.get(f"/v1/webhooks?tenant_id={bob.tenant_id}")
    assert [one["tenant_id"] for one in named.json()["items"]] == [bob.tenant_id]
    refused = await alice.get(f"/v1/webhooks?tenant_id={bob.tenant_id}")
    assert refused.json()["errors"][0]["pointer"] == "#/query/tenant_id"
    unknown = {"url": URL, "tenant_id": "tenant_01jz0000000000000000000000"}
    assert (await operator.post("/v1/webhooks", json=unknown)).status_code == 422


async def test_a_test_is_due_at_once_and_one_at_a_time(alice: Caller, fleet: Fleet) -> None:
    made = await make(alice)
    fleet.run("UPDATE webhook SET waits_until = now() + interval '1 hour'")
    path = f"/v1/webhooks/{made['id']}"
    sent = await alice.post(f"{path}/test")
    assert sent.status_code == 202
    assert (sent.json()["event_type"], sent.json()["state"], sent.json()["tries"]) == ("webhook.test", "pending", 0)
    assert (await alice.post(f"{path}/test")).json()["code"] == "conflict"
    assert (await alice.get(f"{path}/deliveries")).json()["items"] == [sent.json()]
    assert fleet.run("SELECT next_due <= now() AS due, waits_until FROM webhook") == [
        {"due": True, "waits_until": None}
    ]


async def test_what_was_given_up_is_delivered_again_under_the_same_id(alice: Caller, fleet: Fleet) -> None:
    made = await make(alice)
    delivery = delivered(fleet, made)
    path = f"/v1/webhooks/{made['id']}/deliveries"
    (before,) = (await alice.get(path)).json()["items"]
    assert (before["state"], before["status"], before["error"]) == ("given_up", 500, "answered 500")
    again = await alice.post(f"{path}/{delivery}/replay")
    assert again.status_code == 202
    assert (again.json()["state"], again.json()["tries"], again.json()["ended_at"]) == ("pending", 0, None)
    assert (again.json()["id"], again.json()["event_id"]) == (delivery, before["event_id"])
    await alice.patch(f"/v1/webhooks/{made['id']}", json={"enabled": False})
    refused = await alice.post(f"{path}/{delivery}/replay")
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")


async def test_enabled_again_it_begins_with_what_happens_then(alice: Caller, fleet: Fleet) -> None:
    made = await make(alice)
    path = f"/v1/webhooks/{made['id']}"
    await alice.patch(path, json={"enabled": False})
    fleet.run("UPDATE installation SET event_sequence = 41")
    enabled = await alice.patch(path, json={"enabled": True})
    assert (enabled.json()["enabled"], enabled.json()["disabled_reason"]) == (True, None)
    assert fleet.run("SELECT position FROM webhook") == [{"position": 41}]


@pytest.mark.parametrize(
    "repairs", [[{"url": f"{URL}/new"}], [{"enabled": False}, {"enabled": True}]], ids=["new-url", "enabled-again"]
)
async def test_a_new_url_and_enabling_end_the_pause_of_the_receiver(
    alice: Caller, fleet: Fleet, repairs: list[dict[str, Any]]
) -> None:
    webhook = await make(alice)
    fleet.run("UPDATE webhook SET waits_until = now() + interval '1 hour', next_due = now() + interval '1 hour'")
    for changes in repairs:
        answer = await alice.patch(f"/v1/webhooks/{webhook['id']}", json=changes)
        assert answer.status_code == 200, answer.text
    assert fleet.run("SELECT next_due <= now() AS due, waits_until FROM webhook") == [
        {"due": True, "waits_until": None}
    ]


async def test_the_log_comes_in_pages(alice: Caller, fleet: Fleet) -> None:
    made = await make(alice)
    ids = [delivered(fleet, made) for _ in range(3)]
    path = f"/v1/webhooks/{made['id']}/deliveries?limit=2"
    first = (await alice.get(path)).json()
    second = (await alice.get(f"{path}&cursor={first['next_cursor']}")).json()
    found = [one["id"] for one in [*first["items"], *second["items"]]]
    assert sorted(found) == sorted(ids)
    assert second["next_cursor"] is None


async def test_local_use_is_a_setting(make_settings: MakeSettings, operator: Caller, alice: Caller) -> None:
    async with serving(make_settings(webhook_local=True)) as app:
        local = Caller(app, alice.key, alice.tenant_id)
        assert (await local.post("/v1/webhooks", json={"url": "http://127.0.0.1:9/"})).status_code == 201
        metadata = await local.post("/v1/webhooks", json={"url": "http://169.254.169.254/"})
        assert metadata.status_code == 422


async def test_names_whose_servers_do_not_answer_hold_up_nobody_else(alice: Caller, bob: Caller) -> None:
    release = threading.Event()

    def hanging(host: str, _port: int) -> list[str]:
        if host == "hang.example":
            release.wait(60)
        return ["93.184.216.34"]

    leading(alice.app, hanging)
    made = await make(alice)
    hang = {"url": "https://hang.example/"}

    def send(number: int) -> Any:
        path = f"/v1/webhooks/{made['id']}"
        return alice.patch(path, json=hang) if number % 2 else alice.post("/v1/webhooks", json=hang)

    waiting = [asyncio.create_task(send(number)) for number in range(60)]
    try:
        async with asyncio.timeout(4):
            await asyncio.to_thread(int)
            assert (await make(bob))["url"] == URL
            assert (await alice.get("/v1/leases")).status_code == 200
            assert (await bob.get("/readyz")).status_code in {200, 503}
            refused = [await task for _, task in zip(range(60 - 16), asyncio.as_completed(waiting), strict=False)]
        assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(429, "rate_limited")}
        assert {answer.headers["retry-after"] for answer in refused} == {"5"}
    finally:
        release.set()
    answers = await asyncio.gather(*waiting)
    assert sum(answer.status_code in {200, 201} for answer in answers) == 16
    assert (await alice.patch(f"/v1/webhooks/{made['id']}", json=hang)).status_code == 200
