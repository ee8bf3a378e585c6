"""Pages that stay true while things come and go: a token names the last item given, not a position."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

from cloudsim.ec2.call import Call
from cloudsim.ec2.errors import AwsError, bad_value

T = TypeVar("T")
PAGE_LIMIT = 1_000


def page_size(params: dict[str, Any], *, least: int = 1, most: int = PAGE_LIMIT) -> int:
    """MaxResults, or the most when absent. Raises AwsError outside of `least` to `most`."""
    size = params.get("MaxResults")
    if size is None:
        return most
    if not least <= size <= most:
        raise bad_value(size, "maxResults", f"Expecting a value from {least} to {most}.")
    return int(size)


def seal(call: Call, last: str) -> str:
    """A token that hides what it means, good for `page_token_seconds`."""
    return base64.urlsafe_b64encode(f"after:{call.now}:{last}".encode()).decode()


def unseal(call: Call, token: str) -> str:
    """What `seal` put in. Raises AwsError for a foreign token, and for one that has expired."""
    try:
        name, issued, last = base64.urlsafe_b64decode(token).decode().split(":", 2)
        age = call.now - float(issued) if name == "after" else None
    except (binascii.Error, UnicodeDecodeError, ValueError):
        age, last = None, ""
    if age is None:
        raise AwsError("InvalidNextToken", "The specified NextToken is not valid")
    if age > call.world.settings.page_token_seconds:
        raise AwsError("InvalidPaginationToken", "The specified pagination token is not valid or is expired.")
    return last


def unseal_number(call: Call) -> int:
    """The number that `seal` put into the call's token, 0 without a token. Raises AwsError as `unseal`."""
    token = call.params.get("NextToken")
    text = unseal(call, token) if token else "0"
    if not text.isdecimal():
        raise AwsError("InvalidNextToken", "The specified NextToken is not valid")
    return int(text)


def page(
    items: Iterable[T], key: Callable[[T], str], call: Call, *, most: int = PAGE_LIMIT
) -> tuple[list[T], str | None]:
    """One page of `items` in the order of `key` (unique), and the token of the next."""
    token = call.params.get("NextToken")
    after = unseal(call, token) if token else ""
    size = page_size(call.params, most=most)
    rest = sorted((item for item in items if key(item) > after), key=key)
    page_items = list(islice(rest, size))
    return page_items, seal(call, key(page_items[-1])) if len(rest) > size else None
