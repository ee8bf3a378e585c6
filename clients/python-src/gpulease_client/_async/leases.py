"""Leases: from the request to the release."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from gpulease_client._async.resource import AsyncResource
from gpulease_client.core.models import Attempt, BulkRelease, Lease, LeasePlan, NewLease
from gpulease_client.errors import LeaseEndedError, WaitTimeoutError
from gpulease_client.event import Event, parse_event
from gpulease_client.paths import path_of
from gpulease_client.responses import body_of
from gpulease_client.retries import KEY

ENDED = "ended"
_LONGEST_POLL = 25
_EXTRA = 20.0
"""Seconds by which a long poll may be late before its connection counts as broken."""

NewLeaseLike = NewLease | Mapping[str, Any] | None
OnChange = Callable[[Lease], None]
Until = str | Callable[[Lease], bool]


class AsyncLeases(AsyncResource):
    """`/v1/leases`. A request is a `NewLease`, a mapping, or keyword arguments with the names of the API."""

    async def create(
        self,
        request: NewLeaseLike = None,
        /,
        *,
        wait: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109 - part of the waiting, and the same without asyncio
        on_change: OnChange | None = None,
        idempotency_key: str | None = None,
        **fields: Any,
    ) -> Lease:
        """Creates a lease: `create(gpu={"model": "A10G"}, ttl_seconds=3600)`. The same key returns the same lease.

        `wait`: returns when the lease is active; see `wait` for `timeout`, `on_change` and the errors.
        """
        headers = {KEY: idempotency_key} if idempotency_key else {}
        lease = await self._call(Lease, "POST", "/v1/leases", json=body_of(request, fields), headers=headers)
        if not wait:
            return lease
        return await self.wait(lease, timeout=timeout, on_change=on_change)

    async def plan(self, request: NewLeaseLike = None, /, **fields: Any) -> LeasePlan:
        """What a request would launch and cost. Creates nothing."""
        return await self._call(LeasePlan, "POST", "/v1/leases/plan", json=body_of(request, fields))

    async def get(self, lease_id: str) -> Lease:
        """One lease."""
        return await self._call(Lease, "GET", path_of("/v1/leases", lease_id))

    def list(self, **filters: Any) -> AsyncIterator[Lease]:
        """All leases that match, page after page. Filters are the query parameters, for example `state`."""
        return self._iterate(Lease.from_dict, "/v1/leases", filters)

    async def wait(
        self,
        lease: Lease | str,
        until: Until = "active",
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for create
        on_change: OnChange | None = None,
    ) -> Lease:
        """The lease, once it is in the state `until`, has ended for `until="ended"`, or fulfils a function. Uses long polls.

        `on_change` receives the lease at the start and after each change. Raises LeaseEndedError when the lease ends
        without that state, and WaitTimeoutError after `timeout` seconds. Neither releases the lease.
        """
        end = None if timeout is None else time.monotonic() + timeout
        current = lease if isinstance(lease, Lease) else await self.get(lease)
        seen = None
        while True:
            if on_change is not None and current.version != seen:
                on_change(current)
            if _is_reached(current, until):
                return current
            if current.terminal:
                raise LeaseEndedError(current)
            left = _LONGEST_POLL if end is None else min(_LONGEST_POLL, end - time.monotonic())
            if left <= 0:
                raise WaitTimeoutError(current, until if isinstance(until, str) else "as requested")
            seen = current.version
            current = await self._poll(current, max(1, round(left)))

    async def extend(self, lease_id: str, **fields: Any) -> Lease:
        """Extends the term: `extend(lease.id, extend_by_seconds=3600)`."""
        return await self._call(Lease, "POST", path_of("/v1/leases", lease_id, "extend"), json=body_of(None, fields))

    async def keep(self, lease_id: str, seconds: int) -> Lease:
        """Holds idleness off: the lease does not count as idle for so long from now."""
        return await self._call(Lease, "POST", path_of("/v1/leases", lease_id, "keep"), json={"seconds": seconds})

    async def update(self, lease_id: str, **fields: Any) -> Lease:
        """Changes name or labels."""
        return await self._call(Lease, "PATCH", path_of("/v1/leases", lease_id), json=body_of(None, fields))

    async def reboot(self, lease_id: str) -> Lease:
        """Restarts the VM."""
        return await self._call(Lease, "POST", path_of("/v1/leases", lease_id, "reboot"))

    async def release(self, lease_id: str) -> Lease:
        """Requests the end of the lease. `wait(lease, "ended")` returns when nothing is billed any longer."""
        return await self._call(Lease, "DELETE", path_of("/v1/leases", lease_id))

    async def release_many(self, **selection: Any) -> BulkRelease:
        """Requests the end of several leases: `release_many(label=["team:vision"])`, `ids=[…]` or `all=True`; `dry_run=True` only lists them."""
        return await self._call(BulkRelease, "POST", "/v1/leases/release", json=body_of(None, selection))

    def attempts(self, lease_id: str) -> AsyncIterator[Attempt]:
        """The launch attempts of a lease, in order."""
        return self._iterate(Attempt.from_dict, path_of("/v1/leases", lease_id, "attempts"), {})

    def events(self, lease_id: str, **filters: Any) -> AsyncIterator[Event]:
        """The events of a lease, in order."""
        return self._iterate(parse_event, path_of("/v1/leases", lease_id, "events"), filters)

    @asynccontextmanager
    async def temporary(
        self,
        request: NewLeaseLike = None,
        /,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - as for create
        on_change: OnChange | None = None,
        **fields: Any,
    ) -> AsyncIterator[Lease]:
        """An active lease for a `with` block. Its release is requested at the end, also after an error."""
        lease = await self.create(request, **fields)
        try:
            yield await self.wait(lease, timeout=timeout, on_change=on_change)
        finally:
            await self.release(lease.id)

    async def _poll(self, lease: Lease, seconds: int) -> Lease:
        """The lease after its next change, or after so many seconds."""
        query = {"poll_seconds": seconds, "if_version": lease.version}
        path = path_of("/v1/leases", lease.id)
        return await self._call(Lease, "GET", path, params=query, timeout=seconds + _EXTRA)


def _is_reached(lease: Lease, until: Until) -> bool:
    if callable(until):
        return until(lease)
    return lease.state == until or (until == ENDED and lease.terminal)
