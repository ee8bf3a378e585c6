"""From the Authorization header to a principal, within the rate limits."""

from asyncio import Semaphore
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any

from fastapi import Request

from app.api.http.fair_queue import RequestQueue, Turn
from app.api.http.rate_limits import Decision, RateLimiter
from app.domain.client_address import address_block
from app.domain.ids import TenantId
from app.services.authentication import Authenticator, CheckedKey
from app.services.errors import InvalidToken, RateLimited, TooManyFailedLogins, Unauthenticated
from app.services.principal import Principal

REQUEST_ID = "gpulease.request_id"
RATE = "gpulease.rate"
TURN = "gpulease.turn"
"""Scope keys: the request's id, the (RateLimit, RateLimit-Policy) values for its answer, and its turn."""


SUSPICIOUS_LOOKUPS = 2
"""Keys and tokens from locked-out addresses that are looked up in the database at the same time; further ones wait."""

_TOO_MANY_CHANGES = "The tenant has made too many changes; leases can still be read and released."
_TOO_MANY_REPORTS = "The VM has sent too many reports of its GPUs."


class Gate:
    """What every secured request passes first, and the `queue` for its turn. `requests` and `writes` count per tenant, `failures` failed logins per address.

    `strangers` counts refused tokens of VMs per address, apart from logins: many VMs may share an address. `reports`
    counts the rare reports of an agent per attempt.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        requests: RateLimiter,
        writes: RateLimiter,
        failures: RateLimiter,
        strangers: RateLimiter,
        reports: RateLimiter,
        queue: RequestQueue,
    ) -> None:
        self._queue = queue
        self._authenticator = authenticator
        self._writes = writes
        self._strangers = strangers
        self._reports = reports
        self._requests = requests
        self._failures = failures
        self._suspicious = Semaphore(SUSPICIOUS_LOOKUPS)

    async def admit(self, request: Request, cost: int = 1) -> Principal:
        """`cost`: as how many requests this one counts. Raises Unauthenticated, TooManyFailedLogins, RateLimited."""
        address = _address(request)
        key = await self._check(bearer(request), address_block(address))
        self._count(request.scope, key, cost)
        return Principal(
            key_id=key.key_id,
            key_name=key.name,
            role=key.role,
            tenant_id=TenantId(key.tenant_id) if key.tenant_id is not None else None,
            address=address,
            request_id=request.scope[REQUEST_ID],
        )

    def count_write(self, principal: Principal) -> None:
        """The principal's tenant wants to change something. A refused change counts too: it costs what a change costs.

        Raises RateLimited when the tenant may change nothing more for now.
        """
        if principal.tenant_id is None:
            return
        decision = self._writes.hit(principal.tenant_id)
        if not decision.allowed:
            raise RateLimited(_TOO_MANY_CHANGES, headers=_wait(decision))

    async def check_again(self, request: Request, principal: Principal) -> None:
        """Call it before each part of a response that is sent after a wait.

        Raises Unauthenticated when the key has become invalid since, or has another role.
        """
        key = await self._authenticator.check(bearer(request) or "")
        if (key.role, key.tenant_id) != (principal.role, principal.tenant_id):
            raise Unauthenticated

    async def admit_token(self, request: Request, is_known: Callable[[str], Awaitable[bool]]) -> None:
        """Raises InvalidToken, TooManyFailedLogins. A token that is known is let in from a locked-out address too."""
        left = self._strangers.peek(address_block(_address(request)))
        async with self._lookups(suspicious=not left.allowed):
            if await is_known(bearer(request) or ""):
                return
        self.count_refused_token(request)
        if not left.allowed:
            raise TooManyFailedLogins(headers=_wait(left))
        raise InvalidToken

    def has_refused_many(self, request: Request) -> bool:
        """Whether the caller's address has sent so many refused tokens that `admit_token` must be asked first."""
        return not self._strangers.peek(address_block(_address(request))).allowed

    def count_refused_token(self, request: Request) -> None:
        """It counts for the caller's address."""
        self._strangers.hit(address_block(_address(request)))

    def count_report(self, attempt_id: str) -> None:
        """An agent sends a report. Raises RateLimited for too many of them."""
        decision = self._reports.hit(attempt_id)
        if not decision.allowed:
            raise RateLimited(_TOO_MANY_REPORTS, headers=_wait(decision))

    async def _check(self, text: str | None, address: str) -> CheckedKey:
        """A valid key is let in from a locked-out address too: others may share the address. Any other counts there."""
        left = self._failures.peek(address)
        try:
            async with self._lookups(suspicious=not left.allowed and not self._authenticator.has_worked(text or "")):
                return await self._authenticator.check(text or "")
        except Unauthenticated:
            self._failures.hit(address)
            if left.allowed:
                raise
            raise TooManyFailedLogins(headers=_wait(left)) from None

    def _lookups(self, *, suspicious: bool) -> AbstractAsyncContextManager[None]:
        """Suspicious callers share a few look-ups, so that a flood of made-up secrets leaves the database to others."""
        return self._suspicious if suspicious else nullcontext()

    def turn(self, request: Request, principal: Principal, *, costly: bool) -> Turn:
        """The request's turn among those of its tenant, or of its key where that is an operator's."""
        turn = self._queue.turn(principal.tenant_id or principal.key_id, costly=costly)
        request.scope[TURN] = turn
        return turn

    def outside_queue(self) -> AbstractContextManager[None]:
        """For a request without a key that costly requests let run first: the health check."""
        return self._queue.outside()

    def _count(self, scope: Any, key: CheckedKey, cost: int) -> None:
        decision = self._requests.hit(key.tenant_id or key.key_id, cost)
        scope[RATE] = (self._requests.header(decision), self._requests.policy)
        if not decision.allowed:
            raise RateLimited(headers=_wait(decision))


def turn_of(request: Request) -> Turn:
    """The turn of a secured request."""
    turn: Turn = request.scope[TURN]
    return turn


def _address(request: Request) -> str | None:
    return request.client.host if request.client is not None else None


def bearer(request: Request) -> str | None:
    """The token of the Authorization header, None when there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _wait(decision: Decision) -> dict[str, str]:
    return {"Retry-After": str(decision.reset)}
