"""What leases hold of budgets, in SQL: the rule of `app.domain.budgets`, and the statements that apply it to leases.

A live lease has one claim for each budget that counts it, also for nothing. A transaction that changes which budgets
count a lease holds the lock of its tenant or of its row. So a lease and a budget that are created at the same time
find each other.
"""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, TextClause, func, literal_column, select, text

from app.db.core.compiled import with_values
from app.db.core.prepared import Bound
from app.db.core.sql import Time
from app.db.core.tenant_scope import EVERY_TENANT, TENANT, parameter
from app.db.leases.billing import accrued, parts, price_segments
from app.db.leases.billing import cost as billed_cost
from app.db.schema.tables import attempt, lease
from app.db.tenancy import thresholds
from app.domain.budgets import RELEASE_TAKES, resource_of, without_event

LIVE = "l.ended_at IS NULL"

_MOMENT = "greatest(now(), b.period_started_at)"
"""Now, but never in a period before the stored one: now() of a transaction that waited for a roll is older."""


def _boundary(periods: int) -> str:
    """The start of the period of `_MOMENT`, or of one after it. NULL for a lifetime."""
    return f"""(CASE WHEN b.period <> 'lifetime' THEN (date_trunc(b.period, {_MOMENT} AT TIME ZONE 'UTC')
        + {periods} * CAST('1 ' || b.period AS interval)) AT TIME ZONE 'UTC' END)"""


_PERIOD_STARTS_AT, PERIOD_ENDS_AT = _boundary(0), _boundary(1)
"""The period of now. The stored one ended when nobody has rolled the budget yet."""

RESOURCE = "('budget:' || b.id)"
_AT_ONCE = 200
"""Live leases of a tenant whose claims follow a new period in the same transaction."""


_TAKES = f"CAST('{RELEASE_TAKES.total_seconds()} seconds' AS interval)"
_PASSED = f"greatest(floor(extract(epoch FROM now() - l.release_requested_at) / {RELEASE_TAKES.total_seconds()}), 0)"
_EXPECTED_END = f"least(l.expires_at, l.cost_reached_at, l.release_requested_at + {_TAKES} * ({_PASSED} + 1))"
"""`app.domain.budgets.expected_end` of the lease `l`. `least` ignores a null."""


def counts(key_id: str, labels: str) -> str:
    """Whether the budget `b` of the tenant counts a lease: `app.domain.budgets.Scope.counts`."""
    return f"((b.key_id IS NULL OR b.key_id = {key_id}) AND (b.label_key IS NULL OR {labels} ->> b.label_key = b.label_value))"


def hours_until(until: str) -> str:
    """Columns `present` and `later`: the hours of a term in the present period of the budget `b`, and the most in a later one.

    See `app.domain.budgets.reached_spans`.
    """
    spans = [(_MOMENT, _boundary(1)), (_boundary(1), _boundary(2)), (_boundary(2), _boundary(3))]
    present, *later = [f"extract(epoch FROM least({until}, {end}) - {start})" for start, end in spans]
    return f"greatest({present}, 0) / 3600 AS present, greatest({', '.join(later)}, 0) / 3600 AS later"


def stored(amount: str) -> str:
    """Rounded up to a millionth, but for what a division adds to an exact amount."""
    return f"(ceil(round(({amount}) * 1000000, 3)) / 1000000)"


def commitment(rate: str, *, so_far: str, room: str, left: str) -> str:
    """`app.domain.budgets.commitment`, beside the columns of `hours_until`.

    `room`: what a cap leaves in the period; `left`: what it leaves from now. NULL: no cap.
    """
    return stored(f"greatest({so_far}, least({so_far} + {rate} * present, {room}), least({rate} * later, {left}))")


_COUNTED = counts("l.key_id", "l.labels")
_SEGMENT = price_segments(columns=("lease_id",))


def _cost(*, lease_id: str = "l.id", since: str | None = None, until: str = "now()") -> str:
    """USD that a lease has cost between these times, from the billed time of its attempts."""
    first = _SEGMENT.c.starts_at if since is None else func.greatest(_SEGMENT.c.starts_at, literal_column(since, Time))
    last = func.least(_SEGMENT.c.ends_at, literal_column(until, Time))
    total = func.sum(billed_cost(_SEGMENT.c.rate_per_hour, first, last))
    return f"coalesce(({with_values(select(total).where(_SEGMENT.c.lease_id == literal_column(lease_id)))}), 0)"


ACCRUED = f"({with_values(accrued(lease.alias('l'), func.now()))})"
"""USD that the lease `l` has cost so far."""
PRESENT_RATE = f"""coalesce(l.rate_per_hour,
    (SELECT a.price_per_hour + {with_values(parts(attempt.alias("a")))} FROM attempt a WHERE a.lease_id = l.id AND a.ended_at IS NULL),
    l.minimum_rate, l.estimated_price_per_hour, 0)"""
"""USD an hour: of the running attempt, of the planned one, or of the least that any candidate costs."""

BASE_NOW = f"round({ACCRUED}, 6)"
"""The base of a lease that joins a budget: what it has cost before does not count."""


def cost_before(moment: str, lease: str = "l") -> str:
    """USD that a lease had cost at `moment`, a time of the past.

    Nothing, where the lease is newer. One product, where its present rate is older. Otherwise from the billed time.
    """
    at_rate = f"{lease}.cost_closed + {lease}.rate_per_hour * extract(epoch FROM {moment} - {lease}.rate_since) / 3600"
    return stored(f"""CASE WHEN {lease}.created_at >= {moment} THEN 0
        WHEN {lease}.rate_since <= {moment} THEN {at_rate} ELSE {_cost(lease_id=f"{lease}.id", until=moment)} END""")


_STARTED_AT = f"coalesce({_PERIOD_STARTS_AT}, b.period_started_at)"
"""Where the stored period of `b` has ended, the start of the present one."""


def base_of(claimed: str, *, lease: str = "l", start: str = "b.period_started_at") -> str:
    """The part of a lease's cost that a budget's period since `start` does not count. `claimed`: `base` of its claim.

    A claim of an earlier period need not be written anew: what a lease has cost only grows. It is rounded up: what a lease
    holds does not grow by a millionth when a period begins.
    """
    return f"greatest({claimed}, {cost_before(start, lease)})"


def held_by(which: str, *, rate: str, joining: str = "0") -> str:
    """CTEs `spending` and `budgeted`: what the leases `l` of the condition `which` hold of the budgets that count them.

    `rate`: USD an hour. `joining`: the base of a lease without a claim of the budget, where it is more than its cost at
    the start of the period.
    Columns of `budgeted`: lease_id, tenant_id, resource, amount, base, counted, rate.
    """
    return f"""
    spending AS (
        SELECT l.id AS lease_id, l.tenant_id, {RESOURCE} AS resource, {ACCRUED} AS accrued, {rate} AS rate,
            {base_of(f"coalesce(c.base, {joining})", start=_STARTED_AT)} AS base, l.max_cost,
            {hours_until(_EXPECTED_END)}
        FROM lease l JOIN budget b ON b.tenant_id = l.tenant_id AND {_COUNTED}
        JOIN quota q ON q.tenant_id = b.tenant_id AND q.resource = {RESOURCE}
        LEFT JOIN quota_claim c ON c.lease_id = l.id AND c.resource = {RESOURCE}
        WHERE {LIVE} AND {which}),
    budgeted AS (
        SELECT lease_id, tenant_id, resource, base, rate, {stored("greatest(accrued - base, 0)")} AS counted,
            {commitment("rate", so_far="greatest(accrued - base, 0)", room="max_cost - base", left="max_cost - accrued")} AS amount
        FROM spending)"""


# --- many leases, whatever the limits ---------------------------------------------------------------------

_THESE = f"(CAST(:resources AS text[]) IS NULL OR {RESOURCE} = ANY(CAST(:resources AS text[])))"
_FIT = text(
    f"""
    WITH {held_by(f"l.id = ANY(CAST(:leases AS text[])) AND {_THESE}", rate=PRESENT_RATE)},
    change AS (
        SELECT lease_id, resource, coalesce(w.tenant_id, h.tenant_id) AS tenant_id, w.amount, w.base,
            coalesce(w.amount, 0) - coalesce(h.amount, 0) AS delta
        FROM budgeted w FULL JOIN (
            SELECT lease_id, tenant_id, resource, amount, base FROM quota_claim
            WHERE lease_id = ANY(CAST(:leases AS text[])) AND resource LIKE 'budget:%'
              AND (CAST(:resources AS text[]) IS NULL OR resource = ANY(CAST(:resources AS text[])))) h
            USING (lease_id, resource)
        WHERE (w.amount, w.base) IS DISTINCT FROM (h.amount, h.base)),
    delta AS (SELECT tenant_id, resource, sum(delta) AS delta FROM change GROUP BY 1, 2),
    locked AS (
        SELECT q.tenant_id, q.resource FROM quota q JOIN delta USING (tenant_id, resource)
        ORDER BY q.tenant_id, q.resource FOR UPDATE OF q),
    changed AS (
        UPDATE quota q SET used = greatest(q.used + d.delta, 0) FROM delta d JOIN locked USING (tenant_id, resource)
        WHERE q.tenant_id = d.tenant_id AND q.resource = d.resource),
    gone AS (
        DELETE FROM quota_claim c USING change g
        WHERE g.amount IS NULL AND c.lease_id = g.lease_id AND c.resource = g.resource)
    INSERT INTO quota_claim (lease_id, tenant_id, resource, amount, base)
    SELECT lease_id, tenant_id, resource, amount, base FROM change WHERE amount IS NOT NULL
    ON CONFLICT (lease_id, resource) DO UPDATE SET amount = excluded.amount, base = excluded.base
    """
)


def fit(connection: Connection, lease_ids: Collection[str], *, resources: Collection[str] | None = None) -> int:
    """Makes the claims of live leases what they hold now, whatever the limits. Returns the number of claims changed.

    The caller has locked the leases. `resources`: of these budgets alone.
    """
    if not lease_ids:
        return 0
    these = None if resources is None else list(resources)
    return connection.execute(_FIT, {"leases": list(lease_ids), "resources": these}).rowcount


_OUTDATED = text(
    f"""
    WITH {held_by("l.id = ANY(CAST(:leases AS text[]))", rate=PRESENT_RATE)},
    held AS (
        SELECT lease_id, resource, amount FROM quota_claim
        WHERE lease_id = ANY(CAST(:leases AS text[])) AND resource LIKE 'budget:%')
    SELECT DISTINCT lease_id FROM budgeted w FULL JOIN held h USING (lease_id, resource)
    WHERE w.amount IS NULL OR h.amount IS NULL OR w.amount > h.amount + 0.000001
        OR w.amount < h.amount - greatest(0.01, h.amount / 100)
    """
)
_FREE = text(
    "SELECT l.id FROM lease l WHERE l.id = ANY(CAST(:leases AS text[])) AND l.ended_at IS NULL"
    " ORDER BY l.id FOR NO KEY UPDATE SKIP LOCKED"
)


def fit_free(connection: Connection, lease_ids: Collection[str], *, resources: Collection[str] | None = None) -> int:
    """As `fit`, of those leases that no step holds at present."""
    free = connection.execute(_FREE, {"leases": list(lease_ids)}).scalars().all()
    return fit(connection, free, resources=resources)


def fit_outdated(connection: Connection, lease_ids: Collection[str]) -> int:
    """As `fit_free`, of leases that hold less of a budget than they may cost, or a hundredth more."""
    outdated = connection.execute(_OUTDATED, {"leases": list(lease_ids)}).scalars().all()
    return fit_free(connection, outdated) if outdated else 0


_EXCESS = text(
    f"""
    WITH {held_by(f"l.tenant_id = :tenant_id AND {_THESE}", rate=PRESENT_RATE)}
    SELECT w.lease_id FROM budgeted w JOIN quota_claim c ON c.lease_id = w.lease_id AND c.resource = w.resource
    WHERE c.amount > w.amount ORDER BY c.amount - w.amount DESC, w.lease_id LIMIT :most
    """
)


def return_excess(connection: Connection, tenant_id: str, resources: Collection[str], *, most: int = 500) -> bool:
    """Returns what leases hold of these budgets above what they may cost, for the `most` leases with the largest excess.

    Call it before a refusal. A caller that holds locks of leases waits for no other. True: something was returned.
    """
    these = {"tenant_id": tenant_id, "resources": list(resources), "most": most}
    leases = connection.execute(_EXCESS, these).scalars().all()
    return bool(leases) and fit_free(connection, leases, resources=resources) > 0


# --- sets of budgets and their periods --------------------------------------------------------------------

_CHANGE_SET = text(
    "UPDATE tenant SET budgets_version = budgets_version + 1 WHERE id = :tenant_id RETURNING budgets_version"
)
_LOCK_TENANT = text("SELECT id FROM tenant WHERE id = :tenant_id FOR NO KEY UPDATE")
_DUE = "b.tenant_id = :tenant_id AND b.period_ends_at <= now()"
# Each amount was rounded to 6 digits, so their sum may be a millionth below the threshold that was reached.
_REACHED = text(
    f"""
    SELECT b.*, 0 AS committed, round(q.spent
        - (SELECT coalesce(sum({_cost(since="b.period_ends_at")}), 0) FROM lease l
            WHERE l.tenant_id = b.tenant_id AND l.ended_at >= b.period_ends_at AND {_COUNTED})
        + (SELECT coalesce(sum(greatest({cost_before("b.period_ends_at")} - {base_of("c.base")}, 0)), 0)
            FROM quota_claim c JOIN lease l ON l.id = c.lease_id
            WHERE c.tenant_id = b.tenant_id AND c.resource = {RESOURCE} AND {LIVE}), 4) AS spent
    FROM budget b JOIN quota q ON q.tenant_id = b.tenant_id AND q.resource = {RESOURCE}
    WHERE {_DUE} AND b.id = ANY(CAST(:budgets AS text[])) AND EXISTS (
        SELECT FROM jsonb_array_elements_text(b.thresholds) t WHERE CAST(t AS int) > b.threshold_told)
    """
)
_SOME_DUE = text(f"SELECT b.id FROM budget b WHERE {_DUE} ORDER BY b.id LIMIT :most")
_NEXT_STARTS_AT = "(date_trunc(b.period, b.period_ends_at AT TIME ZONE 'UTC'))"
_ROLL = text(
    f"""
    UPDATE budget b SET threshold_told = 0, period_started_at = {_NEXT_STARTS_AT} AT TIME ZONE 'UTC',
        period_ends_at = ({_NEXT_STARTS_AT} + CAST('1 ' || b.period AS interval)) AT TIME ZONE 'UTC'
    WHERE {_DUE} AND b.id = ANY(CAST(:budgets AS text[])) RETURNING {RESOURCE}
    """
)
_IS_SMALL = text(
    f"SELECT count(*) <= :most FROM (SELECT FROM lease l WHERE l.tenant_id = :tenant_id AND {LIVE} LIMIT :most + 1) live"
)
_LOCK_LEASES = text(
    f"""
    SELECT l.id FROM lease l WHERE l.tenant_id = :tenant_id AND {LIVE} AND (
        EXISTS (SELECT FROM budget b WHERE b.tenant_id = l.tenant_id AND {RESOURCE} = ANY(CAST(:resources AS text[])) AND {_COUNTED})
        OR EXISTS (SELECT FROM quota_claim c WHERE c.lease_id = l.id AND c.resource = ANY(CAST(:resources AS text[]))))
    ORDER BY l.id FOR NO KEY UPDATE OF l
    """
)
_SPENT = text(
    f"""
    WITH locked AS (
        SELECT q.resource FROM quota q WHERE q.tenant_id = :tenant_id AND q.resource = ANY(CAST(:resources AS text[]))
        ORDER BY q.resource FOR UPDATE),
    spent AS (
        SELECT {RESOURCE} AS resource, (
            SELECT coalesce(sum({_cost(since="b.period_started_at")}), 0) FROM lease l
            WHERE l.tenant_id = b.tenant_id AND l.ended_at >= b.period_started_at AND {_COUNTED}) AS amount
        FROM budget b WHERE b.tenant_id = :tenant_id AND {RESOURCE} = ANY(CAST(:resources AS text[])))
    UPDATE quota q SET spent = round(s.amount, 6) FROM spent s JOIN locked USING (resource)
    WHERE q.tenant_id = :tenant_id AND q.resource = s.resource
    """
)


def lock_tenant(connection: Connection, tenant_id: str) -> bool:
    """Call it before anything that changes which budgets a tenant has. False: there is no such tenant.

    Creations of leases wait until the transaction ends, and notice that the set has changed.
    """
    return connection.execute(_CHANGE_SET, {"tenant_id": tenant_id}).first() is not None


_SHARE_TENANT = text(
    f"""
    SELECT t.id FROM tenant t WHERE t.id = (
        SELECT l.tenant_id FROM lease l WHERE l.id = :lease_id AND :{TENANT} IN (l.tenant_id, '{EVERY_TENANT}')) FOR SHARE
    """
)


def share_tenant(lease_id: str, *, within: str | None) -> Bound[Any]:
    """Call it before the lease is locked, when the change may move the lease into another budget."""
    return Bound(_SHARE_TENANT, {"lease_id": lease_id, **parameter(within)})


def fit_budget(connection: Connection, tenant_id: str, resource: str) -> int:
    """Makes the claims of one budget exact, under the locks of all of its leases. Call it before leases end for it."""
    these = {"tenant_id": tenant_id, "resources": [resource]}
    return fit(connection, connection.execute(_LOCK_LEASES, these).scalars().all(), resources=[resource])


def begin_period(connection: Connection, tenant_id: str, resources: Collection[str]) -> None:
    """Counts these budgets from the start of their period: leases that ended in it, and what live ones hold.

    The caller has called `lock_tenant`.
    """
    these = {"tenant_id": tenant_id, "resources": list(resources)}
    leases = connection.execute(_LOCK_LEASES, these).scalars().all()
    connection.execute(_SPENT, these)
    fit(connection, leases, resources=resources)


_DUE_OF = text(
    """
    SELECT o.tenant_id FROM (
        SELECT tenant_id FROM lease WHERE id = :id UNION ALL SELECT tenant_id FROM lease_group WHERE id = :id) o
    WHERE EXISTS (SELECT FROM budget b WHERE b.tenant_id = o.tenant_id AND b.period_ends_at <= now())
    """
)


def due_of(owner_id: str) -> Bound[TextClause]:
    """The tenant of a lease or group, if one of its budgets has a period that is over. Returns one row or none.

    What was spent in that period still counts. A refusal would therefore be wrong until `roll`.
    """
    return Bound(_DUE_OF, {"id": owner_id})


def roll(connection: Connection, tenant_id: str, *, most: int = 1000) -> int:
    """Moves up to `most` of the tenant's budgets whose period has ended into the present one. Returns their number.

    The events of thresholds that an ended period reached are part of it. Where the tenant has many leases, their claims
    follow in batches (`workers.jobs.budgets`). Until then they hold what they held before, and count from the new start.

    Of many who call it at the same time, one does it. The others change nothing, so that they disturb no creation.
    """
    connection.execute(_LOCK_TENANT, {"tenant_id": tenant_id})
    these = {"tenant_id": tenant_id}
    due = connection.execute(_SOME_DUE, {**these, "most": most}).scalars().all()
    if not due:
        return 0
    lock_tenant(connection, tenant_id)
    resources = [resource_of(budget_id) for budget_id in due]
    leases: Sequence[str] = ()
    if connection.execute(_IS_SMALL, {**these, "most": _AT_ONCE}).scalar_one():
        # before the quotas, as everybody does who changes a lease
        leases = connection.execute(_LOCK_LEASES, {**these, "resources": resources}).scalars().all()
    while begun := _begin_next(connection, tenant_id, due):
        connection.execute(_SPENT, {**these, "resources": begun})
    fit(connection, leases, resources=resources)
    return len(due)


def _begin_next(connection: Connection, tenant_id: str, budget_ids: Sequence[str]) -> list[str]:
    """One period further, for those of the budgets whose period is over: their resources."""
    these = {"tenant_id": tenant_id, "budgets": list(budget_ids)}
    for row in connection.execute(_REACHED, these).all():
        thresholds.append(connection, row, without_event(row.thresholds, row.threshold_told, row.spent, row.amount))
    return list(connection.execute(_ROLL, these).scalars().all())
