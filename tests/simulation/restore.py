"""The database is restored from a backup: its newest leases are lost while their VMs run, and an operator puts that right."""

from sqlalchemy import delete, select, update

from app.db import quotas
from app.db.ops import adopt_orphans
from app.db.tables import attempt, event, installation, lease, lease_console, lease_secret
from app.domain.ids import LeaseId
from tests.simulation.people import People
from tests.simulation.processes import Grounds, Process


class Restore:
    """`lost`: leases that the database has forgotten. Until the end the operator looks whether there is a hold."""

    def __init__(self, grounds: Grounds, people: People, processes: list[Process], when: float) -> None:
        self._grounds = grounds
        self._people = people
        self._processes = processes
        self.lost: set[str] = set()
        grounds.scheduler.at(when, self._restore)

    def _restore(self) -> None:
        random = self._grounds.scheduler.random
        for process in self._processes:
            process.crash("by the restore of the database")
        newest = select(lease.c.id).order_by(lease.c.id.desc()).limit(random.randint(1, 4))
        for row in self._people.do(newest)[0].all():
            self._lose(LeaseId(row.id))
        self._grounds.scheduler.after(random.uniform(20, 300), self._operate)

    def _lose(self, lease_id: LeaseId) -> None:
        self._grounds.trace.tell(f"{lease_id} is lost")
        self.lost.add(lease_id)
        rows = [
            delete(table).where(table.c.lease_id == lease_id) for table in (event, attempt, lease_secret, lease_console)
        ]
        self._people.do(quotas.release(lease_id), *rows, delete(lease).where(lease.c.id == lease_id))

    def _operate(self) -> None:
        """Adopts what there is, most times, and resumes."""
        random = self._grounds.scheduler.random
        if self._people.do(select(installation.c.hold).where(installation.c.hold.is_not(None)))[0].first():
            adopted = random.random() < 0.7
            self._grounds.trace.tell(f"the operator {'adopts and ' if adopted else ''}resumes")
            if adopted:
                self._people.do(adopt_orphans())
            self._people.do(update(installation).values(hold=None, system_identifier=None, timeline=None))
        self._grounds.scheduler.after(random.uniform(20, 300), self._operate)
