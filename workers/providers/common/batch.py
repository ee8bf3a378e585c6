"""What a cloud can be told or asked of one item alone: a failure at one keeps no other waiting."""

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import TypeVar

import structlog

from workers.providers.errors import ProviderError, Throttled
from workers.providers.types import BatchResult

log = structlog.get_logger(__name__)

T = TypeVar("T")

MOST_SILENT = 2
"""After so many calls without an answer in a row nothing more is asked: a cloud that hangs would cost a time-out an item."""


def each(items: Iterable[str], act: Callable[[str], bool]) -> BatchResult:
    """Acts on each item. `act`: whether the provider knew it; an item that it did not know is neither done nor refused.

    Throttling and a silent cloud end the batch: the items that are left are refused with that error.
    """
    answers, refused = ask_each(items, act)
    return BatchResult(done=frozenset(item for item, known in answers.items() if known), refused=refused)


def answered(items: Iterable[str], ask: Callable[[str], T]) -> dict[str, T]:
    """The answers, by item, without the items that failed: those are logged. Ends as `each`.

    Raises the first failure when there is no answer at all.
    """
    answers, refused = ask_each(items, ask)
    leave_out(answers, refused)
    return answers


def leave_out(answers: Sized, refused: Mapping[str, ProviderError]) -> None:
    """Logs the items that are not in the answers, with the reasons. Raises the first error when there are no answers."""
    if not answers:
        for error in refused.values():
            raise error
    for item, error in refused.items():
        log.warning("item left out", item=item, code=error.code, error=error.message)


def ask_each(items: Iterable[str], ask: Callable[[str], T]) -> tuple[dict[str, T], dict[str, ProviderError]]:
    """The answers and the failures, by item. Ends as `each`."""
    answers: dict[str, T] = {}
    refused: dict[str, ProviderError] = {}
    silent = 0
    rest = iter(items)
    for item in rest:
        try:
            answers[item] = ask(item)
        except ProviderError as error:
            refused[item] = error
            silent = 0 if error.answered else silent + 1
            if isinstance(error, Throttled) or silent == MOST_SILENT:
                refused |= dict.fromkeys(rest, error)
        else:
            silent = 0
    return answers, refused
