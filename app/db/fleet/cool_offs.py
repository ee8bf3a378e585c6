"""The cool-off of an offering as SQL: its own one, or the silence of its region. Placement, lists and metrics share it."""

from datetime import timedelta
from typing import Any

from sqlalchemy import ColumnElement, Table, and_, case, cast, func, literal, select, true

from app.db.core.sql import AnySelect, Time
from app.db.schema.tables import account, account_region, offering
from app.domain.cool_off import CoolOffReason

_SILENCE = timedelta(seconds=30)
IS_SILENT = cast(account_region.c.last_error["since"].astext, Time) < func.now() - _SILENCE
"""The region of an account has not answered for half a minute. Observation continues to query it."""


def is_configured(table: Table) -> ColumnElement[bool]:
    """The region of a row is in its account's configuration. One that has left is only observed, while a VM exists there."""
    return func.coalesce(func.jsonb_exists(account.c.config["regions"], table.c.region), true())


def cool_off(table: Table) -> dict[str, ColumnElement[Any]]:
    """`until`, `reason` and `code` of the cool-off of a row: its own one, or the silence of its region if that ends later."""
    silent_until = func.now() + _SILENCE
    by_silence = and_(IS_SILENT, func.coalesce(table.c.cool_until < silent_until, true()))
    return {
        "until": case((by_silence, silent_until), else_=table.c.cool_until),
        "reason": case((by_silence, literal(str(CoolOffReason.PROVIDER_ERROR))), else_=table.c.cool_reason),
        "code": case((by_silence, account_region.c.last_error["code"].astext), else_=table.c.cool_code),
    }


def in_region(table: Table) -> ColumnElement[bool]:
    return and_(account_region.c.account == table.c.account, account_region.c.region == table.c.region)


def counted_offerings() -> AnySelect:
    """Offerings that can be placed: (provider, account, region, cooling, offerings).

    `cooling`: the reason of their cool-off, NULL when they have none.
    """
    own = cool_off(offering)
    cooling = case((own["until"] > func.now(), func.coalesce(own["reason"], "unknown"))).label("cooling")
    place = (offering.c.provider, offering.c.account, offering.c.region)
    return (
        select(*place, cooling, func.count().label("offerings"))
        .select_from(
            offering.join(account, account.c.name == offering.c.account).outerjoin(account_region, in_region(offering))
        )
        .where(is_configured(offering))
        .group_by(*place, cooling)
    )
