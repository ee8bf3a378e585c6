"""Holds the lock that shows that this worker process lives. Releases the claims of dead processes."""

import threading
from uuid import UUID

import structlog
from sqlalchemy import Connection

from app.db.leases import process_locks
from workers.runtime.brakes import check_cluster
from workers.runtime.database import WorkerDatabase
from workers.runtime.loop import Loop

log = structlog.get_logger(__name__)

_EVERY_SECONDS = 1.0


class ProcessLiveness:
    """The number of this process while its lock is held. Without it claims are nobody's and run out by themselves."""

    def __init__(self, database: WorkerDatabase) -> None:
        self._database = database
        self.number: int | None = None

    def claim_id(self) -> UUID:
        """For a claim of this process."""
        return process_locks.claim_id(self.number)

    def loop(self, stopping: threading.Event, freed: threading.Event) -> Loop:
        """Until the process stops. `freed` is set when there are claims to take over."""

        def stay() -> None:
            try:
                with self._database.outside_pool() as connection:
                    self._stay(connection, stopping, freed)
            finally:
                self.number = None

        return Loop("presence", stay, stopping=stopping, pause=_EVERY_SECONDS)

    def _stay(self, connection: Connection, stopping: threading.Event, freed: threading.Event) -> None:
        number = process_locks.new_number()
        if not connection.execute(process_locks.lock(number)).scalar_one():
            return
        self.number = number
        while not stopping.wait(_EVERY_SECONDS):
            if check_cluster(self._database) and free_of_the_dead(connection):
                freed.set()


def free_of_the_dead(connection: Connection) -> int:
    """Ends the claims of processes that are gone; how many."""
    count = len(connection.execute(process_locks.FREE).all())
    if count:
        log.info("claims of a dead process freed", count=count)
    return count
