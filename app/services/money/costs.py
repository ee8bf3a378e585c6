"""Costs over time, from usage records and their sums."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.tenant_scope import parameter
from app.db.usage import costs as statements
from app.db.usage.costs import PERIOD_SINCE, STORED_UNTIL, CostShape
from app.db.usage.facts import AS_OF, SINCE, UNTIL
from app.domain.costs import LONGEST_HOURLY_RANGE, CostBucket, CostGrouping, CostPeriod, group_name
from app.domain.usage import RECORDS_KEPT_DAYS, UsageStep
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, cursor, moment
from app.services.errors import FieldError, InvalidRequest
from app.services.money.usage import tenant_of
from app.services.principal import Principal

MOST_CSV_ROWS = 50_000

Amounts = Mapping[str, Any]
"""`start`, group_0 …, `cost_rollup.AMOUNTS` and `leases`; amounts may be None where nothing was used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostQuery:
    """A question for a report. `since` and `until` may lie within a bucket; None: the bucket's default range until now."""

    since: datetime | None
    until: datetime | None
    bucket: CostBucket
    groupings: tuple[CostGrouping, ...]
    tenant_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """`rows`: by start and groups. `total`: of the whole period, whatever the page."""

    period: CostPeriod
    as_of: datetime
    rows: Sequence[Amounts]
    total: Amounts
    next_cursor: str | None


class CostService:
    """Sums of closed hours are stored. What open hours have used until the last full minute is computed."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def report(self, principal: Principal, query: CostQuery, page: PageRequest) -> CostReport:
        """Raises InvalidRequest for a wrong range or cursor, and for another tenant."""
        within = tenant_of(principal, query.tenant_id)
        after = _after(query, page)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            period, as_of, shape, values = await _question(connection, query, within)
            statement = statements.page(shape, after=after is not None)
            parameters = {**values, **(after or {}), "limit": page.limit + 1}
            buckets: list[Any] = [*(await connection.execute(statement, parameters)).mappings()]
            total: Any = (await connection.execute(statements.total(shape), values)).mappings().one()
        rows = buckets[: page.limit]
        following = _cursor(query, rows[-1]) if len(buckets) > page.limit else None
        return CostReport(period=period, as_of=as_of, rows=rows, total=total, next_cursor=following)

    async def all_rows(self, principal: Principal, query: CostQuery) -> CostReport:
        """Every row of a report. Raises InvalidRequest as `report`, and when there are more than MOST_CSV_ROWS."""
        report = await self.report(principal, query, PageRequest(limit=MOST_CSV_ROWS))
        if report.next_cursor is not None:
            detail = f"the report has more than {MOST_CSV_ROWS} rows; ask for a shorter range or larger buckets"
            raise InvalidRequest(errors=[FieldError("#/query/from", detail)])
        return report


async def spent_since(connection: AsyncConnection, within: str | None, bucket: CostBucket) -> tuple[datetime, Decimal]:
    """A time, and the USD from the start of its bucket until then. `within`: the tenant; None: all.

    `connection`: in a transaction whose statements see one snapshot.
    """
    now = (await connection.execute(statements.PROGRESS)).one().now
    query = CostQuery(since=bucket.floor(now), until=None, bucket=bucket, groupings=(), tenant_id=None)
    _, as_of, shape, values = await _question(connection, query, within)
    total: Any = (await connection.execute(statements.total(shape), values)).mappings().one()
    return as_of, cost_of(total)


def cost_of(amounts: Amounts) -> Decimal:
    """USD: compute, disks and addresses."""
    return sum((amounts[name] or Decimal(0) for name in ("compute_cost", "disk_cost", "address_cost")), Decimal(0))


async def _question(
    connection: AsyncConnection, query: CostQuery, within: str | None
) -> tuple[CostPeriod, datetime, CostShape, dict[str, Any]]:
    """The period, the time until which it counts, and the statement with its parameters."""
    progress = (await connection.execute(statements.PROGRESS)).one()
    as_of = progress.now.replace(second=0, microsecond=0)
    period = _period(query, as_of)
    live_until = min(period.until, UsageStep.HOUR.ceil(as_of))
    border = progress.recorded_until or period.since
    live_since = max(border, period.since)
    shape = CostShape(
        bucket=query.bucket,
        groupings=query.groupings,
        every_tenant=within is None,
        live=live_since < live_until,
    )
    labels = {f"label_{place}": grouping.label for place, grouping in enumerate(query.groupings)}
    stored_until = min(border, period.until)
    values = {PERIOD_SINCE: period.since, STORED_UNTIL: stored_until, **parameter(within), **labels}
    if shape.live:
        values |= {SINCE: live_since, UNTIL: live_until, AS_OF: as_of}
    return period, as_of, shape, values


def _period(query: CostQuery, now: datetime) -> CostPeriod:
    bucket = query.bucket
    requested = query.until or now
    oldest = bucket.floor(now - timedelta(days=RECORDS_KEPT_DAYS))
    if requested <= oldest:
        raise _too_old("to", "must be after", oldest)
    until = bucket.ceil(min(requested, now))
    since = bucket.floor(until - bucket.default_range if query.since is None else query.since)
    if query.since is not None and query.since >= requested:
        raise _wrong("from", "must be before `to`, which is now by default")
    if since < oldest:
        raise _too_old("from", "must not be before", oldest)
    if bucket is CostBucket.HOUR and until - since > LONGEST_HOURLY_RANGE:
        detail = f"must be at most {LONGEST_HOURLY_RANGE.days} days before `to` with bucket=hour; use bucket=day"
        raise _wrong("from", detail)
    return CostPeriod(bucket=bucket, since=min(since, until), until=until)


def _too_old(name: str, rule: str, oldest: datetime) -> InvalidRequest:
    return _wrong(name, f"{rule} {oldest:%Y-%m-%d}: usage is kept for {RECORDS_KEPT_DAYS} days")


def _wrong(name: str, detail: str) -> InvalidRequest:
    return InvalidRequest(errors=[FieldError(f"#/query/{name}", detail)])


def _kind(query: CostQuery) -> str:
    return " ".join(("costs", query.bucket, *(grouping.name for grouping in query.groupings)))


def _cursor(query: CostQuery, row: Amounts) -> str:
    groups = (row[group_name(place)] for place in range(len(query.groupings)))
    return cursor(_kind(query), row["start"].isoformat(), *groups)


def _after(query: CostQuery, page: PageRequest) -> dict[str, Any] | None:
    """The parameters of a later page; None for the first one. Raises InvalidRequest."""
    position = page.after(_kind(query), parts=1 + len(query.groupings))
    if position is None:
        return None
    return {"after_0": moment(position[0]), **{f"after_{n}": group for n, group in enumerate(position[1:], 1)}}
