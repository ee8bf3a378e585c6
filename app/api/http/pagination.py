"""`limit`, `cursor` and `count` of every list."""

from typing import Annotated

from fastapi import Depends, Query, Request

from app.services.cursors import DEFAULT_LIMIT, LARGEST_LIMIT, PageRequest

_LONGEST_CURSOR = 1000


async def _page(
    limit: Annotated[int, Query(ge=1, le=LARGEST_LIMIT, description="Items in one page.")] = DEFAULT_LIMIT,
    cursor: Annotated[
        str | None, Query(description="`next_cursor` of the page before.", max_length=_LONGEST_CURSOR)
    ] = None,
    count: Annotated[bool, Query(description="Add `total_count`, the number of items in all pages.")] = False,  # noqa: FBT002 - a query parameter
) -> PageRequest:
    return PageRequest(limit=limit, cursor=cursor, count=count)


UsePage = Annotated[PageRequest, Depends(_page)]


def plain_page(request: Request) -> PageRequest | None:
    """The page of a query that has nothing but a valid `limit` and `cursor`. None: any other query."""
    if not request.scope["query_string"]:
        return PageRequest()
    query = dict(request.query_params)
    limit, cursor = query.pop("limit", None), query.pop("cursor", None)
    if query or (cursor is not None and len(cursor) > _LONGEST_CURSOR):
        return None
    if limit is None:
        return PageRequest(cursor=cursor)
    if not (limit.isascii() and limit.isdigit() and len(limit) < 5 and 1 <= int(limit) <= LARGEST_LIMIT):
        return None
    return PageRequest(limit=int(limit), cursor=cursor)
