"""From rows to the JSON of `lease_views`, without building models: a list of 50 costs about a millisecond.

A test holds the two together: real answers validate strictly against the declared models.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import orjson

from app.api.lease_views import AttemptOutcome
from app.api.responses import to_bytes
from app.domain.leases import TERMINAL, AttemptState
from app.domain.money import format_money
from app.services.principal import Role

_TERMINAL = frozenset(str(state) for state in TERMINAL)
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3_600_000_000

_YES = {"available": True, "reason_code": None}
_NO = {
    code: {"available": False, "reason_code": code}
    for code in ("forbidden", "lease_ending", "lease_not_active", "tenant_suspended", "term_exceeded")
}

_ACTIONS = ("release", "extend", "reboot")
_PLACE = ("provider", "account", "region", "zone", "instance_type", "market")
_ERROR = ("class", "code", "message")


def lease_json(row: Any, role: Role, *, startup_script: str | None = None) -> bytes:
    """One lease. `startup_script` only where the caller may see it."""
    return to_bytes(lease_view(row, role, startup_script=startup_script))


def lease_page_json(rows: Iterable[Any], role: Role, next_cursor: str | None) -> bytes:
    """A page of leases."""
    return to_bytes({"items": [lease_view(row, role) for row in rows], "next_cursor": next_cursor})


def lease_view(row: Any, role: Role, *, startup_script: str | None = None) -> dict[str, Any]:
    """`row` is one of app.db.leases.READ or of app.db.lease_reads, which leaves some JSON as text."""
    state = row.state
    return {
        "id": row.id,
        "tenant_id": row.tenant_id,
        "name": row.name,
        "state": state,
        "desired": row.desired,
        "terminal": state in _TERMINAL,
        "billable": row.rate_per_hour is not None,
        "reason": _ready(row.reason),
        "request": _request(row.request, startup_script),
        "placement": _ready(row.placement),
        "connection": _connection(row),
        "interruption": _ready(row.interruption),
        "health": row.health,
        "labels": _ready(row.labels),
        "attempts_count": row.attempts_count,
        "actions": _actions(row, role),
        "cost": _cost(row),
        "version": row.version,
        "created_at": row.created_at,
        "first_attempt_at": row.first_attempt_at,
        "launched_at": row.launched_at,
        "running_at": row.running_at,
        "ready_at": row.ready_at,
        "billing_started_at": row.billing_started_at,
        "billing_ended_at": row.billing_ended_at,
        "expires_at": row.expires_at,
        "wait_until": row.wait_until,
        "release_requested_at": row.release_requested_at,
        "provider_gone_at": row.provider_gone_at,
        "ended_at": row.ended_at,
        "updated_at": row.updated_at,
        "last_observed_at": _last_observed(row),
    }


def _ready(value: Any) -> Any:
    """JSON text as the database gave it goes out as it is."""
    return orjson.Fragment(value) if isinstance(value, str) else value


def _request(request: Any, startup_script: str | None) -> Any:
    if not isinstance(request, str):
        return {**request, "startup_script": startup_script}
    script = orjson.dumps({"startup_script": startup_script})
    return orjson.Fragment(request[:-1].encode() + b"," + script[1:])


def accrued(closed: Decimal, rate: Decimal | None, since: datetime | None, now: datetime) -> Decimal:
    """USD: what closed attempts cost, and the running rate since."""
    if rate is None or since is None or now <= since:
        return closed
    return closed + rate * ((now - since) // _MICROSECOND) / _MICROSECONDS_PER_HOUR


def _cost(row: Any) -> dict[str, Any]:
    rate = row.rate_per_hour
    return {
        "accrued": format_money(accrued(row.cost_closed, rate, row.rate_since, row.as_of)),
        "rate_per_hour": None if rate is None else format_money(rate),
        "as_of": row.as_of,
        "currency": "USD",
    }


def _actions(row: Any, role: Role) -> dict[str, Any]:
    """The rules of app.services.lease_changes, told in advance."""
    if role is Role.VIEWER:
        return dict.fromkeys(_ACTIONS, _NO["forbidden"])
    if row.desired != "run":
        return dict.fromkeys(_ACTIONS, _NO["lease_ending"])
    reboot = _YES if row.state == "active" else _NO["lease_not_active"]
    return {"release": _YES, "extend": _extend(row), "reboot": reboot}


def _extend(row: Any) -> dict[str, Any]:
    if row.expires_at <= row.as_of:
        return _NO["lease_ending"]
    if row.tenant_status != "active":
        return _NO["tenant_suspended"]
    latest = row.created_at + timedelta(seconds=row.max_total_seconds)
    return _YES if latest > row.expires_at else _NO["term_exceeded"]


def _last_observed(row: Any) -> datetime | None:
    """The last complete listing of its account and region, or what was heard of the VM itself since."""
    launched = row.launched_at
    if launched is None or row.state in _TERMINAL:
        return None
    if row.provider_gone_at is not None and row.provider_gone_at >= launched:
        return None
    heard: tuple[datetime | None, ...] = (row.listed_at, launched, row.running_at, row.ready_at)
    return max(time for time in heard if time is not None)


def _pick(value: dict[str, Any] | None, names: tuple[str, ...]) -> dict[str, Any] | None:
    return None if value is None else {name: value.get(name) for name in names}


def _connection(row: Any) -> Any:
    """With the host keys, which stand in a column of their own."""
    connection, keys = row.connection, row.ssh_host_keys
    if not isinstance(connection, str):
        return None if connection is None else {**connection, "ssh_host_keys": keys}
    return orjson.Fragment(f'{connection[:-1]},"ssh_host_keys":{keys or "null"}}}')


def attempt_page_json(rows: Iterable[Any], next_cursor: str | None) -> bytes:
    """A page of attempts."""
    return to_bytes({"items": [_attempt(row) for row in rows], "next_cursor": next_cursor})


def _attempt(row: Any) -> dict[str, Any]:
    price = format_money(row.price_per_hour)
    return {
        "id": row.id,
        "n": row.n,
        "outcome": outcome(row.state, row.instance_id),
        "state": row.state,
        "offering": {
            **{name: getattr(row, name) for name in _PLACE},
            **row.offering,
            "price_per_hour": price,
        },
        "instance_id": row.instance_id,
        "error": _pick(row.error, _ERROR),
        "cost": format_money(
            accrued(Decimal(0), row.price_per_hour, row.billing_started_at, row.billing_ended_at or row.as_of)
        ),
        "started_at": row.created_at,
        "sent_at": row.first_sent_at,
        "launched_at": row.known_at,
        "billing_started_at": row.billing_started_at,
        "billing_ended_at": row.billing_ended_at,
        "ended_at": row.ended_at,
    }


def outcome(state: str, instance_id: str | None) -> AttemptOutcome:
    """The public word for an attempt's state."""
    if state == AttemptState.DEAD:
        return AttemptOutcome.ENDED if instance_id is not None else AttemptOutcome.NOT_CREATED
    return _OUTCOMES[AttemptState(state)]


_OUTCOMES = {
    AttemptState.PLANNED: AttemptOutcome.PENDING,
    AttemptState.SENT: AttemptOutcome.PENDING,
    AttemptState.SETTLING: AttemptOutcome.UNKNOWN,
    AttemptState.KNOWN: AttemptOutcome.LAUNCHED,
    AttemptState.REFUSED: AttemptOutcome.REFUSED,
}
