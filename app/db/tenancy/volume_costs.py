"""What volumes cost in the periods of budgets: added to `spent` in full hours, so that no amount is rounded."""

from typing import Any

from sqlalchemy import text

from app.db.core.prepared import Bound
from app.db.tenancy import commitments

MOST = 500
"""Volumes that one statement charges."""
_UNTIL = """CASE WHEN v.billing_ended_at IS NOT NULL THEN v.billing_ended_at
    ELSE v.charged_until + floor(extract(epoch FROM now() - v.charged_until) / 3600) * interval '1 hour' END"""
# Nothing is charged while the period of a budget is over: an amount would belong to two periods. A budget counts what a
# volume costs from its own creation, and from the start of its period. The locks come in the order volume, quota.
_CHARGE = text(
    f"""
    WITH chargeable AS (
        SELECT v.id, v.tenant_id, v.key_id, v.labels, coalesce(v.price_per_hour, 0) AS price, v.charged_until AS since, {_UNTIL} AS until
        FROM volume v WHERE v.tenant_id = :tenant_id AND v.billing_started_at IS NOT NULL AND v.charged_until < {_UNTIL}
          AND NOT EXISTS (SELECT FROM budget b WHERE b.tenant_id = :tenant_id AND b.period_ends_at <= now())
        ORDER BY v.id LIMIT {MOST} FOR UPDATE),
    charges AS (
        SELECT {commitments.RESOURCE} AS resource, round(sum(c.price * greatest(
            extract(epoch FROM c.until - greatest(c.since, b.period_started_at, b.created_at)), 0) / 3600), 6) AS amount
        FROM chargeable c JOIN budget b ON b.tenant_id = c.tenant_id AND {commitments.counts("c.key_id", "c.labels")} GROUP BY 1),
    locked AS (
        SELECT q.resource FROM quota q JOIN charges USING (resource) WHERE q.tenant_id = :tenant_id
        ORDER BY q.resource FOR UPDATE OF q),
    charged AS (
        UPDATE quota q SET spent = q.spent + c.amount FROM charges c JOIN locked USING (resource)
        WHERE q.tenant_id = :tenant_id AND q.resource = c.resource)
    UPDATE volume v SET charged_until = c.until FROM chargeable c WHERE v.id = c.id RETURNING v.id
    """
)


def charge(tenant_id: str) -> Bound[Any]:
    """Adds the cost of a tenant's volumes since they were last charged to its budgets. Returns (id) of each volume charged."""
    return Bound(_CHARGE, {"tenant_id": tenant_id})
