"""Statements that take and give back quota. Each is atomic and leaves `used` equal to the sum of the claims.

All lock the touched quota rows in sorted order, so that two of them never wait for each other in a circle.
"""

from collections.abc import Iterable, Mapping
from decimal import Decimal

from sqlalchemy import Executable, TextClause, text
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.bound import Bound
from app.db.compiled import Compiled
from app.db.tables import quota, quota_claim
from app.domain.ids import LeaseId, TenantId

_WANTED = "SELECT * FROM unnest(CAST(:resources AS text[]), CAST(:amounts AS numeric[])) AS w (resource, amount)"

# The rule of app.domain.quotas.allowed, said once in SQL.
_FITS = """(d.delta <= 0 OR q."limit" IS NULL AND q.resource <> 'gpus' OR q.used + d.delta <= q."limit")"""

_TAKE = f"""
    locked AS (
        SELECT q.resource FROM quota q JOIN delta d USING (resource)
        WHERE q.tenant_id = :tenant_id ORDER BY q.resource FOR UPDATE OF q),
    taken AS (
        UPDATE quota q SET used = q.used + d.delta FROM delta d
        WHERE q.tenant_id = :tenant_id AND q.resource = d.resource
          AND (SELECT count(*) FROM locked) = (SELECT count(*) FROM delta) AND {_FITS}
        RETURNING q.resource),
    answer AS (SELECT (SELECT count(*) FROM taken) = (SELECT count(*) FROM delta) AS fits)
"""

_ADMIT = text(f"WITH delta AS (SELECT resource, amount AS delta FROM ({_WANTED}) w), {_TAKE} SELECT fits FROM answer")

ADMIT = Compiled(_ADMIT)
"""As `admit`, for the API. Parameters: tenant_id, resources, amounts."""

_HOLD = text(
    f"""
    WITH wanted AS ({_WANTED}), delta AS (
        SELECT resource, coalesce(w.amount, 0) - coalesce(h.amount, 0) AS delta
        FROM wanted w
        FULL JOIN (SELECT resource, amount FROM quota_claim WHERE lease_id = :lease_id) h USING (resource)
        WHERE coalesce(w.amount, 0) <> coalesce(h.amount, 0)), {_TAKE},
    dropped AS (
        DELETE FROM quota_claim c
        WHERE c.lease_id = :lease_id AND NOT EXISTS (SELECT FROM wanted w WHERE w.resource = c.resource)
          AND (SELECT fits FROM answer)),
    claimed AS (
        INSERT INTO quota_claim (lease_id, tenant_id, resource, amount)
        SELECT :lease_id, :tenant_id, resource, amount FROM wanted WHERE (SELECT fits FROM answer)
        ON CONFLICT (lease_id, resource) DO UPDATE SET amount = excluded.amount)
    SELECT fits, (SELECT count(*) FROM locked) < (SELECT count(*) FROM delta) AS uncounted FROM answer
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
    UPDATE quota q SET used = q.used - gone.amount FROM gone
    WHERE q.tenant_id = gone.tenant_id AND q.resource = gone.resource
    """
)


def _arrays(amounts: Mapping[str, Decimal]) -> dict[str, object]:
    return {"resources": list(amounts), "amounts": list(amounts.values())}


def admit(tenant_id: TenantId, amounts: Mapping[str, Decimal]) -> Executable:
    """Takes all of `amounts` or, in part: answers one row `fits`; false means roll back."""
    return _ADMIT.bindparams(tenant_id=tenant_id, **_arrays(amounts))


def hold(tenant_id: TenantId, lease_id: LeaseId, amounts: Mapping[str, Decimal]) -> Bound[TextClause]:
    """Takes or gives back the difference to what the lease holds; its row lock is the caller's. One row (fits, uncounted).

    `uncounted`: nothing was done, since a resource has no row of quota: `ensure_rows`, then ask again. Otherwise, when it
    does not fit, roll back.
    """
    return Bound(_HOLD, {"tenant_id": tenant_id, "lease_id": lease_id, **_arrays(amounts)})


def release(lease_id: LeaseId) -> Executable:
    """Gives back all that the lease holds. Happens once: a second time there is no claim left."""
    return _RELEASE.bindparams(lease_id=lease_id)


def remember(tenant_id: TenantId, lease_id: LeaseId, amounts: Mapping[str, Decimal]) -> Insert:
    """Writes what the lease holds now. `amounts` must not be empty."""
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
    """Makes the rows that count use of resources nobody has limited yet."""
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
"""Rows where `used` differs from the claims: there must never be one."""

__all__ = ["ADMIT", "RECOUNT", "admit", "ensure_rows", "hold", "release", "remember"]
