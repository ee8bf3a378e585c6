"""SSH host keys that a VM reports: the API's limited access, by a one-time token, to the lease that shows the keys."""

from sqlalchemy import Integer, bindparam, select

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect
from app.db.events.events import NewEvent
from app.db.leases.transitions import write
from app.db.schema.tables import attempt, lease
from app.domain.events import LeaseHostKeys
from app.domain.ids import LeaseId

_FIRST = (
    lease.c.ssh_host_keys.is_(None),
    lease.c.attempts_count == bindparam("attempt_n", type_=Integer),
    lease.c.desired == "run",
)


def owner(host_key_hash: bytes) -> AnySelect:
    """(lease_id, n, host_key_hash) of the live attempt whose VM received this token."""
    return select(attempt.c.lease_id, attempt.c.n, attempt.c.host_key_hash).where(
        attempt.c.host_key_hash == host_key_hash, attempt.c.ended_at.is_(None)
    )


def accept(lease_id: LeaseId, n: int, keys: list[str], request_id: str) -> Bound[AnyInsert]:
    """Stores the keys on the lease while attempt `n` is its newest and no keys are known.

    The first writer succeeds; the others get no row.
    """
    new_event = NewEvent(LeaseHostKeys(n=n, keys=tuple(keys)), request_id)
    return write(lease_id, new_event, where=_FIRST, bindings={"attempt_n": n}, values={"ssh_host_keys": keys})
