"""Statements of the API on leases: the creation, the reads, and the lock before a change."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Interval,
    Text,
    and_,
    bindparam,
    cast,
    func,
    insert,
    literal_column,
    not_,
    null,
    select,
    true,
)

from app.db.core.sql import AnySelect, Id, Json, Money, Time
from app.db.core.tenant_scope import asking, parameter
from app.db.leases import projection
from app.db.leases.billing import accrued
from app.db.schema.tables import account_region, event, lease, lease_secret, tenant
from app.domain.event_types import EventType
from app.domain.leases import TERMINAL

_AS_OF = func.now().label("as_of")
_TERMS = (tenant.c.status.label("tenant_status"), tenant.c.max_total_seconds.label("max_total_seconds"))


def _view(row: FromClause, terms: FromClause, listed_at: ColumnElement[Any]) -> Iterator[ColumnElement[Any]]:
    yield from (row.c[name] for name in ("id", "tenant_id", "version", "state", "desired"))
    yield from (projection.lease_json(row, listed_at), projection.request(row))
    yield projection.provider_message(row)
    total = row.c.created_at + terms.c.max_total_seconds * literal_column("interval '1 second'")
    latest = func.least(total, _reserved_until(row))
    yield (row.c.expires_at <= func.now()).label("over")
    yield (row.c.expires_at >= latest).label("at_latest")
    yield (row.c.placement["extendable"].astext == literal_column("'false'")).label("not_extendable")


def _reserved_until(row: FromClause) -> ColumnElement[Any]:
    """NULL, which `least` ignores, outside a reservation."""
    return cast(row.c.placement["reserved_until"].astext, Time)


def view_rows() -> AnySelect:
    """The columns from which a lease is shown: see `projection.lease_json`, and the facts that decide its `actions`.

    `over`: its term has ended. `at_latest`: the tenant's terms or a reservation allow no later expiry. `not_extendable`: the provider
    ends the VM at the expiry. `request` is JSON text in the form of callers, never empty.
    """
    region = and_(account_region.c.account == lease.c.account, account_region.c.region == lease.c.region)
    listed_at = account_region.c.last_complete_listing_at
    return select(*_view(lease, tenant, listed_at), tenant.c.status.label("tenant_status")).select_from(
        lease.join(tenant, tenant.c.id == lease.c.tenant_id).outerjoin(account_region, region)
    )


_NAMED = (lease.c.id == bindparam("lease_id"), asking(lease.c.tenant_id))


def named(lease_id: str, within: str | None) -> dict[str, str]:
    """Parameters of READ, LOCK and VERSION: the lease, if it belongs to the tenant `within`. None: of any tenant."""
    return {"lease_id": lease_id, **parameter(within)}


READ = view_rows().where(*_NAMED)
"""One lease. Parameters: see `named`."""

READ_WITH_SCRIPT = READ.add_columns(lease_secret.c.startup_script).outerjoin(
    lease_secret, lease_secret.c.lease_id == lease.c.id
)
"""As READ, with its startup script (None when there is none, or when it was deleted)."""

LOCK = READ.add_columns(
    lease.c.name,
    lease.c.labels,
    lease.c.expiry_warnings,
    lease.c.keep_until,
    lease.c.account,
    lease.c.group_id,
    lease.c.key_id,
    lease.c.created_at,
    lease.c.expires_at,
    _reserved_until(lease).label("reserved_until"),
    lease.c.max_cost,
    accrued(lease, func.now()).label("accrued"),
    tenant.c.max_ttl_seconds,
    tenant.c.max_total_seconds,
    _AS_OF,
).with_for_update(of=lease)
"""As READ, with the facts on which changes are based. The lease's row stays locked until the transaction ends."""

VERSION = select(lease.c.version).where(*_NAMED)
"""The version only, which is enough for an ETag."""

TERMS = select(tenant.c.status, tenant.c.max_ttl_seconds).where(tenant.c.id == bindparam("tenant_id"))
"""The terms of a tenant. Parameter: tenant_id."""


def same_name(tenant_id: Any, name: Any) -> AnySelect:
    """Ids of the tenant's live leases with the name."""
    live = not_(lease.c.state.in_([literal_column(f"'{state}'") for state in sorted(TERMINAL)]))
    return select(lease.c.id).where(lease.c.tenant_id == tenant_id, lease.c.name == name, live)


NAMED_LIVE = (
    same_name(bindparam("tenant_id"), bindparam("name"))
    .where(lease.c.id.is_distinct_from(bindparam("besides", type_=Text)))
    .order_by(lease.c.id)
    .limit(1)
)
"""The live lease of a tenant with a name, other than `besides`. Parameters: tenant_id, name, besides."""


def _create() -> AnySelect:
    terms = (
        select(*_TERMS)
        .where(
            tenant.c.id == bindparam("tenant_id"),
            tenant.c.status == literal_column("'active'"),
            tenant.c.max_ttl_seconds >= bindparam("ttl_seconds"),
            not_(same_name(bindparam("tenant_id"), bindparam("name", type_=Text)).exists()),
        )
        # a concurrent suspension waits for this statement, or this statement sees the suspension
        .with_for_update(read=True)
        .cte("terms")
    )
    new = _new_lease(terms).returning(*(lease.c[name] for name in projection.NEEDED)).cte("new")
    return (
        select(*_view(new, terms, null()), terms.c.tenant_status, new.c.expires_at)
        .select_from(new.join(terms, true()))
        .add_cte(_secret(new), _first_event(new))
    )


def _new_lease(terms: Any) -> Any:
    values: dict[str, ColumnElement[Any]] = {
        "id": bindparam("lease_id", type_=Id),
        "tenant_id": bindparam("tenant_id", type_=Id),
        "name": bindparam("name", type_=Text),
        "labels": bindparam("labels", type_=Json),
        "request": bindparam("request", type_=Json),
        "on_interruption": bindparam("on_interruption", type_=Text),
        "minimum_claim": bindparam("minimum_claim", type_=Json),
        "estimated_price_per_hour": bindparam("estimated_price_per_hour", type_=Money),
        "max_cost": bindparam("max_cost", type_=Money),
        "minimum_rate": bindparam("minimum_rate", type_=Money),
        "max_rate": bindparam("max_rate", type_=Money),
        "key_id": bindparam("key_id", type_=Id),
        "quote_id": bindparam("quote_id", type_=Id),
        "volume_place": bindparam("volume_place", type_=Json),
        "expiry_warnings": bindparam("expiry_warnings", type_=Json),
        "unique_name": literal_column("true"),
        "expires_at": func.now() + bindparam("ttl", type_=Interval),
        "wait_until": func.now() + bindparam("wait", type_=Interval),
        "events_count": literal_column("1"),
        "request_id": bindparam("request_id", type_=Text),
    }
    return insert(lease).from_select(list(values), select(*values.values()).select_from(terms))


def _secret(new: Any) -> Any:
    script = bindparam("startup_script", type_=Text)
    chosen = select(new.c.id, new.c.tenant_id, script).where(script.is_not(None))
    return insert(lease_secret).from_select(["lease_id", "tenant_id", "startup_script"], chosen).cte("secret")


def _first_event(new: Any) -> Any:
    values = select(
        bindparam("event_id", type_=Id),
        new.c.tenant_id,
        new.c.id,
        literal_column("1"),
        literal_column(f"'{EventType.LEASE_QUEUED}'"),
        bindparam("event_data", type_=Json),
        bindparam("request_id", type_=Text),
    )
    columns = ["id", "tenant_id", "lease_id", "lease_sequence", "type", "data", "request_id"]
    return insert(event).from_select(columns, values).cte("told")


CREATE = _create()
"""Inserts lease, secret and first event at once, while the tenant is active and its terms allow `ttl_seconds`.

The caller must then reserve the quota with `quotas.ADMIT_LEASE` in the same transaction. Returns the row that READ would
return, with `expires_at`, or none when the terms forbid the lease or a live lease has the name. The caller then reads
the cause from TERMS, and rolls back. Two creates at the same time: the index `ix_lease_live_name` refuses the second.
Parameters: lease_id, tenant_id, name, labels, request, on_interruption, minimum_claim, estimated_price_per_hour,
max_cost, minimum_rate, max_rate, key_id, quote_id, volume_place, expiry_warnings, ttl_seconds, ttl, wait, startup_script,
event_id, event_data, request_id."""
