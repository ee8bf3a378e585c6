"""Every route × what is another tenant's × every role, behind both walls and behind each of them alone.

Made from openapi.json: a route, an id or a query parameter that has no rule here fails.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from fastapi import FastAPI

from app import bootstrap
from app.api.http import middleware
from app.db.core.engine import ApiDatabase
from tests.api.conftest import Caller, MakeSettings, new_tenant, serving
from tests.api.fleet import Fleet
from tests.security.conftest import UNLIMITED
from tests.security.routes import BODIES, BUDGET, HOOK, LEASE, OPERATIONS, Operation
from tests.security.victim import (
    LABEL,
    NAME,
    REPEATED,
    SSH_KEY_NAME,
    VOLUME_NAME,
    Victim,
    belongings,
    make_victim,
    tag_of,
)
from tests.security.walls import WithoutFilter, role_past_row_level_security

ROLES = ("nobody", "viewer", "member", "admin")
UNKNOWN = {
    "lease_id": "lease_01h455vb4pex5vsknk084sn02q",
    "tenant_id": "tenant_01h455vb4pex5vsknk084sn02q",
    "key_id": "key_01h455vb4pex5vsknk084sn02q",
    "quote_id": "quote_01h455vb4pex5vsknk084sn02q",
    "budget_id": "budget_01h455vb4pex5vsknk084sn02q",
    "group_id": "group_01h455vb4pex5vsknk084sn02q",
    "webhook_id": "webhook_01h455vb4pex5vsknk084sn02q",
    "delivery_id": "delivery_01h455vb4pex5vsknk084sn02q",
    "ssh_key_id": "sshkey_01h455vb4pex5vsknk084sn02q",
    "volume_id": "vol_01h455vb4pex5vsknk084sn02q",
}
OF_NOBODY = {"account": "main", "name": "main", "region": "us-east-1", "orphan_id": "orphan_01h455vb4pex5vsknk084sn02q"}
"""Ids of things that belong to the installation: only operators reach them."""

SHARED = {
    *("limit", "sort", "state", "after", "created_after", "created_before", "updated_since", "provider", "region"),
    *("gpu_model", "min_gpus", "min_gpu_memory_gib", "market", "account", "instance_type", "max_price_per_hour"),
    *("gpu_vendor", "interconnect", "min_vcpus", "min_memory_gib", "min_local_disk_gib"),
    "mine",
    "format",
    *("poll_seconds", "if_version", "count", "type", "from", "to", "step", "group_by", "top"),
    *("bucket", "month", "hours"),
}
"""Query parameters whose values belong to nobody."""

NOT_YET = {"get_lease_idle_evidence", "get_idle_floor"}
"""Reads of what exists only later: evidence once a lease has ended for being idle, a floor once an operator has set one."""

RELEASE = ("/v1/leases/release", {"all": True})

CHANGING_BY_ITSELF = ("ratelimit", "ratelimit-policy")

ALL_FILTERED = {
    *(
        "api_key",
        "attempt",
        "audit",
        "budget",
        "cost_rollup",
        "event",
        "gpu_sample",
        "gpu_series",
        "lease",
        "lease_console",
        "lease_group",
        "quota",
        "quote",
        "segment",
        "shown",
        "ssh_key",
        "stuck",
        "tenant",
        "usage_rollup",
        "volume",
        "webhook",
        "webhook_delivery",
    ),
}
"""Tables, and the subqueries `segment`, `shown` and `stuck`, that a tenant's calls read or change by a condition on the tenant."""

BOTH = "both walls"
FILTER = "the filter alone"
POLICIES = "row-level security alone"


@dataclass(frozen=True)
class Attack:
    """Callers of one tenant, and the tenant that they have no business with."""

    callers: dict[str, Caller]
    victim: Victim

    async def ask(self, role: str, one: Operation, ids: dict[str, str], **more: Any) -> tuple[int, Any, bytes]:
        """Status, headers and body; the ids in it are replaced by their names, and nothing else."""
        answer = await self.callers[role].request(one.method, one.url(ids), json=one.body, **more)
        body = answer.content
        kept = {name: value for name, value in answer.headers.items() if name not in CHANGING_BY_ITSELF}
        for name, value in ids.items():
            body = body.replace(value.encode(), name.encode())
        assert answer.status_code < 500, answer.text
        return answer.status_code, kept, body

    def holds_nothing_foreign(self, body: bytes) -> bool:
        return not any(marker.encode() in body for marker in self.victim.markers)


@pytest.fixture
async def attacked(
    wall: str, make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, postgres_server: str, database_url: str
) -> AsyncIterator[FastAPI]:
    """The application that is asked by strangers, with one of its walls down. All requests have one id."""
    monkeypatch.setattr(middleware, "new_request_id", lambda: "req_probe")
    settings = make_settings(rate_limit=UNLIMITED, write_rate_limit=UNLIMITED, login_rate_limit=UNLIMITED)
    if wall == FILTER:
        with role_past_row_level_security(postgres_server, database_url) as role:
            monkeypatch.setattr(bootstrap, "ApiDatabase", partial(ApiDatabase, role=role))
            async with serving(settings) as running:
                yield running
        return
    if wall == POLICIES:
        monkeypatch.setattr(bootstrap, "ApiDatabase", WithoutFilter)
    async with serving(settings) as running:
        database = running.state.services.context.database
        if isinstance(database, WithoutFilter):
            database.rewrite_transactions(monkeypatch)
        yield running


@pytest.fixture
async def attack(app: FastAPI, operator: Caller, bob: Caller, fleet: Fleet, attacked: FastAPI) -> Attack:
    victim = await make_victim(bob, fleet)
    alice = await new_tenant(operator, "alice", gpus=8, leases=10)
    assert (await alice.post("/v1/leases", json=LEASE)).status_code == 201
    assert (await alice.post("/v1/webhooks", json={"url": HOOK})).status_code == 201
    assert (await alice.post("/v1/budgets", json=BUDGET)).status_code == 201
    assert (await alice.post("/v1/ssh-keys", json=BODIES["create_ssh_key"])).status_code == 201
    assert (await alice.post("/v1/volumes", json=BODIES["create_volume"])).status_code == 201
    fleet.number_events()
    callers = {"nobody": Caller(attacked, None), "admin": Caller(attacked, alice.key, alice.tenant_id)}
    for role in ("viewer", "member"):
        callers[role] = Caller(attacked, (await alice.member(role)).key, alice.tenant_id)
    return Attack(callers, victim)


def rank(role: str) -> int:
    return [*ROLES, "operator"].index(role)


def expected(role: str, one: Operation) -> int:
    """What is answered to somebody who names what is not his own."""
    if role == "nobody":
        return 401
    return 404 if rank(role) >= rank(one.role or "viewer") else 403


def ids_of(one: Operation, victim: Victim) -> tuple[dict[str, str], dict[str, str]]:
    """The victim's ids and unknown ones, as the path asks for them. Raises KeyError for an id without a rule."""
    if one.role == "operator":
        return {**OF_NOBODY, **victim.ids}, {**OF_NOBODY, **UNKNOWN}
    names = one.names("path")
    return {name: victim.ids[name] for name in names}, {name: UNKNOWN[name] for name in names}


def probes(one: Operation, victim: Victim, ids: dict[str, str]) -> list[dict[str, str]]:
    """Headers that might tell what exists: the victim's own versions, and the keys of its own repeated calls."""
    tag = tag_of(victim, one)
    for name, value in ids.items():
        tag = tag.replace(victim.ids.get(name, value), value)
    found = [{}, {"If-Match": tag}, {"Idempotency-Key": REPEATED}]
    return [*found, {"If-None-Match": tag}, {"If-None-Match": "*"}] if one.method == "GET" else found


async def anothers_id_in_a_path_answers_like_an_unknown_one(attack: Attack, roles: tuple[str, ...]) -> None:
    with_ids = [one for one in OPERATIONS if one.names("path")]
    assert len(with_ids) >= 16
    for one in with_ids:
        foreign, unknown = ids_of(one, attack.victim)
        for role in roles:
            theirs, none = probes(one, attack.victim, foreign), probes(one, attack.victim, unknown)
            for headers, other in zip(theirs, none, strict=True):
                found = await attack.ask(role, one, foreign, headers=headers)
                assert found == await attack.ask(role, one, unknown, headers=other), (one.id, role, headers)
                assert found[0] == expected(role, one), (one.id, role, headers, found)
                assert attack.holds_nothing_foreign(found[2])


async def nobody_waits_for_anothers_lease(attack: Attack) -> None:
    """A long poll of another's lease is answered at once, as one of an unknown lease is."""
    for one in OPERATIONS:
        if "poll_seconds" not in one.names("query"):
            continue
        for ids in ids_of(one, attack.victim):
            asked = attack.ask("admin", one, ids, params={"poll_seconds": "20", "if_version": "1"})
            assert (await asyncio.wait_for(asked, 10))[0] == 404


async def anothers_values_in_a_query_answer_like_unknown_ones(attack: Attack) -> None:
    victim = attack.victim
    values = {
        "tenant_id": (victim.ids["tenant_id"], UNKNOWN["tenant_id"]),
        "ids": (victim.ids["lease_id"], UNKNOWN["lease_id"]),
        "lease_id": (victim.ids["lease_id"], UNKNOWN["lease_id"]),
        "group_id": (victim.ids["group_id"], UNKNOWN["group_id"]),
        "about": (victim.ids["lease_id"], UNKNOWN["lease_id"]),
        "name": (NAME, "nobodys-lease"),
        "search": (NAME.upper(), "nobodys-lease"),
        "label": (f"victim:{LABEL}", "victim:nobodys-label"),
    }
    own = await attack.callers["admin"].get("/v1/leases")
    ids = {"lease_id": own.json()["items"][0]["id"], "tenant_id": attack.callers["admin"].tenant_id}
    ids["group_id"] = UNKNOWN["group_id"]
    asked = set()
    for one in OPERATIONS:
        if one.role in {None, "operator"} or one.method != "GET":
            continue
        for name in set(one.names("query")) - SHARED - {"cursor"}:
            foreign, unknown = values[name]
            for role in ROLES:
                found = await attack.ask(role, one, ids, params={name: foreign})
                assert found == await attack.ask(role, one, ids, params={name: unknown}), (one.id, role, name)
                assert attack.holds_nothing_foreign(found[2])
            asked.add(name)
    assert asked == set(values)


async def anothers_cursor_leads_to_ones_own_rows_alone(attack: Attack) -> None:
    admin = attack.callers["admin"]
    own = (await admin.get("/v1/leases")).json()["items"][0]["id"]
    ids = {"lease_id": own, "tenant_id": admin.tenant_id}
    listing = {one.id: one for one in OPERATIONS if "cursor" in one.names("query") and one.role != "operator"}
    assert {"list_leases", "list_events", "list_audit", "list_keys"} <= attack.victim.cursors.keys() <= listing.keys()
    for name, cursor in attack.victim.cursors.items():
        for params in ({"cursor": cursor}, {"cursor": cursor, "limit": "1"}):
            status, _, body = await attack.ask("admin", listing[name], ids, params=params)
            assert status == 200, (name, body)
            assert attack.holds_nothing_foreign(body)


async def whatever_is_read_is_ones_own_alone(attack: Attack) -> None:
    (own,) = (await attack.callers["admin"].get("/v1/leases")).json()["items"]
    (hook,) = (await attack.callers["admin"].get("/v1/webhooks")).json()["items"]
    (budget,) = (await attack.callers["admin"].get("/v1/budgets")).json()["items"]
    (ssh_key,) = (await attack.callers["admin"].get("/v1/ssh-keys")).json()["items"]
    (volume,) = (await attack.callers["admin"].get("/v1/volumes")).json()["items"]
    group = {"name": "own", "size": 1, "lease": LEASE | {"name": None}}
    ids = {
        **OF_NOBODY,
        "lease_id": own["id"],
        "group_id": (await attack.callers["admin"].post("/v1/groups", json=group)).json()["id"],
        "tenant_id": own["tenant_id"],
        "budget_id": budget["id"],
        "webhook_id": hook["id"],
        "ssh_key_id": ssh_key["id"],
        "volume_id": volume["id"],
        "quote_id": (await attack.callers["admin"].post("/v1/quotes", json=LEASE | {"name": None})).json()["id"],
    }
    for one in OPERATIONS:
        if one.method != "GET" or one.of_agent:
            continue
        for role in ROLES:
            status, _, body = await attack.ask(role, one, ids, params=one.page(200))
            refusal = expected(role, one) if one.role else 404
            answered = 404 if one.id in NOT_YET else 200
            assert status == (answered if refusal == 404 else refusal), (one.id, role)
            assert attack.holds_nothing_foreign(body), (one.id, role)


async def nobody_acts_for_another_tenant(attack: Attack) -> None:
    for path, wish in (
        ("/v1/leases", LEASE),
        ("/v1/leases/plan", LEASE),
        ("/v1/quotes", LEASE),
        ("/v1/groups/plan", BODIES["plan_group"]),
        ("/v1/webhooks", {"url": HOOK}),
        ("/v1/ssh-keys", {**BODIES["create_ssh_key"], "name": "other"}),
        ("/v1/volumes", {**BODIES["create_volume"], "name": "other"}),
        RELEASE,
    ):
        answers = []
        for tenant_id in (attack.victim.ids["tenant_id"], UNKNOWN["tenant_id"]):
            asked = {**wish, "tenant_id": tenant_id}
            refused = await attack.callers["admin"].post(path, json=asked)
            assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/body/tenant_id")
            answers.append(refused.content)
        assert answers[0] == answers[1]


async def nobody_names_anothers_ssh_key(attack: Attack) -> None:
    for path in ("/v1/leases", "/v1/leases/plan"):
        answers = []
        for reference in (SSH_KEY_NAME, attack.victim.ids["ssh_key_id"], UNKNOWN["ssh_key_id"]):
            asked = {**LEASE, "ssh_keys": [reference]}
            refused = await attack.callers["admin"].post(path, json=asked)
            assert refused.status_code == 422
            answers.append(refused.content)
        assert len(set(answers)) == 1


async def nobody_mounts_anothers_volume(attack: Attack) -> None:
    for path in ("/v1/leases", "/v1/leases/plan", "/v1/quotes"):
        answers = []
        for name in (VOLUME_NAME, "no-such-volume"):
            asked = {**LEASE, "volumes": [{"name": name, "path": "/data"}]}
            refused = await attack.callers["admin"].post(path, json=asked)
            assert refused.status_code == 422
            answers.append(refused.content)
        assert len(set(answers)) == 1


async def nobody_sets_a_budget_for_another(attack: Attack) -> None:
    ids = attack.victim.ids
    for kind, member, known, unknown in (
        ("tenant", "tenant_id", ids["tenant_id"], UNKNOWN["tenant_id"]),
        ("key", "key_id", ids["key_id"], UNKNOWN["key_id"]),
    ):
        answers = []
        for named in (known, unknown):
            asked = {**BUDGET, "scope": {"kind": kind, member: named}}
            refused = await attack.callers["admin"].post("/v1/budgets", json=asked)
            assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, f"#/body/scope/{member}")
            answers.append(refused.content)
        assert answers[0] == answers[1]


async def nobody_creates_from_anothers_quote(attack: Attack) -> None:
    answers = []
    for quote_id in (attack.victim.ids["quote_id"], UNKNOWN["quote_id"]):
        refused = await attack.callers["admin"].post("/v1/leases", json={"quote_id": quote_id})
        assert refused.status_code == 422
        answers.append(refused.content)
    assert answers[0] == answers[1]


async def anothers_idempotency_key_repeats_nothing(attack: Attack) -> None:
    body = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "name": f"{NAME}-1"}
    made = await attack.callers["member"].post("/v1/leases", json=body, headers={"Idempotency-Key": REPEATED})
    assert made.status_code == 201
    assert "idempotency-replayed" not in made.headers
    assert made.json()["tenant_id"] == attack.callers["member"].tenant_id
    assert made.json()["id"] not in attack.victim.markers


@pytest.mark.parametrize("wall", [BOTH, FILTER, POLICIES])
async def test_what_is_anothers_does_not_exist(attack: Attack, attacked: FastAPI, fleet: Fleet, wall: str) -> None:
    before = belongings(fleet, attack.victim.ids["tenant_id"])
    await anothers_id_in_a_path_answers_like_an_unknown_one(attack, ROLES if wall == BOTH else ("admin",))
    await nobody_waits_for_anothers_lease(attack)
    await anothers_values_in_a_query_answer_like_unknown_ones(attack)
    await anothers_cursor_leads_to_ones_own_rows_alone(attack)
    await whatever_is_read_is_ones_own_alone(attack)
    await nobody_acts_for_another_tenant(attack)
    await nobody_names_anothers_ssh_key(attack)
    await nobody_mounts_anothers_volume(attack)
    await nobody_sets_a_budget_for_another(attack)
    await nobody_creates_from_anothers_quote(attack)
    await anothers_idempotency_key_repeats_nothing(attack)
    assert belongings(fleet, attack.victim.ids["tenant_id"]) == before, "a stranger changed something"
    opened: set[str] = getattr(attacked.state.services.context.database, "opened", set())
    assert opened == (ALL_FILTERED if wall == POLICIES else set())


@pytest.fixture
async def open_to_all(
    make_settings: MakeSettings, monkeypatch: pytest.MonkeyPatch, postgres_server: str, database_url: str, app: FastAPI
) -> AsyncIterator[FastAPI]:
    """The application with neither wall."""
    with role_past_row_level_security(postgres_server, database_url) as role:
        monkeypatch.setattr(bootstrap, "ApiDatabase", partial(WithoutFilter, role=role))
        async with serving(make_settings()) as running:
            yield running


async def test_without_either_wall_the_matrix_would_find_holes(
    bob: Caller, alice: Caller, fleet: Fleet, open_to_all: FastAPI
) -> None:
    made = await bob.post("/v1/leases", json=LEASE)
    stranger = Caller(open_to_all, alice.key, alice.tenant_id)
    assert (await stranger.get(f"/v1/leases/{made.json()['id']}")).status_code == 200
