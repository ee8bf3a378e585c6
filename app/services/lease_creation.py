"""POST /v1/leases: quota, lease, secret, claims, first event and idempotency record in one transaction."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import orjson
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.engine import fetch
from app.db.core.ids import new_id
from app.db.leases import reads, statements
from app.db.tenancy import quota_limits
from app.db.tenancy import quotas as quota_statements
from app.domain.events import LeaseQueued
from app.domain.ids import LeaseId, TenantId, is_typeid
from app.domain.placement import Excluded, Exclusion, Ranking, Requirements
from app.domain.quotas import Amounts, Shortage, json_amount, json_limit, shortages
from app.domain.reserved_offerings import term_of
from app.domain.ssh_keys import describe
from app.services.audit import record_lease
from app.services.context import ServiceContext
from app.services.errors import FieldError, InvalidRequest, NoOffering, QuotaExceeded, TenantSuspended
from app.services.idempotency import IdempotencyKey, Reply, repeatable
from app.services.lease_requests import CreateLease
from app.services.lease_ssh_keys import with_ssh_keys
from app.services.offering_cache import OfferingCache, Ranked
from app.services.principal import Principal, Role

_TRIES = 3
_ACCOUNTABLE = frozenset({Role.ADMIN, Role.OPERATOR})
"""Roles whose creations are in the audit trail. Members are mostly programs; the events of a lease record those."""
_EXAMPLES = 3
_PASSING = (Exclusion.ACCOUNT, Exclusion.NO_PRICE, Exclusion.CORDONED)
"""Exclusions that end on their own or through an operator. The same request may fit later."""


class _NoRoom(Exception):
    """The quota could not be reserved in full. The transaction rolls back, and the caller finds the reason."""


class LeaseCreation:
    """Admits leases."""

    def __init__(self, context: ServiceContext, catalogue: OfferingCache) -> None:
        self._context = context
        self._catalogue = catalogue

    @asynccontextmanager
    async def create(self, principal: Principal, new: CreateLease, key: IdempotencyKey | None) -> AsyncIterator[Reply]:
        """The lease in `queued`: a row of reads.CREATE, or the response to this key's first request.

        Raises TenantSuspended, InvalidRequest, NoOffering, QuotaExceeded and what `repeatable` raises.
        """
        tenant_id = whose(principal, new.tenant_id)
        snapshot = await self._catalogue.snapshot()
        ranked = snapshot.rank_for(new.requirements, term_of(new.request, tenant_id, snapshot.as_of))
        for _ in range(_TRIES):
            lease_id = LeaseId(new_id("lease"))
            try:
                async with (
                    self._context.database.transaction(principal.tenant_id) as connection,
                    repeatable(connection, key, 201) as reply,
                ):
                    if not reply.replayed:
                        work = _Work(connection, principal, tenant_id, lease_id)
                        reply.row = await work.create(new, ranked)
                        reply.location = f"/v1/leases/{lease_id}"
                    yield reply
            except _NoRoom:
                await self._make_room_or_refuse(principal, tenant_id, new, ranked.minimum)
            else:
                if not reply.replayed:
                    self._context.hints.wake(lease_id)
                return
        raise QuotaExceeded

    async def _make_room_or_refuse(
        self, principal: Principal, tenant_id: TenantId, new: CreateLease, asked: Amounts
    ) -> None:
        """Returns when another try may succeed: a quota row was missing, or another lease released its share."""
        async with self._context.database.transaction(principal.tenant_id) as connection:
            await check_terms(connection, tenant_id, new.request.ttl_seconds)
            short = await find_shortages(connection, tenant_id, asked)
            if short:
                raise quota_exceeded(short)
            await connection.execute(quota_statements.ensure_rows(tenant_id, asked))


@dataclass(frozen=True, slots=True)
class _Work:
    """One try within its transaction."""

    connection: AsyncConnection
    principal: Principal
    tenant_id: TenantId
    lease_id: LeaseId

    async def create(self, new: CreateLease, ranked: Ranked) -> Any:
        if not ranked.ranking.candidates:
            await check_terms(self.connection, self.tenant_id, new.request.ttl_seconds)
            check_image(new.requirements, ranked.ranking)
            raise no_offering(ranked.ranking, operator=self.principal.is_operator)
        new = await with_ssh_keys(self.connection, new, tenant_id=self.tenant_id, key_id=self.principal.key_id)
        [room] = await fetch(self.connection, quota_statements.ADMIT, self._quota(ranked.minimum))
        if not room["fits"]:
            raise _NoRoom
        values = self._values(new, ranked.minimum)
        rows = await fetch(self.connection, reads.CREATE, values)
        if not rows:
            await check_terms(self.connection, self.tenant_id, new.request.ttl_seconds)
            raise _NoRoom
        row = SimpleNamespace(**rows[0])
        if self.principal.role in _ACCOUNTABLE:
            keys = [describe(key) for key in new.request.ssh_public_keys]
            request = {**new.request.as_json(), "ssh_public_keys": keys}
            after = {"name": values["name"], "request": request, "expires_at": row.expires_at}
            await record_lease(self.connection, self.principal, "lease.create", row, after=after)
        return row

    def _quota(self, minimum: Amounts) -> dict[str, Any]:
        return {"tenant_id": self.tenant_id, "resources": list(minimum), "amounts": list(minimum.values())}

    def _values(self, new: CreateLease, minimum: Amounts) -> dict[str, Any]:
        name = new.request.name or f"lease-{self.lease_id[-8:]}"
        return {
            "lease_id": self.lease_id,
            **self._quota(minimum),
            "name": name,
            "labels": _text(new.request.labels),
            "request": _text(replace(new.request, name=name).as_json()),
            "on_interruption": str(new.request.on_interruption),
            "minimum_claim": _text({resource: str(amount) for resource, amount in minimum.items()}),
            "ttl_seconds": new.request.ttl_seconds,
            "ttl": timedelta(seconds=new.request.ttl_seconds),
            "wait": timedelta(seconds=new.request.wait_seconds),
            "startup_script": new.startup_script,
            "event_id": new_id("event"),
            "event_data": _text(LeaseQueued(name=name, reason=None).as_json()),
            "request_id": self.principal.request_id,
        }


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()


def whose(principal: Principal, named: str | None) -> TenantId:
    """The tenant to act for. Only operators name one, and they must. Raises InvalidRequest."""
    if principal.tenant_id is not None:
        if named in (None, principal.tenant_id):
            return principal.tenant_id
        raise _wrong_tenant("only operators may name a tenant")
    if named is None:
        raise _wrong_tenant("is required of operators: the tenant to act for")
    if not is_typeid("tenant", named):
        raise _wrong_tenant("is not the id of a tenant")
    return TenantId(named)


async def check_terms(connection: AsyncConnection, tenant_id: TenantId, ttl_seconds: int) -> None:
    """Raises TenantSuspended or InvalidRequest when the tenant may not start this."""
    row = (await connection.execute(statements.TERMS, {"tenant_id": tenant_id})).one_or_none()
    if row is None:
        raise _wrong_tenant("is not the id of a tenant")
    if row.status != "active":
        raise TenantSuspended
    if ttl_seconds > row.max_ttl_seconds:
        raise InvalidRequest(
            errors=[FieldError("/ttl_seconds", f"must be at most {row.max_ttl_seconds} for this tenant")]
        )


def check_image(requirements: Requirements, ranking: Ranking) -> None:
    """Raises InvalidRequest for an image that no account has. `ranking`: one without candidates."""
    if requirements.image is None or not ranking.excluded:
        return
    if not any(requirements.image in excluded.offering.images for excluded in ranking.excluded):
        raise InvalidRequest(
            errors=[
                FieldError("/image", f"no account has an image named {requirements.image}; GET /v1/images lists them")
            ]
        )


async def find_shortages(connection: AsyncConnection, tenant_id: TenantId, asked: Amounts) -> list[Shortage]:
    """The requested resources that exceed the quota now."""
    rows = (await connection.execute(quota_limits.of_tenant(tenant_id))).all()
    limits: Mapping[str, Decimal | None] = {row.resource: row.limit for row in rows}
    return shortages(limits, {row.resource: row.used for row in rows}, asked)


def quota_exceeded(short: list[Shortage]) -> QuotaExceeded:
    """Names every shortage. The members of the first one are also at the top level."""
    each = [
        {
            "resource": s.resource,
            "limit": json_limit(s.resource, s.limit),
            "used": json_amount(s.resource, s.used),
            "asked": json_amount(s.resource, s.asked),
        }
        for s in short
    ]
    said = "; ".join(_shortage(s) for s in short)
    return QuotaExceeded(f"The quota leaves no room: {said}.", extra={**each[0], "shortages": each})


def no_offering(ranking: Ranking, *, operator: bool) -> NoOffering:
    """Why nothing fits, one entry for each reason, the most frequent first, with a few examples."""
    if not ranking.excluded:
        said = "The catalogue is empty: no account has told its offerings yet."
        return NoOffering(said, extra={"excluded": []}, retryable=True)
    counts = Counter(str(one.code) for one in ranking.excluded)
    examples = _examples(ranking.excluded, operator=operator)
    excluded = [{"code": code, "count": n, "examples": examples[code]} for code, n in counts.most_common()]
    said = ", ".join(f"{code} ({n})" for code, n in counts.most_common())
    passing = any(code in counts for code in _PASSING)
    said = f"None of {len(ranking.excluded)} offerings fits: {said}."
    return NoOffering(said, extra={"excluded": excluded}, retryable=passing)


def exclusion_detail(one: Excluded, *, operator: bool) -> str:
    """The sentence for a person. Only operators see details of a provider account."""
    if one.code == "account" and not operator:
        return "its provider account is set aside at present"
    return one.detail


def _examples(excluded: Iterable[Excluded], *, operator: bool) -> dict[str, list[str]]:
    """A few per reason, each a different sentence."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for one in excluded:
        some = found[str(one.code)]
        if len(some) < _EXAMPLES:
            key = one.offering.key
            some.setdefault(f"{key.instance_type} in {key.zone}: {exclusion_detail(one, operator=operator)}")
    return {code: list(some) for code, some in found.items()}


def _shortage(short: Shortage) -> str:
    limit = "none is allowed" if short.limit is None else f"limit {json_amount(short.resource, short.limit)}"
    used, asked = (json_amount(short.resource, amount) for amount in (short.used, short.asked))
    return f"{short.resource} ({limit}, used {used}, asked {asked})"


def _wrong_tenant(detail: str) -> InvalidRequest:
    return InvalidRequest(errors=[FieldError("/tenant_id", detail)])
