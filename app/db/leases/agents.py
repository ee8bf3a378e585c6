"""The API's limited access to the lease of an agent, by the agent's token."""

from sqlalchemy import LargeBinary, bindparam, func, select

from app.db.core.compiled import Query
from app.db.schema.tables import attempt, lease

OWNER = Query(
    select(
        attempt.c.id.label("attempt_id"),
        attempt.c.lease_id,
        attempt.c.tenant_id,
        attempt.c.n,
        attempt.c.agent_hash,
        attempt.c.provider,
        attempt.c.region,
        attempt.c.offering,
        lease.c.state,
        lease.c.desired,
        lease.c.ready_at,
        lease.c.request["image"].astext.label("image"),
        lease.c.request["proof"].astext.label("proof_wish"),
        lease.c.proof,
        lease.c.gpu_health,
        func.now().label("now"),
    )
    .select_from(attempt.join(lease, lease.c.id == attempt.c.lease_id))
    .where(
        attempt.c.agent_hash == bindparam("agent_hash", type_=LargeBinary),
        attempt.c.ended_at.is_(None),
        attempt.c.n == lease.c.attempts_count,
    )
)

"""The live attempt, newest of its lease, whose VM received the token with `agent_hash`. One row, or none."""
