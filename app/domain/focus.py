"""The FOCUS export: the columns of a row, in their order. FOCUS 1.2: https://focus.finops.org/focus-specification/v1-2/.

`ServiceProviderName` and `HostProviderName` are of FOCUS 1.3.
"""

from datetime import UTC, datetime

COLUMNS = (
    "AvailabilityZone",
    "BilledCost",
    "BillingAccountId",
    "BillingAccountName",
    "BillingAccountType",
    "BillingCurrency",
    "BillingPeriodEnd",
    "BillingPeriodStart",
    "ChargeCategory",
    "ChargeClass",
    "ChargeDescription",
    "ChargeFrequency",
    "ChargePeriodEnd",
    "ChargePeriodStart",
    "CommitmentDiscountStatus",
    "ConsumedQuantity",
    "ConsumedUnit",
    "ContractedCost",
    "ContractedUnitPrice",
    "EffectiveCost",
    "HostProviderName",
    "InvoiceId",
    "InvoiceIssuerName",
    "ListCost",
    "ListUnitPrice",
    "PricingCategory",
    "PricingCurrency",
    "PricingCurrencyContractedUnitPrice",
    "PricingCurrencyEffectiveCost",
    "PricingCurrencyListUnitPrice",
    "PricingQuantity",
    "PricingUnit",
    "ProviderName",
    "PublisherName",
    "RegionId",
    "RegionName",
    "ResourceId",
    "ResourceName",
    "ResourceType",
    "ServiceCategory",
    "ServiceName",
    "ServiceProviderName",
    "ServiceSubcategory",
    "SkuId",
    "SkuMeter",
    "SkuPriceDetails",
    "SkuPriceId",
    "SubAccountId",
    "SubAccountName",
    "SubAccountType",
    "Tags",
    "x_AttemptId",
    "x_AttemptN",
    "x_GpuCount",
    "x_GpuHours",
    "x_GpuModel",
    "x_IdleHours",
    "x_KeyId",
    "x_LeaseId",
    "x_PriceSource",
    "x_Revision",
    "x_VolumeId",
)


def month_period(text: str) -> tuple[datetime, datetime]:
    """The start and the end of a month such as 2026-11. Raises ValueError."""
    start = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
    if f"{start:%Y-%m}" != text:
        raise ValueError(text)
    following = (start.year + 1, 1) if start.month == 12 else (start.year, start.month + 1)
    return start, start.replace(year=following[0], month=following[1])
