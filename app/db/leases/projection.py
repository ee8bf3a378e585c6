"""A lease as callers see it, written as JSON by PostgreSQL.

Reading every value in Python only to write it again took most of what a page of leases cost. What depends on the caller,
`app.api.schemas.lease_serializer` adds.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Text,
    and_,
    case,
    cast,
    func,
    literal_column,
    or_,
    select,
)

from app.db.leases.billing import accrued, cost, ends_at
from app.db.leases.idleness import due_at, ends_after
from app.db.schema.tables import account_region, gpu_latest, tenant
from app.domain.gpus import health as gpu_health
from app.domain.gpus import proofs
from app.domain.leases import LeaseState
from app.domain.rates import CostScope, Part
from app.domain.reasons import PROVIDER_MESSAGE

_PLAIN = (
    "id",
    "tenant_id",
    "name",
    "state",
    "desired",
    "placement",
    "interruption",
    "labels",
    "attempts_count",
    "version",
    "key_id",
    "quote_id",
    "group_id",
    "rank",
)

_TIMES = (
    "created_at",
    "first_attempt_at",
    "launched_at",
    "running_at",
    "ready_at",
    "billing_started_at",
    "billing_ended_at",
    "expires_at",
    "wait_until",
    "release_requested_at",
    "provider_gone_at",
    "ended_at",
    "updated_at",
)

NEEDED = (
    *_PLAIN,
    *_TIMES,
    "reason",
    "connection",
    "ssh_host_keys",
    "cost_closed",
    "rate_per_hour",
    "rate_since",
    "disk_rate_per_hour",
    "address_rate_per_hour",
    "max_cost",
    "cost_reached_at",
    "estimated_price_per_hour",
    "expiry_warnings",
    "request",
    "proof",
    "gpu_health",
    "keep_until",
)
"""Columns of a lease that it is shown from."""

_ZERO: ColumnElement[int] = literal_column("0")
_RFC3339: ColumnElement[str] = literal_column("""'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'""")
_MONEY: ColumnElement[str] = literal_column("'FM999999999999990.009999'")
"""USD with two decimals at least and six at most, as app.domain.money writes it."""
_OLDEST_SAMPLE: ColumnElement[Any] = literal_column("interval '20 minutes'")
"""An older one shows no idleness: twice the longest time between samples that can be set."""
_CURRENCY: ColumnElement[str] = literal_column("'USD'").label("currency")


def _covers(scope: CostScope) -> ColumnElement[str]:
    return literal_column(f"'{scope}'").label("covers")


_PROVIDER_MESSAGE: ColumnElement[str] = literal_column(f"'{PROVIDER_MESSAGE}'")


def provider_message(row: FromClause) -> ColumnElement[str | None]:
    """The provider's words behind the lease's reason: for operators alone, so they stand beside what all are shown."""
    return row.c.reason.op("->>")(_PROVIDER_MESSAGE).label("provider_message")


def lease_json(row: FromClause, listed_at: ColumnElement[Any]) -> ColumnElement[str]:
    """JSON text with all that a lease is shown with but `request`, `actions` and what operators alone see. `listed_at`: when its region was listed last."""
    keys = func.jsonb_build_object(literal_column("'ssh_host_keys'"), row.c.ssh_host_keys)
    members = _object(
        row,
        *(row.c[name] for name in _PLAIN),
        row.c.reason.op("-")(_PROVIDER_MESSAGE).label("reason"),
        row.c.connection.concat(keys).label("connection"),
        row.c.ended_at.is_not(None).label("terminal"),
        row.c.rate_per_hour.is_not(None).label("billable"),
        row.c.proof.op("-")(_names(proofs.PRIVATE_MEMBERS)).label("proof"),
        row.c.gpu_health.op("-")(_names(gpu_health.PRIVATE_MEMBERS)).label("health"),
        _utilization(row).label("utilization"),
        _idle(row).label("idle"),
        _cost(row).label("cost"),
        _estimate(row).label("estimate"),
        func.to_char(row.c.max_cost, _MONEY).label("max_cost"),
        _rfc3339(ends_at(row)).label("ends_at"),
        row.c.expiry_warnings.label("expiry_warnings_seconds"),
        *(_rfc3339(row.c[name]).label(name) for name in _TIMES),
        _rfc3339(_last_observed(row, listed_at)).label("last_observed_at"),
    )
    return cast(members, Text()).label("shown")


def _cost(row: FromClause) -> ColumnElement[Any]:
    """What closed attempts cost, and the running rate since."""
    return _object(
        row,
        func.to_char(accrued(row, func.now()), _MONEY).label("accrued"),
        func.to_char(row.c.rate_per_hour, _MONEY).label("price_per_hour"),
        _parts(row).label("parts"),
        _rfc3339(func.now()).label("as_of"),
        _CURRENCY,
        _covers(CostScope.VM),
    )


def _names(names: Iterable[str]) -> ColumnElement[Any]:
    return literal_column(f"'{{{','.join(names)}}}'::text[]")


def _latest(row: FromClause, member: ColumnElement[Any], *where: ColumnElement[bool]) -> ColumnElement[Any]:
    """`member` of the newest sample of an active lease."""
    is_active = row.c.state == _word(LeaseState.ACTIVE)
    return (
        select(member)
        .where(gpu_latest.c.lease_id == row.c.id, is_active, *where)
        .correlate(row, account_region)
        .scalar_subquery()
    )


def _utilization(row: FromClause) -> ColumnElement[Any]:
    latest = gpu_latest.c
    sample = func.json_build_object(
        _word("gpu_percent"),
        latest.gpu_percent,
        _word("memory_percent"),
        latest.memory_percent,
        _word("at"),
        _rfc3339(latest.sampled_at),
        _word("refused"),
        latest.refused,
    )
    return _latest(row, sample)


def _idle(row: FromClause) -> ColumnElement[Any]:
    """Since when, and when the lease ends for it by the stricter of its own rule and its tenant's floor."""
    since, owner = gpu_latest.c.idle_since, tenant.alias("owner")
    floor = select(owner.c.idle_floor).where(owner.c.id == gpu_latest.c.tenant_id).scalar_subquery()
    ends_at = _rfc3339(due_at(row, ends_after(row, floor), since))
    members = func.json_build_object(_word("since"), _rfc3339(since), _word("ends_at"), ends_at)
    is_known = gpu_latest.c.sampled_at >= func.now() - _OLDEST_SAMPLE
    return _latest(row, members, since >= row.c.ready_at, is_known)


def _parts(row: FromClause) -> ColumnElement[Any]:
    """The parts of the rate; null while nothing is billed."""
    disk, address = row.c.disk_rate_per_hour, row.c.address_rate_per_hour
    compute = row.c.rate_per_hour - func.coalesce(disk, _ZERO) - func.coalesce(address, _ZERO)
    parts = zip((part.value for part in Part), (compute, disk, address), strict=True)
    members = _object(row, *(func.to_char(amount, _MONEY).label(name) for name, amount in parts))
    return case((row.c.rate_per_hour.is_not(None), members))


def _estimate(row: FromClause) -> ColumnElement[Any]:
    """The rate of the newest placement, or of the first candidate at creation; and what the whole term costs at most."""
    price = row.c.estimated_price_per_hour
    members = _object(
        row,
        func.to_char(price, _MONEY).label("price_per_hour"),
        func.to_char(cost(price, row.c.created_at, row.c.expires_at), _MONEY).label("price_for_term"),
        _CURRENCY,
        _covers(CostScope.VM),
    )
    return case((price.is_not(None), members))


def request(row: FromClause) -> ColumnElement[Any]:
    """The stored request as JSON text: what callers see."""
    return cast(row.c.request, Text).label("request")


def _word(text: str) -> ColumnElement[str]:
    return literal_column(f"'{text}'")


def _rfc3339(time: ColumnElement[Any]) -> ColumnElement[str]:
    return func.to_char(func.timezone(literal_column("'UTC'"), time), _RFC3339)


def _last_observed(row: FromClause, listed_at: ColumnElement[Any]) -> ColumnElement[Any]:
    """The last complete listing of its account and region, or what was heard of the VM itself since."""
    launched, gone = row.c.launched_at, row.c.provider_gone_at
    runs = and_(row.c.ended_at.is_(None), launched.is_not(None), or_(gone.is_(None), gone < launched))
    return case((runs, func.greatest(listed_at, launched, row.c.running_at, row.c.ready_at)))


def _object(row: FromClause, *members: ColumnElement[Any]) -> ColumnElement[Any]:
    """A JSON object of labelled values out of `row`."""
    values = select(*members).correlate(row, account_region).subquery("members")
    return select(func.row_to_json(values.table_valued())).scalar_subquery()
