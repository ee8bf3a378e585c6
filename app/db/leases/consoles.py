"""Console output of VMs that did not boot."""

from sqlalchemy import Update, func, select, update
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.sql import AnySelect
from app.db.core.tenant_scope import owned
from app.db.schema.tables import attempt, lease_console
from app.domain.ids import AttemptId, LeaseId, TenantId


def ask_once(attempt_id: AttemptId) -> Update:
    """One row for the first who asks, none for the others: fetching is tried once, whatever comes of it."""
    return (
        update(attempt)
        .where(attempt.c.id == attempt_id, attempt.c.console_asked_at.is_(None))
        .values(console_asked_at=func.now())
        .returning(attempt.c.id)
    )


def keep(tenant_id: TenantId, lease_id: LeaseId, n: int, output: str) -> Insert:
    """What the VM of one attempt has printed."""
    values = {"tenant_id": tenant_id, "lease_id": lease_id, "n": n, "text": output}
    return insert(lease_console).values(values).on_conflict_do_nothing()


def of_lease(lease_id: str, *, within: str | None) -> AnySelect:
    """(n, text, at) of the attempts of a lease of the tenant `within` (None: of any), in order."""
    return (
        select(lease_console.c.n, lease_console.c.text, lease_console.c.at)
        .where(lease_console.c.lease_id == lease_id, owned(lease_console.c.tenant_id, within))
        .order_by(lease_console.c.n)
    )
