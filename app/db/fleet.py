"""Statements on the installation, the cloud accounts and the catalogue of offerings."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Delete,
    Select,
    Update,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    not_,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, Insert, insert

from app.db.core.column_types import Time
from app.db.schema.tables import account, account_region, attempt, installation, lease, offering
from app.domain.leases import LIVE_ATTEMPT

_FORGET_UNOFFERED = timedelta(days=2)
_SILENCE = timedelta(seconds=30)


def installation_row() -> Select[Any]:
    """The one row: id, token_key, hold, launches_stopped."""
    return select(installation.c.id, installation.c.token_key, installation.c.hold, installation.c.launches_stopped)


def brakes() -> Select[Any]:
    """What stops launches everywhere: (hold, launches_stopped)."""
    return select(installation.c.hold, installation.c.launches_stopped)


def save_account(name: str, provider: str, config: Mapping[str, Any]) -> Insert:
    """Stores the settings of a configured account. One that was draining is in use again."""
    statement = insert(account).values(name=name, provider=provider, config=dict(config))
    return statement.on_conflict_do_update(
        index_elements=[account.c.name],
        set_={
            "config": statement.excluded.config,
            "provider": statement.excluded.provider,
            "state": case((account.c.state == "draining", "unchecked"), else_=account.c.state),
        },
    )


def drain_accounts(configured: Iterable[str]) -> Update:
    """Accounts that left the configuration: served from their stored settings, used for nothing new."""
    return update(account).where(account.c.name.not_in(list(configured))).values(state="draining")


def accounts_in_use(configured: Iterable[str]) -> Select[Any]:
    """Configured accounts, and others while an attempt of theirs lives: (name, provider, config, state, identity)."""
    live = (
        select(attempt.c.id)
        .where(attempt.c.account == account.c.name, attempt.c.state.in_([str(s) for s in LIVE_ATTEMPT]))
        .exists()
    )
    return select(account.c.name, account.c.provider, account.c.config, account.c.state, account.c.identity).where(
        or_(account.c.name.in_(list(configured)), live)
    )


def places_in_use() -> Select[Any]:
    """(account, region) wherever an attempt lives or has left something behind, configured or not."""
    open_ = or_(attempt.c.state.in_([str(state) for state in LIVE_ATTEMPT]), not_(attempt.c.clean))
    return select(attempt.c.account, attempt.c.region).where(open_).distinct()


def ensure_regions(places: Iterable[tuple[str, str]]) -> Insert:
    """Rows for (account, region) pairs that are new."""
    rows = [{"account": name, "region": region} for name, region in places]
    return insert(account_region).values(rows).on_conflict_do_nothing()


def account_ok(name: str, identity: str) -> Update:
    """The account answered. Its identity is pinned at first use; another one never counts as ok."""
    return (
        update(account)
        .where(account.c.name == name, or_(account.c.identity.is_(None), account.c.identity == identity))
        .values(
            identity=identity,
            state=case((account.c.state == "draining", account.c.state), else_="ok"),
            last_error=None,
            checked_at=func.now(),
        )
        .returning(account.c.name)
    )


def wake_queued() -> Update:
    """Leases that wait in the queue look again at once: there is something new to try."""
    return (
        update(lease)
        .where(lease.c.state == "queued", lease.c.desired == "run")
        .values(next_due=func.now(), wake_count=lease.c.wake_count + 1)
    )


def account_state(name: str) -> Select[Any]:
    """(state), locked until the transaction ends."""
    return select(account.c.state).where(account.c.name == name).with_for_update()


def account_failed(name: str, state: str, error: Mapping[str, Any]) -> Update:
    """Sets an account aside (`failing`, `disabled`) with the reason; a draining one stays draining."""
    return (
        update(account)
        .where(account.c.name == name)
        .values(
            state=case((account.c.state == "draining", account.c.state), else_=state),
            last_error=dict(error),
            checked_at=func.now(),
        )
    )


def region_failed(name: str, region: str, error: Mapping[str, Any], *, silent: bool = False) -> Update:
    """The last thing that went wrong in a region. `silent`: it gave no answer, `since` the first such time in a row."""
    kept: ColumnElement[Any] = cast(dict(error), JSONB)
    if silent:
        since = func.coalesce(account_region.c.last_error["since"], func.to_jsonb(func.now()))
        kept = kept.op("||")(func.jsonb_build_object("since", since))
    return (
        update(account_region)
        .where(account_region.c.account == name, account_region.c.region == region)
        .values(last_error=kept)
    )


def service_quotas(name: str, region: str, quotas: list[dict[str, Any]]) -> Update:
    """The provider's own limits, for operators to read."""
    return (
        update(account_region)
        .where(account_region.c.account == name, account_region.c.region == region)
        .values(service_quotas=quotas)
    )


# --- offerings --------------------------------------------------------------------------------------------

_FACTS = [
    "provider",
    "gpu_model",
    "gpu_count",
    "gpu_memory_gib",
    "gpu_interconnect",
    "vcpus",
    "memory_gib",
]
_PRICE = ["price_per_hour", "price_as_of", "price_source", "price_live"]
_KEY = (offering.c.account, offering.c.region, offering.c.zone, offering.c.instance_type, offering.c.market)


def save_offerings() -> Insert:
    """Adds or refreshes offerings, a set of parameters each; what placement has learnt of them (cool-offs, counts) stays.

    So does a known price where none is told now, and a live one until a live one or a newer list replaces it.
    """
    statement = insert(offering)
    new = statement.excluded
    outlived = and_(offering.c.price_live, not_(new.price_live), offering.c.price_as_of >= new.price_as_of)
    kept = or_(new.price_per_hour.is_(None), outlived)
    changes: dict[str, Any] = {name: new[name] for name in _FACTS}
    prices = {name: case((kept, offering.c[name]), else_=new[name]) for name in _PRICE}
    return statement.on_conflict_do_update(
        index_elements=list(_KEY), set_={**changes, **prices, "refreshed_at": func.now()}
    )


def lock_region(name: str, region: str) -> Select[Any]:
    """Whoever writes many offerings of a region holds this until the transaction ends: two would lock rows crosswise."""
    here = (account_region.c.account == name, account_region.c.region == region)
    return select(account_region.c.region).where(*here).with_for_update()


def count_offerings(name: str, region: str) -> Select[Any]:
    """How many offerings of a region are known."""
    return select(func.count()).where(offering.c.account == name, offering.c.region == region)


def save_price(name: str, region: str) -> Update:
    """A live price of a type in all zones of a region: parameters `type`, `in_market`, `per_hour`, `as_of`, `source`."""
    return (
        update(offering)
        .where(
            offering.c.account == name,
            offering.c.region == region,
            offering.c.instance_type == bindparam("type"),
            offering.c.market == bindparam("in_market"),
        )
        .values(
            price_per_hour=bindparam("per_hour"),
            price_as_of=bindparam("as_of"),
            price_source=bindparam("source"),
            price_live=True,
        )
    )


def forget_unoffered(name: str, region: str) -> Delete:
    """Drops offerings of a region that its refreshes have not shown for days."""
    return delete(offering).where(
        offering.c.account == name,
        offering.c.region == region,
        offering.c.refreshed_at < func.now() - _FORGET_UNOFFERED,
    )


def candidates() -> Select[Any]:
    """Every offering with its account's state, for placement, in the order of their keys. Read by app.db.offering_rows.

    Those of a region that left its account's configuration are left out: it is observed while a VM lives there, and no more.
    `silent_until`: its region has given no answer for half a minute; asked again all the time, but by nobody in a hurry.
    """
    since = cast(account_region.c.last_error["since"].astext, Time)
    found = select(
        offering,
        case((since < func.now() - _SILENCE, func.now() + _SILENCE)).label("silent_until"),
        account_region.c.last_error.label("region_error"),
        account.c.state.label("account_state"),
        account.c.cordoned.label("account_cordoned"),
        account.c.last_error.label("account_error"),
        account.c.config["images"].label("account_images"),
    ).select_from(
        offering.join(account, account.c.name == offering.c.account).outerjoin(
            account_region,
            and_(account_region.c.account == offering.c.account, account_region.c.region == offering.c.region),
        )
    )
    configured = func.jsonb_exists(account.c.config["regions"], offering.c.region)
    return found.where(func.coalesce(configured, true())).order_by(*_KEY)
