"""An idle lease is warned of, ends with its evidence, and never ends while its agent is silent."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, text, update

from app.db.leases import idleness
from app.db.schema.tables import event, gpu_latest, gpu_sample, lease
from app.domain.idleness import Idleness
from app.domain.ids import LeaseId
from tests.workers.fleet import ACCOUNT, REGION, Fleet
from workers.jobs import idle_notices
from workers.jobs.notices import tell
from workers.observation.idleness import evidence_of

RULE = {"after_seconds": 900, "action": "end"}


def idle(fleet: Fleet, rule: dict[str, Any], *, age: str = "30 seconds") -> LeaseId:
    """An active lease that was idle for a quarter of an hour; its newest sample has this age."""
    lease_id = fleet.create(proof="off")
    row = fleet.drive_to(lease_id, "active")
    run = fleet.runtime.database.run
    request = {**row.request, "idle": rule}
    long_ago = {"ready_at": text("now() - interval '1 hour'"), "expires_at": text("now() + interval '1 hour'")}
    run(update(lease).where(lease.c.id == lease_id).values(request=request, **long_ago))
    (attempt,) = fleet.attempts(lease_id)
    owner = {"lease_id": lease_id, "tenant_id": fleet.tenant_id}
    times = {"sampled_at": text(f"now() - interval '{age}'"), "received_at": text("now()")}
    since = text("now() - interval '15 minutes 20 seconds'")
    run(insert(gpu_latest).values(**owner, attempt_id=attempt.id, idle_samples=15, idle_since=since, gpus=1, **times))
    values = {"uuids": ["GPU-1"], "gpu_values": [[4], [1], [40], [60]], "idle": True, "at": since}
    run(insert(gpu_sample).values(**owner, **values))
    return lease_id


def events(fleet: Fleet, lease_id: LeaseId) -> list[Any]:
    of_lease = select(event).where(event.c.lease_id == lease_id, event.c.type.like("lease.idle%"))
    return list(fleet.runtime.database.all(of_lease.order_by(event.c.row_id)))


def round_of_notices(fleet: Fleet) -> int:
    return tell(fleet.runtime, ACCOUNT, REGION)


def test_an_idle_lease_ends_with_its_evidence_and_what_it_cost(fleet: Fleet) -> None:
    lease_id = idle(fleet, RULE)
    round_of_notices(fleet)
    ended = fleet.drive_to(lease_id, "released")
    assert ended.reason["code"] == "idle"
    (one,) = events(fleet, lease_id)
    assert (one.type, one.data["samples"], one.data["gpu_hours"]) == ("lease.idle", 15, "0.25")
    assert float(one.data["cost"]) > 0
    assert ended.idle_evidence["percentages"] == [[4]]
    assert ended.idle_evidence["after_seconds"] == 900


def test_a_rule_that_notifies_is_told_once_and_the_lease_runs_on(fleet: Fleet) -> None:
    lease_id = idle(fleet, {**RULE, "action": "notify"})
    assert [round_of_notices(fleet) for _ in range(2)] == [1, 0]
    assert [row.type for row in events(fleet, lease_id)] == ["lease.idle"]
    assert fleet.lease(lease_id).state == "active"
    assert fleet.lease(lease_id).idle_evidence["samples"] == 15


def test_a_vm_whose_agent_died_is_never_ended_for_idleness(fleet: Fleet) -> None:
    """Its newest sample is idle and its count is full, but nothing is known of the present."""
    lease_id = idle(fleet, RULE, age="121 seconds")
    assert round_of_notices(fleet) == 0
    fleet.runtime.database.run(idleness.wake(lease_id))
    fleet.drive(lambda: fleet.lease(lease_id).next_due > fleet.lease(lease_id).created_at + timedelta(minutes=10))
    assert fleet.lease(lease_id).state == "active"
    assert events(fleet, lease_id) == []


def test_a_lease_whose_evidence_cannot_be_read_keeps_no_other_from_its_notice(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = (idle(fleet, {**RULE, "action": "notify"}) for _ in range(2))

    def refused(connection: Connection, lease_id: LeaseId, run: Idleness) -> dict[str, Any]:
        if lease_id == bad:
            connection.execute(text("SELECT 40000::smallint"))
        return evidence_of(connection, lease_id, run)

    monkeypatch.setattr(idle_notices, "evidence_of", refused)
    assert round_of_notices(fleet) == 1
    assert [row.type for row in events(fleet, good)] == ["lease.idle"]
    assert events(fleet, bad) == []
