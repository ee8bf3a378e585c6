"""How use over time is read: stored sums of whole steps, and sums made from the facts for what is not stored yet."""

from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ARRAY, Text, any_, bindparam, case, func, null, select

from app.db.core.sql import AnySelect, Time
from app.db.core.tenant_scope import only, parameter
from app.db.schema.tables import tenant, usage_progress, usage_rollup
from app.db.usage.facts import AS_OF, MEASURES, PERCENTILES, SECONDS, SINCE, UNTIL, facts, sums, text
from app.domain.usage import ALL, OTHER, UsageGrouping, UsagePeriod

PROGRESS = select(usage_progress.c.rolled_until, func.now().label("now"))

_GROUPS: dict[UsageGrouping, Any] = {
    UsageGrouping.TENANT: usage_rollup.c.tenant_id,
    UsageGrouping.PROVIDER: usage_rollup.c.provider,
    UsageGrouping.GPU_MODEL: usage_rollup.c.gpu_model,
}


@lru_cache(maxsize=16)
def stored(grouping: UsageGrouping, *, every_tenant: bool) -> AnySelect:
    """Stored sums: `starts_at`, `group` (null without a grouping), MEASURES, PERCENTILES. See `stored_values`."""
    group = _GROUPS.get(grouping)
    all_ = text(ALL)
    conditions: list[Any] = [
        usage_rollup.c.step == bindparam("step", type_=Text),
        usage_rollup.c.starts_at >= bindparam(SINCE, type_=Time),
        usage_rollup.c.starts_at < bindparam(UNTIL, type_=Time),
        *(
            column != all_ if column is group else column == all_
            for column in (usage_rollup.c.provider, usage_rollup.c.gpu_model)
        ),
    ]
    if not every_tenant:
        conditions.append(usage_rollup.c.tenant_id == bindparam("tenant", type_=Text))
    elif grouping is UsageGrouping.TENANT:
        conditions.append(usage_rollup.c.tenant_id != all_)
    else:
        conditions.append(usage_rollup.c.tenant_id == all_)
    names = (*MEASURES, *PERCENTILES)
    group_value = null() if group is None else group
    return select(
        usage_rollup.c.starts_at, group_value.label("group"), *(usage_rollup.c[name] for name in names)
    ).where(*conditions)


@lru_cache(maxsize=16)
def stored_totals(grouping: UsageGrouping, *, every_tenant: bool) -> AnySelect:
    """Stored sums over the whole period: `group`, MEASURES. See `stored_values`."""
    rows = stored(grouping, every_tenant=every_tenant).subquery("stored")
    return select(rows.c.group, *_added(rows)).group_by(rows.c.group)


@lru_cache(maxsize=16)
def stored_largest(grouping: UsageGrouping, *, every_tenant: bool) -> AnySelect:
    """As `stored`, with all groups but those of the parameter `largest` summed up as `other`, without percentiles."""
    rows = stored(grouping, every_tenant=every_tenant).subquery("stored")
    is_large = rows.c.group == any_(bindparam("largest", type_=ARRAY(Text)))
    group = case((is_large, rows.c.group), else_=text(OTHER)).label("group")
    percentiles = (func.max(rows.c[name]).filter(is_large).label(name) for name in PERCENTILES)
    return select(rows.c.starts_at, group, *_added(rows), *percentiles).group_by(rows.c.starts_at, group)


def _added(rows: Any) -> list[Any]:
    return [func.sum(rows.c[name]).label(name) for name in MEASURES]


def stored_values(period: UsagePeriod, within: str | None) -> dict[str, Any]:
    """The parameters of the stored sums. `within`: the tenant; None: every tenant."""
    values = {"step": str(period.step), SINCE: period.since, UNTIL: period.until}
    return values if within is None else {**values, "tenant": within}


@lru_cache(maxsize=16)
def live(grouping: UsageGrouping, *, every_tenant: bool) -> AnySelect:
    """The same rows as `stored`, made from the facts. See `live_values`."""
    hours = facts(archived=False, owned=None if every_tenant else only)
    group = None if grouping is UsageGrouping.NONE else hours.c[_GROUPS[grouping].name]
    keys = [hours.c.starts_at] if group is None else [hours.c.starts_at, group]
    group_value = null() if group is None else group
    return select(hours.c.starts_at, group_value.label("group"), *sums(hours)).group_by(*keys)


@lru_cache(maxsize=2)
def live_cost(*, every_tenant: bool) -> AnySelect:
    """USD of the billing in a period, as one row. See `live_values`."""
    hours = facts(archived=False, owned=None if every_tenant else only, only_billing=True)
    return select(func.coalesce(func.sum(hours.c.cost), 0).label("cost"))


def live_values(period: UsagePeriod, as_of: datetime, within: str | None) -> dict[str, Any]:
    """The parameters of `live`."""
    length = period.step.length.total_seconds()
    return {SINCE: period.since, UNTIL: period.until, SECONDS: length, AS_OF: as_of, **parameter(within)}


def tenant_names(ids: list[str]) -> AnySelect:
    """Names of tenants by id."""
    return select(tenant.c.id, tenant.c.name).where(tenant.c.id.in_(ids))
