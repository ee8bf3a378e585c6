"""Pages that stay true while things come and go: a token names the last item given, not a position."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, TypeVar

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


def seal(last: str) -> str:
    """A token that hides what it means."""
    return base64.urlsafe_b64encode(f"after:{last}".encode()).decode()


def unseal(token: str) -> str:
    """What `seal` put in. Raises AwsError for a foreign token."""
    try:
        text = base64.urlsafe_b64decode(token).decode()
    except (binascii.Error, UnicodeDecodeError):
        text = ""
    if not text.startswith("after:"):
        raise AwsError("InvalidNextToken", "The specified NextToken is not valid")
    return text.removeprefix("after:")


def unseal_number(token: str | None) -> int:
    """The number that `seal` put in, 0 without a token. Raises AwsError for a foreign one."""
    text = unseal(token) if token else "0"
    if not text.isdecimal():
        raise AwsError("InvalidNextToken", "The specified NextToken is not valid")
    return int(text)


def page(
    items: Iterable[T], key: Callable[[T], str], params: dict[str, Any], *, most: int = PAGE_LIMIT
) -> tuple[list[T], str | None]:
    """One page of `items` in the order of `key` (unique), and the token of the next."""
    token = params.get("NextToken")
    after = unseal(token) if token else ""
    size = page_size(params, most=most)
    rest = sorted((item for item in items if key(item) > after), key=key)
    found = list(islice(rest, size))
    return found, seal(key(found[-1])) if len(rest) > size else None
