"""Usage records of volumes: what each costs in a full hour that is over.

A record has the volume's id as its attempt and lease, the instance type `volume`, and no billed seconds: so no sum counts
it as a lease or a machine. Its price and size do not change, and its billing ends when it is recorded to end, so records
of volumes need no corrections.
"""

from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, insert, literal_column, select

from app.db.core.prepared import Bound
from app.db.core.sql import AnyInsert, Time
from app.db.leases.billing import cost, seconds
from app.db.schema.tables import usage_record, volume
from app.db.usage.facts import text
from app.domain.offerings import Market
from app.domain.usage import VOLUME

_SINCE, _UNTIL = bindparam("since", type_=Time), bindparam("until", type_=Time)
_ZERO = literal_column("0")
_FIRST = func.greatest(volume.c.billing_started_at, _SINCE)
_LAST = func.least(func.coalesce(volume.c.billing_ended_at, _UNTIL), _UNTIL)
_COST = func.coalesce(cost(volume.c.price_per_hour, _FIRST, _LAST), _ZERO)
_VALUES: dict[str, Any] = {
    "attempt_id": volume.c.id,
    "starts_at": _SINCE,
    "revision": _ZERO,
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
    "price_per_hour": func.coalesce(volume.c.price_per_hour, _ZERO),
    **dict.fromkeys(("seconds", "compute_cost", "address_cost", "list_cost", "gpu_hours"), _ZERO),
    "disk_cost": _COST,
    "disk_gib_hours": volume.c.size_gib * seconds(_FIRST, _LAST) / literal_column("3600"),
}
_CLOSE = (
    insert(usage_record)
    .from_select(
        list(_VALUES),
        select(*(value.label(name) for name, value in _VALUES.items())).where(
            volume.c.billing_started_at < _UNTIL,
            func.coalesce(volume.c.billing_ended_at, _UNTIL) > _SINCE,
        ),
    )
    .returning(usage_record.c.tenant_id, usage_record.c.starts_at)
)


def close(since: datetime, until: datetime) -> Bound[AnyInsert]:
    """Stores the records of the full hour from `since` to `until`. Returns (tenant_id, starts_at) of each.

    The caller holds `record_progress.LOCK` and moves it in the same transaction, so that an hour is closed once.
    """
    return Bound(_CLOSE, {"since": since, "until": until})
