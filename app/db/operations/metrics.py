"""Statements behind /metrics, which measure the service objectives from the rows alone.

Their cost depends on the number of live rows, not of all rows ever. Partial indexes exclude ended leases, gone orphans
and dead attempts. Such an index requires the states as literals, not as parameters.
"""

from collections.abc import Mapping

from sqlalchemy import Executable, select, text

from app.db.fleet.account_states import STATE
from app.db.fleet.cool_offs import counted_offerings
from app.db.operations.active_brakes import ACTIVE_BRAKES
from app.db.operations.invariants import NOTED
from app.db.operations.invoices import UNLISTED
from app.db.operations.launch_outcomes import LAUNCHES
from app.db.operations.ops import BRAKES, GHOSTS, StuckAfter, stuck_counts
from app.db.operations.summary import HEARTBEATS, LOST_HOSTS
from app.db.operations.waiting import EVENT_LAG, OVERDUE
from app.db.schema.tables import account
from app.db.tenancy.quotas import RECOUNT

_LIVE = "NOT (l.state IN ('failed', 'released'))"
_LIVE_ATTEMPT = "a.state IN ('planned', 'sent', 'known', 'settling')"
_AGE = "extract(epoch FROM now() - {})::float8"

PLACES = text(
    f"""
    SELECT a.provider, r.account, r.region, {_AGE.format("coalesce(r.last_complete_listing_at, a.created_at)")} AS age,
           coalesce(r.blocked_until > now(), false) AS blocked, r.listed, r.listing_seconds::float8 AS listing_seconds, r.listing_calls
    FROM account_region r JOIN account a ON a.name = r.account
    WHERE (a.state <> 'draining' AND coalesce(jsonb_exists(a.config -> 'regions', r.region), true))
       OR EXISTS (SELECT FROM attempt a WHERE a.account = r.account AND a.region = r.region AND {_LIVE_ATTEMPT})
    ORDER BY r.account, r.region
    """
)
"""The account regions that must be listed: those of configured accounts, and those with live attempts. `age`: seconds
since the last complete listing began, or since the account is known."""

ACCOUNTS = select(
    account.c.name, account.c.provider, STATE.label("state"), account.c.cordoned.is_not(None).label("cordoned")
).order_by(account.c.name)

LEASES = text(
    f"""
    SELECT l.state, count(*) AS leases,
           max({_AGE.format("coalesce(l.provider_gone_at, l.created_at)")}) FILTER (WHERE l.state = 'queued') AS queued,
           max({_AGE.format("l.release_requested_at")}) FILTER (WHERE l.state = 'releasing') AS releasing
    FROM lease l WHERE {_LIVE} GROUP BY l.state
    """
)
"""Leases that have not ended, by state, with the age in seconds of the oldest queued lease, and of the oldest
release."""

VMS = text(
    f"""
    SELECT a.provider, a.account, a.region, a.market, coalesce(l.gpu_model, 'unknown') AS gpu_model, count(*) AS vms,
           coalesce(sum(l.gpu_count), 0) AS gpus, coalesce(sum(l.rate_per_hour), 0)::float8 AS spend
    FROM attempt a JOIN lease l ON l.id = a.lease_id
    WHERE a.state = 'known' AND a.vm_state = 'running' AND {_LIVE} GROUP BY 1, 2, 3, 4, 5
    """
)
"""Running VMs of leases, by location and type, and the USD per hour at which they are billed."""

ORPHANS = text(
    f"""
    SELECT o.account, o.region, o.cause, count(*) AS vms, max({
        _AGE.format(
            "CASE WHEN a.ended_at IS NULL OR o.cause = 'copied_tags' THEN o.first_seen_at "
            "ELSE least(o.first_seen_at, greatest(a.ended_at, o.launched_at)) END"
        )
    }) AS age
    FROM orphan o LEFT JOIN attempt a ON a.lease_id = o.lease_id AND a.n = o.attempt_n
    WHERE o.state IN ('seen', 'ending') GROUP BY 1, 2, 3
    """
)
"""VMs without a lease. `age` counts from the end of their own attempt, if it has ended, else from the first
sighting."""

SETTLING = text(
    f"""
    SELECT a.account, a.region, count(*) AS attempts, max({_AGE.format("a.settling_since")}) AS age
    FROM attempt a WHERE a.state = 'settling' GROUP BY 1, 2
    """
)

QUOTA_DRIFT = text(f"SELECT count(*) AS rows FROM ({RECOUNT.text}) d")

OFFERINGS = counted_offerings()

JOBS = text(
    f"""
    SELECT kind, coalesce(account, '') AS account, coalesce(region, '') AS region, interval_seconds AS interval,
           {_AGE.format("coalesce(last_ok_at, created_at)")} AS age
    FROM periodic_job
    """
)
"""Periodic jobs, with the seconds since each last succeeded, or since it exists."""

CHECKS = text("SELECT account, coalesce(failed, 0) AS failed FROM account_check")
"""Failed checks of each account."""


def statements(stuck_after: StuckAfter) -> Mapping[str, Executable]:
    """All statements of a scrape, by name."""
    return {
        "places": PLACES,
        "accounts": ACCOUNTS,
        "leases": LEASES,
        "overdue": OVERDUE,
        "vms": VMS,
        "orphans": ORPHANS,
        "ghosts": GHOSTS,
        "settling": SETTLING,
        "stuck": stuck_counts(stuck_after),
        "quota_drift": QUOTA_DRIFT,
        "offerings": OFFERINGS,
        "processes": HEARTBEATS,
        "lost_hosts": LOST_HOSTS,
        "jobs": JOBS,
        "launches": LAUNCHES,
        "checks": CHECKS,
        "invariants": NOTED,
        "brakes": BRAKES,
        "active_brakes": ACTIVE_BRAKES,
        "event_lag": EVENT_LAG,
        "invoices": UNLISTED,
    }
