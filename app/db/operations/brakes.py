"""Statements of the brakes: hold, first listings, mass losses. For the identity of the cluster see `cluster`."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import (
    ColumnElement,
    Executable,
    Update,
    and_,
    bindparam,
    exists,
    func,
    not_,
    or_,
    select,
    text,
    update,
)

from app.db.core.column_types import Time
from app.db.core.statements import AnySelect
from app.db.operations import cluster
from app.db.schema.tables import account_region, installation, lease, periodic_job


def now() -> AnySelect:
    """The database's clock."""
    return select(func.now().label("now"))


def set_hold(reason: str) -> Update:
    """Sets the hold if there is none; the first reason stays. Follow it with `doubt_terms` when it was set."""
    value = func.jsonb_build_object("reason", reason, "since", func.now())
    return update(installation).where(installation.c.hold.is_(None)).values(hold=value)


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

`given`: {"promised": the expiry that the tag tells of}.
"""


def terms_read(lease_ids: Iterable[str]) -> Update:
    """The deadline tags of these leases' VMs were read: their terms are in doubt no more. Answers the ids."""
    return (
        update(lease)
        .where(lease.c.id.in_(list(lease_ids)), lease.c.term_in_doubt)
        .values(term_in_doubt=False)
        .returning(lease.c.id)
    )


Name = str | ColumnElement[str]
Since = datetime | ColumnElement[datetime]


def listed_since(account: Name, region: Name, since: Since) -> AnySelect:
    """A row when a complete listing of the place began after `since`."""
    return select(account_region.c.account).where(
        account_region.c.account == account,
        account_region.c.region == region,
        account_region.c.last_listing_started_at >= since,
    )


def listing_failed_since(account: Name, region: Name, since: Since) -> AnySelect:
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


def count_cycle(account: str, region: str, kind: str, *, many: bool) -> Update:
    """Counts cycles in a row with a mass loss of this kind (vanished, rowless). Answers (cycles)."""
    column = {"vanished": account_region.c.vanish_cycles, "rowless": account_region.c.rowless_cycles}[kind]
    return (
        update(account_region)
        .where(account_region.c.account == account, account_region.c.region == region)
        .values({column: column + 1 if many else 0})
        .returning(column.label("cycles"))
    )
