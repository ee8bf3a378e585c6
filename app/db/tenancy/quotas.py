"""Statements that reserve and release quota. Each is atomic and leaves `used` equal to the sum of the claims.

Increases are made all together or not at all; decreases are always made, regardless of the limits. Locks are taken in
the order tenant, lease, attempt, quota, and rows of quota in sorted order. No two transactions therefore deadlock.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from sqlalchemy import Executable, TextClause, text
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.compiled import Compiled
from app.db.core.prepared import Bound
from app.db.schema.tables import quota, quota_claim
from app.domain.ids import LeaseId, TenantId

_WANTED = "SELECT * FROM unnest(CAST(:resources AS text[]), CAST(:amounts AS numeric[])) AS w (resource, amount)"

# The rule of app.domain.quotas.allowed, in SQL.
_FITS = (
    """(d.delta <= 0 OR CASE WHEN q."limit" IS NULL THEN q.resource <> 'gpus' ELSE q.used + d.delta <= q."limit" END)"""
)

# Decreases are always made. Increases are made all together, or not at all. Nothing changes while a resource has no row.
# `locked` has the current values, not those of the statement's start: FOR UPDATE reads a row again after a wait.
# A lease must be able to end although the count is already wrong. `used` then stops at zero, and RECOUNT reports the
# difference.
_CHANGE = f"""
    locked AS (
        SELECT q.resource, q."limit", q.used FROM quota q JOIN delta d USING (resource)
        WHERE q.tenant_id = {{tenant}} ORDER BY q.resource FOR UPDATE OF q),
    answer AS (
        SELECT count(q.resource) = count(*) AS counted, coalesce(bool_and(q.resource IS NOT NULL AND {_FITS}), TRUE) AS fits
        FROM delta d LEFT JOIN locked q USING (resource)),
    made AS (SELECT d.resource, d.delta FROM delta d, answer a WHERE a.counted AND (a.fits OR d.delta < 0)),
    changed AS (
        UPDATE quota q SET used = greatest(q.used + m.delta, 0) FROM made m
        WHERE q.tenant_id = :tenant_id AND q.resource = m.resource)
"""

# The creation of a lease takes a shared lock on its tenant. As everywhere else, that lock comes before the quota.
_ADMIT = text(
    f"""
    WITH owner AS MATERIALIZED (SELECT id FROM tenant WHERE id = :tenant_id FOR SHARE),
    delta AS (SELECT resource, amount AS delta FROM ({_WANTED}) w), {_CHANGE.format(tenant="(SELECT id FROM owner)")}
    SELECT fits FROM answer
    """
)

ADMIT = Compiled(_ADMIT)
"""As `admit`, for the API. Parameters: tenant_id, resources, amounts."""

_RESERVE = text(
    f"""
    WITH wanted AS ({_WANTED}), delta AS (
        SELECT resource, coalesce(w.amount, 0) - coalesce(h.amount, 0) AS delta
        FROM wanted w
        FULL JOIN (SELECT resource, amount FROM quota_claim WHERE lease_id = :lease_id) h USING (resource)
        WHERE coalesce(w.amount, 0) <> coalesce(h.amount, 0)), {_CHANGE.format(tenant=":tenant_id")},
    dropped AS (
        DELETE FROM quota_claim c USING made m
        WHERE c.lease_id = :lease_id AND c.resource = m.resource AND c.amount + m.delta = 0),
    claimed AS (
        INSERT INTO quota_claim (lease_id, tenant_id, resource, amount)
        SELECT :lease_id, :tenant_id, w.resource, w.amount FROM wanted w JOIN made m USING (resource)
        ON CONFLICT (lease_id, resource) DO UPDATE SET amount = excluded.amount)
    SELECT fits, NOT counted AS uncounted FROM answer
    """
)

_RELEASE = text(
    """
    WITH locked AS (
        SELECT q.resource FROM quota q JOIN quota_claim c ON c.tenant_id = q.tenant_id AND c.resource = q.resource
        WHERE c.lease_id = :lease_id ORDER BY q.resource FOR UPDATE OF q),
    gone AS (
        DELETE FROM quota_claim WHERE lease_id = :lease_id AND (SELECT count(*) FROM locked) > 0
        RETURNING tenant_id, resource, amount)
    UPDATE quota q SET used = greatest(q.used - gone.amount, 0) FROM gone
    WHERE q.tenant_id = gone.tenant_id AND q.resource = gone.resource
    """
)


def _arrays(amounts: Mapping[str, Decimal]) -> dict[str, object]:
    return {"resources": list(amounts), "amounts": list(amounts.values())}


def admit(tenant_id: TenantId, amounts: Mapping[str, Decimal]) -> Executable:
    """Reserves all of `amounts` or nothing. Returns one row (fits)."""
    return _ADMIT.bindparams(tenant_id=tenant_id, **_arrays(amounts))


def reserve(tenant_id: TenantId, lease_id: LeaseId, amounts: Mapping[str, Decimal]) -> Bound[TextClause]:
    """Changes the reservation of the lease to `amounts`. The caller holds the lease's row lock.

    Returns one row (fits, uncounted). Decreases are always made. Increases are made all together (`fits`), or not at
    all. Claims and `used` agree either way, so the caller may commit or roll back. `uncounted`: nothing was done, since
    a resource has no row of quota. The caller then calls `ensure_rows` and repeats the statement.
    """
    return Bound(_RESERVE, {"tenant_id": tenant_id, "lease_id": lease_id, **_arrays(amounts)})


def release(lease_id: LeaseId) -> Executable:
    """Releases all that the lease has reserved. A second call finds no claim, and changes nothing."""
    return _RELEASE.bindparams(lease_id=lease_id)


def remember(tenant_id: TenantId, lease_id: LeaseId, amounts: Mapping[str, Decimal]) -> Insert:
    """Writes the current reservation of the lease. `amounts` must not be empty."""
    rows = [
        {"lease_id": lease_id, "tenant_id": tenant_id, "resource": name, "amount": amount}
        for name, amount in sorted(amounts.items())
    ]
    statement = insert(quota_claim).values(rows)
    return statement.on_conflict_do_update(
        index_elements=[quota_claim.c.lease_id, quota_claim.c.resource],
        set_={"amount": statement.excluded.amount},
    )


def ensure_rows(tenant_id: TenantId, resources: Iterable[str]) -> Insert:
    """Inserts the rows that count the use of resources without a limit."""
    rows = [{"tenant_id": tenant_id, "resource": name} for name in sorted(resources)]
    return insert(quota).values(rows).on_conflict_do_nothing()


RECOUNT = text(
    """
    SELECT q.tenant_id, q.resource, q.used, coalesce(c.amount, 0) AS claimed
    FROM quota q LEFT JOIN (
        SELECT tenant_id, resource, sum(amount) AS amount FROM quota_claim GROUP BY 1, 2) c
        ON c.tenant_id = q.tenant_id AND c.resource = q.resource
    WHERE q.used <> coalesce(c.amount, 0)
    """
)
"""Rows where `used` differs from the claims. The result must always be empty."""

__all__ = ["ADMIT", "RECOUNT", "admit", "ensure_rows", "release", "remember", "reserve"]
