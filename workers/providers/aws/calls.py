"""Ways to call EC2 that every module here needs: page by page, in chunks, and around an id that fails a whole call."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from workers.providers.aws.errors import NOT_ALLOWED, translated
from workers.providers.common.batch import MOST_SILENT
from workers.providers.errors import CredentialsRejected, NotFound, OutcomeUnknown, ProviderError, Throttled

T = TypeVar("T")

FILTER_VALUES = 200
"""Most values of one filter (EC2 API reference, "Filter")."""

PAGE = 1000
"""Most items of one page of the Describe calls used here."""

MOST_UNKNOWN = 10
"""One id among hundreds is found within nine calls; more of them in a row mean that EC2 itself is in trouble."""

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


def in_bulk(
    call: Callable[[list[str]], T], ids: Sequence[str], size: int
) -> tuple[list[tuple[list[str], T]], dict[str, ProviderError]]:
    """Calls with `size` ids at a time: (the answers with their ids, the ids that were refused with the errors).

    EC2 refuses a whole call for one of its ids. Such a call is repeated without the ids that its message names, and with each
    of those alone; when it names none, with each half. Throttling, a second call without an answer in a row, and a tenth unknown
    outcome in a row end it: the ids that are left are refused with that error.
    """
    answers: list[tuple[list[str], T]] = []
    refused: dict[str, ProviderError] = {}
    todo = deque(chunks(ids, size))
    silent = unknown = 0
    while todo:
        some = todo.popleft()
        try:
            answers.append((some, call(some)))
            silent = unknown = 0
        except ProviderError as error:
            silent = 0 if error.answered else silent + 1
            unknown = unknown + 1 if isinstance(error, OutcomeUnknown) else 0
            if isinstance(error, Throttled) or silent == MOST_SILENT or unknown == MOST_UNKNOWN:
                refused |= dict.fromkeys([*some, *chain.from_iterable(todo)], error)
                break
            smaller = _smaller(some, error)
            refused |= dict.fromkeys(set(some).difference(*smaller), error)
            todo.extendleft(reversed(smaller))
    return answers, refused


def _smaller(ids: list[str], error: ProviderError) -> list[list[str]]:
    """The calls that follow a refused one. None for an id that was alone, for a call that may have been done, or for bad credentials."""
    nobody = isinstance(error, CredentialsRejected) and error.code != NOT_ALLOWED
    if len(ids) == 1 or not error.answered or nobody:
        return []
    named = set(_RESOURCE_ID.findall(error.message)).intersection(ids)
    if not named:
        return [ids[: len(ids) // 2], ids[len(ids) // 2 :]]
    others = [one for one in ids if one not in named]
    alone = [] if isinstance(error, NotFound) else [[one] for one in ids if one in named]
    return [others, *alone] if others else alone
