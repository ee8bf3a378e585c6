"""What is recorded when a lease counts as idle: the event with what the idle time cost, and the samples that decided."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection

from app.db.leases import idle_evidence
from app.domain.events import LeaseIdle
from app.domain.idleness import Idleness
from app.domain.idleness import evidence as evidence_json
from app.domain.ids import LeaseId
from app.domain.money import format_money


def idle_event(run: Idleness, gpus: int | None, rate_per_hour: Decimal | None) -> LeaseIdle:
    """`gpus`: of the lease's VM. `rate_per_hour`: USD for all parts."""
    return LeaseIdle(
        idle_since=run.since,
        samples=run.samples,
        gpu_hours=f"{run.gpu_hours(gpus or 1):f}",
        cost=format_money(run.cost(rate_per_hour)),
    )


def evidence_of(connection: Connection, lease_id: LeaseId, run: Idleness) -> dict[str, Any]:
    """The run's samples as they stay with the lease."""
    rows: Sequence[Any] = connection.execute(*idle_evidence.samples(lease_id, run)).all()
    return evidence_json(run, rows)
