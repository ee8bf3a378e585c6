"""Statements on the catalogue of offerings and its prices, and its rows as offerings of the domain."""

from datetime import timedelta
from typing import Any

from sqlalchemy import (
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
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.column_types import Time
from app.db.schema.tables import account, account_region, offering
from app.domain.offerings import CoolOff, Gpu, InstanceType, Market, Offering, OfferingKey

_SILENCE = timedelta(seconds=30)
_FORGET_UNOFFERED = timedelta(days=2)
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
    """Every offering with its account's state, for placement, in the order of their keys. `offering_from_row` reads it.

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


_USABLE = ("ok", "unchecked")


def offering_from_row(row: Any) -> Offering:
    """The domain's view; an account that is set aside excludes its offerings with the reason."""
    return Offering(
        key=OfferingKey(
            account=row.account,
            region=row.region,
            zone=row.zone,
            instance_type=row.instance_type,
            market=Market(row.market),
        ),
        provider=row.provider,
        type=_type(row),
        price_per_hour=row.price_per_hour,
        price_as_of=row.price_as_of,
        price_source=row.price_source,
        price_live=row.price_live,
        images=frozenset(row.account_images or ()),
        cool_off=_cool_off(row),
        launches=row.launches,
        refusals=row.refusals,
        ready_seconds=None if row.ready_seconds is None else float(row.ready_seconds),
        cordoned=row.cordoned,
        account_problem=_account_problem(row),
    )


def _type(row: Any) -> InstanceType:
    gpu = Gpu(
        model=row.gpu_model,
        count=row.gpu_count,
        memory_gib=row.gpu_memory_gib,
        interconnect=row.gpu_interconnect,
    )
    return InstanceType(name=row.instance_type, gpu=gpu, vcpus=row.vcpus, memory_gib=row.memory_gib)


def _cool_off(row: Any) -> CoolOff | None:
    if row.silent_until is not None and (row.cool_until is None or row.cool_until < row.silent_until):
        error = row.region_error
        return CoolOff(until=row.silent_until, reason="provider_error", code=error["code"], count=row.cool_count)
    if row.cool_until is None:
        return None
    return CoolOff(until=row.cool_until, reason=row.cool_reason, code=row.cool_code, count=row.cool_count)


def _account_problem(row: Any) -> str | None:
    if row.account_cordoned is not None:
        return "cordoned by an operator"
    if row.account_state in _USABLE:
        return None
    error = row.account_error or {}
    return error.get("message") or f"it is {row.account_state}"
