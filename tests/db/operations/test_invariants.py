"""Each invariant finds what it is there to find. Nothing is committed: the fixture looks at the data after each test."""

from typing import LiteralString

import psycopg
import pytest
from sqlalchemy import text

from app.db.operations.invariants import CHECKS, violations
from tests.db.store import Store
from tests.harness.databases import ANY_VIOLATION

END = "ended_at = now(), clean = true"
GROUP: LiteralString = (
    "INSERT INTO lease_group (id, tenant_id, name, size, min_size, lease, placement, interconnect, form_seconds,"
    " on_member_loss, wait_until) SELECT 'g', tenant_id, 'g', 1, 1, '{}', 'any', 'none', 60, 'end', now() FROM lease;"
    "UPDATE lease SET group_id = 'g', rank = 0;"
)
VOLUME: LiteralString = (
    "INSERT INTO volume (id, tenant_id, key_id, name, size_gib, provider, account, region, zone, state, cloud_id)"
    " SELECT 'vol_x', tenant_id, 'key_x', 'vol_x', 1, 'aws', 'a', 'r', 'z', 'available', 'disk' FROM lease;"
)
BREAKS: dict[str, LiteralString] = {
    "used equals the claims": "UPDATE quota SET used = used + 1",
    "an ended lease holds nothing": (
        "INSERT INTO quota_claim (lease_id, resource, tenant_id, amount) SELECT id, 'gpus', tenant_id, 1 FROM lease;"
        "UPDATE quota SET used = 1"
    ),
    "an ended lease has no live or unclean attempt and no open billing": (
        "UPDATE attempt SET state = 'dead', params = NULL, ended_at = now(), clean = false"
    ),
    "a lease has at most one live attempt": (
        "RESET ROLE; DROP INDEX ix_attempt_live_lease; SET ROLE gpulease_worker;"
        "UPDATE attempt SET state = 'sent', ended_at = NULL;"
        "INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,"
        " price_per_hour, token, params_hash) SELECT 'x', lease_id, tenant_id, 2, 'aws', 'a', 'r', 'z', 't', 'spot', '{}',"
        " 1, 'x', 'h' FROM attempt"
    ),
    "attempts are numbered 1 to attempts_count": "UPDATE lease SET attempts_count = 2",
    "a VM belongs to one attempt": (
        "INSERT INTO attempt (id, lease_id, tenant_id, n, provider, account, region, zone, instance_type, market, offering,"
        " price_per_hour, token, params_hash, instance_id, state, ended_at) SELECT 'x', lease_id, tenant_id, 2, provider,"
        " account, region, zone, 't', 'spot', '{}', 1, 'x', 'h', 'i-1', 'dead', now() FROM attempt;"
        "UPDATE attempt SET instance_id = 'i-1'"
    ),
    "events are gapless within a lease": (
        "INSERT INTO event (id, tenant_id, lease_id, lease_sequence, type, data)"
        " SELECT 'e' || k, tenant_id, id, k, 't', '{}' FROM lease, unnest(ARRAY[1, 3]) k;"
        "UPDATE lease SET events_count = 3"
    ),
    "an ended lease cost what its attempts cost": "UPDATE lease SET cost_closed = 5",
    "a lease expires at its expiry and not before": (
        "UPDATE lease SET reason = '{\"code\": \"expired\"}', release_requested_at = expires_at - interval '1 second'"
    ),
    "an ended group has no live member": (
        f"{GROUP} UPDATE lease_group SET state = 'ended', ended_at = now(), next_due = NULL;"
        "UPDATE lease SET state = 'queued', desired = 'run', ended_at = NULL"
    ),
    "members of a group launch in its pool": (
        f"{GROUP} UPDATE lease SET state = 'queued', desired = 'run', ended_at = NULL;"
        "UPDATE lease_group SET pool = jsonb_build_object('account', 'main', 'region', 'us-east-1', 'zone', 'other',"
        " 'instance_type', 'g5.xlarge', 'market', 'spot');"
        "UPDATE attempt SET state = 'sent', ended_at = NULL"
    ),
    "a lease that holds a volume is live, of its tenant, and named it": (
        f"{VOLUME} UPDATE volume SET lease_id = (SELECT id FROM lease)"
    ),
    "a disk belongs to one volume": f"{VOLUME} {VOLUME.replace('vol_x', 'vol_y')}",
    "secrets of ended leases are forgotten": (
        "INSERT INTO lease_secret (lease_id, tenant_id, startup_script) SELECT id, tenant_id, 'secret' FROM lease"
    ),
}


def make(store: Store) -> None:
    """One ended lease with one dead attempt, all in order."""
    store.tenant_id = store.tenant(gpus=8)
    lease_id = store.lease()
    attempt_id = store.attempt(lease_id)
    store.run(text(f"UPDATE attempt SET state = 'dead', params = NULL, {END} WHERE id = '{attempt_id}'"))
    store.run(text("UPDATE lease SET state = 'released', desired = 'end', next_due = NULL, ended_at = now()"))


@pytest.mark.parametrize("name", [check.name for check in CHECKS])
def test_each_invariant_finds_its_violation(store: Store, database_url: str, name: str) -> None:
    make(store)
    assert name in BREAKS, "a new invariant needs a way to break it"
    with psycopg.connect(database_url) as connection:
        connection.execute("SET ROLE gpulease_worker")
        connection.execute(BREAKS[name])
        found = [
            row for check in CHECKS if check.name == name for row in connection.execute(str(check.statement).encode())
        ]
        seen = connection.execute(str(ANY_VIOLATION).encode()).fetchone()
        connection.rollback()
    assert found
    assert seen == (True,), "what tests ask after each test must find it as well"


def test_where_all_is_well_none_of_them_complains(store: Store) -> None:
    make(store)
    with store.database.begin() as connection:
        assert violations(connection) == []
        assert not connection.execute(ANY_VIOLATION).scalar_one()
