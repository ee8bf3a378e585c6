"""The proof and the health of a lease's GPUs: the only statements that write them from a report.

Decisions about them (`workers.lifecycle.steps.gpu_failure`) are written with the claim. A report needs none.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import ARRAY, Integer, Text, TextClause, Update, bindparam, func, literal, or_, select, text

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect, Json, Time
from app.db.events.events import NewEvent
from app.db.leases import attempts
from app.db.leases.claims import held_by
from app.db.leases.transitions import WAKE, write
from app.db.schema.tables import attempt, bad_gpu, lease
from app.domain.event_parts import EventFinding
from app.domain.events import LeaseGpuHealth, LeaseProof
from app.domain.gpus.checks import TENANTS_NEEDED
from app.domain.gpus.findings import HealthStatus
from app.domain.gpus.health import HealthRecord
from app.domain.gpus.proofs import ProofRecord
from app.domain.ids import AttemptId, LeaseId
from app.domain.leases import LIVE_ATTEMPT, LeaseState

_NEWEST = lease.c.attempts_count == bindparam("attempt_n", type_=Integer)
_WANTED = lease.c.desired == "run"
_BOOTING = lease.c.state == str(LeaseState.BOOTING)
_ACTIVE = lease.c.state == str(LeaseState.ACTIVE)
SAME_PROOF = lease.c.proof.is_not_distinct_from(bindparam("before", type_=Json))
"""Guard: the lease's column is as it was read. `given`: `before`."""
_SAME_HEALTH = lease.c.gpu_health.is_not_distinct_from(bindparam("before", type_=Json))


def accept(
    lease_id: LeaseId, record: ProofRecord, before: dict[str, Any] | None, *, request_id: str | None = None
) -> Bound[AnyInsert]:
    """Stores a judged proof of a VM that was seen running, before the lease is active, and wakes the lease. Returns no row when `before` has changed.

    `before`: the lease's column as it was read.
    """
    findings = tuple(EventFinding.of(finding) for finding in record.findings)
    event = LeaseProof(n=record.n, status=record.status, via=record.via, findings=findings)
    return write(
        lease_id,
        NewEvent(event, request_id),
        where=[_NEWEST, _WANTED, _BOOTING, SAME_PROOF],
        bindings={"attempt_n": record.n, "before": before},
        values={"proof": record.as_json(), **WAKE},
    )


def set_health(
    lease_id: LeaseId, record: HealthRecord, before: dict[str, Any] | None, *, request_id: str | None = None
) -> Bound[AnyInsert]:
    """Stores the health that an agent reports of an active lease. A failing one wakes the lease. Otherwise as `accept`."""
    findings = tuple(EventFinding.of(finding) for finding in record.findings)
    event = LeaseGpuHealth(n=record.n, status=record.status, findings=findings)
    wake = WAKE if record.status is HealthStatus.FAILING else {}
    return write(
        lease_id,
        NewEvent(event, request_id),
        where=[_NEWEST, _WANTED, _ACTIVE, _SAME_HEALTH],
        bindings={"attempt_n": record.n, "before": before},
        values={"gpu_health": record.as_json(), **wake},
    )


STILL_FAILING = lease.c.gpu_health["status"].astext == str(HealthStatus.FAILING)
"""Guard: no later report shows the GPUs healthy."""


_KNOWN_BAD = (
    select(bad_gpu.c.uuid)
    .where(
        bad_gpu.c.provider == bindparam("provider", type_=Text),
        bad_gpu.c.region == bindparam("region", type_=Text),
        bad_gpu.c.uuid == func.any(bindparam("uuids", type_=ARRAY(Text))),
        bad_gpu.c.last_seen_at > func.now() - text("interval '30 days'"),
    )
    .group_by(bad_gpu.c.uuid)
    .having(
        or_(func.count() >= TENANTS_NEEDED, func.bool_or(bad_gpu.c.tenant_id == bindparam("tenant_id", type_=Text)))
    )
)


def known_bad(provider: str, region: str, tenant_id: str, uuids: Sequence[str]) -> Bound[AnySelect]:
    """Those of the GPUs that failed a check in the last 30 days, as VMs of this tenant or of two others have shown.

    A GPU does not leave its region. It may serve any account of its provider there.
    """
    parameters = {"provider": provider, "region": region, "tenant_id": tenant_id, "uuids": list(uuids)}
    return Bound(_KNOWN_BAD, parameters)


# --- by workers -------------------------------------------------------------------------------------------------


_BEGIN_WAIT = text(
    """
    UPDATE attempt SET proof_awaited_at = coalesce(attempt.proof_awaited_at, now())
    FROM unnest(CAST(:attempts AS text[]), CAST(:claims AS uuid[])) AS w (id, claim_id), lease
    WHERE attempt.id = w.id AND lease.id = attempt.lease_id AND lease.claim_id = w.claim_id
        AND attempt.state = ANY (CAST(:live AS text[]))
    RETURNING attempt.id
    """
)


def begin_wait(claimed: Mapping[AttemptId, UUID]) -> Bound[TextClause]:
    """Records since when the ready VMs of these attempts are waited for. Returns those whose leases have these claims.

    The caller has locked the leases.
    """
    live = [str(state) for state in LIVE_ATTEMPT]
    return Bound(_BEGIN_WAIT, {"attempts": list(claimed), "claims": list(claimed.values()), "live": live})


def console_read(attempt_id: AttemptId, token: str, *, claim_id: UUID) -> Update:
    """Counts a read of the console. Requires the claim."""
    tries = {"console_proof_tries": attempt.c.console_proof_tries + 1}
    return attempts.fact(attempt_id, token, tries).where(held_by(claim_id))


def rebooted(attempt_id: AttemptId, token: str, *, claim_id: UUID) -> Update:
    """The VM, which was ready, was rebooted for its GPUs: it is waited for anew. Requires the claim."""
    anew = {"gpu_rebooted_at": func.now(), "console_proof_tries": 0, "retry_at": literal(None, Time), "ready": True}
    return attempts.fact(attempt_id, token, anew).where(held_by(claim_id))
