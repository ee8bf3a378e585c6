"""Makes the deliveries of new usage records: a message for each record and each webhook that selects `usage.hour`."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func

from app.db.core.ids import new_id
from app.db.events import usage_webhooks, webhook_lanes
from app.domain.usage import record_key
from app.domain.webhooks.formats import MeterMessage
from app.domain.webhooks.retries import LASTS

_BATCH = 1000
_HOURS = ("seconds", "gpu_hours", "idle_gpu_hours", "disk_gib_hours")
_USD = ("price_per_hour", "compute_cost", "disk_cost", "address_cost", "list_cost")


def send_records(connection: Connection, hours: Collection[tuple[str, datetime]]) -> None:
    """Runs in the transaction that stores the records of these hours of tenants."""
    records = connection.execute(*usage_webhooks.new_records(hours)).mappings().all()
    for start in range(0, len(records), _BATCH):
        connection.execute(webhook_lanes.add([_delivery(row) for row in records[start : start + _BATCH]]))
    if records:
        connection.execute(usage_webhooks.hurry({row["webhook_id"] for row in records}))


def _delivery(row: Mapping[Any, Any]) -> dict[str, Any]:
    starts_at = row["starts_at"]
    return {
        "id": new_id("delivery"),
        "webhook_id": row["webhook_id"],
        "tenant_id": row["tenant_id"],
        "event_id": record_key(row["attempt_id"], starts_at, row["revision"]),
        "sequence": None,
        "event_type": str(MeterMessage.USAGE_HOUR),
        "event_at": starts_at,
        "about": _data(row),
        "gives_up_at": func.now() + LASTS,
    }


def _data(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The message's data. Amounts in USD are decimal strings, and are not rounded to cents."""
    data = {name: value for name, value in row.items() if name != "webhook_id"}
    data["starts_at"] = _text(row["starts_at"])
    data["ends_at"] = _text(row["starts_at"] + timedelta(hours=1))
    data |= {name: None if row[name] is None else float(row[name]) for name in _HOURS}
    total = row["compute_cost"] + row["disk_cost"] + row["address_cost"]
    return data | {name: _usd(row[name]) for name in _USD} | {"cost": _usd(total)}


def _usd(amount: Decimal) -> str:
    digits = f"{amount:.12f}".rstrip("0")
    return digits + "0" if digits.endswith(".") else digits


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
