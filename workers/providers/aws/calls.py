"""Helpers to call EC2 that the AWS modules share: paging, and batches in which one id may fail."""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from workers.providers.aws.error_codes import NOT_ALLOWED
from workers.providers.aws.errors import translated
from workers.providers.common.batch import MOST_SILENT, chunks
from workers.providers.errors import CredentialsRejected, NotFound, OutcomeUnknown, ProviderError, Throttled

T = TypeVar("T")

FILTER_VALUES = 200
"""Maximum number of values of one filter (EC2 API reference, "Filter")."""

PAGE = 1000
"""Maximum number of items on one page of the Describe calls used here."""

MOST_UNKNOWN = 10
"""Number of unknown outcomes in a row that ends a batch.

Halving isolates one id among hundreds within nine calls. More unknown outcomes in a row mean that EC2 itself fails.
"""

_RESOURCE_ID = re.compile(r"\b[a-z]+-[0-9a-f]{8,17}\b")


def pages(client: Any, operation: str, *, size: int = PAGE, **arguments: Any) -> Iterator[Any]:
    """Every page of a paged operation, with at most `size` items. Fetches a page only when the caller reads it."""
    with translated():
        paginator = iter(client.get_paginator(operation).paginate(**arguments, PaginationConfig={"PageSize": size}))
    while True:
        with translated():
            page = next(paginator, None)
        if page is None:
            return
        yield page


def part(answer: Mapping[str, Any], name: str) -> Any:
    """A member that AWS always sends, even as an empty list. Raises OutcomeUnknown when the member is missing.

    A missing member means that something else answered, for example a proxy. Reading the member as an empty list would
    mark every VM as ended.
    """
    if name not in answer:
        raise OutcomeUnknown(f"the answer has no {name}: it is not one of AWS's", code="MalformedAnswer")
    return answer[name]


def in_bulk(
    call: Callable[[list[str]], T], ids: Sequence[str], size: int
) -> tuple[list[tuple[list[str], T]], dict[str, ProviderError]]:
    """Calls with `size` ids at a time. Returns the answers with their ids, and the refused ids with their errors.

    EC2 refuses a whole call because of one id. The call is then repeated without the ids that the error message names,
    and with each named id alone. If the message names no id, the call is repeated with each half of the ids.

    Three errors end the batch: throttling, a second call in a row without an answer, and a tenth unknown outcome in a
    row. The remaining ids are refused with that error.
    """
    answers: list[tuple[list[str], T]] = []
    refused: dict[str, ProviderError] = {}
    todo = deque(chunks(ids, size))
    silent = unknown = 0
    while todo:
        chunk = todo.popleft()
        try:
            answers.append((chunk, call(chunk)))
            silent = unknown = 0
        except ProviderError as error:
            silent = 0 if error.answered else silent + 1
            unknown = unknown + 1 if isinstance(error, OutcomeUnknown) else 0
            if isinstance(error, Throttled) or silent == MOST_SILENT or unknown == MOST_UNKNOWN:
                refused |= dict.fromkeys([*chunk, *chain.from_iterable(todo)], error)
                break
            smaller = _smaller(chunk, error)
            refused |= dict.fromkeys(set(chunk).difference(*smaller), error)
            todo.extendleft(reversed(smaller))
    return answers, refused


def _smaller(ids: list[str], error: ProviderError) -> list[list[str]]:
    """The ids of the calls that replace a refused call.

    Returns no calls for a single id, for a call that may have taken effect, and for bad credentials.
    """
    bad_credentials = isinstance(error, CredentialsRejected) and error.code != NOT_ALLOWED
    if len(ids) == 1 or not error.answered or bad_credentials:
        return []
    named = set(_RESOURCE_ID.findall(error.message)).intersection(ids)
    if not named:
        return [ids[: len(ids) // 2], ids[len(ids) // 2 :]]
    others = [resource_id for resource_id in ids if resource_id not in named]
    alone = [] if isinstance(error, NotFound) else [[resource_id] for resource_id in ids if resource_id in named]
    return [others, *alone] if others else alone
