"""Charges of FOCUS files, in the forms that providers write."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from app.domain.invoices import FocusDialect, InvalidCharge, missing_columns, parse, provider_named

DIALECT = FocusDialect(
    names=frozenset({"cloud"}), vm=re.compile(r"vm/(\w+)"), tag_prefixes=("user:", "user_"), usd_cost="x_Usd"
)
LINE: dict[str, Any] = {
    "billingaccountid": "payer",
    "billingperiodstart": "2026-11-01T00:00:00Z",
    "chargeperiodstart": "2026-11-05T23:00:00Z",
    "chargecategory": "Usage",
    "effectivecost": "1.25",
    "billingcurrency": "USD",
    "resourceid": "vm/ABC",
    "tags": "",
}


def charge(**changes: Any) -> Any:
    return parse({**LINE, **changes}, DIALECT)


def test_a_line_is_a_charge_of_a_day() -> None:
    found = charge()
    assert (found.day, found.month, found.cost) == (date(2026, 11, 5), date(2026, 11, 1), Decimal("1.25"))
    assert (found.resource_id, found.is_vm, found.is_relevant) == ("abc", True, True)
    other = charge(resourceid="Disk/ABC")
    assert (other.resource_id, other.is_vm, other.is_relevant) == ("Disk/ABC", False, False)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-05T02:00Z",
        "2026-11-05 02:00:00 UTC",
        "2026-11-05 02:00:00",
        "2026-11-05T02:00:00.000Z",
        "2026-11-04T22:00:00-04:00",
    ],
)
def test_times_come_in_several_forms(text: str) -> None:
    assert charge(chargeperiodstart=text).day == date(2026, 11, 5)
    assert charge(chargeperiodstart=datetime(2026, 11, 5, 2, tzinfo=UTC)).day == date(2026, 11, 5)


@pytest.mark.parametrize(
    "tags",
    [
        '{"gpulease-installation": "lab", "gpulease-lease": "lease_1"}',
        '"gpulease-installation": "lab", "gpulease-lease": "lease_1"',
        '{"user_gpulease_installation": "lab", "user:gpulease-lease": "lease_1", "aws:x": null}',
        '[{"key": "gpulease-installation", "value": "lab"}, {"key": "gpulease-lease", "value": "lease_1"}]',
        [("gpulease-installation", "lab"), ("gpulease-lease", "lease_1")],
        {"gpulease-installation": "lab", "gpulease-lease": "lease_1"},
    ],
)
def test_tags_come_in_several_forms(tags: Any) -> None:
    found = charge(tags=tags, resourceid="disk")
    assert (found.installation, found.lease_id, found.is_relevant) == ("lab", "lease_1", True)


@pytest.mark.parametrize(
    ("changes", "column"),
    [
        ({"tags": "[1]"}, "Tags"),
        ({"tags": "7"}, "Tags"),
        ({"effectivecost": ""}, "EffectiveCost"),
        ({"billingaccountid": None}, "BillingAccountId"),
        ({"billingcurrency": "EUR"}, "BillingCurrency"),
        ({"billingcurrency": "EUR", "x_usd": "much"}, "x_Usd"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_by_its_column(changes: dict[str, Any], column: str) -> None:
    with pytest.raises(InvalidCharge) as invalid:
        charge(**changes)
    assert invalid.value.column == column


def test_a_column_in_dollars_takes_the_place_of_another_currency() -> None:
    assert charge(billingcurrency="EUR", x_usd="1.5").cost == Decimal("1.5")
    assert missing_columns({*LINE, "x_usd"} - {"effectivecost", "billingcurrency"}, DIALECT) == []
    assert missing_columns(set(LINE) - {"tags"}, DIALECT) == ["Tags"]


def test_the_provider_is_named_by_either_column() -> None:
    assert provider_named({"providername": "Cloud"}, {"it": DIALECT}) == "it"
    assert provider_named({"serviceprovidername": "CLOUD"}, {"it": DIALECT}) == "it"
    assert provider_named({"providername": "Other"}, {"it": DIALECT}) is None
