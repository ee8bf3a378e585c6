"""Limits: set by operators, read by their tenant."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.tenancy import quota_limits as statements
from app.db.tenancy import tenants as tenant_statements
from app.domain.ids import is_typeid
from app.domain.quotas import available, json_limit
from app.services.context import ServiceContext
from app.services.errors import InvalidRequest, ResourceNotFound
from app.services.ops import audit
from app.services.preconditions import IfMatch, list_tag
from app.services.principal import Principal

Limits = Mapping[str, Decimal | None]


class QuotaService:
    """Rows are `resource, limit, used, available`."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def own(self, principal: Principal) -> list[dict[str, Any]]:
        """Raises InvalidRequest for operators, who have no tenant."""
        if principal.tenant_id is None:
            raise InvalidRequest("An operator's key has no tenant: ask /v1/tenants/{id}/quotas.")
        return await self.of_tenant(principal, principal.tenant_id)

    async def of_tenant(self, principal: Principal, tenant_id: str) -> list[dict[str, Any]]:
        """Raises ResourceNotFound."""
        _check_id(tenant_id)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            await _check_tenant(connection, principal, tenant_id, lock=False)
            return await _rows(connection, tenant_id)

    async def replace_limits(
        self, principal: Principal, tenant_id: str, limits: Limits, if_match: IfMatch
    ) -> list[dict[str, Any]]:
        """Makes `limits` the only limits. Raises ResourceNotFound, VersionConflict."""
        return await self._write(principal, tenant_id, limits, if_match, keep=False)

    async def change_limits(
        self, principal: Principal, tenant_id: str, limits: Limits, if_match: IfMatch
    ) -> list[dict[str, Any]]:
        """Writes `limits` and keeps the others. Raises ResourceNotFound, VersionConflict."""
        return await self._write(principal, tenant_id, limits, if_match, keep=True)

    async def _write(
        self, principal: Principal, tenant_id: str, limits: Limits, if_match: IfMatch, *, keep: bool
    ) -> list[dict[str, Any]]:
        """A limit below the current use ends no lease."""
        _check_id(tenant_id)
        async with self._database.transaction(principal.tenant_id) as connection:
            await _check_tenant(connection, principal, tenant_id, lock=True)
            before = await _rows(connection, tenant_id)
            if_match.check_tag(tag(before))
            others: Limits = {} if keep else {row["resource"]: None for row in before}
            written = {**others, **limits}
            if written:
                await connection.execute(statements.set_limits(tenant_id, written))
            after = await _rows(connection, tenant_id)
            await audit.record(
                connection,
                principal,
                "quota.set",
                target=tenant_id,
                tenant_id=tenant_id,
                before=_limits(before),
                after=_limits(after),
            )
        return after


async def _rows(connection: AsyncConnection, tenant_id: str) -> list[dict[str, Any]]:
    rows: Any = (await connection.execute(statements.of_tenant(tenant_id))).mappings()
    return [{**row, "available": available(**row)} for row in rows]


def tag(rows: list[dict[str, Any]]) -> str:
    """The ETag of a tenant's quotas: changes with limits and with what is used."""
    return list_tag((), also=repr([(row["resource"], row["limit"], row["used"]) for row in rows]))


def _limits(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {row["resource"]: json_limit(row["resource"], row["limit"]) for row in rows}


async def _check_tenant(connection: AsyncConnection, principal: Principal, tenant_id: str, *, lock: bool) -> None:
    result = await connection.execute(tenant_statements.get(tenant_id, within=principal.tenant_id, lock=lock))
    if result.first() is None:
        raise ResourceNotFound


def _check_id(tenant_id: str) -> None:
    if not is_typeid("tenant", tenant_id):
        raise ResourceNotFound
