"""Rules of FOCUS 1.2 on the columns of an export, as data: https://focus.finops.org/focus-specification/v1-2/.

`tools/validate_focus.py` runs the FinOps Foundation's own validator, which needs another version of Python.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

MANDATORY = frozenset(
    {
        *("BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodStart"),
        *("BillingPeriodEnd", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargePeriodStart"),
        *("ChargePeriodEnd", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingQuantity"),
        *("PricingUnit", "ProviderName", "PublisherName", "ServiceCategory", "ServiceName"),
    }
)
"""The columns that every FOCUS 1.2 dataset has."""


def _decimal(text: str) -> None:
    assert not set(text) - set("-.0123456789"), text
    assert Decimal(text).is_finite(), text


def _time(text: str) -> None:
    assert text == f"{datetime.fromisoformat(text):%Y-%m-%dT%H:%M:%SZ}"


def _json(text: str) -> None:
    found = json.loads(text)
    assert isinstance(found, dict)
    assert all(value is None or isinstance(value, str | int | float | bool) for value in found.values())


def _text(text: str) -> None:
    assert text.strip(), "an empty string"


@dataclass(frozen=True)
class ColumnRule:
    """`required`: never null here, since each row is the use of a service."""

    kind: Callable[[str], None] = _text
    required: bool = True
    allowed: frozenset[str] = frozenset()


def _one_of(*values: str) -> ColumnRule:
    return ColumnRule(allowed=frozenset(values))


_AMOUNT, _PRICE, _TIME = ColumnRule(_decimal), ColumnRule(_decimal, required=False), ColumnRule(_time)
_NULL = ColumnRule(required=False, allowed=frozenset({""}))

RULES: Mapping[str, ColumnRule] = {
    "AvailabilityZone": ColumnRule(),
    "BilledCost": _AMOUNT,
    "BillingAccountId": ColumnRule(),
    "BillingAccountName": ColumnRule(),
    "BillingAccountType": ColumnRule(),
    "BillingCurrency": _one_of("USD"),
    "BillingPeriodEnd": _TIME,
    "BillingPeriodStart": _TIME,
    "ChargeCategory": _one_of("Usage"),
    "ChargeClass": ColumnRule(required=False, allowed=frozenset({"", "Correction"})),
    "ChargeDescription": ColumnRule(),
    "ChargeFrequency": _one_of("One-Time", "Recurring", "Usage-Based"),
    "ChargePeriodEnd": _TIME,
    "ChargePeriodStart": _TIME,
    "CommitmentDiscountStatus": _NULL,
    "ConsumedQuantity": _AMOUNT,
    "ConsumedUnit": ColumnRule(),
    "ContractedCost": _AMOUNT,
    "ContractedUnitPrice": _PRICE,
    "EffectiveCost": _AMOUNT,
    "HostProviderName": ColumnRule(),
    "InvoiceId": _NULL,
    "InvoiceIssuerName": ColumnRule(),
    "ListCost": _AMOUNT,
    "ListUnitPrice": _PRICE,
    "PricingCategory": _one_of("Standard", "Dynamic", "Committed", "Other"),
    "PricingCurrency": _one_of("USD"),
    "PricingCurrencyContractedUnitPrice": _PRICE,
    "PricingCurrencyEffectiveCost": _AMOUNT,
    "PricingCurrencyListUnitPrice": _PRICE,
    "PricingQuantity": _AMOUNT,
    "PricingUnit": _one_of("Hours", "GiB-Hours"),
    "ProviderName": ColumnRule(),
    "PublisherName": ColumnRule(),
    "RegionId": ColumnRule(),
    "RegionName": ColumnRule(),
    "ResourceId": ColumnRule(),
    "ResourceName": ColumnRule(),
    "ResourceType": ColumnRule(),
    "ServiceCategory": _one_of("Compute", "Storage", "Networking"),
    "ServiceName": ColumnRule(),
    "ServiceProviderName": ColumnRule(),
    "ServiceSubcategory": _one_of("Virtual Machines", "Block Storage", "Network Infrastructure"),
    "SkuId": ColumnRule(),
    "SkuMeter": ColumnRule(),
    "SkuPriceDetails": ColumnRule(_json, required=False),
    "SkuPriceId": ColumnRule(),
    "SubAccountId": ColumnRule(),
    "SubAccountName": ColumnRule(),
    "SubAccountType": ColumnRule(),
    "Tags": ColumnRule(_json),
}

PRODUCTS = (
    ("ContractedUnitPrice", "ContractedCost"),
    ("ListUnitPrice", "ListCost"),
    ("PricingCurrencyListUnitPrice", "ListCost"),
)
"""Unit price times PricingQuantity is the cost, except in a correction."""
_EXACT = Decimal("0.000001")


def check(row: Mapping[str, str]) -> None:
    """Raises AssertionError when a row of an export breaks a rule."""
    for name, rule in RULES.items():
        value = row[name]
        assert value or not rule.required, f"{name} is null"
        assert not rule.allowed or value in rule.allowed, f"{name}: {value}"
        if value:
            rule.kind(value)
    assert row["BillingPeriodStart"] <= row["ChargePeriodStart"] < row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
    if row["ChargeClass"] == "Correction":
        return
    for price, cost in PRODUCTS:
        assert Decimal(row[price]) >= 0
        assert abs(Decimal(row[price]) * Decimal(row["PricingQuantity"]) - Decimal(row[cost])) < _EXACT, price
