"""Ways to call Azure that every module here needs: one by one, and what an answer must have."""

from collections.abc import Callable, Mapping
from typing import Any

from workers.providers.azure.errors import GONE, translated
from workers.providers.errors import NotFound, OutcomeUnknown

Document = Mapping[str, Any]
"""A resource as Azure writes it: the SDK's models are mappings of the JSON, by its own names."""


def known(get: Callable[..., Any], *arguments: Any, **options: Any) -> Document | None:
    """The answer of a get, or None for a resource that does not exist. A missing group is an error all the same."""
    try:
        with translated():
            document: Document = get(*arguments, **options)
    except NotFound as error:
        if error.code != GONE:
            raise
        return None
    return document


def part(answer: Document, *path: str) -> Any:
    """A member that Azure always sends; OutcomeUnknown when it is missing.

    Then something else has answered (a proxy's page, say), and an empty list would read as the end of every VM.
    """
    member: Any = answer
    for name in path:
        if not isinstance(member, Mapping) or name not in member:
            raise OutcomeUnknown(
                f"the answer has no {'.'.join(path)}: it is not one of Azure's", code="MalformedAnswer"
            )
        member = member[name]
    return member
