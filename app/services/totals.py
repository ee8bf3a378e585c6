"""The number of items in all pages of a list, for callers that want it."""

from collections.abc import Callable

from app.db.core.engine import ApiDatabase
from app.db.core.sql import AnySelect, count_of
from app.services.cursors import PageRequest


async def total_count(
    database: ApiDatabase, tenant: str | None, page: PageRequest, first: Callable[[], AnySelect]
) -> int | None:
    """The number of rows of `first`, the statement of the first page, within `tenant`. None unless `page.count`."""
    if not page.count:
        return None
    [row] = await database.rows(tenant, count_of(first()))
    return int(row["total"])
