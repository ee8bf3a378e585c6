"""What volumes use in each clock hour, and the statement that stores it. Parameters: SINCE and UNTIL (full hours) and AS_OF.

A record has the volume's id as its attempt and lease, the instance type `volume`, and no billed seconds: so no sum counts
it as a lease or a machine. Its price and size do not change, and its billing ends when it is recorded to end, so records
of volumes need no corrections.
"""

from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Text, and_, bindparam, cast, func, insert, literal_column, null, select, true

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, AnySelect, Time
from app.db.core.tenant_scope import only
from app.db.leases.billing import cost, seconds
from app.db.schema.tables import usage_record, volume
from app.db.usage.facts import AS_OF, SINCE, UNTIL, text
from app.domain.offerings import Market
from app.domain.usage import VOLUME

_SINCE, _UNTIL, _AS_OF = (bindparam(name, type_=Time) for name in (SINCE, UNTIL, AS_OF))
_HOUR: ColumnElement[Any] = literal_column("interval '1 hour'")
_ZERO: ColumnElement[int] = literal_column("0")
_SECONDS_PER_HOUR: ColumnElement[int] = literal_column("3600")


def usage(owned: Any = None) -> AnySelect:
    """What volumes used in each hour until AS_OF: the columns of usage_record but revision and created_at.

    `owned`: from a column `tenant_id`, the condition on it; None: every tenant.
    """
    ended = func.least(func.coalesce(volume.c.billing_ended_at, _AS_OF), _AS_OF, _UNTIL)
    since = func.greatest(volume.c.billing_started_at, _SINCE)
    hour = (
        func.generate_series(func.date_trunc("hour", since, "UTC"), ended, _HOUR)
        .table_valued("starts_at", name="hour")
        .render_derived()
        .lateral()
    )
    starts_at = cast(hour.c.starts_at, Time)
    part = (func.greatest(since, starts_at), func.least(ended, starts_at + _HOUR))
    billed = and_(
        volume.c.billing_started_at < ended,
        func.coalesce(volume.c.billing_ended_at, _UNTIL) > _SINCE,  # follows, and an index has it
        part[1] > part[0],
        true() if owned is None else owned(volume.c.tenant_id),
    )
    columns = (value.label(name) for name, value in _values(starts_at, part).items())
    return select(*columns).select_from(volume.join(hour, true())).where(billed)


def _values(starts_at: ColumnElement[Any], part: tuple[ColumnElement[Any], ColumnElement[Any]]) -> dict[str, Any]:
    """`part`: the billed part of the hour."""
    return {
        "attempt_id": volume.c.id,
        "starts_at": starts_at,
        "tenant_id": volume.c.tenant_id,
        "lease_id": volume.c.id,
        "lease_name": volume.c.name,
        "n": _ZERO,
        "key_id": volume.c.key_id,
        "labels": volume.c.labels,
        **{name: volume.c[name] for name in ("provider", "account", "region", "zone")},
        "instance_type": text(VOLUME),
        "instance_id": volume.c.cloud_id,
        "market": text(Market.ON_DEMAND),
        "gpu_model": cast(null(), Text),
        "price_per_hour": func.coalesce(volume.c.price_per_hour, _ZERO),
        **dict.fromkeys(("seconds", "compute_cost", "address_cost", "list_cost", "gpu_hours"), _ZERO),
        "disk_cost": func.coalesce(cost(volume.c.price_per_hour, *part), _ZERO),
        "disk_gib_hours": volume.c.size_gib * seconds(*part) / _SECONDS_PER_HOUR,
    }


def rate(*where: Any) -> Any:
    """USD an hour of the billed volumes of these conditions, as a part of another statement."""
    billed = (volume.c.billing_started_at.is_not(None), volume.c.billing_ended_at.is_(None))
    return select(func.coalesce(func.sum(volume.c.price_per_hour), _ZERO)).where(*billed, *where).scalar_subquery()


@lru_cache(maxsize=2)
def run_rate(*, every_tenant: bool) -> AnySelect:
    """(rate): USD an hour of the billed volumes of the tenant in the parameter of `tenant_scope`, or of all tenants."""
    return select(rate(true() if every_tenant else only(volume.c.tenant_id)).label("rate"))


def cost_since(moment: ColumnElement[Any]) -> Any:
    """USD of all volumes from `moment` until now, as a part of another statement."""
    until = func.coalesce(volume.c.billing_ended_at, func.now())
    usd = cost(volume.c.price_per_hour, func.greatest(volume.c.billing_started_at, moment), until)
    billed = (volume.c.billing_started_at.is_not(None), until > moment)
    return select(func.coalesce(func.sum(usd), _ZERO)).where(*billed).scalar_subquery()


def _record() -> AnyInsert:
    used = usage().subquery("used")
    names = [*used.c.keys(), "revision"]
    rows = select(*used.c, _ZERO.label("revision"))
    return insert(usage_record).from_select(names, rows).returning(usage_record.c.tenant_id, usage_record.c.starts_at)


_CLOSE = _record()


def close(since: datetime, until: datetime) -> Bound[AnyInsert]:
    """Stores the records of the full hour from `since` to `until`. Returns (tenant_id, starts_at) of each.

    The caller holds `record_progress.LOCK` and moves it in the same transaction, so that an hour is closed once.
    """
    return Bound(_CLOSE, {SINCE: since, UNTIL: until, AS_OF: until})
