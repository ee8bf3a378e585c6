"""The client: its connection, its resources, and a way to every other operation of the API."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, Self, TypeVar

import httpx

from gpulease_client import settings
from gpulease_client._async.budgets import AsyncBudgets
from gpulease_client._async.costs import AsyncCostReports
from gpulease_client._async.events import AsyncEvents
from gpulease_client._async.groups import AsyncGroups
from gpulease_client._async.http import AsyncHttp
from gpulease_client._async.keys import AsyncKeys
from gpulease_client._async.leases import AsyncLeases
from gpulease_client._async.offerings import AsyncOfferings
from gpulease_client._async.quotes import AsyncQuotes
from gpulease_client._async.ssh_keys import AsyncSshKeys
from gpulease_client._async.usage import AsyncUsageReports
from gpulease_client._async.volumes import AsyncVolumes
from gpulease_client._async.webhooks import AsyncWebhooks
from gpulease_client._described import VERSION
from gpulease_client.core.client import AuthenticatedClient
from gpulease_client.core.models import Problem
from gpulease_client.core.types import Unset
from gpulease_client.errors import UnexpectedResponseError
from gpulease_client.network import find_proxy, tls_context
from gpulease_client.retries import Retries

T = TypeVar("T")


class Page(Protocol[T]):
    """A generated page."""

    @property
    def items(self) -> list[T]: ...

    @property
    def next_cursor(self) -> str | Unset | None: ...


class AsyncClient:
    """A connection to one API with one key. Use it with `async with`, or call `aclose`.

    Without arguments it reads the environment, the profiles of the command line, and a local stack's `credentials.json`.

    Attributes:
        leases: create, wait, list, extend, release.
        groups: leases that start together: create, wait, scale, release.
        quotes: prices that hold for some minutes.
        events: list and stream.
        offerings: what can be leased.
        ssh_keys: public keys for logins.
        volumes: disks that outlive leases.
        usage: use over time, and the present state.
        costs: what leases have cost, and a forecast.
        budgets: what leases may cost in a period.
        webhooks: addresses that receive events, and their deliveries.
        keys: API keys of the tenant.
        core: the connection of the generated functions below `gpulease_client.core.api`.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        profile: str | None = None,
        operator: bool = False,
        retries: Retries | None = None,
        timeout: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """`timeout`: seconds for each part of a call. `operator`: use the operator's key of a local stack."""
        endpoint = settings.find_endpoint(url, key, profile, operator=operator)
        self.url = endpoint.url
        self.core = AuthenticatedClient(endpoint.url, token=endpoint.key)
        self._http = AsyncHttp(
            retries=retries or Retries(),
            base_url=endpoint.url,
            headers={"Authorization": f"Bearer {endpoint.key}", "User-Agent": f"gpulease-client-python/{VERSION}"},
            timeout=httpx.Timeout(timeout, connect=min(timeout, 5.0)),
            trust_env=False,  # the module `network` reads it
            proxy=None if endpoint.is_loopback else find_proxy(endpoint.url),
            verify=tls_context(endpoint.url),
            transport=transport,
        )
        self.core.set_async_httpx_client(self._http)
        self.leases = AsyncLeases(self._http)
        self.events = AsyncEvents(self._http)
        self.offerings = AsyncOfferings(self._http)
        self.ssh_keys = AsyncSshKeys(self._http)
        self.volumes = AsyncVolumes(self._http)
        self.usage = AsyncUsageReports(self._http)
        self.groups = AsyncGroups(self._http)
        self.quotes = AsyncQuotes(self._http)
        self.costs = AsyncCostReports(self._http)
        self.budgets = AsyncBudgets(self._http)
        self.webhooks = AsyncWebhooks(self._http)
        self.keys = AsyncKeys(self._http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def call(self, operation: Callable[..., Awaitable[T | Problem | None]], *args: Any, **kwargs: Any) -> T:
        """The result of a generated function, for example `call(get_me.asyncio)`. Raises the errors of this package."""
        result = await operation(*args, client=self.core, **kwargs)
        if isinstance(result, Problem):  # the connection raises errors, so that no function returns one
            raise UnexpectedResponseError(result.status, result.detail)
        return result  # type: ignore[return-value]  # None is the result of an operation without a body

    async def iterate(
        self, operation: Callable[..., Awaitable[Page[T] | Problem | None]], *args: Any, **kwargs: Any
    ) -> AsyncIterator[T]:
        """All items of a generated list function, page after page, for example `iterate(list_keys.asyncio, tenant_id)`."""
        cursor: str | Unset | None = None
        while True:
            page: Page[T] = await self.call(operation, *args, **kwargs, **({"cursor": cursor} if cursor else {}))
            for item in page.items:
                yield item
            cursor = page.next_cursor
            if not cursor:
                return
