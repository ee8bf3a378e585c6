"""Who uses how much of what they may, for operators."""

import json
from decimal import Decimal
from typing import Any

from app.db.tenancy import tenant_use as statements
from app.domain.quotas import available
from app.services.context import ServiceContext
from app.services.cursors import PageRequest, RowPage, cut, last_id

_KIND = "tenant_use"


class TenantUseService:
    """Reads across tenants; the routes see to it that only operators do."""

    def __init__(self, context: ServiceContext) -> None:
        self._database = context.database

    async def page(self, page: PageRequest) -> RowPage:
        """Rows of `tenant_use.FIRST`."""
        after = last_id(page, _KIND, "tenant")
        query = statements.FIRST if after is None else statements.FOLLOWING
        rows = await self._database.fetch(None, query, after=after, limit=page.limit + 1)
        total = (await self._database.fetch(None, statements.COUNT))[0]["total"] if page.count else None
        return cut(rows, page, _KIND, total)


def stored_quotas(text: str) -> list[dict[str, Any]]:
    """`quotas` of a row, as those of QuotaService."""
    quotas = json.loads(text)
    rows: list[dict[str, Any]] = [
        {**quota, "limit": _decimal(quota["limit"]), "used": Decimal(quota["used"])} for quota in quotas
    ]
    return [{**row, "available": available(**row)} for row in sorted(rows, key=lambda row: str(row["resource"]))]


def _decimal(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)
