"""Tenants: operators create and change them. Every key reads its own tenant."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import to_jsonable_python
from sqlalchemy import RowMapping
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from app.db.core.ids import new_id
from app.db.tenancy import quotas as quota_statements
from app.db.tenancy import tenants as statements
from app.domain.ids import TenantId, is_typeid
from app.domain.quotas import GPUS, LEASES, SPEND_PER_HOUR
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id
from app.services.errors import FieldError, InvalidRequest, NameTaken, ResourceNotFound
from app.services.idempotency import Creation, IdempotencyKey, StoredAnswer, replay, store
from app.services.ops import audit
from app.services.preconditions import IfMatch
from app.services.principal import Principal
from app.services.suspension import end_leases_of
from app.services.totals import total_count

_KIND = "tenants"
_TERMS = ("max_ttl_seconds", "max_total_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantChange:
    """`values` holds only what is to change: name, max_ttl_seconds, max_total_seconds, status."""

    values: dict[str, Any]
    end_leases: bool = False


class TenantService:
    """Changes and lists need an operator, which the routes require. Every key may read its own tenant."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database
        self._settings = context.settings
        self._hints = context.hints

    async def create(self, principal: Principal, new: dict[str, Any], key: IdempotencyKey | None) -> Creation:
        """`new`: name and perhaps the two terms. Raises InvalidRequest, NameTaken."""
        values = {"id": new_id("tenant"), **self._default_terms(), **new}
        _check_terms(values)
        async with self._database.transaction(None) as connection:
            stored = await replay(connection, key)
            if stored is not None:
                return Creation(stored.response, replayed=True)
            row = (await connection.execute(statements.add(values))).mappings().first()
            if row is None:
                stored = await replay(connection, key)  # the name may be a twin's
                if stored is not None:
                    return Creation(stored.response, replayed=True)
                raise NameTaken(f"There is a tenant named {values['name']!r}.")
            await connection.execute(*quota_statements.ensure_rows(row["id"], (GPUS, LEASES, SPEND_PER_HOUR)))
            await audit.record(
                connection, principal, "tenant.create", target=row["id"], tenant_id=row["id"], after=_public(row)
            )
            await store(connection, key, StoredAnswer(status=201, response=to_jsonable_python(dict(row))))
        return Creation(dict(row), replayed=False)

    async def get(self, principal: Principal, tenant_id: str) -> dict[str, Any]:
        """A tenant: any for operators, the caller's own for others. Raises ResourceNotFound."""
        _check_id(tenant_id)
        if principal.tenant_id not in {None, tenant_id}:
            raise ResourceNotFound
        rows = await self._database.fetch(principal.tenant_id, statements.GET, tenant_id=tenant_id)
        if not rows:
            raise ResourceNotFound
        return rows[0]

    async def own(self, principal: Principal) -> dict[str, Any] | None:
        """The caller's tenant. None for operators."""
        return None if principal.tenant_id is None else await self.get(principal, principal.tenant_id)

    async def page(self, page: PageRequest) -> RowPage:
        """Newest first."""
        statement = statements.page(after=last_id(page, _KIND, "tenant"), limit=page.limit + 1)
        rows = await self._database.rows(None, statement)
        total = await total_count(self._database, None, page, partial(statements.page, after=None, limit=1))
        return cut(rows, page, _KIND, total)

    async def change(
        self, principal: Principal, tenant_id: str, change: TenantChange, if_match: IfMatch
    ) -> dict[str, Any]:
        """Raises ResourceNotFound, VersionConflict, InvalidRequest, NameTaken."""
        _check_id(tenant_id)
        async with self._database.transaction(None) as connection:
            before: Any = await _locked(connection, tenant_id)
            if_match.check(tenant_id, before["version"])
            _check_terms({**before, **change.values})
            after = await _write(connection, before, change.values)
            suspended = after["status"] == "suspended"
            ended = (
                await end_leases_of(connection, principal, TenantId(tenant_id), running=change.end_leases)
                if suspended
                else []
            )
            await audit.record(
                connection,
                principal,
                "tenant.change",
                target=tenant_id,
                tenant_id=tenant_id,
                before=_public(before),
                after={**_public(after), "leases_ended": len(ended)},
            )
        for lease_id in ended:
            self._hints.wake(lease_id)
        return dict(after)

    def _default_terms(self) -> dict[str, int]:
        return {
            "max_ttl_seconds": self._settings.default_max_ttl_seconds,
            "max_total_seconds": self._settings.default_max_total_seconds,
        }


async def _locked(connection: AsyncConnection, tenant_id: str) -> RowMapping:
    result = await connection.execute(statements.get(tenant_id, within=None, lock=True))
    row: RowMapping | None = result.mappings().first()
    if row is None:
        raise ResourceNotFound
    return row


async def _write(connection: AsyncConnection, before: RowMapping, values: dict[str, Any]) -> RowMapping:
    """The same values again are no change: the version stays."""
    if all(before[name] == value for name, value in values.items()):
        return before
    try:
        return (await connection.execute(statements.change(before["id"], values))).mappings().one()
    except IntegrityError as error:
        if "uq_tenant_name" in str(error.orig):
            raise NameTaken(f"There is a tenant named {values['name']!r}.") from None
        raise


def _check_id(tenant_id: str) -> None:
    if not is_typeid("tenant", tenant_id):
        raise ResourceNotFound


def _check_terms(values: dict[str, Any]) -> None:
    if values["max_ttl_seconds"] > values["max_total_seconds"]:
        text = f"must not exceed max_total_seconds, which is {values['max_total_seconds']}"
        raise InvalidRequest(errors=[FieldError("#/body/max_ttl_seconds", text)])


def _public(row: RowMapping) -> dict[str, Any]:
    return {name: row[name] for name in ("name", "status", *_TERMS)}
