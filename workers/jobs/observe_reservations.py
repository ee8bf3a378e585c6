"""Observing reservations: what is free in each, from when until when, and what its provider says against it."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import structlog
from sqlalchemy import func, select

from app.db.fleet import offerings, reservations
from app.settings.reservations import ReservationSettings
from workers.providers.types import ObservedReservation
from workers.runtime.runtime import Runtime

log = structlog.get_logger(__name__)


def observe_reservations(runtime: Runtime, account: str, region: str) -> int:
    """Writes the configured reservations of an account and region. Returns their number. Raises ProviderError.

    Leases in a reservation that now ends earlier are shortened. A reservation that could not be read keeps its row.
    """
    configured = {entry.name: entry for entry in runtime.accounts.reservations(account, region)}
    rows = _read(runtime, account, region, configured) if configured else []
    for name in sorted(configured.keys() - {row["name"] for row in rows}):
        log.warning("reservation not observed", account=account, reservation=name, type=configured[name].instance_type)
    with runtime.database.begin() as connection:
        types = {name: entry.instance_type for name, entry in configured.items()}
        connection.execute(reservations.forget_others(account, region, types))
        if rows:
            connection.execute(reservations.save_reservations(), rows)
    for row in rows:
        if row["ends_at"] is not None:
            with runtime.database.begin() as connection:
                connection.execute(reservations.shorten_leases(account, row["name"], row["ends_at"]))
                connection.execute(reservations.shorten_attempts(account, row["name"], row["ends_at"]))
    if rows:
        runtime.catalogue.forget()
    return len(rows)


def _read(
    runtime: Runtime, account: str, region: str, configured: Mapping[str, ReservationSettings]
) -> list[dict[str, Any]]:
    runtime.accounts.require_identity(account)
    asked_at: datetime = runtime.database.all(select(func.now()))[0][0]
    observed = runtime.accounts.provider(account).reservations(region)
    provider = runtime.accounts.provider_name(account)
    return [_row(account, provider, configured[entry.name], entry, asked_at) for entry in observed]


def _row(
    account: str, provider: str, settings: ReservationSettings, observed: ObservedReservation, asked_at: datetime
) -> dict[str, Any]:
    slots = [number for number in (settings.count, observed.slots) if number is not None]
    return {
        "account": account,
        "name": settings.name,
        "kind": settings.kind,
        "provider": provider,
        "region": settings.region,
        "zone": settings.zone,
        "instance_type": observed.type.name,
        **offerings.type_columns(observed.type),
        "price_per_hour": settings.price_per_hour,
        "tenants": list(settings.tenants),
        "slots": min(slots, default=None),
        "free": observed.free,
        "starts_at": _edge(max, settings.starts_at, observed.starts_at),
        "ends_at": _edge(min, settings.ends_at, observed.ends_at),
        "shortest_wait": observed.shortest_wait,
        "longest_run": observed.longest_run,
        "problem": observed.problem,
        "observed_at": asked_at,
    }


def _edge(of: Callable[..., datetime | None], *times: datetime | None) -> datetime | None:
    """The later start or the earlier end of two windows. None: no limit."""
    return of((time for time in times if time is not None), default=None)
