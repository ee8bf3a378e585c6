"""Statements of the brakes: hold, identity of the Postgres cluster, first listings, mass losses."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Executable, Select, Update, func, select, text, update

from app.db.tables import account_region, installation, lease

_IDENTIFIER = "(SELECT system_identifier::text FROM pg_control_system())"
_TIMELINE = "(SELECT timeline_id FROM pg_control_checkpoint())"

_CLUSTER = text(
    f"""
    SELECT {_IDENTIFIER} AS identifier, {_TIMELINE} AS timeline,
           system_identifier AS stored_identifier, timeline AS stored_timeline FROM installation
    """
)
_REMEMBER = text(f"UPDATE installation SET system_identifier = {_IDENTIFIER}, timeline = {_TIMELINE}")


def now() -> Select[Any]:
    """The database's clock."""
    return select(func.now().label("now"))


def cluster() -> Executable:
    """(identifier, timeline) of the running cluster and as stored."""
    return _CLUSTER


def remember_cluster() -> Executable:
    """The running cluster is the right one from now on."""
    return _REMEMBER


def set_hold(reason: str) -> Update:
    """Sets the hold if there is none; the first reason stays."""
    value = func.jsonb_build_object("reason", reason, "since", func.now())
    return update(installation).where(installation.c.hold.is_(None)).values(hold=value)


def listed_since(account: str, region: str, since: datetime) -> Select[Any]:
    """A row when a complete listing of the place began after `since`."""
    return select(account_region.c.account).where(
        account_region.c.account == account,
        account_region.c.region == region,
        account_region.c.last_listing_started_at >= since,
    )


def attempts_of(lease_ids: Sequence[str]) -> Select[Any]:
    """(id, attempts_count) of those leases that exist."""
    return select(lease.c.id, lease.c.attempts_count).where(lease.c.id.in_(lease_ids))


def newest_lease() -> Select[Any]:
    """(id): the newest lease there is, or None."""
    return select(func.max(lease.c.id).label("id"))


def count_cycle(account: str, region: str, kind: str, *, many: bool) -> Update:
    """Counts cycles in a row with a mass loss of this kind (vanished, rowless). Answers (cycles)."""
    column = {"vanished": account_region.c.vanish_cycles, "rowless": account_region.c.rowless_cycles}[kind]
    return (
        update(account_region)
        .where(account_region.c.account == account, account_region.c.region == region)
        .values({column: column + 1 if many else 0})
        .returning(column.label("cycles"))
    )
