"""Statements of the operators' cordons: of an account, and of offerings of a region."""

from typing import Any

from sqlalchemy import ColumnElement, Table, Update, and_, exists, false, func, literal, or_, select, update

from app.db.core.sql import AnySelect
from app.db.schema.tables import account, account_region, offering, reservation
from app.domain.offerings import Market, OfferingSelector


def of_account(name: str) -> AnySelect:
    """The cordon of an account, locked, with the current time: (cordoned, as_of)."""
    return select(account.c.cordoned, func.now().label("as_of")).where(account.c.name == name).with_for_update()


def cordon_account(name: str, value: dict[str, Any] | None) -> Update:
    """Cordons an account. `value`: {by, since, note}, or None to lift the cordon."""
    return update(account).where(account.c.name == name).values(cordoned=value)


def regions(name: str) -> AnySelect:
    """(region) of one account, in order."""
    return select(account_region.c.region).where(account_region.c.account == name).order_by(account_region.c.region)


def of_region(selector: OfferingSelector) -> AnySelect:
    """The cordons of offerings of the selector's region, locked, with the current time: (cordons, as_of)."""
    query = select(account_region.c.cordons, func.now().label("as_of"))
    return query.where(*_at(selector)).with_for_update()


def cordon_offerings(selector: OfferingSelector, cordons: list[dict[str, Any]]) -> Update:
    """Replaces the cordons of the selector's region: [{zone, instance_type, market, by, since, note}]."""
    return update(account_region).where(*_at(selector)).values(cordons=cordons)


def _at(selector: OfferingSelector) -> tuple[ColumnElement[bool], ...]:
    return account_region.c.account == selector.account, account_region.c.region == selector.region


def offers(selector: OfferingSelector) -> AnySelect:
    """Whether the region has an offering, or a reservation, that the selector covers."""
    return select(or_(_has(offering, selector), _has(reservation, selector)))


def _has(table: Table, selector: OfferingSelector) -> ColumnElement[bool]:
    values = {"account": selector.account, "region": selector.region, **selector.as_json()}
    columns = {"account": table.c.account, "region": table.c.region, **_selected(table)}
    return exists().select_from(table).where(*(columns[name] == value for name, value in values.items() if value))


def is_cordoned(table: Table) -> ColumnElement[bool]:
    """Whether a cordon covers a row of `table`, offerings or reservations, in a query of it with `account_region`."""
    cordon = func.jsonb_array_elements(account_region.c.cordons).column_valued("cordon")
    covers = (func.coalesce(cordon.op("->>")(name), column) == column for name, column in _selected(table).items())
    covered = exists().where(*covers).correlate(account_region, table)
    return func.coalesce(and_(func.jsonb_array_length(account_region.c.cordons) > 0, covered), false())


def _selected(table: Table) -> dict[str, ColumnElement[str]]:
    """What a cordon names, by the name in its JSON."""
    market = table.c.market if table is offering else literal(str(Market.RESERVED))
    return {"zone": table.c.zone, "instance_type": table.c.instance_type, "market": market}
