"""Conditional requests."""

from typing import Annotated

from fastapi import Depends, Header

from app.services.preconditions import IfMatch, parse_tags


async def if_match(
    tags: Annotated[
        str | None, Header(alias="If-Match", description="Change only this version (the ETag of a GET).")
    ] = None,
) -> IfMatch:
    """The dependency itself."""
    return IfMatch(parse_tags(tags))


UseIfMatch = Annotated[IfMatch, Depends(if_match)]
"""The caller's If-Match header, for changing calls."""
