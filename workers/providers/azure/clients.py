"""Azure clients of one account: credentials, timeouts, and one connection pool for all clients.

Credentials come from azure-identity's default chain. A stand-in server on loopback that speaks plain http receives the
text of AZURE_CLIENT_SECRET as the bearer token itself. No other server ever receives that text.
"""

import ipaddress
import logging
import os
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from azure.core import PipelineClient
from azure.core.credentials import AccessToken
from azure.core.pipeline import PipelineRequest
from azure.core.pipeline.policies import (
    BearerTokenCredentialPolicy,
    ContentDecodePolicy,
    HeadersPolicy,
    ProxyPolicy,
    RequestIdPolicy,
    SansIOHTTPPolicy,
    UserAgentPolicy,
)
from azure.core.pipeline.transport import RequestsTransport
from azure.core.rest import HttpRequest, HttpResponse
from azure.identity import DefaultAzureCredential
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy
from azure.mgmt.network import NetworkManagementClient

from app.settings import Settings
from workers.providers.azure.settings import AzureAccount
from workers.providers.credentials import CredentialGuard
from workers.providers.send_window import require_open_window

PUBLIC_CLOUD = "https://management.azure.com"
_STORAGE_SCOPE = "https://storage.azure.com/.default"
_STORAGE_VERSION = "2023-11-03"

# At levels INFO and DEBUG the SDK logs requests, including custom data.
logging.getLogger("azure").setLevel(logging.WARNING)


class AzureClients:
    """Creates each client at first use under a lock. All threads share the clients.

    There is no retry policy: the reconciler decides about a repeat.
    `guard` checks each request to Resource Manager, with its access token, before it is sent.
    """

    def __init__(self, account: AzureAccount, settings: Settings, guard: CredentialGuard | None = None) -> None:
        self._account = account
        self._guard = guard or CredentialGuard()
        self._settings = settings
        self._lock = Lock()
        self._compute: ComputeManagementClient | None = None
        self._network: NetworkManagementClient | None = None
        self._options: dict[str, Any] | None = None
        self._queue: PipelineClient[HttpRequest, HttpResponse] | None = None

    @property
    def compute(self) -> ComputeManagementClient:
        """The client for virtual machines, disks, sizes and images."""
        with self._lock:
            if self._compute is None:
                self._compute = ComputeManagementClient(**self._arguments())
            return self._compute

    @property
    def network(self) -> NetworkManagementClient:
        """The client for network interfaces, public addresses and network security groups."""
        with self._lock:
            if self._network is None:
                self._network = NetworkManagementClient(**self._arguments())
            return self._network

    @property
    def anonymous(self) -> PipelineClient[HttpRequest, HttpResponse]:
        """A new client for URLs that carry their own signature. The caller must close the client."""
        return PipelineClient("", policies=[ProxyPolicy()], transport=_transport(self._settings))

    @property
    def queue(self) -> PipelineClient[HttpRequest, HttpResponse]:
        """The client for the account's storage queue.

        The client uses its own token, because a token for Resource Manager is not valid for storage.
        """
        with self._lock:
            if self._queue is None:
                url = str(self._account.events_queue_url)
                policies = _queue_policies(self._account, self._settings, url)
                self._queue = PipelineClient(url, policies=policies, transport=_transport(self._settings))
            return self._queue

    def _arguments(self) -> dict[str, Any]:
        if self._options is None:
            endpoint = self._account.endpoint_url or PUBLIC_CLOUD
            credential = _StandInCredential() if is_stand_in(endpoint) else _Credential(self._account, self._settings)
            self._options = {
                "credential": credential,
                "subscription_id": self._account.subscription_id,
                "base_url": endpoint,
                "transport": _transport(self._settings),
                "policies": [*_policies(credential, endpoint), _GuardPolicy(self._guard)],
            }
        return self._options


def is_stand_in(endpoint: str) -> bool:
    """Whether the endpoint is plain http on this host, which is never Azure."""
    parts = urlsplit(endpoint)
    if parts.scheme != "http" or parts.hostname is None:
        return False
    try:
        return parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        return False


class _Credential:
    """The default chain. If the account names a directory, requests tokens of that directory."""

    def __init__(self, account: AzureAccount, settings: Settings) -> None:
        self._tenant = {"tenant_id": account.tenant_id} if account.tenant_id is not None else {}
        self._chain = DefaultAzureCredential(
            additionally_allowed_tenants=list(self._tenant.values()),
            connection_timeout=settings.connect_timeout,
            read_timeout=settings.call_timeout,
            # four tries of half a minute each would exceed the time that a stopping worker has
            retry_connect=0,
            retry_read=0,
        )

    def get_token(self, *scopes: str, **options: Any) -> AccessToken:
        """The method that azure.core calls."""
        return self._chain.get_token(*scopes, **(options | self._tenant))


class _StandInCredential:
    """The bearer token that a stand-in server accepts."""

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        """Reads the environment variable on each call, so that a renewed secret takes effect."""
        return AccessToken(os.environ.get("AZURE_CLIENT_SECRET", ""), 0)


class _GuardPolicy(SansIOHTTPPolicy[Any, Any]):
    """Passes each request to the guard, and checks the send window, once the request has its token."""

    def __init__(self, guard: CredentialGuard) -> None:
        super().__init__()
        self._guard = guard

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Runs before the request is sent. If CredentialsUnverified or SendExpired is raised, nothing is sent."""
        self._guard.check(str(request.http_request.headers.get("Authorization", "")))
        require_open_window()


class _StandInPolicy(SansIOHTTPPolicy[Any, Any]):
    """Sets the Authorization header, which azure.core refuses to set without TLS."""

    def __init__(self, credential: _StandInCredential) -> None:
        super().__init__()
        self._credential = credential

    def on_request(self, request: PipelineRequest[Any]) -> None:
        """Runs before the request is sent."""
        request.http_request.headers["Authorization"] = f"Bearer {self._credential.get_token().token}"


def _policies(credential: "_Credential | _StandInCredential", endpoint: str) -> list[Any]:
    """azure.core's policies without retries, redirects and provider registration.

    Those three wait or send more than one request.
    """
    authentication: Any
    if isinstance(credential, _StandInCredential):
        authentication = _StandInPolicy(credential)
    else:
        authentication = ARMChallengeAuthenticationPolicy(credential, f"{endpoint.rstrip('/')}/.default")
    agent = UserAgentPolicy("gpulease")
    return [RequestIdPolicy(), HeadersPolicy(), agent, ProxyPolicy(), ContentDecodePolicy(), authentication]


def _queue_policies(account: AzureAccount, settings: Settings, url: str) -> list[Any]:
    authentication: Any
    if is_stand_in(url):
        authentication = _StandInPolicy(_StandInCredential())
    else:
        authentication = BearerTokenCredentialPolicy(_Credential(account, settings), _STORAGE_SCOPE)
    return [
        HeadersPolicy({"x-ms-version": _STORAGE_VERSION}),
        UserAgentPolicy("gpulease"),
        ProxyPolicy(),
        authentication,
    ]


def _transport(settings: Settings) -> RequestsTransport:
    transport = RequestsTransport(connection_timeout=settings.connect_timeout, read_timeout=settings.call_timeout)
    transport.open()
    for scheme in ("http://", "https://"):
        transport.session.get_adapter(scheme).init_poolmanager(2, settings.worker_threads + 4)
    return transport


@dataclass(frozen=True, slots=True)
class Group:
    """The account's resource group, which contains all resources of gpulease, with the clients to call."""

    clients: AzureClients
    subscription: str
    name: str

    @property
    def id(self) -> str:
        """Azure's id of the resource group."""
        return f"/subscriptions/{self.subscription}/resourceGroups/{self.name}"

    @property
    def compute(self) -> ComputeManagementClient:
        """See `AzureClients`."""
        return self.clients.compute

    @property
    def network(self) -> NetworkManagementClient:
        """See `AzureClients`."""
        return self.clients.network
