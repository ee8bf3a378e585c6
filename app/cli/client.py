"""The HTTP client: one httpx client, errors as exceptions, safe retries, and pagination."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import httpx

from app.cli import repeats
from app.cli.endpoint import Endpoint
from app.cli.errors import ApiError, CliError, FailedCall, Json, NotConfiguredError, ProblemError, UnexpectedAnswerError
from app.cli.errors import UnreachableError as Unreachable
from app.cli.network import find_proxy, tls_context
from app.cli.outcomes import (
    NO_CONTENT,
    is_decided,
    is_document,
    is_done,
    is_json,
    is_unanswered,
    json_object,
    retry_after,
    wait_seconds,
)
from app.cli.paths import check_path
from app.cli.render import times

Params = Mapping[str, str | int | bool | Sequence[str] | None]

_REPEATS = 4
_PAGE = 200
_TIMEOUT = httpx.Timeout(30.0, connect=5.0)
_STREAM = httpx.Timeout(45.0, connect=5.0)
"A stream sends a comment every 15 seconds."
_NOT_MODIFIED = 304
_READS = frozenset({"GET", "HEAD"})


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
        """True when a retry has no further effect."""
        return self.method in repeats.METHODS or self.key is not None

    @property
    def key(self) -> str | None:
        """The idempotency key."""
        return (self.headers or {}).get("Idempotency-Key")


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
        changed: Callable[[str], object] = lambda _: None,
    ) -> None:
        """`timeout`: seconds for each part of a call. `transport`: None is the network.

        `changed` gets a text for each change that the API has carried out: the call, the new id and the secret.
        """
        self._changed = changed
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
                if not response.is_success or "html" in response.headers.get("Content-Type", ""):
                    response.read()
                    raise _error(self._url, response, json_object(response))
                yield ""
                yield from response.iter_lines()
        except httpx.RequestError as error:
            raise Unreachable(self._url, _reason(error), connected=True) from None

    def download(self, path: str, params: Params | None, media_type: str) -> Iterator[bytes]:
        """The content of a document that may be large, as it arrives. Raises CliError when the connection breaks."""
        try:
            with self._http.stream("GET", path, params=_query(params), headers={"Accept": media_type}) as response:
                if not response.is_success or "html" in response.headers.get("Content-Type", ""):
                    response.read()
                    raise _error(self._url, response, json_object(response))
                yield from response.iter_bytes()
        except httpx.RequestError as error:
            raise Unreachable(self._url, _reason(error), connected=True) from None

    def create(self, path: str, body: Json | None = None, *, idempotency_key: str | None = None) -> Json:
        """Sends a POST with an idempotency key (a new one unless given). Retries are safe."""
        key = idempotency_key or str(uuid.uuid4())
        return self._document(Call("POST", path, body=body, headers={"Idempotency-Key": key}))

    def create_once(self, path: str, body: Json, idempotency_key: str) -> tuple[Json, bool]:
        """As `create`. The second value is False when an earlier call with the same key made the resource."""
        call = Call("POST", path, body=body, headers={"Idempotency-Key": idempotency_key})
        response = self._send(call)
        return self._reported(call, self._parsed(response)), "Idempotency-Replayed" not in response.headers

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
        return self._reported(call, self._parsed(self._send(call)))

    def _reported(self, call: Call, document: Json) -> Json:
        """The document of an answer, after a change has been reported."""
        made = [
            str(document[name]) for name in ("id", "secret") if document.get(name) and document[name] not in call.path
        ]
        if call.method not in _READS and (call.repeatable or made):
            self._changed(" ".join([f"{call.method} {call.path}", *made]))
        return document

    def _send(self, call: Call) -> httpx.Response:
        """The answer to a call, after as many tries as the table of `repeats` allows. Raises CliError for no answer."""
        tries, unanswered = _REPEATS, False
        while True:
            outcome = self._exchange(call)
            if unanswered and is_done(call, outcome):
                return httpx.Response(NO_CONTENT)
            unanswered = is_unanswered(outcome) or (unanswered and not is_decided(outcome))
            wait = wait_seconds(call, outcome, sent=unanswered) if tries else None
            if wait is None:
                return self._last(call, outcome, unanswered=unanswered)
            tries -= 1
            self._note(f"{_why(outcome)}; retrying in {wait:g} s")
            self._pause(wait)

    def _last(self, call: Call, outcome: httpx.Response | Unreachable, *, unanswered: bool) -> httpx.Response:
        """The answer of the last try. Its error says when the call may have been carried out."""
        try:
            self._parsed(_response(outcome))
        except CliError as error:
            if unanswered and call.method not in _READS:
                error.unanswered = FailedCall(call.method, call.path, call.key)
            raise
        return _response(outcome)

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
        except httpx.RequestError as error:
            sent = not isinstance(error, httpx.ConnectError | httpx.ProxyError)
            return Unreachable(self._url, _reason(error), connected=sent)

    def _parsed(self, response: httpx.Response) -> Json:
        document = json_object(response)
        if document is not None and response.is_success and is_document(response):
            return document
        raise _error(self._url, response, document)


class _Http(httpx.Client):
    """Sends only paths that equal their normal form."""

    def build_request(self, method: str, url: httpx.URL | str, **options: Any) -> httpx.Request:
        return super().build_request(method, check_path(str(url)), **options)


def _open(endpoint: Endpoint, timeout: httpx.Timeout, transport: httpx.BaseTransport | None) -> httpx.Client:
    headers = {"Authorization": f"Bearer {endpoint.key}", "Accept": "application/json", "User-Agent": "gpulease-cli"}
    return _Http(
        base_url=endpoint.url,
        headers=headers,
        timeout=timeout,
        trust_env=False,  # the module `network` reads it
        proxy=None if endpoint.is_loopback else find_proxy(endpoint.url),
        verify=tls_context(endpoint.url),
        transport=transport,
    )


def _query(params: Params | None) -> dict[str, str | int | bool | Sequence[str]]:
    return {name: value for name, value in (params or {}).items() if value is not None}


def _response(outcome: httpx.Response | Unreachable) -> httpx.Response:
    if isinstance(outcome, Unreachable):
        raise outcome
    return outcome


def _why(outcome: httpx.Response | Unreachable) -> str:
    if isinstance(outcome, Unreachable):
        return str(outcome)
    title = (json_object(outcome) or {}).get("title")
    return f"the API returned: {title or outcome.reason_phrase}"


def _reason(error: httpx.RequestError) -> str:
    refused = "refused" in str(error).lower()
    return "connection refused" if refused else str(error) or type(error).__name__


def _error(url: str, response: httpx.Response, document: Json | None) -> ApiError | CliError:
    if document is None or not is_json(response):
        return UnexpectedAnswerError(url, response.status_code)
    return ProblemError(
        document, response.status_code, response.headers.get("X-Request-Id"), retry_after=retry_after(response)
    )
