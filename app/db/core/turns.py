"""Turns of tenants in a list of which each pass handles a bounded number of rows."""

from typing import Any

from sqlalchemy import func, select

from app.db.core.statements import AnySelect


def by_turns(rows: AnySelect, *, first: str, limit: Any) -> AnySelect:
    """At most `limit` of the rows. Tenants take turns, each with its row that comes first by the column `first`.

    So rows of one tenant, however many there are and whether or not they can be handled, keep no other tenant from its turn.
    `rows` has the column `tenant_id`.
    """
    found = rows.subquery("found")
    turn = func.row_number().over(partition_by=found.c.tenant_id, order_by=found.c[first])
    lined_up = select(found, turn.label("turn")).subquery("lined_up")
    columns = (column for column in lined_up.c if column.name != "turn")
    return select(*columns).order_by(lined_up.c.turn, lined_up.c[first]).limit(limit)
