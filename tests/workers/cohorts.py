"""Leases that are due at the same moment, and one cohort that moves them."""

from uuid import UUID

from app.db.leases import claims
from app.domain.ids import LeaseId
from tests.workers.fleet import Fleet
from workers.lifecycle.batches.cohorts import Cohort


def created(fleet: Fleet, count: int) -> list[LeaseId]:
    return [fleet.create(name=f"t{number}", wait_seconds=600) for number in range(count)]


def move(fleet: Fleet) -> list[LeaseId]:
    """Moves the leases that are due once, as one cohort. Returns those that were left to be moved alone."""
    left: list[LeaseId] = []

    def move_alone(lease_id: LeaseId, claim_id: UUID) -> None:
        left.append(lease_id)
        fleet.reconciler.run(lease_id, claim_id)

    rows = fleet.runtime.database.all(claims.claim_due(100, fleet.runtime.settings.claim_seconds))
    Cohort(fleet.runtime, {LeaseId(row.id): row.claim_id for row in rows}, move_alone).move()
    return left
