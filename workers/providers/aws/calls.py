"""Ways to call EC2 that every module here needs: page by page, in chunks, without the ids that are gone."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from workers.providers.aws.errors import translated
from workers.providers.base import NotFound, OutcomeUnknown

T = TypeVar("T")

FILTER_VALUES = 200
"""Most values of one filter (EC2 API reference, "Filter")."""

PAGE = 1000
"""Most items of one page of the Describe calls used here."""

_RESOURCE_ID = re.compile(r"\b[a-z]+-[0-9a-f]{8,17}\b")


def pages(client: Any, operation: str, *, size: int = PAGE, **arguments: Any) -> Iterator[Any]:
    """Every page of a paged operation, of at most `size` items, each fetched when it is asked for."""
    with translated():
        paginator = iter(client.get_paginator(operation).paginate(**arguments, PaginationConfig={"PageSize": size}))
    while True:
        with translated():
            page = next(paginator, None)
        if page is None:
            return
        yield page


def part(answer: Mapping[str, Any], name: str) -> Any:
    """A member that AWS always sends, empty lists included; OutcomeUnknown when it is missing.

    Then something else has answered (a proxy's page, say), and an empty list would read as the end of every VM.
    """
    if name not in answer:
        raise OutcomeUnknown(f"the answer has no {name}: it is not one of AWS's", code="MalformedAnswer")
    return answer[name]


def chunks(items: Sequence[str], size: int) -> Iterator[list[str]]:
    """Consecutive slices of at most `size`."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def without_missing(call: Callable[[list[str]], T], ids: Sequence[str]) -> Iterator[T]:
    """Calls with the ids that exist: one unknown id fails a whole call and is named in the message.

    When the message names none of them, the halves are tried on their own.
    """
    rest = list(ids)
    while rest:
        try:
            yield call(rest)
        except NotFound as error:
            named = set(_RESOURCE_ID.findall(error.message)).intersection(rest)
            if not named and len(rest) > 1:
                yield from without_missing(call, rest[: len(rest) // 2])
                rest = rest[len(rest) // 2 :]
            else:
                rest = [one for one in rest if one not in named] if named else []
        else:
            return
