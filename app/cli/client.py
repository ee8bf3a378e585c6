"""The HTTP client: one httpx client, errors as exceptions, safe retries, and pagination."""

import ssl
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import httpx

from app.cli import times
from app.cli.config import Endpoint
from app.cli.errors import ApiError, CliError, Json, NotConfiguredError, ProblemError, UnexpectedAnswerError
from app.cli.errors import UnreachableError as Unreachable

Params = Mapping[str, str | int | bool | Sequence[str] | None]

_REPEATS = 4
_PAGE = 200
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_STREAM = httpx.Timeout(45.0, connect=5.0)
"A stream sends a comment every 15 seconds."
_NOT_MODIFIED, _CONFLICT, _TOO_MANY = 304, 409, 429
_COME_BACK = frozenset({_TOO_MANY, 503})
_SAFE = frozenset({"GET", "HEAD"})
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Trusts nobody."""


@dataclass(frozen=True)
class Call:
    """One complete request. Sending it twice sends the same request."""

    method: str
    path: str
    params: Params | None = None
    body: Json | None = None
    headers: Mapping[str, str] | None = None

    @property
    def repeatable(self) -> bool:
        """True when a retry has no further effect: reads, and creations with an idempotency key."""
        return self.method in _SAFE or "Idempotency-Key" in (self.headers or {})


class Api:
    """An open connection to one API with one key. Every method raises CliError on failure."""

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        note: Callable[[str], None],
        pause: Callable[[float], None] = times.pause,
        timeout: float | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`timeout`: seconds for each part of a call. None: no limit. `transport`: None is the network."""
        self._note = note
        self._pause = pause
        self._url = endpoint.url
        self._http = _open(endpoint, _TIMEOUT if timeout is None else httpx.Timeout(timeout), transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, params: Params | None = None) -> Json:
        """One document."""
        return self._document(Call("GET", path, params))

    def get_if_changed(
        self, path: str, etag: str | None, params: Params | None = None
    ) -> tuple[Json | None, str | None]:
        """Returns the document and its ETag, or no document if `etag` still matches.

        Sends the request once, because the caller polls.
        """
        response = _response(
            self._exchange(Call("GET", path, params, headers={"If-None-Match": etag} if etag else None))
        )
        if response.status_code == _NOT_MODIFIED:
            return None, etag
        return self._parsed(response), response.headers.get("ETag")

    def lines(self, path: str, params: Params | None, headers: Mapping[str, str]) -> Iterator[str]:
        """The lines of a response that does not end by itself, as they arrive; first an empty one for the response's head.

        Raises CliError when the connection fails or breaks.
        """
        try:
            with self._http.stream(
                "GET", path, params=_query(params), headers={"Accept": "text/event-stream", **headers}, timeout=_STREAM
            ) as response:
                if not response.is_success:
                    response.read()
                    raise _error(self._url, response, _json(response))
                yield ""
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise Unreachable(self._url, _reason(error), connected=True) from None

    def download(self, path: str, params: Params | None, media_type: str) -> Iterator[bytes]:
        """The content of a document that may be large, as it arrives. Raises CliError when the connection breaks."""
        try:
            with self._http.stream("GET", path, params=_query(params), headers={"Accept": media_type}) as response:
                if not response.is_success:
                    response.read()
                    raise _error(self._url, response, _json(response))
                yield from response.iter_bytes()
        except httpx.TransportError as error:
            raise Unreachable(self._url, _reason(error), connected=True) from None

    def create(self, path: str, body: Json | None = None, *, idempotency_key: str | None = None) -> Json:
        """Sends a POST with an idempotency key (a new one unless given). Retries are safe."""
        key = idempotency_key or str(uuid.uuid4())
        return self._document(Call("POST", path, body=body, headers={"Idempotency-Key": key}))

    def create_once(self, path: str, body: Json, idempotency_key: str) -> tuple[Json, bool]:
        """As `create`. The second value is False when an earlier call with the same key made the resource."""
        response = self._send(Call("POST", path, body=body, headers={"Idempotency-Key": idempotency_key}))
        return self._parsed(response), "Idempotency-Replayed" not in response.headers

    def post(self, path: str, body: Json | None = None, params: Params | None = None) -> Json:
        """Sends a POST of an action."""
        return self._document(Call("POST", path, params, body))

    def put(self, path: str, body: Json) -> Json:
        """Replaces a whole setting with PUT."""
        return self._document(Call("PUT", path, body=body))

    def patch(self, path: str, body: Json) -> Json:
        """Changes the given fields with PATCH."""
        return self._document(Call("PATCH", path, body=body))

    def delete(self, path: str) -> Json:
        """Sends DELETE. Returns an empty document if the response has no body."""
        return self._document(Call("DELETE", path))

    def page(self, path: str, params: Params | None = None, *, limit: int | None = None) -> Json:
        """Returns `{"items", "next_cursor"}` with up to `limit` items, from as many pages as needed.

        None: all items.
        """
        items: list[Json] = []
        cursor = (params or {}).get("cursor")
        while True:
            room = _PAGE if limit is None else min(_PAGE, limit - len(items))
            page = self.get(path, {**(params or {}), "limit": room, "cursor": cursor})
            items += page.get("items") or []
            before, cursor = cursor, page.get("next_cursor")
            if cursor is not None and cursor == before:
                msg = f"{path} returns the same page repeatedly"
                raise CliError(msg)
            if cursor is None or (limit is not None and len(items) >= limit):
                return {**page, "items": items}

    def _document(self, call: Call) -> Json:
        return self._parsed(self._send(call))

    def _send(self, call: Call) -> httpx.Response:
        repeats = _REPEATS if call.repeatable else 0
        while True:
            outcome = self._exchange(call)
            wait = _wait(outcome) if repeats else None
            if wait is None:
                return _response(outcome)
            repeats -= 1
            self._note(f"{_why(outcome)}; retrying in {wait:g} s")
            self._pause(wait)

    def _exchange(self, call: Call) -> httpx.Response | Unreachable:
        try:
            return self._http.request(
                call.method, call.path, params=_query(call.params), json=call.body, headers=call.headers
            )
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            msg = f"{self._url!r} is not a valid address: {error}"
            raise NotConfiguredError(msg) from None
        except httpx.TimeoutException as error:
            return Unreachable(self._url, "no response in time", connected=not isinstance(error, httpx.ConnectTimeout))
        except httpx.TransportError as error:
            connected = not isinstance(error, httpx.ConnectError)
            return Unreachable(self._url, _reason(error), connected=connected)

    def _parsed(self, response: httpx.Response) -> Json:
        document = _json(response)
        if response.is_success and document is not None:
            return document
        raise _error(self._url, response, document)


def _open(endpoint: Endpoint, timeout: httpx.Timeout, transport: httpx.BaseTransport | None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {endpoint.key}", "Accept": "application/json", "User-Agent": "gpulease-cli"}
    # plain HTTP needs none of the certificates whose reading takes a tenth of a command's time
    verify = _NO_TLS if endpoint.url.startswith("http://") else True
    return httpx.Client(
        base_url=endpoint.url,
        headers=headers,
        timeout=timeout,
        trust_env=not endpoint.is_loopback,
        verify=verify,
        transport=transport,
    )


def _query(params: Params | None) -> dict[str, str | int | bool | Sequence[str]]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _response(outcome: httpx.Response | Unreachable) -> httpx.Response:
    if isinstance(outcome, Unreachable):
        raise outcome
    return outcome


def _wait(outcome: httpx.Response | Unreachable) -> float | None:
    """Seconds to wait before retrying a repeatable call. None when a retry is useless."""
    if isinstance(outcome, Unreachable):
        return 1.0 if outcome.connected else None
    if outcome.status_code in _COME_BACK and "Retry-After" in outcome.headers:
        return _retry_after(outcome)
    in_flight = outcome.status_code == _CONFLICT and (_json(outcome) or {}).get("code") == "idempotency_in_flight"
    return 1.0 if in_flight or outcome.status_code == _TOO_MANY else None


def _retry_after(response: httpx.Response) -> float:
    """Seconds from the `Retry-After` header, at most a minute. 0 without the header."""
    text = response.headers.get("Retry-After", "")
    return float(min(int(text), 60)) if text.isascii() and text.isdigit() else 0.0


def _why(outcome: httpx.Response | Unreachable) -> str:
    if isinstance(outcome, Unreachable):
        return str(outcome)
    title = (_json(outcome) or {}).get("title")
    return f"the API returned: {title or outcome.reason_phrase}"


def _reason(error: httpx.TransportError) -> str:
    refused = "refused" in str(error).lower()
    return "connection refused" if refused else str(error) or type(error).__name__


def _json(response: httpx.Response) -> Json | None:
    if not response.content:
        return {} if response.is_success else None
    try:
        document = response.json()
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


def _error(url: str, response: httpx.Response, document: Json | None) -> ApiError | CliError:
    if document is None or "json" not in response.headers.get("Content-Type", ""):
        return UnexpectedAnswerError(url, response.status_code)
    return ProblemError(
        document, response.status_code, response.headers.get("X-Request-Id"), retry_after=_retry_after(response)
    )
