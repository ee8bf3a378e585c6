"""Compute Engine's REST clients of one account: credentials, time-outs, one client per service.

Credentials are those of `credentials_file`, else Google's application default ones; `impersonate` acts through them as another
service account. All kinds get access tokens from a token endpoint. Nothing is loaded or called before the first call.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from threading import Lock
from typing import Any, TypeVar
from urllib.parse import urlsplit

import google.auth
from google.api_core.exceptions import from_http_response
from google.auth import impersonated_credentials
from google.auth.credentials import Credentials
from google.auth.transport.requests import AuthorizedSession
from google.oauth2 import service_account
from requests import ReadTimeout
from requests.adapters import HTTPAdapter

from app.settings import Settings
from workers.providers.credentials import CredentialGuard
from workers.providers.errors import OutcomeUnknown
from workers.providers.gcp.errors import signing_in, translated
from workers.providers.gcp.settings import GcpAccount

# At DEBUG Google's libraries write requests and answers: start-up scripts and access tokens.
logging.getLogger("google").setLevel(logging.INFO)

PAGE = 500
"""Most items of one page (Compute Engine API reference, `maxResults`)."""

SCOPE = "https://www.googleapis.com/auth/compute"
PRICES_SCOPE = "https://www.googleapis.com/auth/cloud-billing.readonly"
"""With tokens of its own: who may not have them can launch all the same."""
PUBSUB_SCOPE = "https://www.googleapis.com/auth/pubsub"
_CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_PUBLIC = "https://compute.googleapis.com"
_PUBLIC_PUBSUB = "https://pubsub.googleapis.com"
_LONGEST_WAIT = 5.0

C = TypeVar("C")
T = TypeVar("T")


class GcpClients:
    """GcpClients are made once under a lock and shared between threads.

    `guard` sees each request to Compute Engine, with its access token, before it is sent.
    """

    def __init__(self, account: GcpAccount, settings: Settings, guard: CredentialGuard | None = None) -> None:
        self.project = account.project
        self._account = account
        self._timeout = settings.call_timeout
        self._connections = _Connections(settings)
        self._guarded = _GuardedConnections(settings, guard or CredentialGuard())
        self._lock = Lock()
        self._credentials: Credentials | None = None
        self._clients: dict[type, Any] = {}
        self._sessions: dict[str, AuthorizedSession] = {}

    def of(self, kind: type[C]) -> C:
        """The client of a service. Raises CredentialsRejected when there are no credentials."""
        client: C | None = self._clients.get(kind)
        return client if client is not None else self._make(kind)

    def ask(self, method: Callable[..., T], **request: Any) -> T:
        """One call in this project: bounded, not repeated. Raises ProviderError; OutcomeUnknown for an answer not Google's."""
        with translated():
            answer = method(
                request={"project": self.project, **request},
                timeout=self._timeout,
                retry=None,
            )
        return _recognised(answer)

    def pages(self, method: Callable[..., Any], **request: Any) -> Iterator[Any]:
        """Every page of a list, each fetched when it is asked for. Raises as `ask`."""
        with translated():
            pager = method(
                request={"project": self.project, "max_results": PAGE, **request},
                timeout=self._timeout,
                retry=None,
            )
            pages = iter(pager.pages)
        while True:
            with translated():
                page = next(pages, None)
            if page is None:
                return
            yield _recognised(page)

    def get(self, url: str, query: Mapping[str, str]) -> Any:
        """The JSON at an address of Google's that the SDK has no client for: bounded, not repeated. Raises ProviderError."""
        with translated():
            answer = self._session(PRICES_SCOPE).get(url, params=query, timeout=self._timeout)
            if not answer.ok:
                raise from_http_response(answer)  # type: ignore[no-untyped-call]  # ships none
            return answer.json()

    def pubsub(self, path: str, body: dict[str, Any]) -> Any:
        """One call of Pub/Sub's REST API, below /v1/: its answer, or {} when none came within a few seconds.

        Raises ProviderError.
        """
        endpoint = (self._account.endpoint_url or _PUBLIC_PUBSUB).rstrip("/")
        try:
            with translated():
                session = self._session(PUBSUB_SCOPE)
                answer = session.post(f"{endpoint}/v1/{path}", json=body, timeout=min(self._timeout, _LONGEST_WAIT))
                if not answer.ok:
                    raise from_http_response(answer)  # type: ignore[no-untyped-call]  # ships none
                return answer.json()
        except OutcomeUnknown as error:
            if error.code == ReadTimeout.__name__:
                return {}
            raise

    def _session(self, scope: str) -> AuthorizedSession:
        """For services that the SDK has no client for: a session with tokens of one scope."""
        with self._lock:
            if scope not in self._sessions:
                with signing_in():
                    credentials = _credentials(self._account, scope)
                session = AuthorizedSession(credentials)  # type: ignore[no-untyped-call]  # ships none
                _mount(session, self._connections)
                self._sessions[scope] = session
            return self._sessions[scope]

    def _make(self, kind: type[C]) -> C:
        with self._lock:
            if self._credentials is None:
                with signing_in():
                    self._credentials = _credentials(self._account, SCOPE)
            if kind not in self._clients:
                self._clients[kind] = self._connected(kind, self._credentials)
            made: C = self._clients[kind]
            return made

    def _connected(self, kind: Any, credentials: Credentials) -> Any:
        endpoint = urlsplit(self._account.endpoint_url or _PUBLIC)
        transport = kind.get_transport_class("rest")(
            host=endpoint.netloc, url_scheme=endpoint.scheme, credentials=credentials
        )
        _mount(transport._session, self._guarded)  # noqa: SLF001  the only way to its connections: the SDK has no option for them
        return kind(transport=transport)


def _mount(session: Any, connections: HTTPAdapter) -> None:
    for scheme in ("https://", "http://"):
        session.mount(scheme, connections)


class _Connections(HTTPAdapter):
    """A pool for all threads. `timeout` is that of one answer; a connection has a shorter one of its own."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(pool_maxsize=settings.worker_threads + 4, max_retries=0)
        self._connect_timeout = settings.connect_timeout

    def send(
        self,
        request: Any,
        stream: Any = False,  # noqa: FBT002  the signature is the base's
        timeout: Any = None,
        verify: Any = True,  # noqa: FBT002  as above
        cert: Any = None,
        proxies: Any = None,
    ) -> Any:
        """As the base's, with a time-out for the connection."""
        return super().send(request, stream, (self._connect_timeout, timeout), verify, cert, proxies)


class _GuardedConnections(_Connections):
    """Shows each request to the guard before it is sent."""

    def __init__(self, settings: Settings, guard: CredentialGuard) -> None:
        super().__init__(settings)
        self._guard = guard

    def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
        """As the base's. Raises CredentialsUnverified, and nothing is sent."""
        self._guard.check(str(request.headers.get("authorization", "")))
        return super().send(request, *arguments, **options)


class _TokenOf(Credentials):
    """Only the access tokens of other credentials.

    Google's own would, beside each first use, ask another endpoint for the locations allowed to them, in a thread that no time-out
    of ours bounds.
    """

    def __init__(self, source: Credentials) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # ships none
        self.source = source

    def refresh(self, request: Any) -> None:
        """A new token. Raises GoogleAuthError."""
        self.source.refresh(request)  # type: ignore[no-untyped-call]  # as above
        self.token, self.expiry = self.source.token, self.source.expiry

    def apply(self, headers: Any, token: str | None = None) -> None:
        """As the source does: it may also name the project that pays for the calls."""
        self.source.apply(headers, token or self.token)  # type: ignore[no-untyped-call]  # as above


def _credentials(account: GcpAccount, scope: str) -> Credentials:
    if account.credentials_file is not None:
        found: Any = service_account.Credentials.from_service_account_file(  # type: ignore[no-untyped-call]  # ships none
            account.credentials_file, scopes=[scope]
        )
    else:
        found, _ = google.auth.default(scopes=[_CLOUD_SCOPE if account.impersonate else scope])
    if account.impersonate is not None:
        found = impersonated_credentials.Credentials(  # type: ignore[no-untyped-call]  # as above
            source_credentials=found, target_principal=account.impersonate, target_scopes=[scope]
        )
    return _TokenOf(found)


def _recognised(answer: T) -> T:
    """Every answer of Compute Engine names its kind; another one's page would read as the end of every VM."""
    if not getattr(answer, "kind", "").startswith("compute#"):
        raise OutcomeUnknown("the answer names no kind: it is not one of Google's", code="MalformedAnswer")
    return answer
