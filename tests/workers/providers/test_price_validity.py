"""Price lists hold entries of the past and of the future beside the one of today: today's counts, in whatever order they come."""

import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from app.domain.offerings import Market
from tests.harness.cached_settings import read_settings
from tests.workers.providers.aws.answering import answering as aws_answering
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.azure.answering import answering as azure_answering
from tests.workers.providers.gcp import accounts as gcp_accounts
from tests.workers.providers.gcp.answering import answering as gcp_answering
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure.adapter import AzureProvider

SETTINGS = read_settings(call_timeout=60.0)
PAST, TODAY, FUTURE, UNREADABLE = "7", "3", "1", "9"
STARTS = {PAST: timedelta(days=-900), TODAY: timedelta(seconds=-5), FUTURE: timedelta(days=10)}
ENDED = "5"
"""Came into force last, and is over already. Azure alone lists ends."""

Entries = Sequence[tuple[str, dict[str, Any]]]
"""The price of each entry, and the members with its validity."""
Read = Callable[[Entries, Path], tuple[Decimal | None, set[Decimal]]]
"""The price of a VM, and those of its parts."""


def entries(start: str, end: str | None, order: Sequence[str]) -> Entries:
    now = datetime.fromtimestamp(time.time(), tz=UTC)
    validity: dict[str, dict[str, Any]] = {
        price: {start: f"{now + starts:%Y-%m-%dT%H:%M:%SZ}"} for price, starts in STARTS.items()
    }
    validity[UNREADABLE] = {start: "soon"}
    if end is not None:
        validity[ENDED] = {
            start: f"{now - timedelta(seconds=4):%Y-%m-%dT%H:%M:%SZ}",
            end: f"{now - timedelta(seconds=2):%Y-%m-%dT%H:%M:%SZ}",
        }
    return [(price, validity[price]) for price in order if price in validity]


def aws(listed: Entries, _folder: Path) -> tuple[Decimal | None, set[Decimal]]:
    def product(unit: str, **attributes: str) -> str:
        terms = {
            f"term-{number}": {
                **validity,
                "priceDimensions": {"d": {"unit": unit, "pricePerUnit": {"USD": price}}},
            }
            for number, (price, validity) in enumerate(listed)
        }
        return json.dumps({"product": {"attributes": attributes}, "terms": {"OnDemand": terms}})

    with aws_answering() as answer:
        account = AwsAccount(provider="aws", name="a", regions=("us-east-1",), endpoint_url=answer.url)
        provider = AwsProvider(account, SETTINGS)
        answer.say(200, json.dumps({"PriceList": [product("Hrs", regionCode="us-east-1")]}))
        price = provider.prices("us-east-1").get(("g5.xlarge", Market.ON_DEMAND))
        answer.say(200, json.dumps({"PriceList": [product("GB-Mo"), product("Hrs")]}))
        return price.per_hour if price is not None else None, {
            part.usd for part in provider.part_prices("us-east-1").values()
        }


def gcp(listed: Entries, folder: Path) -> tuple[Decimal | None, set[Decimal]]:
    def sku(description: str, nanos: int = 0) -> dict[str, Any]:
        def expression(price: str) -> dict[str, Any]:
            unit = {"currencyCode": "USD", "units": "0" if nanos else price, "nanos": nanos}
            return {"tieredRates": [{"startUsageAmount": 0, "unitPrice": unit}]}

        return {
            "description": description,
            "category": {"usageType": "OnDemand"},
            "serviceRegions": [gcp_accounts.REGION],
            "pricingInfo": [{**validity, "pricingExpression": expression(price)} for price, validity in listed],
        }

    compute = [sku("A2 Instance Core running in X", 1), sku("A2 Instance Ram running in X", 1)]
    with gcp_answering() as answer:
        answer.json({"skus": [*compute, sku("Nvidia Tesla A100 GPU running in X"), sku("Balanced PD Capacity")]})
        provider = gcp_accounts.provider(answer.url, folder)
        price = provider.prices(gcp_accounts.REGION).get(("a2-highgpu-1g", Market.ON_DEMAND))
        parts = {part.usd for part in provider.part_prices(gcp_accounts.REGION).values()}
        return round(price.per_hour, 3) if price is not None else None, parts


def azure(listed: Entries, _folder: Path) -> tuple[Decimal | None, set[Decimal]]:
    size = "Standard_ND96asr_v4"
    common = {"armRegionName": "eastus", "type": "Consumption", "currencyCode": "USD"}

    def meter(unit: str, name: str, usd: Decimal, validity: dict[str, Any]) -> dict[str, Any]:
        names = {"armSkuName": size, "skuName": name, "meterName": name, "productName": "Series"}
        return {**common, **names, "unitOfMeasure": unit, "retailPrice": float(usd), **validity}

    def meters(unit: str, name: str, factor: int = 1) -> list[dict[str, Any]]:
        return [meter(unit, name, Decimal(price) * factor, validity) for price, validity in listed]

    with azure_answering() as answer:
        provider = AzureProvider(azure_accounts.account(answer.url), SETTINGS)
        answer.json({"Items": meters("1 Hour", "ND96asr v4"), "NextPageLink": None})
        price = provider.prices("eastus").get((size, Market.ON_DEMAND))
        disks = {"Items": meters("1/Month", "P10 LRS Disk", 128), "NextPageLink": None}
        answer.first = [(200, json.dumps(disks).encode())]
        answer.json({"Items": meters("1 Hour", "Standard"), "NextPageLink": None})
        return price.per_hour if price is not None else None, {
            part.usd for part in provider.part_prices("eastus").values()
        }


@pytest.mark.parametrize(
    ("read", "start", "end"),
    [
        (aws, "effectiveDate", None),
        (gcp, "effectiveTime", None),
        (azure, "effectiveStartDate", "effectiveEndDate"),
    ],
)
@pytest.mark.parametrize("order", [*permutations((PAST, TODAY, FUTURE))], ids="".join)
def test_the_price_of_today_counts_beside_those_of_other_days(
    read: Read, start: str, end: str | None, order: Sequence[str], tmp_path: Path
) -> None:
    listed = entries(start, end, (ENDED, *order, UNREADABLE))
    assert read(listed, tmp_path) == (Decimal(TODAY), {Decimal(TODAY)})


@pytest.mark.parametrize(
    ("read", "start"), [(aws, "effectiveDate"), (gcp, "effectiveTime"), (azure, "effectiveStartDate")]
)
def test_what_is_only_announced_has_no_price_yet(read: Read, start: str, tmp_path: Path) -> None:
    assert read(entries(start, None, (FUTURE,)), tmp_path) == (None, set())
