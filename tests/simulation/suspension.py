"""An operator suspends a tenant for a while, and what must hold of its leases meanwhile."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from random import Random

from sqlalchemy import text, update

from app.db.schema.tables import tenant
from app.domain.ids import TenantId
from app.services.errors import ServiceError
from app.services.preconditions import IfMatch
from app.services.principal import Role
from app.services.tenants.tenants import TenantChange, TenantService
from tests.simulation.cloud import Violation
from tests.simulation.processes import Grounds
from tests.simulation.services import attempt, context, principal

_SENT = text(
    """
    SELECT a.lease_id, a.n FROM attempt a JOIN tenant t ON t.id = a.tenant_id
    WHERE t.id = :tenant AND t.status = 'suspended' AND a.last_sent_at > :since
    """
)


class Suspension:
    """Everything that happens within `seconds` is arranged at once. The random numbers are its own."""

    def __init__(self, grounds: Grounds, seed: int | str, tenants: Sequence[TenantId], seconds: float) -> None:
        self._grounds = grounds
        self._suspended: tuple[TenantId, datetime] | None = None
        random = Random(f"suspension of {seed}")
        if random.random() >= grounds.weather.suspended:
            return
        begin, tenant_id = random.uniform(30, seconds * 0.8), random.choice(tenants)
        grounds.scheduler.at(begin, partial(self._suspend, tenant_id))
        grounds.scheduler.at(begin + random.uniform(60, 600), self.lift)

    def _suspend(self, tenant_id: TenantId) -> None:
        grounds = self._grounds
        change = TenantChange(values={"status": "suspended"})
        service = TenantService(context(grounds))
        call = service.change(principal(Role.OPERATOR, None), tenant_id, change, IfMatch())
        if not isinstance(attempt(grounds, "tenant", "suspended", call), ServiceError):
            self._suspended = tenant_id, grounds.scheduler.time
            grounds.trace.tell(f"{tenant_id} is suspended")

    def lift(self) -> None:
        """Every tenant is active."""
        self._suspended = None
        connection = self._grounds.clocked.begin(self._grounds.scheduler)
        connection.execute(update(tenant).values(status="active"))
        self._grounds.clocked.commit()
        self._grounds.scheduler.changed = True

    def check(self) -> None:
        """After each transaction of a worker: no create call was sent for a lease of a suspended tenant."""
        if self._suspended is None:
            return
        tenant_id, since = self._suspended
        self._grounds.clocked.set_time(self._grounds.scheduler)
        for row in self._grounds.clocked.connection.execute(_SENT, {"tenant": tenant_id, "since": since}):
            raise Violation(f"attempt {row.n} of {row.lease_id} was sent after its tenant was suspended")
