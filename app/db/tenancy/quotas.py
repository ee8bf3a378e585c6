"""Statements that reserve and release quota and budgets. Each leaves `used` equal to the sum of the claims.

Increases are made all together or not at all; decreases are always made, regardless of the limits. Locks are taken in
the order tenant, lease, attempt, quota, and rows of quota in sorted order. No two transactions therefore deadlock.
The amounts of budgets are computed in the statements: see `app.db.tenancy.commitments`.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Executable, Integer, Interval, TextClause, bindparam, text

from app.db.core.compiled import Compiled
from app.db.core.prepared import Bound
from app.db.core.sql import Amount, Id, Json
from app.db.tenancy import commitments
from app.domain.ids import LeaseId, TenantId

_WANTED = "SELECT * FROM unnest(CAST(:resources AS text[]), CAST(:amounts AS numeric[])) AS w (resource, amount)"

# The rule of app.domain.quotas.allowed, in SQL.
_FITS = """(d.delta <= 0
    OR CASE WHEN q."limit" IS NULL THEN q.resource <> 'gpus' ELSE q.used + q.spent + d.delta <= q."limit" END)"""

# Decreases are always made. Increases are made all together, or not at all. Nothing changes while a resource has no row.
# `locked` has the current values, not those of the statement's start: FOR UPDATE reads a row again after a wait.
# A lease must be able to end although the count is already wrong. `used` then stops at zero, and RECOUNT reports the
# difference. A lease that leaves a budget leaves what it has cost there.
_CHANGE = f"""
    locked AS (
        SELECT q.resource, q."limit", q.used, q.spent FROM quota q JOIN delta d USING (resource)
        WHERE q.tenant_id = {{tenant}} ORDER BY q.resource FOR UPDATE OF q),
    answer AS (
        SELECT count(q.resource) = count(*) AS counted,
            {{current}} AND coalesce(bool_and(q.resource IS NOT NULL AND {_FITS}), TRUE) AS fits,
            coalesce(bool_or(d.resource LIKE 'budget:%' AND NOT {_FITS}), FALSE) AS over_budget
        FROM delta d LEFT JOIN locked q USING (resource)),
    made AS (SELECT d.resource, d.delta FROM delta d, answer a WHERE a.counted AND (a.fits OR d.delta <= 0)),
    changed AS (
        UPDATE quota q SET used = greatest(q.used + m.delta, 0){{spent}} FROM made m
        WHERE q.tenant_id = :tenant_id AND q.resource = m.resource)
"""

# The creation of a lease takes a shared lock on its tenant. As everywhere else, that lock comes before the quota. The
# lock reads the tenant again after a wait; the rest of the statement sees the budgets as they were at its start. Where
# the two differ, the set of budgets has changed meanwhile. Nothing fits then, nor while the period of a budget is over:
# the caller may go on in the same transaction, and nothing is reserved.
_HELD_BY_NEW = commitments.commitment(":rate", so_far="0", room=":max_cost", left=":max_cost")
_CURRENT = "(SELECT NOT (outdated OR due) FROM seen)"
_ROOM = f"""
    WITH owner AS MATERIALIZED (SELECT id, budgets_version FROM tenant WHERE id = :tenant_id FOR SHARE),
    counting AS (
        SELECT {commitments.RESOURCE} AS resource, b.period_ends_at <= now() AS due,
            {commitments.hours_until("now() + :ttl")}
        FROM owner o JOIN budget b ON b.tenant_id = o.id AND {commitments.counts(":key_id", ":labels")}),
    seen AS (
        SELECT EXISTS (
            SELECT FROM owner o JOIN tenant t ON t.id = o.id WHERE t.budgets_version <> o.budgets_version) AS outdated,
            EXISTS (SELECT FROM counting WHERE due) AS due),
    budgeted AS (SELECT n.resource, {_HELD_BY_NEW} AS amount FROM counting n),
    delta AS (
        SELECT resource, amount * CAST(:members AS int) AS delta
        FROM (SELECT resource, amount FROM ({_WANTED}) w UNION ALL SELECT resource, amount FROM budgeted) one),
    {_CHANGE.format(tenant="(SELECT id FROM owner)", spent="", current=_CURRENT)}{{claimed}}
    SELECT fits, over_budget, outdated, due,
        ARRAY(SELECT resource FROM budgeted ORDER BY resource) AS budgets,
        ARRAY(SELECT amount FROM budgeted ORDER BY resource) AS budget_amounts
    FROM answer, seen
    """
_CLAIMED = """,
    claimed AS (
        INSERT INTO quota_claim (lease_id, tenant_id, resource, amount)
        SELECT :lease_id, :tenant_id, m.resource, m.delta FROM made m, answer a WHERE a.fits)
    """


def _admitting(claimed: str = "") -> TextClause:
    return text(_ROOM.format(claimed=claimed)).bindparams(
        bindparam("rate", type_=Amount),
        bindparam("max_cost", type_=Amount),
        bindparam("ttl", type_=Interval),
        bindparam("key_id", type_=Id),
        bindparam("labels", type_=Json),
        bindparam("members", value=1, type_=Integer),
    )


_ADMIT = _admitting()

ADMIT = Compiled(_ADMIT)
"""As `admit`, for the API. Parameters: tenant_id, resources, amounts, rate, max_cost, ttl, key_id, labels, and
members (1)."""

ADMIT_LEASE = Compiled(_admitting(_CLAIMED).bindparams(bindparam("lease_id", type_=Id)))
"""As ADMIT, for one lease that the transaction has inserted, with its claims. Parameter besides: lease_id."""

# `spending` has the budgets of the leases; `left_to` is what leases leave in those that no longer count them. Either all
# leases change what they hold of a resource, or none does.
_LEASES = "CAST(:leases AS text[])"
_RESERVE = f"""
    WITH {{held_by}},
    wanted AS ({{amounts}} SELECT lease_id, resource, amount FROM budgeted),
    held AS (SELECT lease_id, resource, amount, base FROM quota_claim WHERE lease_id = ANY({_LEASES}){{these}}),
    left_to AS (
        SELECT h.resource, sum(round(greatest({{accrued}} - {{base}}, 0), 6)) AS amount FROM held h JOIN lease l ON l.id = h.lease_id
            JOIN budget b ON b.tenant_id = l.tenant_id AND {commitments.RESOURCE} = h.resource
        WHERE h.resource LIKE 'budget:%' AND NOT EXISTS (
            SELECT FROM budgeted b WHERE b.lease_id = h.lease_id AND b.resource = h.resource) GROUP BY 1),
    change AS (
        SELECT lease_id, resource, coalesce(w.amount, 0) - coalesce(h.amount, 0) AS delta
        FROM wanted w FULL JOIN held h USING (lease_id, resource) WHERE coalesce(w.amount, 0) <> coalesce(h.amount, 0)),
    delta AS (SELECT resource, sum(delta) AS delta FROM change GROUP BY 1), {_CHANGE},
    dropped AS (
        DELETE FROM quota_claim c USING answer a
        WHERE c.lease_id = ANY({_LEASES}){{these}} AND a.counted
          AND NOT EXISTS (SELECT FROM wanted w WHERE w.lease_id = c.lease_id AND w.resource = c.resource)
          AND (c.amount = 0 OR EXISTS (SELECT FROM made m WHERE m.resource = c.resource))),
    claimed AS (
        INSERT INTO quota_claim (lease_id, tenant_id, resource, amount, base)
        SELECT w.lease_id, :tenant_id, w.resource, w.amount, coalesce(b.base, 0)
        FROM wanted w CROSS JOIN answer a LEFT JOIN made m USING (resource)
            LEFT JOIN held h USING (lease_id, resource) LEFT JOIN budgeted b USING (lease_id, resource)
        WHERE m.resource IS NOT NULL OR (a.counted AND w.amount = 0 AND coalesce(h.amount, 0) = 0)
        ON CONFLICT (lease_id, resource) DO UPDATE SET amount = excluded.amount)
    SELECT fits, over_budget, NOT counted AS uncounted FROM answer
    """
_LEAVES = ", spent = q.spent + coalesce((SELECT t.amount FROM left_to t WHERE t.resource = m.resource), 0)"


def _reserving(*, rate: str, amounts: str, these: str) -> TextClause:
    held_by = commitments.held_by(f"l.id = ANY({_LEASES})", rate=rate, joining=commitments.BASE_NOW)
    names = {
        "held_by": held_by,
        "amounts": amounts,
        "these": these,
        "accrued": commitments.ACCRUED,
        "base": commitments.base_of("h.base"),
    }
    return text(_RESERVE.format(tenant=":tenant_id", spent=_LEAVES, current="TRUE", **names)).bindparams(
        bindparam("tenant_id", type_=Id)
    )


_WANTED_EACH = f"SELECT lease_id, w.* FROM unnest({_LEASES}) AS lease_id CROSS JOIN ({_WANTED}) w UNION ALL"
_RESERVE_AT = _reserving(rate="CAST(:rate AS numeric)", amounts=_WANTED_EACH, these="")
_RECOMMIT = _reserving(rate=commitments.PRESENT_RATE, amounts="", these=" AND resource LIKE 'budget:%'")

_RELEASE = text(
    f"""
    WITH locked AS (
        SELECT q.resource FROM quota q JOIN quota_claim c ON c.tenant_id = q.tenant_id AND c.resource = q.resource
        WHERE c.lease_id = :lease_id ORDER BY q.resource FOR UPDATE OF q),
    cost AS (
        SELECT c.resource, greatest({commitments.ACCRUED} - {commitments.base_of("c.base")}, 0) AS amount
        FROM quota_claim c JOIN lease l ON l.id = c.lease_id
        JOIN budget b ON b.tenant_id = c.tenant_id AND {commitments.RESOURCE} = c.resource
        WHERE c.lease_id = :lease_id AND l.ended_at IS NOT NULL),
    gone AS (
        DELETE FROM quota_claim WHERE lease_id = :lease_id AND (SELECT count(*) FROM locked) > 0
        RETURNING tenant_id, resource, amount)
    UPDATE quota q SET used = greatest(q.used - gone.amount, 0),
        spent = q.spent + coalesce((SELECT cost.amount FROM cost WHERE cost.resource = q.resource), 0)
    FROM gone WHERE q.tenant_id = gone.tenant_id AND q.resource = gone.resource
    """
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCommitment:
    """What decides how much a new lease holds of which budgets. `rate`: USD an hour, all parts."""

    rate: Decimal = Decimal(0)
    ttl: timedelta = timedelta(0)
    max_cost: Decimal | None = None
    key_id: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)


def _arrays(amounts: Mapping[str, Decimal]) -> dict[str, object]:
    return {"resources": list(amounts), "amounts": list(amounts.values())}


def admit(
    tenant_id: TenantId, amounts: Mapping[str, Decimal], new: NewCommitment | None = None, *, members: int = 1
) -> Executable:
    """Reserves all of `amounts`, and what a new lease holds of budgets, for each of `members` equal leases, or nothing.

    Returns one row (fits, over_budget, outdated, due, budgets, budget_amounts). `outdated`: a budget was created or
    deleted meanwhile; `due`: the period of a budget has ended. Nothing fits and nothing changes then. The caller tries
    again in a new transaction, after `commitments.roll` in one of its own where a budget is due. `budgets` are the
    resources that the caller claims for each lease besides.
    """
    new = new or NewCommitment()
    about: dict[str, Any] = {"rate": new.rate, "ttl": new.ttl, "max_cost": new.max_cost, "key_id": new.key_id}
    parameters = {"tenant_id": tenant_id, "labels": dict(new.labels), "members": members}
    return _ADMIT.bindparams(**parameters, **_arrays(amounts), **about)


def reserve(
    tenant_id: TenantId, lease_ids: Collection[LeaseId], amounts: Mapping[str, Decimal], rate: Decimal
) -> Bound[TextClause]:
    """Changes the reservation of each lease to `amounts`, and of budgets to what it holds at `rate` (USD an hour).

    The caller holds the leases' row locks. Returns one row (fits, over_budget, uncounted). What counts is the sum of a
    resource over all leases. Decreases are always made. Increases are made all together (`fits`), or not at all. Claims
    and `used` agree either way, so the caller may commit or roll back. `uncounted`: nothing was done, since a resource
    has no row of quota. The caller then calls `ensure_rows` and repeats the statement.
    """
    return Bound(_RESERVE_AT, {"tenant_id": tenant_id, "leases": list(lease_ids), "rate": rate, **_arrays(amounts)})


def recommit(tenant_id: str, lease_ids: Collection[str]) -> Bound[TextClause]:
    """As `reserve`, of budgets alone and at the present rates: after a change of the leases' ends, labels or caps."""
    return Bound(_RECOMMIT, {"tenant_id": tenant_id, "leases": list(lease_ids)})


def release(lease_id: LeaseId) -> Bound[TextClause]:
    """Releases all that the lease has reserved. A second call finds no claim, and changes nothing.

    What a lease that has ended cost in the period of a budget is spent.
    """
    return Bound(_RELEASE, {"lease_id": lease_id})


_REMEMBER = text(
    f"""
    INSERT INTO quota_claim (lease_id, tenant_id, resource, amount)
    SELECT CAST(:lease_id AS text), CAST(:tenant_id AS text), w.resource, w.amount FROM ({_WANTED}) w
    ON CONFLICT (lease_id, resource) DO UPDATE SET amount = excluded.amount
    """
)


def remember(tenant_id: TenantId, lease_id: LeaseId, amounts: Mapping[str, Decimal]) -> Bound[TextClause]:
    """Writes the current reservation of the lease."""
    return Bound(_REMEMBER, {"lease_id": lease_id, "tenant_id": tenant_id, **_arrays(dict(sorted(amounts.items())))})


_ENSURE_ROWS = text(
    """
    INSERT INTO quota (tenant_id, resource)
    SELECT CAST(:tenant_id AS text), * FROM unnest(CAST(:resources AS text[])) ON CONFLICT DO NOTHING
    """
)


def ensure_rows(tenant_id: TenantId, resources: Iterable[str]) -> Bound[TextClause]:
    """Inserts the rows that count the use of resources without a limit."""
    return Bound(_ENSURE_ROWS, {"tenant_id": tenant_id, "resources": sorted(resources)})


_LOCK_ALL = text("SELECT resource FROM quota WHERE tenant_id = :tenant_id ORDER BY resource FOR UPDATE")


def lock_all(tenant_id: TenantId) -> Bound[TextClause]:
    """Locks every row of the tenant, in order, for a transaction that changes quota by several statements.

    Call it after `ensure_rows`: a row that is inserted later would be locked out of order.
    """
    return Bound(_LOCK_ALL, {"tenant_id": tenant_id})


RECOUNT = text(
    """
    SELECT q.tenant_id, q.resource, q.used, coalesce(c.amount, 0) AS claimed
    FROM quota q LEFT JOIN (
        SELECT tenant_id, resource, sum(amount) AS amount FROM quota_claim GROUP BY 1, 2
        UNION ALL
        SELECT tenant_id, 'volume_gib', sum(size_gib) FROM volume WHERE ended_at IS NULL GROUP BY 1) c
        ON c.tenant_id = q.tenant_id AND c.resource = q.resource
    WHERE q.used <> coalesce(c.amount, 0)
    """
)
"""Rows where `used` differs from the claims of leases and the sizes of volumes. The result must always be empty."""

__all__ = [
    "ADMIT",
    "ADMIT_LEASE",
    "RECOUNT",
    "NewCommitment",
    "admit",
    "ensure_rows",
    "lock_all",
    "recommit",
    "release",
    "remember",
    "reserve",
]
