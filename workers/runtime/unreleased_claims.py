"""Claims on leases that this process could not release, because the database took no writes."""

from collections import deque
from collections.abc import Mapping
from uuid import UUID

import structlog

from app.db.leases import batch_company
from app.domain.ids import LeaseId
from workers.runtime.database import WorkerDatabase

log = structlog.get_logger(__name__)


class UnreleasedClaims:
    """Each would last for `claim_seconds`, and nobody else frees it: this process lives. Any thread may add claims."""

    def __init__(self) -> None:
        self._claims: deque[Mapping[LeaseId, UUID]] = deque()

    def add(self, claims: Mapping[LeaseId, UUID]) -> None:
        """The release of these claims has failed."""
        log.warning("claims not released", leases=list(claims))
        self._claims.append(claims)

    def release(self, database: WorkerDatabase) -> None:
        """Releases all of them. Raises DBAPIError, and keeps them for the next time. One thread calls this."""
        while self._claims:
            database.run(batch_company.free(self._claims[0]))
            self._claims.popleft()
