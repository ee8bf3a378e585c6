"""The database is restored from a backup: it has lost leases and extensions, and an operator puts that right.

VMs of the lost leases run, and somebody creates leases at once.
"""

from datetime import datetime, timedelta

from sqlalchemy import delete, select, text, update

from app.db.operations.ops import LIFT_HOLD, adopt_orphans
from app.db.schema.tables import (
    attempt,
    event,
    installation,
    launch_batch,
    lease,
    lease_console,
    lease_group,
    lease_secret,
    volume,
)
from app.db.tenancy import quotas
from app.domain.ids import LeaseId
from app.domain.tags import deadline
from tests.simulation.cloud import Machine
from tests.simulation.people import People
from tests.simulation.processes import Grounds, Process

_LOSE_EXTENSION = text(
    """
    UPDATE lease SET expires_at = :first, deadline_applied = CAST(:first AS timestamptz) + CAST(:grace AS interval)
    WHERE id = :id AND ended_at IS NULL AND desired = 'run' AND expires_at > :first
    """
)
_TOGETHER = text(
    """
    SELECT id FROM lease WHERE group_id IN (SELECT group_id FROM lease WHERE id = ANY (:leases))
    UNION
    SELECT lease_id FROM attempt WHERE batch_id IN (SELECT batch_id FROM attempt WHERE lease_id = ANY (:leases))
    """
)
_SHARED = text(
    """
    SELECT (SELECT array_agg(DISTINCT batch_id) FROM attempt WHERE lease_id = ANY (:leases) AND batch_id IS NOT NULL) AS batches,
           (SELECT array_agg(DISTINCT group_id) FROM lease WHERE id = ANY (:leases) AND group_id IS NOT NULL) AS groups
    """
)


class Restore:
    """`lost`: leases that the database has forgotten. `promised`: by lease, the expiry that the tag of a VM tells of, when the
    database has lost an extension. Until the end the operator looks whether there is a hold.
    """

    def __init__(self, grounds: Grounds, people: People, processes: list[Process], when: float) -> None:
        self._grounds = grounds
        self._people = people
        self._processes = processes
        self.happened = False
        self.lost: set[str] = set()
        self.promised: dict[str, tuple[datetime, Machine]] = {}
        grounds.scheduler.at(when, self._restore)

    def _restore(self) -> None:
        random = self._grounds.scheduler.random
        self.happened = True
        self._grounds.scheduler.count("database: restored")
        for process in self._processes:
            process.crash("by the restore of the database")
        newest = select(lease.c.id).order_by(lease.c.id.desc()).limit(random.randint(0, 4))
        self._lose([LeaseId(row.id) for row in self._people.do(newest)[0].all()])
        if random.random() < 0.7:
            # a dump, and not the disk of a server: it shows, so that lost extensions are not taken for foreign tags
            self._people.do(update(installation).values(database_identity="another"))
            self._lose_extensions()
        for _ in range(random.randint(0, 3)):
            self._people.create()
        self._grounds.scheduler.after(random.uniform(20, 300), self._operate)

    def _lose(self, newest: list[LeaseId]) -> None:
        """A backup has all of a group or of a launch batch, or nothing: with a lease the others of both are lost."""
        lost = set(newest)
        while True:
            rows = self._people.do(_TOGETHER.bindparams(leases=sorted(lost)))[0].all()
            more = {LeaseId(row.id) for row in rows} - lost
            if not more:
                break
            lost |= more
        [shared] = self._people.do(_SHARED.bindparams(leases=sorted(lost)))[0].all()
        for lease_id in sorted(lost):
            self._lose_lease(lease_id)
        self._people.do(
            delete(launch_batch).where(launch_batch.c.id.in_(shared.batches or [])),
            delete(lease_group).where(lease_group.c.id.in_(shared.groups or [])),
        )

    def _lose_lease(self, lease_id: LeaseId) -> None:
        self._grounds.trace.tell(f"{lease_id} is lost")
        self._grounds.scheduler.count("database: lease lost")
        self.lost.add(lease_id)
        rows = [
            delete(table).where(table.c.lease_id == lease_id) for table in (event, attempt, lease_secret, lease_console)
        ]
        free = update(volume).where(volume.c.lease_id == lease_id).values(lease_id=None)  # as before the claim
        self._people.do(quotas.release(lease_id), free, *rows, delete(lease).where(lease.c.id == lease_id))

    def _lose_extensions(self) -> None:
        grace = timedelta(seconds=self._grounds.settings.deadline_grace_seconds)
        living = [
            machine for cloud in self._grounds.clouds.values() for machine in cloud.living() if not machine.copied
        ]
        for machine in living:
            lease_id, tagged = LeaseId(machine.key[0]), deadline(machine.tags)
            first = self._people.first_terms.get(lease_id)
            if tagged is None or first is None or tagged - grace <= first:
                continue
            if self._people.do(_LOSE_EXTENSION.bindparams(id=lease_id, first=first, grace=grace))[0].rowcount:
                self._grounds.scheduler.count("database: extension lost")
                self._grounds.trace.tell(f"{lease_id} has lost its extension to {tagged - grace}")
                self.promised[lease_id] = tagged - grace, machine

    def _operate(self) -> None:
        """Adopts what there is, most times, and resumes."""
        random = self._grounds.scheduler.random
        if self._people.do(select(installation.c.hold).where(installation.c.hold.is_not(None)))[0].first():
            adopted = random.random() < 0.7
            self._grounds.trace.tell(f"the operator {'adopts and ' if adopted else ''}resumes")
            if adopted:
                self._people.do(adopt_orphans())
            self._people.do(LIFT_HOLD)
        self._grounds.scheduler.after(random.uniform(20, 300), self._operate)
