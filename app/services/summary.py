"""A tenant at a glance."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from app.db.core.tenant_scope import parameter
from app.db.leases import totals
from app.db.operations.attention import attention
from app.db.usage import volume_records
from app.services.context import ServiceContext, stuck_after
from app.services.money.usage import month_to_date, tenant_of
from app.services.principal import Principal

_FAILED_WITHIN = timedelta(days=1)
_MOST = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSummary:
    """`counts`: rows of totals.by_state. `volume_rate`: USD an hour of volumes.

    `attention`: rows of `attention`, `attention_total` of them without the limit.
    """

    as_of: datetime
    tenant_id: str | None
    counts: Sequence[Any]
    volume_rate: Decimal
    spend_of_month: Decimal
    attention: Sequence[Any]
    attention_total: int


class SummaryService:
    """Reads what a tenant has now. The sums of finished days make the spend of the month cheap."""

    def __init__(self, context: ServiceContext) -> None:
        settings = context.settings
        self._database = context.database
        self._attention = {
            every_tenant: attention(
                stuck_after(settings),
                soon=timedelta(seconds=max(settings.expiry_warnings_seconds, default=0)),
                failed_within=_FAILED_WITHIN,
                limit=_MOST,
                every_tenant=every_tenant,
            )
            for every_tenant in (False, True)
        }

    async def of_tenant(self, principal: Principal, tenant_id: str | None) -> TenantSummary:
        """`tenant_id` None: the caller's tenant, for operators all tenants. Raises InvalidRequest for another tenant."""
        within = tenant_of(principal, tenant_id)
        scope = parameter(within)
        async with self._database.transaction(principal.tenant_id, read_only=True) as connection:
            as_of, spend = await month_to_date(connection, within)
            counts = (
                await connection.execute(totals.by_state(every_tenant=within is None), {**scope, "as_of": as_of})
            ).all()
            volume_rate = (
                await connection.execute(volume_records.run_rate(every_tenant=within is None), scope)
            ).scalar_one()
            rows = (await connection.execute(self._attention[within is None], scope)).all()
        return TenantSummary(
            as_of=as_of,
            tenant_id=within,
            counts=counts,
            volume_rate=Decimal(volume_rate),
            spend_of_month=spend,
            attention=rows,
            attention_total=rows[0].total if rows else 0,
        )
