"""The FOCUS export: PostgreSQL writes the CSV of a page of usage records.

A record makes a row for the machine, one for its network disks and one for its public address, where they cost money. A record
of a volume makes the row of its disk alone.
"""

from dataclasses import dataclass
from datetime import datetime

from app.db.core.tenant_scope import EVERY_TENANT
from app.domain.focus import COLUMNS
from app.domain.offerings import Market
from app.domain.spreadsheets import FORMULA
from app.domain.usage import VOLUME

_TIME = """to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')"""
_AMOUNT = "trim_scale(round({}, 12))"
_SERVICE = "'gpulease'"
_INERT = f"CASE WHEN {{0}} ~ '{FORMULA}' THEN chr(39) || {{0}} ELSE {{0}} END"
"""Names that people choose, as `inert_text` writes them."""

_VALUES = {
    "AvailabilityZone": "r.zone",
    "BilledCost": "a.cost",
    "BillingAccountId": "r.provider || ':' || r.account",
    "BillingAccountName": _INERT.format("r.account"),
    "BillingAccountType": "'Cloud Account'",
    "BillingCurrency": "'USD'",
    "BillingPeriodEnd": "$9::text",
    "BillingPeriodStart": "$8::text",
    "ChargeCategory": "'Usage'",
    "ChargeClass": "CASE WHEN a.price IS NULL OR (r.revision > 0 AND r.created_at >= $2::timestamptz) THEN 'Correction' END",
    "ChargeDescription": "c.kind || ': ' || r.instance_type || ' (' || r.market || ') in ' || r.region",
    "ChargeFrequency": "'Usage-Based'",
    "ChargePeriodEnd": "r.ends",
    "ChargePeriodStart": "r.starts",
    "CommitmentDiscountStatus": "NULL",
    "ConsumedQuantity": "a.quantity",
    "ConsumedUnit": "c.unit",
    "ContractedCost": "a.cost",
    "ContractedUnitPrice": "a.price",
    "EffectiveCost": "a.cost",
    "HostProviderName": "r.provider",
    "InvoiceId": "NULL",
    "InvoiceIssuerName": _SERVICE,
    "ListCost": "a.listed",
    "ListUnitPrice": "a.list_price",
    "PricingCategory": f"CASE WHEN r.market = '{Market.SPOT}' AND c.place = 1 THEN 'Dynamic' ELSE 'Standard' END",
    "PricingCurrency": "'USD'",
    "PricingCurrencyContractedUnitPrice": "a.price",
    "PricingCurrencyEffectiveCost": "a.cost",
    "PricingCurrencyListUnitPrice": "a.list_price",
    "PricingQuantity": "a.quantity",
    "PricingUnit": "c.unit",
    "ProviderName": _SERVICE,
    "PublisherName": "r.provider",
    "RegionId": "r.region",
    "RegionName": "r.region",
    "ResourceId": "coalesce(r.instance_id, r.attempt_id)",
    "ResourceName": _INERT.format("r.lease_name"),
    "ResourceType": "c.kind",
    "ServiceCategory": "c.category",
    "ServiceName": "c.service",
    "ServiceProviderName": _SERVICE,
    "ServiceSubcategory": "c.subcategory",
    "SkuId": "r.provider || '/' || c.sku",
    "SkuMeter": "c.kind || ' ' || c.unit",
    "SkuPriceDetails": """
        CASE WHEN c.place = 1 THEN
            jsonb_build_object('InstanceType', r.instance_type, 'GpuCount', r.gpu_count, 'x_GpuModel', r.gpu_model)
        END
    """,
    "SkuPriceId": "r.provider || '/' || r.region || '/' || c.sku || '/' || r.market",
    "SubAccountId": "r.tenant_id",
    "SubAccountName": _INERT.format("t.name"),
    "SubAccountType": "'Tenant'",
    "Tags": "r.labels",
    "x_AttemptId": "r.attempt_id",
    "x_AttemptN": "r.n",
    "x_GpuCount": "r.gpu_count",
    "x_GpuHours": f"CASE WHEN c.place = 1 THEN {_AMOUNT.format('r.gpu_hours')} END",
    "x_GpuModel": "r.gpu_model",
    "x_IdleHours": f"CASE WHEN c.place = 1 THEN {_AMOUNT.format('r.idle_gpu_hours')} END",
    "x_KeyId": "r.key_id",
    "x_LeaseId": f"CASE WHEN r.instance_type <> '{VOLUME}' THEN r.lease_id END",
    "x_PriceSource": "r.price_source",
    "x_Revision": "r.revision",
    "x_VolumeId": f"CASE WHEN r.instance_type = '{VOLUME}' THEN r.lease_id END",
}
_CHARGES = """
    (1, 'GPU Machines', 'Virtual Machine', 'Compute', 'Virtual Machines', r.instance_type, r.compute_cost, r.list_cost,
     r.seconds / 3600, 'Hours'),
    (2, 'Network Disks', 'Network Disk', 'Storage', 'Block Storage', 'disk', r.disk_cost, r.disk_cost,
     CASE WHEN r.disk_gib_hours = 0 THEN r.seconds / 3600 ELSE r.disk_gib_hours END,
     CASE WHEN r.disk_gib_hours = 0 THEN 'Hours' ELSE 'GiB-Hours' END),
    (3, 'Public Addresses', 'Public Address', 'Networking', 'Network Infrastructure', 'address', r.address_cost, r.address_cost,
     r.seconds / 3600, 'Hours')
"""
_PAGE = """
    WITH page AS MATERIALIZED (
        SELECT * FROM usage_record
        WHERE starts_at >= $1::timestamptz AND starts_at < $2::timestamptz AND starts_at >= $3::timestamptz
          AND (starts_at, attempt_id, revision) > ($3::timestamptz, $4::text, $5::int) AND {owned}
        ORDER BY starts_at, attempt_id, revision LIMIT $6::int),
    hours AS MATERIALIZED (
        SELECT starts_at AS hour, {starts} AS starts, {ends} AS ends FROM page GROUP BY starts_at)
    SELECT {columns}
    FROM (SELECT * FROM page JOIN hours ON hour = starts_at) r JOIN tenant t ON t.id = r.tenant_id
    CROSS JOIN LATERAL (
        SELECT * FROM (VALUES {charges}) v (place, service, kind, category, subcategory, sku, cost, listed, quantity, unit)
        WHERE (place = 1 AND r.n > 0) OR cost <> 0
    ) c
    CROSS JOIN LATERAL (
        SELECT {cost} AS cost, {listed} AS listed, {quantity} AS quantity,
            CASE WHEN {priced} THEN {price} END AS price, CASE WHEN {priced} THEN {list_price} END AS list_price
        OFFSET 0
    ) a
    ORDER BY r.starts_at, r.attempt_id, r.revision, c.place
"""
_PRICED = "c.quantity <> 0 AND c.cost * c.quantity >= 0 AND c.listed * c.quantity >= 0"
"""A price follows from amount and quantity. It does not where only the price was corrected."""
_AMOUNTS = {
    "cost": _AMOUNT.format("c.cost"),
    "listed": _AMOUNT.format("c.listed"),
    "quantity": _AMOUNT.format("c.quantity"),
    "price": _AMOUNT.format("c.cost / c.quantity"),
    "list_price": _AMOUNT.format("c.listed / c.quantity"),
    "priced": _PRICED,
}
_TIMES = {"starts": _TIME.format("starts_at"), "ends": _TIME.format("(starts_at + interval '1 hour')")}
_COLUMNS = ", ".join(f'{_VALUES[name]} AS "{name}"' for name in COLUMNS)


@dataclass(frozen=True, slots=True)
class FocusPosition:
    """The last record of a page."""

    starts_at: datetime
    attempt_id: str = ""
    revision: int = 0


def page(
    period: tuple[datetime, datetime], after: FocusPosition, *, within: str | None, limit: int
) -> tuple[str, tuple[object, ...]]:
    """SQL and arguments: COLUMNS of up to `limit` records in the order of time. `within`: the tenant; None: all."""
    owned = f"'{EVERY_TENANT}' = $7::text" if within is None else "tenant_id = $7::text"
    sql = _PAGE.format(owned=owned, columns=_COLUMNS, charges=_CHARGES, **_AMOUNTS, **_TIMES)
    position = (after.starts_at, after.attempt_id, after.revision)
    limits = (f"{moment:%Y-%m-%dT%H:%M:%SZ}" for moment in period)
    return sql, (*period, *position, limit, within or EVERY_TENANT, *limits)
