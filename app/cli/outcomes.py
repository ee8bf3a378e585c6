"""What the outcome of one try of a request means: whether to try again, and whether it may have been carried out."""

from typing import TYPE_CHECKING

import httpx

from app.cli import repeats
from app.cli.errors import Json, UnreachableError

if TYPE_CHECKING:
    from app.cli.client import Call

NO_CONTENT, _CONFLICT = 204, 409
_DECIDED = frozenset({400, 404, _CONFLICT, 422})
"A problem with this status is also the answer to earlier tries with the same key."


def wait_seconds(call: "Call", outcome: httpx.Response | UnreachableError, *, sent: bool) -> float | None:
    """Seconds to wait before the next try. None when a repetition is useless or not safe.

    `sent`: this try or an earlier one may have been carried out, so that the answer matters even while nobody answers.
    """
    if isinstance(outcome, UnreachableError):
        return 1.0 if sent and call.repeatable else None
    if outcome.status_code in repeats.REFUSED:
        return retry_after(outcome, otherwise=1.0)
    if call.repeatable and (_is_half(outcome) or _is_in_flight(outcome) or outcome.status_code in repeats.UNKNOWN):
        return retry_after(outcome, otherwise=1.0)
    return None


def is_unanswered(outcome: httpx.Response | UnreachableError) -> bool:
    """Whether the request may have been carried out, although this is no answer to it."""
    if isinstance(outcome, UnreachableError):
        return outcome.connected
    no_document = outcome.is_success and not is_document(outcome)
    return no_document or outcome.status_code in repeats.UNKNOWN or _is_in_flight(outcome)


def is_decided(outcome: httpx.Response | UnreachableError) -> bool:
    """Whether this is also the answer to earlier tries with the same key."""
    if isinstance(outcome, UnreachableError):
        return False
    return outcome.is_success or (outcome.status_code in _DECIDED and json_object(outcome) is not None)


def is_done(call: "Call", outcome: httpx.Response | UnreachableError) -> bool:
    """Whether a repeated request finds that an earlier try has succeeded."""
    if isinstance(outcome, UnreachableError) or json_object(outcome) is None:
        return False
    return repeats.is_done(call.method, call.path, outcome.status_code)


def _is_half(response: httpx.Response) -> bool:
    """A success whose JSON is cut: its connection ended early, and nothing named its length."""
    return response.is_success and is_json(response) and json_object(response) is None


def is_document(response: httpx.Response) -> bool:
    """Whether the body is the JSON of the API, or no content."""
    return response.status_code == NO_CONTENT or (is_json(response) and json_object(response) is not None)


def is_json(response: httpx.Response) -> bool:
    """Whether the media type is JSON."""
    return "json" in response.headers.get("Content-Type", "")


def _is_in_flight(response: httpx.Response) -> bool:
    return response.status_code == _CONFLICT and (json_object(response) or {}).get("code") == repeats.IN_FLIGHT


def retry_after(response: httpx.Response, otherwise: float = 0.0) -> float:
    """Seconds from the `Retry-After` header, at most a minute. `otherwise` without the header."""
    text = response.headers.get("Retry-After", "")
    return float(min(int(text), 60)) if text.isascii() and text.isdigit() else otherwise


def json_object(response: httpx.Response) -> Json | None:
    """The JSON object of the body. None without one."""
    if response.status_code == NO_CONTENT:
        return {}
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None
