"""Use and cost over time."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.sql import AnySelect
from app.db.usage import reads
from app.db.usage.facts import MEASURES, PERCENTILES
from app.domain.usage import KEPT_MONTHS, OTHER, UsageGrouping, UsagePeriod, UsageStep
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest
from app.services.principal import Principal

_DEFAULT_RANGE = timedelta(days=1)
_REMEMBERED = 64
"""Reports that are shared: a few views of each tenant that looks at its dashboard."""
_DAYS_KEPT = KEPT_MONTHS * 31

Sums = Mapping[str, Any]
"""MEASURES and PERCENTILES: counts are int, seconds and `cost` (USD) Decimal, percentiles float or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """A question for a report. `since` and `until` may lie within a step; None: the last 24 hours."""

    since: datetime | None
    until: datetime | None
    step: UsageStep
    grouping: UsageGrouping
    tenant_id: str | None
    top: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageItem:
    """One group in one step. `covered`: how much of the step is over."""

    starts_at: datetime
    covered: timedelta
    group: str | None
    sums: Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageGroup:
    """One group over the whole range."""

    group: str | None
    name: str | None
    sums: Sums


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UsageReport:
    """`groups`: the largest cost first, then `other`. `items`: by step, then as in `groups`; unused steps have none."""

    period: UsagePeriod
    as_of: datetime
    groups: Sequence[UsageGroup]
    items: Sequence[UsageItem] = field(repr=False)


class UsageService:
    """Reads stored sums of finished hours and days, and makes those of the current one from leases and volumes.

    All who ask for the same report within a minute share one reading.
    """

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database
        self._recent: OrderedDict[tuple[object, ...], UsageReport] = OrderedDict()

    async def report(self, principal: Principal, query: UsageQuery) -> UsageReport:
        """Raises InvalidRequest for a range that is empty or too long, and for another tenant."""
        within = tenant_of(principal, query.tenant_id)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            as_of, rolled_until = await _progress(connection)
            period = _period(query, as_of)
            key = (principal.tenant_id, within, query.grouping, query.top, period, as_of, rolled_until)
            known = self._recent.get(key)
            if known is not None:
                return known
            finished, current = _parts(period, rolled_until)
            live = await _live(connection, query.grouping, current, as_of, within)
            totals = await _stored(connection, reads.stored_totals, query.grouping, finished, within)
            largest, sums = _largest([*totals, *live], query.top)
            rows = await _stored(connection, reads.stored_largest, query.grouping, finished, within, largest=largest)
            names = await _names(connection, query.grouping, largest)
        order = {group: place for place, group in enumerate(largest)}
        groups = [UsageGroup(group=group, name=names.get(group or ""), sums=sums[group]) for group in sums]
        report = UsageReport(
            period=period, as_of=as_of, groups=groups, items=_items([*rows, *live], order, period, as_of)
        )
        self._recent[key] = report
        while len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return report


async def month_to_date(connection: AsyncConnection, within: str | None) -> tuple[datetime, Decimal]:
    """A time, and the USD from the start of its month (UTC) until then. `within`: the tenant; None: all.

    `connection`: in a transaction whose statements see one snapshot.
    """
    step = UsageStep.DAY
    as_of, rolled_until = await _progress(connection)
    period = UsagePeriod(step=step, since=step.floor(as_of).replace(day=1), until=step.ceil(as_of))
    finished, current = _parts(period, rolled_until)
    statement = reads.stored(UsageGrouping.NONE, every_tenant=within is None)
    days = (await connection.execute(statement, reads.stored_values(finished, within))).all()
    live = await connection.scalar(
        reads.live_cost(every_tenant=within is None), reads.live_values(current, as_of, within)
    )
    return as_of, sum((row.cost for row in days), Decimal(live or 0))


async def _progress(connection: AsyncConnection) -> tuple[datetime, datetime | None]:
    """The time to which reports count, and how far sums are stored. It is the same for all who ask within a minute."""
    row = (await connection.execute(reads.PROGRESS)).one()
    return row.now.replace(second=0, microsecond=0), row.rolled_until


def tenant_of(principal: Principal, tenant_id: str | None) -> str | None:
    """The tenant that a report is about; None: all. Raises InvalidRequest when a tenant names another one."""
    if principal.tenant_id is None:
        return tenant_id
    if tenant_id not in {None, principal.tenant_id}:
        raise InvalidRequest(errors=[FieldError("#/query/tenant_id", "only operators may name another tenant")])
    return principal.tenant_id


def _period(query: UsageQuery, now: datetime) -> UsagePeriod:
    step = query.step
    requested = query.until or now
    oldest = step.floor(now - timedelta(days=_DAYS_KEPT))
    if requested <= oldest:
        raise _too_old("to", "must be after", oldest)
    until = step.ceil(min(requested, now))
    since = step.floor(query.since if query.since is not None else until - max(_DEFAULT_RANGE, step.length))
    if query.since is not None and query.since >= requested:
        raise InvalidRequest(errors=[FieldError("#/query/from", "must be before `to`, which is now by default")])
    if since < oldest:
        raise _too_old("from", "must not be before", oldest)
    if until - since > step.longest_range + step.length:
        hint = "; use step=day" if step is UsageStep.HOUR else ""
        detail = f"must be at most {step.longest_range.days} days before `to` with step={step}{hint}"
        raise InvalidRequest(errors=[FieldError("#/query/from", detail)])
    return UsagePeriod(step=step, since=min(since, until), until=until)


def _too_old(name: str, rule: str, oldest: datetime) -> InvalidRequest:
    detail = f"{rule} {oldest:%Y-%m-%d}: sums are kept for {KEPT_MONTHS} months"
    return InvalidRequest(errors=[FieldError(f"#/query/{name}", detail)])


async def _stored(
    connection: AsyncConnection,
    statement: Callable[..., AnySelect],
    grouping: UsageGrouping,
    period: UsagePeriod,
    within: str | None,
    **more: Any,
) -> Sequence[Sums]:
    """`statement`: of `reads`; without groups there is one row for each step, so all of them read those."""
    if period.since == period.until:
        return []
    if grouping is UsageGrouping.NONE:
        statement, more = reads.stored, {}
    values = {**reads.stored_values(period, within), **more}
    rows: Any = (await connection.execute(statement(grouping, every_tenant=within is None), values)).mappings()
    return [*rows]


async def _live(
    connection: AsyncConnection, grouping: UsageGrouping, period: UsagePeriod, as_of: datetime, within: str | None
) -> Sequence[Sums]:
    if period.since == period.until:
        return []
    values = reads.live_values(period, as_of, within)
    rows: Any = (await connection.execute(reads.live(grouping, every_tenant=within is None), values)).mappings()
    return [*rows]


def _parts(period: UsagePeriod, rolled_until: datetime | None) -> tuple[UsagePeriod, UsagePeriod]:
    """What is stored, and what must be made from leases and volumes."""
    border = period.live_since(rolled_until)
    finished = UsagePeriod(step=period.step, since=period.since, until=border)
    return finished, UsagePeriod(step=period.step, since=border, until=period.until)


def _largest(rows: Iterable[Sums], top: int) -> tuple[list[str | None], dict[str | None, Sums]]:
    """The groups with the largest cost, and the sums of each of them and of `other`."""
    by_group: dict[str | None, list[Sums]] = defaultdict(list)
    for row in rows:
        by_group[row["group"]].append(row)
    sums = {group: _added(members) for group, members in by_group.items()}
    ranked = sorted(sums, key=lambda group: (-sums[group]["cost"], -sums[group]["leases_created"], group or ""))
    totals: dict[str | None, Sums] = {group: sums[group] for group in ranked[:top]}
    if ranked[top:]:
        totals[OTHER] = _added([sums[group] for group in ranked[top:]])
    return ranked[:top], totals


def _added(rows: Sequence[Sums]) -> Sums:
    """Percentiles of several sums are not known."""
    if len(rows) == 1:
        return rows[0]
    return {name: sum(row[name] for row in rows) for name in MEASURES} | dict.fromkeys(PERCENTILES)


def _items(
    rows: Iterable[Mapping[str, Any]], order: Mapping[str | None, int], period: UsagePeriod, as_of: datetime
) -> list[UsageItem]:
    rows_by_cell: dict[tuple[datetime, int], list[Sums]] = defaultdict(list)
    for row in rows:
        rows_by_cell[row["starts_at"], order.get(row["group"], len(order))].append(row)
    names = [*order, OTHER]
    return [
        UsageItem(
            starts_at=starts_at,
            covered=period.covered(starts_at, as_of),
            group=names[place],
            sums=_added(rows_by_cell[starts_at, place]),
        )
        for starts_at, place in sorted(rows_by_cell)
    ]


async def _names(connection: AsyncConnection, grouping: UsageGrouping, groups: Sequence[str | None]) -> dict[str, str]:
    if grouping is not UsageGrouping.TENANT or not groups:
        return {}
    rows = await connection.execute(reads.tenant_names([group for group in groups if group is not None]))
    return {row.id: row.name for row in rows}


def gpu_hours(sums: Sums) -> Decimal:
    """GPUs times hours for which they were billed."""
    return Decimal(sums["gpu_seconds"]) / 3600


def volume_gib_hours(sums: Sums) -> Decimal:
    """GiB of volumes times hours for which they were billed."""
    return Decimal(sums["volume_gib_seconds"]) / 3600
