"""What a cloud can be told or asked of one thing alone: a failure at one keeps no other waiting."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from workers.providers.base import CredentialsRejected, ProviderError, Throttled

T = TypeVar("T")


def each(things: Iterable[str], act: Callable[[str], None]) -> None:
    """Acts on all of them, so that one that fails keeps no other waiting; then raises the first failure.

    Throttling and rejected credentials end it at once.
    """
    failed: ProviderError | None = None
    for one in things:
        try:
            act(one)
        except (Throttled, CredentialsRejected):
            raise
        except ProviderError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def answered(things: Iterable[str], ask: Callable[[str], T]) -> dict[str, T]:
    """The answers, by thing; without those whose question failed. Throttling ends the asking.

    Raises CredentialsRejected, and the first failure when nothing was answered.
    """
    answers: dict[str, T] = {}
    failed: ProviderError | None = None
    for one in things:
        try:
            answers[one] = ask(one)
        except CredentialsRejected:
            raise
        except Throttled as error:
            failed = failed or error
            break
        except ProviderError as error:
            failed = failed or error
    if failed is not None and not answers:
        raise failed
    return answers
