"""Batches of cloud calls that take one item each: a failed item does not block the other items."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import TypeVar

import structlog

from workers.providers.errors import ProviderError, Throttled
from workers.providers.types import BatchResult

log = structlog.get_logger(__name__)

T = TypeVar("T")

MOST_SILENT = 2
"""Number of calls in a row without an answer that ends a batch.

With a cloud that hangs, each further item would cost a full timeout.
"""


def each(items: Iterable[str], act: Callable[[str], bool]) -> BatchResult:
    """Acts on each item. `act` returns whether the provider knew the item. An unknown item is neither done nor refused.

    Throttling and an unresponsive cloud end the batch: the remaining items are refused with that error.
    """
    answers, refused = ask_each(items, act)
    return BatchResult(done=frozenset(item for item, known in answers.items() if known), refused=refused)


def chunks(items: Sequence[str], size: int) -> Iterator[list[str]]:
    """Consecutive slices of at most `size`."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def answered(items: Iterable[str], ask: Callable[[str], T]) -> dict[str, T]:
    """The answers by item. Omits and logs the items that failed. The batch ends early as in `each`.

    Raises the first error when there is no answer at all.
    """
    answers, refused = ask_each(items, ask)
    leave_out(answers, refused)
    return answers


def leave_out(answers: Sized, refused: Mapping[str, ProviderError]) -> None:
    """Logs the items without an answer, with the reasons. Raises the first error when there are no answers."""
    if not answers:
        for error in refused.values():
            raise error
    for item, error in refused.items():
        log.warning("item left out", item=item, code=error.code, error=error.message)


def ask_each(items: Iterable[str], ask: Callable[[str], T]) -> tuple[dict[str, T], dict[str, ProviderError]]:
    """The answers and the errors, by item. The batch ends early as in `each`."""
    answers: dict[str, T] = {}
    refused: dict[str, ProviderError] = {}
    for item, answer in ask_in_turn(items, ask):
        if isinstance(answer, ProviderError):
            refused[item] = answer
        else:
            answers[item] = answer
    return answers, refused


def ask_in_turn(items: Iterable[str], ask: Callable[[str], T]) -> Iterator[tuple[str, T | ProviderError]]:
    """Each item with its answer or its error, as soon as it is known. The batch ends early as in `each`."""
    silent = 0
    rest = iter(items)
    for item in rest:
        try:
            answer = ask(item)
        except ProviderError as error:
            yield item, error
            silent = 0 if error.answered else silent + 1
            if isinstance(error, Throttled) or silent == MOST_SILENT:
                yield from ((other, error) for other in rest)
        else:
            silent = 0
            yield item, answer
