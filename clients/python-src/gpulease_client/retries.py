"""Which request is repeated, and when. The functions decide; the clients send and sleep."""

import random
import re
import uuid
from dataclasses import dataclass

import httpx

from gpulease_client._described import KEYED_POSTS

KEY = "Idempotency-Key"
_IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_TOO_MANY, _CONFLICT = 429, 409
_TEMPORARY = frozenset({500, 502, 503, 504})
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
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

    def after_failure(self, request: httpx.Request, error: httpx.TransportError, attempt: int) -> float | None:
        """Seconds before the next attempt after no response. None: raise the error.

        A request that was not sent is always repeated. Otherwise its outcome is unknown, and only a repeatable one is.
        """
        if attempt >= self.attempts or isinstance(error, _USELESS):
            return None
        return self._growing(attempt) if isinstance(error, _NOT_SENT) or repeatable(request) else None

    def after_response(self, request: httpx.Request, response: httpx.Response, attempt: int) -> float | None:
        """Seconds before the next attempt after an error status. None: raise the error.

        429 is refused before it has an effect, so every request is repeated after it. After 500, 502, 503 and 504
        only a repeatable request is.
        """
        if attempt >= self.attempts or not (
            response.status_code == _TOO_MANY or (_is_temporary(response) and repeatable(request))
        ):
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


def repeatable(request: httpx.Request) -> bool:
    """Whether sending the request twice has the effect of sending it once.

    With `If-Match` it has not: the repetition would fail because the first one succeeded.
    """
    if KEY in request.headers:
        return True
    return request.method in _IDEMPOTENT and "If-Match" not in request.headers


def retry_after(response: httpx.Response) -> float | None:
    """Seconds of the `Retry-After` header. None without one."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def _is_temporary(response: httpx.Response) -> bool:
    if response.status_code == _CONFLICT:
        return b'"idempotency_in_flight"' in response.content
    return response.status_code in _TEMPORARY
