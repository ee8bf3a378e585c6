"""`limit`, `cursor` and `count` of every list."""

from typing import Annotated

from fastapi import Depends, Query

from app.services.cursors import DEFAULT_LIMIT, LARGEST_LIMIT, PageRequest


async def _page(
    limit: Annotated[int, Query(ge=1, le=LARGEST_LIMIT, description="Items in one page.")] = DEFAULT_LIMIT,
    cursor: Annotated[str | None, Query(description="`next_cursor` of the page before.", max_length=1000)] = None,
    count: Annotated[bool, Query(description="Add `total_count`, the number of items in all pages.")] = False,  # noqa: FBT002 - a query parameter
) -> PageRequest:
    return PageRequest(limit=limit, cursor=cursor, count=count)


UsePage = Annotated[PageRequest, Depends(_page)]
