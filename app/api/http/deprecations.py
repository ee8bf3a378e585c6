"""Deprecated operations: one decorator adds the response headers and marks the operation in openapi.json."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from email.utils import format_datetime
from typing import Any, TypeVar

from starlette.types import Scope

SHORTEST_NOTICE_DAYS = 180
POLICY = (
    (
        "The API under `/v1` changes only by addition: new operations, new optional request fields, new response fields, new "
        "values of enums in responses, new error codes. Clients must ignore fields and values that they do not know."
    ),
    (
        "What a client relies on is removed in two steps. First, a release deprecates it: the changelog names the "
        "replacement, `openapi.json` marks it as `deprecated`, and it works as before."
    ),
    (
        f"It is removed {SHORTEST_NOTICE_DAYS} days later at the earliest. A removal of a whole version, such as `/v1`, is "
        "announced a year ahead."
    ),
    (
        "Every response of a deprecated operation has three headers. `Deprecation` (RFC 9745) contains the time of the "
        "deprecation, as `@` and Unix seconds. `Sunset` (RFC 8594) contains the time until which the operation works. `Link` "
        "leads to this page."
    ),
    "A security defect may end an operation earlier. The changelog then says so.",
)
"""The paragraphs of docs/deprecation.md and of the page that the API serves."""

_ATTRIBUTE = "__gpulease_deprecation__"
_PAGE = "/docs/deprecation"

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Deprecation:
    """`since`: the day of the release that deprecated the operation. `sunset`: the operation works until this day.

    `instead`: one sentence that names the replacement. Days begin at midnight UTC.
    """

    since: date
    sunset: date
    instead: str

    def headers(self) -> dict[str, str]:
        """The headers of RFC 9745 (Deprecation) and RFC 8594 (Sunset), with links to the policy."""
        return {
            "Deprecation": f"@{int(_midnight(self.since).timestamp())}",
            "Sunset": format_datetime(_midnight(self.sunset), usegmt=True),
            "Link": f'<{_PAGE}>; rel="deprecation"; type="text/html"',
        }

    def notice(self) -> str:
        """The sentence for the reference."""
        return f"Deprecated since {self.since}. The operation works until {self.sunset}. {self.instead}"


def deprecated(since: date, sunset: date, instead: str) -> Callable[[Endpoint], Endpoint]:
    """Marks an endpoint, below its route's decorator. Raises ValueError when the notice is shorter than the policy's."""
    if (sunset - since).days < SHORTEST_NOTICE_DAYS:
        raise ValueError(f"callers get at least {SHORTEST_NOTICE_DAYS} days between deprecation and sunset")
    deprecation = Deprecation(since, sunset, instead)

    def mark(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _ATTRIBUTE, deprecation)
        return endpoint

    return mark


def find_deprecation(endpoint: Any) -> Deprecation | None:
    """The deprecation of an endpoint, None when it is current."""
    return getattr(endpoint, _ATTRIBUTE, None)


def deprecation_headers(scope: Scope) -> list[tuple[bytes, bytes]]:
    """The response headers of a request: none unless it reached a deprecated endpoint."""
    deprecation = find_deprecation(scope.get("endpoint"))
    if deprecation is None:
        return []
    return [(name.lower().encode(), value.encode()) for name, value in deprecation.headers().items()]


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
