"""The GPUs that are paid for now, and what their agents reported last."""

from sqlalchemy import Integer, Text, and_, bindparam, cast, extract, func, select

from app.db.core.compiled import Query
from app.db.core.tenant_scope import asking
from app.db.schema.tables import attempt, gpu_latest, lease

_LIMIT = bindparam("limit", type_=Integer())
_IS_PAID = lease.c.rate_per_hour.is_not(None)
_AGE = extract("epoch", func.now() - gpu_latest.c.sampled_at).label("age_seconds")

PAID = Query(
    select(
        lease.c.id.label("lease_id"),
        lease.c.name,
        lease.c.gpu_model,
        lease.c.gpu_count,
        lease.c.state,
        lease.c.rate_per_hour,
        lease.c.gpu_health["status"].as_string().label("health"),
        gpu_latest.c.gpu_percents,
        _AGE,
    )
    .select_from(lease.outerjoin(gpu_latest, gpu_latest.c.lease_id == lease.c.id))
    .where(_IS_PAID, asking(lease.c.tenant_id))
    .order_by(lease.c.created_at.desc(), lease.c.id)
)
"""Leases that are billed now, the newest first, with the newest sample of each."""

REPORTING = Query(
    select(
        lease.c.id.label("lease_id"),
        lease.c.tenant_id,
        lease.c.gpu_model,
        lease.c.gpu_count,
        lease.c.provider,
        lease.c.region,
        cast(lease.c.proof["gpus"], Text).label("proven"),
        attempt.c.instance_type,
        *(cast(gpu_latest.c[name], Text).label(name) for name in ("sample", "xids", "metric_labels")),
        _AGE,
    )
    .select_from(
        lease.join(gpu_latest, gpu_latest.c.lease_id == lease.c.id).join(
            attempt, attempt.c.id == gpu_latest.c.attempt_id
        )
    )
    .where(and_(lease.c.state == "active", asking(lease.c.tenant_id), gpu_latest.c.metric_labels.is_not(None)))
    .order_by(lease.c.id)
    .limit(_LIMIT)
)
"""Parameter: limit. `proven`, `sample`, `xids` and `metric_labels` are JSON text. Active leases whose agents report."""
