"""Which request is repeated, and when. The functions decide; the clients send and sleep."""

import random
import re
import uuid
from dataclasses import dataclass
from typing import TypeVar

import httpx

from gpulease_client import repeats
from gpulease_client._described import KEYED_POSTS
from gpulease_client.errors import GpuleaseError

E = TypeVar("E", bound=GpuleaseError)
KEY = "Idempotency-Key"
_CONFLICT = 409
_DECIDED = frozenset({400, 404, _CONFLICT, 422})
"""A problem with this status is also the answer to earlier attempts with the same key."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
_USELESS = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
_KEYED = re.compile("|".join(f"/{re.sub(r'{[^}]*}', '[^/]+', path.strip('/'))}$" for path in KEYED_POSTS))


@dataclass(frozen=True, kw_only=True)
class Retries:
    """How often the client repeats a request.

    Attributes:
        attempts: sends of one request, with the first one. 1 disables retries.
        longest_pause: seconds. The client does not wait for a longer `Retry-After`; it raises the error at once.
        first_pause: seconds before the first repetition without `Retry-After`. The pause doubles each time.
    """

    attempts: int = 5
    longest_pause: float = 60.0
    first_pause: float = 0.5

    def after_failure(self, request: httpx.Request, error: httpx.RequestError, attempt: int) -> float | None:
        """Seconds before the next attempt after no response. None: raise the error.

        A request that was not sent is always repeated. Otherwise its outcome is unknown, and only a repeatable one is.
        """
        if attempt >= self.attempts or isinstance(error, _USELESS):
            return None
        return self._growing(attempt) if isinstance(error, _NOT_SENT) or repeatable(request) else None

    def after_response(self, request: httpx.Request, response: httpx.Response, attempt: int) -> float | None:
        """Seconds before the next attempt after a response that is no answer. None: raise the error."""
        refused = response.status_code in repeats.REFUSED
        if attempt >= self.attempts or not (refused or (_is_temporary(response) and repeatable(request))):
            return None
        named = retry_after(response)
        if named is None:
            return self._growing(attempt)
        return named if named <= self.longest_pause else None

    def _growing(self, attempt: int) -> float:
        pause: float = min(self.first_pause * 2 ** (attempt - 1), self.longest_pause)
        return pause * (0.5 + random.random() / 2)  # noqa: S311 - no secret


def add_key(request: httpx.Request) -> None:
    """Gives a POST whose operation takes an idempotency key a new one, unless the caller has set one."""
    if request.method == "POST" and KEY not in request.headers and _KEYED.search(request.url.path):
        request.headers[KEY] = str(uuid.uuid4())


def with_key(error: E, request: httpx.Request, done: bool) -> E:  # noqa: FBT001 - a fact about the request
    """The error, with the key of a request that may have been carried out, and a sentence about it."""
    key = request.headers.get(KEY)
    if done and key is not None:
        error.idempotency_key = key
        text = (
            f"{error.args[0]}. The API may have carried the request out: look for its result, or repeat the call with "
        )
        error.args = (f"{text}idempotency_key={key!r}, which makes no second resource", *error.args[1:])
    return error


def repeatable(request: httpx.Request) -> bool:
    """Whether sending the request twice has the effect of sending it once.

    With `If-Match` it has not: the repetition would fail because the first one succeeded.
    """
    if KEY in request.headers:
        return True
    return request.method in repeats.METHODS and "If-Match" not in request.headers


def retry_after(response: httpx.Response) -> float | None:
    """Seconds of the `Retry-After` header. None without one."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def may_be_done(outcome: httpx.Response | httpx.RequestError, before: bool) -> bool:  # noqa: FBT001 - the result so far
    """Whether a request may have been carried out after this outcome. `before`: after its earlier attempts."""
    if isinstance(outcome, httpx.RequestError):
        return before or not isinstance(outcome, (*_NOT_SENT, *_USELESS))
    if outcome.is_success or outcome.status_code in repeats.UNKNOWN or _is_in_flight(outcome):
        return True
    return before and outcome.status_code not in _DECIDED


def is_gone(request: httpx.Request, response: httpx.Response) -> bool:
    """Whether a repeated request finds that an earlier attempt has succeeded."""
    problem = "json" in response.headers.get("Content-Type", "")
    return problem and repeats.is_done(request.method, request.url.path, response.status_code)


def _is_temporary(response: httpx.Response) -> bool:
    """Half an answer, or a status after which the request may have been carried out."""
    kind = response.headers.get("Content-Type", "")
    return (
        response.status_code in repeats.UNKNOWN or _is_in_flight(response) or (response.is_success and "json" in kind)
    )


def _is_in_flight(response: httpx.Response) -> bool:
    return response.status_code == _CONFLICT and f'"{repeats.IN_FLIGHT}"'.encode() in response.content
