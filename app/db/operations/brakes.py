"""Statements of the brakes: hold, first listings, mass losses. For the identity of the cluster see `cluster`."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Executable,
    Text,
    TextClause,
    Update,
    and_,
    any_,
    bindparam,
    exists,
    func,
    not_,
    or_,
    select,
    text,
    update,
)

from app.db.core.prepared import Bound
from app.db.core.sql import AnySelect, Time
from app.db.schema import cluster
from app.db.schema.tables import account_region, installation, lease, periodic_job

_NOW = select(func.now().label("now"))


def now() -> Bound[AnySelect]:
    """The database's clock."""
    return Bound(_NOW, {})


def set_hold(reason: str, *guards: ColumnElement[bool]) -> Update:
    """Sets the hold if there is none and the guards hold; the first reason stays. Follow it with `doubt_terms` when it was set.

    Numbers of events go on above all that were given before a restore: who follows events misses none.
    """
    value = func.jsonb_build_object("reason", reason, "since", func.now())
    beyond = installation.c.event_sequence + LOST_NUMBERS
    return update(installation).where(installation.c.hold.is_(None), *guards).values(hold=value, event_sequence=beyond)


LOST_NUMBERS = 10_000_000_000
"""More events than an installation has after a backup, and few enough for 900,000 restores in a number of JSON."""


NOT_HELD = exists().where(installation.c.hold.is_(None))
"""Guard: nothing holds the installation back."""

IS_HELD = select(installation.c.id).where(or_(installation.c.hold.is_not(None), not_(cluster.IS_KNOWN)))
"""A row while the installation is on hold, or the running PostgreSQL cluster is not the known one."""


_TERMS_IN_DOUBT = text(
    """
    WITH live AS MATERIALIZED (SELECT id FROM lease WHERE ended_at IS NULL ORDER BY id FOR NO KEY UPDATE)
    UPDATE lease SET term_in_doubt = TRUE WHERE id IN (SELECT id FROM live)
    """
)


def doubt_terms() -> Executable:
    """The database may have lost extensions of any live lease: none expires before the deadline tag of its VM was read."""
    return _TERMS_IN_DOUBT


MAY_RESTORE_TERM = and_(lease.c.term_in_doubt, lease.c.expires_at < bindparam("promised", type_=Time))
"""Guard: the tag of the lease's VM promises a longer term, and the database may have lost the extension.

`given`: {"promised": the expiry in the tag}.
"""


_TERMS_READ = (
    update(lease)
    .where(lease.c.id == any_(bindparam("ids", type_=ARRAY(Text))), lease.c.term_in_doubt)
    .values(term_in_doubt=False)
    .returning(lease.c.id)
)


def terms_read(lease_ids: Iterable[str]) -> Bound[Update]:
    """The deadline tags of these leases' VMs were read: their terms are in doubt no more. Answers the ids."""
    return Bound(_TERMS_READ, {"ids": list(lease_ids)})


def listed_since(account: ColumnElement[Any], region: ColumnElement[Any], since: ColumnElement[Any]) -> AnySelect:
    """A row when a complete listing of the place began after `since`."""
    return select(account_region.c.account).where(
        account_region.c.account == account,
        account_region.c.region == region,
        account_region.c.last_listing_started_at >= since,
    )


def listing_failed_since(
    account: ColumnElement[Any], region: ColumnElement[Any], since: ColumnElement[Any]
) -> AnySelect:
    """A row when the inventory job of the place began after `since` and ended with an error."""
    job = periodic_job.c
    return select(job.name).where(
        job.kind == "inventory",
        job.account == account,
        or_(job.region.is_(None), job.region == region),
        job.last_started_at >= since,
        job.claim_id.is_(None),
        job.last_error.is_not(None),
    )


_PLACE = (bindparam("account_name", type_=Text), bindparam("region_name", type_=Text))
_SINCE = bindparam("since", type_=Time)
_LISTED_SINCE = listed_since(*_PLACE, _SINCE)
_LISTING_FAILED_SINCE = listing_failed_since(*_PLACE, _SINCE)


def is_listed_since(account: str, region: str, since: datetime) -> Bound[AnySelect]:
    """`listed_since` of one place."""
    return Bound(_LISTED_SINCE, {"account_name": account, "region_name": region, "since": since})


def has_failed_since(account: str, region: str, since: datetime) -> Bound[AnySelect]:
    """`listing_failed_since` of one place."""
    return Bound(_LISTING_FAILED_SINCE, {"account_name": account, "region_name": region, "since": since})


_COUNT_CYCLE = text(
    """
    UPDATE account_region SET
        rowless_cycles = CASE WHEN :rowless THEN rowless_cycles + 1 ELSE 0 END,
        vanishing = (
            SELECT coalesce(jsonb_object_agg(t.id, coalesce((vanishing ->> t.id)::int, 0) + 1), '{}')
            FROM unnest(CAST(:tenants AS text[])) AS t (id))
    WHERE account = :account_name AND region = :region_name
    RETURNING vanishing AS vanished, rowless_cycles AS rowless
    """
)


def count_cycle(account: str, region: str, *, vanished: Iterable[str], rowless: bool) -> Bound[TextClause]:
    """Counts cycles in a row with a mass loss. `vanished`: tenants whose VMs it concerns.

    Answers (vanished, rowless); `vanished`: the cycles of each of these tenants.
    """
    place = {"account_name": account, "region_name": region}
    return Bound(_COUNT_CYCLE, {**place, "tenants": sorted(vanished), "rowless": rowless})
