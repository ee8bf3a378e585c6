"""From the Authorization header to a principal, within the rate limits."""

from typing import Any

from fastapi import Request

from app.api.rate_limits import Decision, RateLimiter
from app.domain.ids import TenantId
from app.services.authentication import Authenticator, CheckedKey
from app.services.errors import RateLimited, TooManyFailedLogins, Unauthenticated
from app.services.principal import Principal

REQUEST_ID = "gpulease.request_id"
RATE = "gpulease.rate"
"""Scope keys: the request's id, and the (RateLimit, RateLimit-Policy) values for its answer."""


class Gate:
    """What every secured request passes first. `requests` counts per tenant, `failures` failed logins per address.

    `strangers` counts refused one-time tokens per address, apart from logins: many VMs may share an address.
    """

    def __init__(
        self, authenticator: Authenticator, *, requests: RateLimiter, failures: RateLimiter, strangers: RateLimiter
    ) -> None:
        self._authenticator = authenticator
        self._strangers = strangers
        self._requests = requests
        self._failures = failures

    async def admit(self, request: Request) -> Principal:
        """Raises Unauthenticated, TooManyFailedLogins, RateLimited."""
        address = _address(request)
        key = await self._check(bearer(request), address or "")
        self._count(request.scope, key)
        return Principal(
            key_id=key.key_id,
            key_name=key.name,
            role=key.role,
            tenant_id=TenantId(key.tenant_id) if key.tenant_id is not None else None,
            address=address,
            request_id=request.scope[REQUEST_ID],
        )

    async def check_again(self, request: Request) -> None:
        """Raises Unauthenticated when a key that was good at the beginning of a long answer is so no more."""
        await self._authenticator.check(bearer(request) or "")

    def let_stranger_in(self, request: Request) -> None:
        """Raises TooManyFailedLogins for an address of too many refused tokens."""
        left = self._strangers.peek(_address(request) or "")
        if not left.allowed:
            raise TooManyFailedLogins(headers=_wait(left))

    def note_refused_stranger(self, request: Request) -> None:
        """Counts a refused token."""
        self._strangers.hit(_address(request) or "")

    async def _check(self, text: str | None, address: str) -> CheckedKey:
        """A key that worked a moment ago is let through even from a locked address: others share it perhaps."""
        left = self._failures.peek(address)
        if not left.allowed and not (text is not None and self._authenticator.has_worked(text)):
            raise TooManyFailedLogins(headers=_wait(left))
        try:
            return await self._authenticator.check(text or "")
        except Unauthenticated:
            self._failures.hit(address)
            raise

    def _count(self, scope: Any, key: CheckedKey) -> None:
        decision = self._requests.hit(key.tenant_id or key.key_id)
        scope[RATE] = (self._requests.header(decision), self._requests.policy)
        if not decision.allowed:
            raise RateLimited(headers=_wait(decision))


def _address(request: Request) -> str | None:
    return request.client.host if request.client is not None else None


def bearer(request: Request) -> str | None:
    """The token of the Authorization header, None when there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _wait(decision: Decision) -> dict[str, str]:
    return {"Retry-After": str(decision.reset)}
