"""Compute Engine REST clients of one account: credentials, timeouts, and one client per service.

Credentials come from `credentials_file`, else from Google's application default credentials. With `impersonate`, these
credentials act as another service account. All kinds get access tokens from a token endpoint. Nothing is loaded or
called before the first call.
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
from workers.providers.send_window import require_open_window

# At level DEBUG Google's libraries log requests and responses, which contain start-up scripts and access tokens.
logging.getLogger("google").setLevel(logging.INFO)

PAGE = 500
"""Maximum number of items on one page (Compute Engine API reference, `maxResults`)."""

SCOPE = "https://www.googleapis.com/auth/compute"
PRICES_SCOPE = "https://www.googleapis.com/auth/cloud-billing.readonly"
"""Price requests use their own tokens, so that an account without this permission can still launch."""
PUBSUB_SCOPE = "https://www.googleapis.com/auth/pubsub"
_CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_PUBLIC = "https://compute.googleapis.com"
_PUBLIC_PUBSUB = "https://pubsub.googleapis.com"
_LONGEST_WAIT = 5.0

C = TypeVar("C")
T = TypeVar("T")


class GcpClients:
    """Creates each client once under a lock. Threads share the clients.

    `guard` checks each request to Compute Engine, with its access token, before it is sent.
    """

    def __init__(self, account: GcpAccount, settings: Settings, guard: CredentialGuard | None = None) -> None:
        self.project = account.project
        self.network_project = account.network_project
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
        """Makes one call in this project, with a timeout and without retries.

        Raises ProviderError. Raises OutcomeUnknown for an answer that is not Google's.
        """
        with translated():
            answer = method(
                request={"project": self.project, **request},
                timeout=self._timeout,
                retry=None,
            )
        return _recognised(answer)

    def pages(self, method: Callable[..., Any], **request: Any) -> Iterator[Any]:
        """Every page of a list. Fetches a page only when the caller reads it. Raises the errors of `ask`."""
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
        """The JSON of the price list. Raises ProviderError."""
        return self.request("GET", url, scope=PRICES_SCOPE, query=query)

    def compute(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None
    ) -> Mapping[str, Any]:
        """The JSON of a Compute Engine call whose service the SDK would load for this alone. Raises ProviderError."""
        endpoint = (self._account.endpoint_url or _PUBLIC).rstrip("/")
        answer: Mapping[str, Any] = self.request(
            method, f"{endpoint}/compute/v1/{path}", scope=SCOPE, query=query, body=body
        )
        return answer

    def request(
        self, method: str, url: str, *, scope: str, query: Mapping[str, str] | None = None, body: Any = None
    ) -> Any:
        """The JSON at a Google URL for which there is no client of the SDK. Raises ProviderError.

        The call has a timeout and no retries.
        """
        with translated():
            session = self._session(scope)
            answer = session.request(method, url, params=query, json=body, timeout=self._timeout)
            if not answer.ok:
                raise from_http_response(answer)
            return answer.json()

    def pubsub(self, path: str, body: dict[str, Any]) -> Any:
        """Makes one call of Pub/Sub's REST API, below /v1/. Raises ProviderError.

        Returns {} when no answer comes within a few seconds.
        """
        endpoint = (self._account.endpoint_url or _PUBLIC_PUBSUB).rstrip("/")
        try:
            with translated():
                session = self._session(PUBSUB_SCOPE)
                answer = session.post(f"{endpoint}/v1/{path}", json=body, timeout=min(self._timeout, _LONGEST_WAIT))
                if not answer.ok:
                    raise from_http_response(answer)
                return answer.json()
        except OutcomeUnknown as error:
            if error.code == ReadTimeout.__name__:
                return {}
            raise

    def _session(self, scope: str) -> AuthorizedSession:
        """A session with tokens of one scope, for services for which the SDK has no client."""
        with self._lock:
            if scope not in self._sessions:
                with signing_in():
                    credentials = _credentials(self._account, scope)
                session = AuthorizedSession(credentials)
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
            client: C = self._clients[kind]
            return client

    def _connected(self, kind: Any, credentials: Credentials) -> Any:
        endpoint = urlsplit(self._account.endpoint_url or _PUBLIC)
        transport = kind.get_transport_class("rest")(
            host=endpoint.netloc, url_scheme=endpoint.scheme, credentials=credentials
        )
        _mount(transport._session, self._guarded)  # noqa: SLF001  the SDK has no option for its connections
        return kind(transport=transport)


def _mount(session: Any, connections: HTTPAdapter) -> None:
    for scheme in ("https://", "http://"):
        session.mount(scheme, connections)


class _Connections(HTTPAdapter):
    """A connection pool for all threads.

    `timeout` in seconds limits one answer. Opening a connection has its own, shorter timeout.
    """

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
        """Sends as the base class does, with a timeout for the connection."""
        return super().send(request, stream, (self._connect_timeout, timeout), verify, cert, proxies)


class _GuardedConnections(_Connections):
    """Passes each request to the guard, and checks the send window, before the request is sent."""

    def __init__(self, settings: Settings, guard: CredentialGuard) -> None:
        super().__init__(settings)
        self._guard = guard

    def send(self, request: Any, *arguments: Any, **options: Any) -> Any:
        """Sends as the base class does. If CredentialsUnverified or SendExpired is raised, nothing is sent."""
        self._guard.check(str(request.headers.get("authorization", "")))
        require_open_window()
        return super().send(request, *arguments, **options)


class _TokenOf(Credentials):
    """Uses only the access tokens of other credentials.

    At each first use, Google's own credentials would also request their allowed locations from another endpoint. They
    would do so in a thread that no timeout of gpulease limits.
    """

    def __init__(self, source: Credentials) -> None:
        super().__init__()
        self.source = source

    def refresh(self, request: Any) -> None:
        """Gets a new token. Raises GoogleAuthError."""
        self.source.refresh(request)
        self.token, self.expiry = self.source.token, self.source.expiry

    def apply(self, headers: Any, token: str | None = None) -> None:
        """Sets headers as the source does: the source may also name the project that pays for the calls."""
        self.source.apply(headers, token or self.token)


def _credentials(account: GcpAccount, scope: str) -> Credentials:
    if account.credentials_file is not None:
        base: Any = service_account.Credentials.from_service_account_file(account.credentials_file, scopes=[scope])
    else:
        base, _ = google.auth.default(scopes=[_CLOUD_SCOPE if account.impersonate else scope])
    if account.impersonate is not None:
        base = impersonated_credentials.Credentials(
            source_credentials=base, target_principal=account.impersonate, target_scopes=[scope]
        )
    return _TokenOf(base)


def _recognised(answer: T) -> T:
    """The answer, if it names its kind, as every answer of Compute Engine does. Raises OutcomeUnknown otherwise.

    Reading a page of another server as a list would mark every VM as ended.
    """
    if not getattr(answer, "kind", "").startswith("compute#"):
        raise OutcomeUnknown("the answer names no kind: it is not one of Google's", code="MalformedAnswer")
    return answer
