"""A tenant with something of everything, which nobody else may see or touch."""

import json
from dataclasses import dataclass
from typing import Any

from app.db.core.ids import new_id
from app.domain.tokens import host_key_hash
from tests.api.conftest import Caller
from tests.api.fleet import SSH_KEY, Fleet
from tests.api.openapi_stage import FLOOR, IDLE, NEWEST_SAMPLE, SAMPLES
from tests.security.routes import BUDGET, HOOK, OPERATIONS, Operation

NAME = "victims-lease"
LABEL = "victims-label"
SCRIPT = "#!/bin/echo victims-script"
CONSOLE = "victims-console"
GROUP_NAME = "victims-group"
SSH_KEY_NAME = "victims-ssh-key"
VOLUME_NAME = "victims-volume"
REPEATED = "victims-own-key"

NEVER_COMPARED = {"last_used_at"}
"""Written by the clock and not by a caller."""


@dataclass(frozen=True)
class Victim:
    """`ids` fills in paths. `tags` and `cursors`: what the victim itself got, by operation id."""

    caller: Caller
    ids: dict[str, str]
    tags: dict[str, str]
    cursors: dict[str, str]
    markers: frozenset[str]


SERIES = """
    INSERT INTO gpu_series (lease_id, tenant_id, starts_at, gpu_percent, memory_percent, power_w, temperature_c, sm_clock_mhz,
        cpu_percent, host_memory_percent, disk_percent, uuids, gpu_values)
    SELECT id, tenant_id, date_trunc('hour', now()), a, a, a, a, a, a, a, a, ARRAY['GPU-1'], ARRAY[a, a, a, a]
    FROM lease, array_fill(87::smallint, ARRAY[12]) a WHERE id = %s
"""
BATCH = """
    INSERT INTO launch_batch (tenant_id, id, provider, account, region, zone, token, slots, params_hash)
    VALUES (%s, %s, 'aws', 'main', 'us-east-1', 'us-east-1a', 'victims-batch', 1, 'x')
"""
BAD_GPU = """
    INSERT INTO bad_gpu (provider, region, uuid, tenant_id, account, zone, instance_type, finding, first_seen_at, last_seen_at)
    VALUES ('aws', 'us-east-1', 'GPU-of-the-victim', %s, 'main', 'us-east-1a', 'g5.xlarge', 'xid', now(), now())
"""
ROLLUP = """
    INSERT INTO gpu_rollup (lease_id, tenant_id, starts_at, samples, idle_samples, uuids, gpu_values)
    SELECT id, tenant_id, date_trunc('hour', now()), 60, 0, ARRAY['GPU-1'], ARRAY[[87], [71], [61], [212]] FROM lease WHERE id = %s
"""


async def make_victim(caller: Caller, fleet: Fleet) -> Victim:
    """Two leases of `caller`, one of them active, with attempts, events, console, key and idempotency records."""
    wish = {"gpu": {"model": "A10G"}, "ttl_seconds": 3600, "startup_script": SCRIPT, "labels": {"victim": LABEL}}
    repeated = {"Idempotency-Key": REPEATED}
    made = [await caller.post("/v1/leases", json={**wish, "name": f"{NAME}-{n}"}, headers=repeated) for n in (1,)]
    made.append(await caller.post("/v1/leases", json={**wish, "name": NAME}))
    lease_id = made[0].json()["id"]
    instance_id = fleet.activate(lease_id)
    fleet.run("UPDATE attempt SET host_key_hash = %s WHERE lease_id = %s", host_key_hash(lease_id), lease_id)
    fleet.attempt(made[1].json()["id"], 1)
    console = "INSERT INTO lease_console (lease_id, tenant_id, n, text) VALUES (%s, %s, 1, %s)"
    fleet.run(console, lease_id, caller.tenant_id, CONSOLE)
    fleet.archive_attempt(caller.tenant_id)
    fleet.sum_up(caller.tenant_id)
    fleet.cost(caller.tenant_id, lease_id)
    fleet.reprice(lease_id)
    fleet.benchmark(lease_id)
    for statement in (SAMPLES, NEWEST_SAMPLE, SERIES, ROLLUP, IDLE):
        fleet.run(statement, lease_id)
    for statement in (FLOOR, BAD_GPU):
        fleet.run(statement, caller.tenant_id)
    key = (await caller.post(f"/v1/tenants/{caller.tenant_id}/keys", json={"name": "ci", "role": "member"})).json()
    ssh_key = {"name": SSH_KEY_NAME, "public_key": SSH_KEY, "default": True}
    stored = [await caller.post("/v1/ssh-keys", json={**ssh_key, "name": name}) for name in (SSH_KEY_NAME, "second")]
    volumes = [fleet.volume(caller.tenant_id, name) for name in (VOLUME_NAME, "second")]
    group_wish = {"name": GROUP_NAME, "size": 1, "lease": {"gpu": {"model": "A10G"}, "ttl_seconds": 3600}}
    groups = [await caller.post("/v1/groups", json={**group_wish, "name": name}) for name in ("other", GROUP_NAME)]
    fleet.run(BATCH, caller.tenant_id, new_id("batch"))
    budgets = [(await caller.post("/v1/budgets", json=BUDGET)).json() for _ in range(2)]
    fleet.run("INSERT INTO budget_turn (tenant_id, taken_at) VALUES (%s, now())", caller.tenant_id)
    hook = (await caller.post("/v1/webhooks", json={"url": HOOK, "description": CONSOLE})).json()
    sent = (await caller.post(f"/v1/webhooks/{hook['id']}/test")).json()
    ids = {"lease_id": lease_id, "tenant_id": caller.tenant_id, "key_id": key["id"]}
    quote = (await caller.post("/v1/quotes", json=wish)).json()
    ids |= {"volume_id": volumes[0]}
    ids |= {"ssh_key_id": stored[0].json()["id"], "quote_id": quote["id"]}
    ids |= {"budget_id": budgets[0]["id"], "group_id": groups[1].json()["id"]}
    ids |= {"webhook_id": hook["id"], "delivery_id": sent["id"]}
    for tail, body in (("extend", {"extend_by_seconds": 3600}), ("reboot", None)):
        assert (await caller.post(f"/v1/leases/{lease_id}/{tail}", json=body, headers=repeated)).is_success
    fleet.number_events()
    tags, cursors = await _own_answers(caller, ids)
    rows = fleet.run("SELECT id FROM attempt UNION ALL SELECT id FROM event")
    words = {
        NAME,
        LABEL,
        SCRIPT,
        CONSOLE,
        "GPU-of-the-victim",
        SSH_KEY_NAME,
        VOLUME_NAME,
        GROUP_NAME,
        instance_id,
        key["secret"],
        hook["secret"],
        sent["event_id"],
        made[1].json()["id"],
        caller.key,
    }
    return Victim(caller, ids, tags, cursors, frozenset({*words, *ids.values(), *(row["id"] for row in rows)}))


async def _own_answers(caller: Caller, ids: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    tags, cursors = {}, {}
    for one in OPERATIONS:
        if one.method != "GET" or one.role in {None, "operator"}:
            continue
        answer = await caller.get(one.url(ids), params=one.page(1))
        assert answer.status_code == 200, answer.text
        tags[one.id] = answer.headers.get("etag", "*")
        if answer.headers["content-type"] == "application/json" and answer.json().get("next_cursor"):
            cursors[one.id] = answer.json()["next_cursor"]
    return tags, cursors


def tag_of(victim: Victim, one: Operation) -> str:
    """The ETag that the victim knows of the thing that `one` changes or shows."""
    shown = {other.path: other.id for other in OPERATIONS if other.method == "GET"}
    path = one.path
    while path not in shown or shown[path] not in victim.tags:
        path = path.rpartition("/")[0]
        if not path:
            return "*"
    return victim.tags[shown[path]]


def belongings(fleet: Fleet, tenant_id: str) -> str:
    """Every row of a tenant in the whole database, as text."""
    columns = fleet.run(
        "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' "
        "AND (column_name = 'tenant_id' OR (table_name, column_name) IN (('tenant', 'id'), ('idempotency', 'scope')))"
    )
    found: dict[str, Any] = {}
    for column in sorted(columns, key=str):
        table, name = column["table_name"], column["column_name"]
        rows = fleet.run(f"SELECT to_jsonb(t) AS row FROM {table} t WHERE {name} = %s", tenant_id)
        kept = [{key: row["row"][key] for key in row["row"].keys() - NEVER_COMPARED} for row in rows]
        found[table] = sorted(json.dumps(row, sort_keys=True) for row in kept)
    assert all(found.values()), f"the victim has nothing in {[table for table in found if not found[table]]}"
    return json.dumps(found, indent=1)
