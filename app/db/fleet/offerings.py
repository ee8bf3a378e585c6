"""Statements on the catalogue of offerings and its prices, and the conversion of its rows to the domain's offerings."""

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Delete,
    Table,
    Update,
    and_,
    bindparam,
    case,
    column,
    delete,
    func,
    literal,
    not_,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import Insert, insert

from app.db.core.prepared import Bound
from app.db.core.sql import ROWS, AnySelect, recordset
from app.db.fleet.cool_offs import cool_off, in_region, is_configured
from app.db.fleet.cordons import is_cordoned
from app.db.schema.tables import account, account_region, offering, part_price
from app.domain.offerings import (
    CoolOff,
    Driver,
    Gpu,
    InstanceType,
    Interconnect,
    Market,
    NetworkFabric,
    Obstacle,
    Offering,
    OfferingKey,
    Suspicion,
)
from app.domain.vm_parts import PartsFacts

_FORGET_UNOFFERED = timedelta(days=2)
TYPE_COLUMNS = (
    "gpu_model",
    "gpu_count",
    "gpu_memory_gib",
    "gpu_interconnect",
    "gpu_nvlink",
    "gpu_driver",
    "gpu_parts",
    "vcpus",
    "memory_gib",
    "local_disk_gib",
    "network_gbps",
    "network_fabric",
)
"""The columns that `type_columns` writes and `type_from_row` reads."""
_FACTS = ["provider", *TYPE_COLUMNS, "obstacle"]
_PRICE = ["price_per_hour", "price_as_of", "price_source", "price_live"]
EVERY_TYPE = "*"
"""In a row of `part_price`: every instance type without a row of its own."""
_KEY = (offering.c.account, offering.c.region, offering.c.zone, offering.c.instance_type, offering.c.market)


@cache
def _save_offerings() -> Insert:
    names = [*(key.name for key in _KEY), *_FACTS, *_PRICE]
    row = recordset("listed", *(column(name, offering.c[name].type) for name in names))
    statement = insert(offering).from_select(names, select(*(row.c[name] for name in names)))
    new = statement.excluded
    outlived = and_(offering.c.price_live, not_(new.price_live), offering.c.price_as_of >= new.price_as_of)
    keeps_price = or_(new.price_per_hour.is_(None), outlived)
    changes: dict[str, Any] = {name: new[name] for name in _FACTS}
    prices = {name: case((keeps_price, offering.c[name]), else_=new[name]) for name in _PRICE}
    return statement.on_conflict_do_update(
        index_elements=list(_KEY), set_={**changes, **prices, "refreshed_at": func.now()}
    )


def save_offerings(rows: Iterable[Mapping[str, Any]]) -> Bound[Insert]:
    """Adds or refreshes offerings. Placement's records of them (cool-offs, counts) stay. Of rows with one key the last counts.

    A known price stays when the refresh has none. A live price stays until a live price or a newer list replaces it.
    """
    listed = {tuple(row[key.name] for key in _KEY): dict(row) for row in rows}
    return Bound(_save_offerings(), {ROWS: json.dumps(list(listed.values()), default=str)})


def lock_region(name: str, region: str) -> AnySelect:
    """Locks a region until the transaction ends.

    Every writer of many offerings of a region takes this lock. Two writers could otherwise deadlock.
    """
    here = (account_region.c.account == name, account_region.c.region == region)
    return select(account_region.c.region).where(*here).with_for_update()


def count_offerings(name: str, region: str) -> AnySelect:
    """The number of known offerings of a region."""
    return select(func.count()).where(offering.c.account == name, offering.c.region == region)


def save_price(name: str, region: str) -> Update:
    """Writes a live price of a type for all zones of a region.

    Parameters: `type`, `in_market`, `per_hour`, `as_of`, `source`.
    """
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


def save_part_prices() -> Insert:
    """Adds or refreshes prices of disks and addresses, one set of parameters each: the columns of `part_price`.

    A live price stays until a live price or a newer list replaces it.
    """
    statement = insert(part_price)
    new = statement.excluded
    names = ("price", "price_as_of", "price_source", "price_live")
    return statement.on_conflict_do_update(
        index_elements=list(part_price.primary_key.columns),
        set_={name: new[name] for name in names},
        where=or_(new.price_live, not_(part_price.c.price_live), part_price.c.price_as_of < new.price_as_of),
    )


def forget_unoffered(name: str, region: str) -> Delete:
    """Deletes offerings of a region that its refreshes have not shown for two days."""
    return delete(offering).where(
        offering.c.account == name,
        offering.c.region == region,
        offering.c.refreshed_at < func.now() - _FORGET_UNOFFERED,
    )


def with_account(table: Table) -> AnySelect:
    """The rows of `table`, which has columns `account` and `region`, with the state of their account and region.

    `cordoned`: an operator's cordon of offerings covers the row. Rows of a region that left its account's configuration are excluded. `cooling_until`, `cooling_reason` and `cooling_code`: of the
    cool-off, which the region's silence may be.
    """
    disk, any_disk, address = (part_price.alias(name) for name in ("disk", "any_disk", "address"))
    query = select(
        table,
        func.coalesce(disk.c.price, any_disk.c.price).label("disk_price_per_gib_month"),
        address.c.price.label("address_price_per_hour"),
        *(value.label(f"cooling_{name}") for name, value in cool_off(table).items()),
        case((account_region.c.blocked_until > func.now(), account_region.c.blocked_by)).label("blocked_by"),
        account.c.state.label("account_state"),
        account.c.cordoned.label("account_cordoned"),
        account.c.last_error.label("account_error"),
        account.c.config["images"].label("account_images"),
        *(account.c.vm_parts, account_region.c.image_gib, is_cordoned(table).label("cordoned")),
    ).select_from(
        table.join(account, account.c.name == table.c.account)
        .outerjoin(account_region, in_region(table))
        .outerjoin(disk, _part(disk, "disk", table, table.c.instance_type))
        .outerjoin(any_disk, _part(any_disk, "disk", table, literal(EVERY_TYPE)))
        .outerjoin(address, _part(address, "address", table, literal(EVERY_TYPE)))
    )
    return query.where(is_configured(table))


def _part(prices: Any, part: str, table: Table, instance_type: ColumnElement[str]) -> ColumnElement[bool]:
    here = (prices.c.account == table.c.account, prices.c.region == table.c.region)
    return and_(*here, prices.c.part == part, prices.c.instance_type == instance_type)


_CANDIDATES = with_account(offering).order_by(*_KEY)


def candidates() -> Bound[AnySelect]:
    """Every offering with its account's state, for placement, by key. `offering_from_row` converts a row."""
    return Bound(_CANDIDATES, {})


def offering_from_row(row: Any) -> Offering:
    """The domain's view of a row. An account that is set aside excludes its offerings, with the reason."""
    return Offering(
        key=OfferingKey(
            account=row.account,
            region=row.region,
            zone=row.zone,
            instance_type=row.instance_type,
            market=Market(row.market),
        ),
        price_as_of=row.price_as_of,
        price_source=row.price_source,
        price_live=row.price_live,
        obstacle=None if row.obstacle is None else Obstacle(row.obstacle),
        **shared_facts(row),
    )


def shared_facts(row: Any) -> dict[str, Any]:
    """The members of an offering that offerings and reservations store alike. `row`: of `with_account`."""
    return {
        "provider": row.provider,
        "type": type_from_row(row),
        "price_per_hour": row.price_per_hour,
        "disk_price_per_gib_month": row.disk_price_per_gib_month,
        "address_price_per_hour": row.address_price_per_hour,
        "images": frozenset(row.account_images or ()),
        "parts": PartsFacts.from_json(row.vm_parts, row.image_gib),
        "cool_off": _cool_off(row),
        "cordoned": row.cordoned,
        "suspicion": None if row.suspicion is None else Suspicion.from_json(row.suspicion),
        "launches": row.launches,
        "refusals": row.refusals,
        "ready_seconds": None if row.ready_seconds is None else float(row.ready_seconds),
        "account_problem": _account_problem(row),
    }


def type_columns(kind: InstanceType) -> dict[str, Any]:
    """The facts of a type as columns. Raises ValueError for an interconnect or driver that is not known here."""
    gpu = kind.gpu
    return {
        "gpu_model": gpu.model,
        "gpu_count": gpu.count,
        "gpu_memory_gib": gpu.memory_gib,
        "gpu_interconnect": str(Interconnect(gpu.interconnect)),
        "gpu_nvlink": gpu.nvlink,
        "gpu_driver": str(Driver(gpu.driver)),
        "gpu_parts": gpu.parts,
        "vcpus": kind.vcpus,
        "memory_gib": kind.memory_gib,
        "local_disk_gib": kind.local_disk_gib,
        "network_gbps": kind.network_gbps,
        "network_fabric": None if kind.network_fabric is None else str(NetworkFabric(kind.network_fabric)),
    }


def type_from_row(row: Any) -> InstanceType:
    """The instance type of a row with TYPE_COLUMNS and `instance_type`."""
    gpu = Gpu(
        model=row.gpu_model,
        count=row.gpu_count,
        memory_gib=row.gpu_memory_gib,
        interconnect=Interconnect(row.gpu_interconnect),
        nvlink=row.gpu_nvlink,
        driver=Driver(row.gpu_driver),
        parts=row.gpu_parts,
    )
    return InstanceType(
        name=row.instance_type,
        gpu=gpu,
        vcpus=row.vcpus,
        memory_gib=row.memory_gib,
        local_disk_gib=row.local_disk_gib,
        network_gbps=row.network_gbps,
        network_fabric=None if row.network_fabric is None else NetworkFabric(row.network_fabric),
    )


def _cool_off(row: Any) -> CoolOff | None:
    if row.cooling_until is None:
        return None
    return CoolOff(until=row.cooling_until, reason=row.cooling_reason, code=row.cooling_code, count=row.cool_count)


def _account_problem(row: Any) -> str | None:
    if row.account_cordoned is not None:
        return "cordoned by an operator"
    if row.account_state in ("ok", "unchecked"):
        return None if row.blocked_by is None else row.blocked_by["message"]
    return (row.account_error or {}).get("message") or f"it is {row.account_state}"
