"""The outermost layer, pure ASGI: what every request and every answer have in common."""

import re
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.api.http.auth import RATE, REQUEST_ID
from app.api.http.body_limits import announced_length, limited, too_large, unreadable
from app.api.http.problems import problem
from app.api.http.routing import PRINCIPAL
from app.domain.client_address import Network, find_client_address
from app.observability.metrics import ApiMetrics
from app.observability.traces import Span, Traces
from app.services.context import new_request_id
from app.services.errors import BodyTooLarge, InternalError, ServiceError

_SANE_ID = re.compile(rb"[A-Za-z0-9._:-]{8,128}")
_QUIET = frozenset({"/livez", "/readyz", "/metrics"})
_QUIET_SUCCESS = frozenset({"/v1/agent/samples"})
"""Ten thousand agents would write 14 million lines a day. Refusals are logged."""

_SECURITY = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
_NO_CONTENT = 204
_WITH_BODY = frozenset({"POST", "PUT", "PATCH"})
_CSP = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_NO_STORE = (b"cache-control", b"no-store")

_NO_BODY: Message = {"type": "http.response.body", "body": b"", "more_body": False}

_log = structlog.get_logger("gpulease.access")
_ABOUT = ("request_id", "tenant_id", "lease_id")
"""The fields of each log line of a request, as far as they are known. The routes add tenant and lease."""


class RequestMiddleware:
    """Gives each request its id and its client's address, bounds its body, completes the headers of its answer, counts and logs it.

    One layer and not five: a layer costs more than what most of these do. An exception that nobody else answers ends
    here, as `internal_error`.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        body_limit: int,
        metrics: ApiMetrics,
        traces: Traces,
        trusted_proxies: Sequence[Network] = (),
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._app = app
        self._body_limit = body_limit
        self._metrics = metrics
        self._traces = traces
        self._trusted_proxies = trusted_proxies
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID] = new_request_id()
        if self._trusted_proxies:
            scope["client"] = _client(scope, self._trusted_proxies)
        exchange = _Exchange(scope, send)
        if exchange.method == "HEAD":
            scope["method"] = "GET"
        with self._traces.root(exchange.method, scope[REQUEST_ID], serves=True) as span:
            await self._answer(scope, receive, exchange, span)

    async def _answer(self, scope: Scope, receive: Receive, exchange: "_Exchange", span: Span) -> None:
        started = self._clock()
        structlog.contextvars.bind_contextvars(request_id=scope[REQUEST_ID])
        try:
            await self._limited(scope, receive, exchange)
        except Exception:
            _log.exception("unhandled", method=exchange.method, path=scope["path"])
            if exchange.status:
                raise
            await exchange.refuse(receive, InternalError())
        finally:
            self._note(scope, exchange, self._clock() - started)
            _describe(span, scope, exchange)
            structlog.contextvars.unbind_contextvars(*_ABOUT)

    async def _limited(self, scope: Scope, receive: Receive, exchange: "_Exchange") -> None:
        error = self._refusal(scope)
        if error is not None:
            await exchange.refuse(receive, error)
            return
        await self._app(scope, limited(receive, self._body_limit), exchange.send)

    def _refusal(self, scope: Scope) -> ServiceError | None:
        """Why the request is refused before anything of it is read."""
        if announced_length(scope) > self._body_limit:
            return BodyTooLarge(too_large(self._body_limit))
        return unreadable(scope) if scope["method"] in _WITH_BODY else None

    def _note(self, scope: Scope, exchange: "_Exchange", seconds: float) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self._metrics.request(exchange.method, route, exchange.status, seconds)
        if route in _QUIET or (exchange.status == _NO_CONTENT and route in _QUIET_SUCCESS):
            return
        principal = scope.get(PRINCIPAL)
        client = scope.get("client")
        _log.info(
            "request",
            method=exchange.method,
            path=scope["path"],
            status=exchange.status,
            ms=round(seconds * 1000, 2),
            key_id=principal and principal.key_id,
            address=client and client[0],
            caller_request_id=_callers_id(scope),
        )


def _describe(span: Span, scope: Scope, exchange: "_Exchange") -> None:
    """The words of OpenTelemetry's conventions for HTTP."""
    method, route = exchange.method, getattr(scope.get("route"), "path", None)
    principal = scope.get(PRINCIPAL)
    span.tell(
        method if route is None else f"{method} {route}",
        http__request__method=method,
        http__route=route,
        http__response__status_code=exchange.status,
        gpulease__tenant_id=principal and principal.tenant_id,
        gpulease__caller_request_id=_callers_id(scope),
    )


class _Exchange:
    """An answer on its way out. The answer to HEAD is that to GET without its body."""

    __slots__ = ("_is_complete", "_scope", "_send", "method", "status")

    def __init__(self, scope: Scope, send: Send) -> None:
        self._scope = scope
        self._send = send
        self._is_complete = False
        self.method: str = scope["method"]
        self.status = 0

    async def send(self, message: Message) -> None:
        """Completes the headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message.get("headers", ()), *self._common(message.get("headers", ()))]
        elif self.method == "HEAD":
            message = _NO_BODY
        if not self._is_complete:
            self._is_complete = message is _NO_BODY
            await self._send(message)

    async def refuse(self, receive: Receive, error: ServiceError) -> None:
        """Answers without the application."""
        answer = problem(error, instance=self._scope["path"], request_id=self._scope[REQUEST_ID])
        await answer(self._scope, receive, self.send)

    def _common(self, present: Any) -> list[tuple[bytes, bytes]]:
        names = {name for name, _ in present}
        headers = [(b"x-request-id", self._scope[REQUEST_ID].encode()), *_SECURITY]
        headers += [header for header in (_CSP, _NO_STORE) if header[0] not in names]
        rate = self._scope.get(RATE)
        if rate is not None:
            headers += [(b"ratelimit", rate[0].encode()), (b"ratelimit-policy", rate[1].encode())]
        return headers


def _callers_id(scope: Scope) -> str | None:
    """The caller's X-Request-Id when it looks like one. Anybody may send any: it stands beside our id, never for it."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _SANE_ID.fullmatch(value):
            return str(value, "ascii")
    return None


def _client(scope: Scope, trusted: Sequence[Network]) -> tuple[str, int] | None:
    """The client's address, as the trusted proxies before it report it, and the port of the peer."""
    peer = scope.get("client")
    if peer is None:
        return None
    forwarded = [value.decode("latin-1") for name, value in scope["headers"] if name == b"x-forwarded-for"]
    return find_client_address(peer[0], forwarded, trusted) or peer[0], peer[1]
