"""Live prices of the three clouds: over the real SDKs, from a simulated price list among entries that look like the right ones."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.domain.offerings import Market
from cloudsim.testing import Control, running
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure import accounts as azure_accounts
from tests.workers.providers.azure.answering import answering as azure_answering
from tests.workers.providers.gcp import accounts as gcp_accounts
from tests.workers.providers.gcp.answering import answering as gcp_answering
from workers.providers.aws.adapter import AwsProvider
from workers.providers.aws.settings import AwsAccount
from workers.providers.azure.adapter import AzureProvider
from workers.providers.azure.clients import AzureClients
from workers.providers.azure.prices import by_size
from workers.providers.errors import CredentialsRejected, OutcomeUnknown, Throttled
from workers.providers.ports import Provider
from workers.providers.registry import part_prices
from workers.providers.types import ADDRESS

SETTINGS = read_settings(call_timeout=60.0)


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running() as sim:
        yield sim


@pytest.fixture(params=["aws", "gcp", "azure"])
def cloud(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def provider(cloud: str, sim: Control, tmp_path: Path) -> Provider:
    sim.reset()
    if cloud == "gcp":
        return gcp_accounts.provider(sim.url, tmp_path)
    if cloud == "azure":
        return AzureProvider(azure_accounts.account(sim.url), SETTINGS)
    account = AwsAccount(provider="aws", name="sim", regions=("us-east-1", "eu-west-1"), endpoint_url=sim.url)
    return AwsProvider(account, SETTINGS)


KNOWN: dict[str, list[tuple[str, str, str, str | None]]] = {
    # region, type, on demand, spot (None: told by another question, zone by zone)
    "aws": [("us-east-1", "p4d.24xlarge", "21.957642", None), ("eu-west-1", "g5.xlarge", "1.11666", None)],
    "gcp": [
        ("us-central1", "a2-highgpu-1g", "3.67339", "1.80385"),
        ("us-central1", "a2-megagpu-16g", "55.7395", "27.3438"),
        ("us-central1", "a3-megagpu-8g", "92.2143", "37.6648"),
        ("europe-west4", "g2-standard-96", "8.00333", "3.35472"),
    ],
    "azure": [
        ("eastus", "Standard_ND96asr_v4", "27.197", "9.5190"),
        ("westeurope", "Standard_NC4as_T4_v3", "0.6575", "0.2301"),
    ],
}
OPERATIONS = {"aws": "GetProducts", "gcp": "services.skus.list", "azure": "RetailPrices.List"}


def test_prices_are_those_of_a_plain_linux_vm(cloud: str, provider: Provider) -> None:
    for region in {known[0] for known in KNOWN[cloud]}:
        told = provider.prices(region)
        for name, on_demand, spot in (known[1:] for known in KNOWN[cloud] if known[0] == region):
            for market, expected in ((Market.ON_DEMAND, on_demand), (Market.SPOT, spot)):
                price = told.get((name, market))
                assert (price is None) == (expected is None)
                if price is not None and expected is not None:
                    assert abs(price.per_hour - Decimal(expected)) < Decimal("0.001")
                    assert price.source
                    assert abs(price.as_of.timestamp() - time.time()) < 60


def test_every_offered_type_has_a_price(cloud: str, provider: Provider) -> None:
    region = KNOWN[cloud][0][0]
    told = provider.prices(region)
    wanted = {(one.type.name, one.market) for one in provider.offered(region) if not (one.price_live or one.obstacle)}
    assert wanted <= set(told)


PARTS = {
    # region, and prices by kind
    "aws": ("us-east-1", {"gp3": "0.09", ADDRESS: "0.006"}),
    "gcp": ("us-central1", {"pd-balanced": "0.11", "hyperdisk-balanced": "0.09", ADDRESS: "0.006"}),
    "azure": ("eastus", {"Premium_LRS": "0.16", ADDRESS: "0.006"}),
}


def test_prices_of_disks_and_addresses_are_those_of_what_is_attached(cloud: str, provider: Provider) -> None:
    region, expected = PARTS[cloud]
    told = provider.part_prices(region)
    assert {kind: told[kind].usd for kind in expected} == {kind: Decimal(usd) for kind, usd in expected.items()}
    assert set(provider.disk_kinds().values()) <= set(told)
    listed = part_prices(cloud)
    assert {kind for kind in provider.disk_kinds().values() if (region, kind) not in listed} == set()
    assert ("*", ADDRESS) in listed


def test_a_region_that_the_list_does_not_know_has_no_prices(provider: Provider) -> None:
    assert provider.prices("nowhere-1") == {}


@pytest.mark.parametrize(("fault", "error"), [("throttle", Throttled), ("error", OutcomeUnknown)])
def test_failures_are_told_apart(
    cloud: str, provider: Provider, sim: Control, fault: str, error: type[Exception]
) -> None:
    sim.fault(OPERATIONS[cloud], fault, provider=cloud, times=None)
    with pytest.raises(error):
        provider.prices(KNOWN[cloud][0][0])


def test_a_missing_right_is_one_of_the_credentials(sim: Control) -> None:
    sim.reset()
    account = AwsAccount(provider="aws", name="sim", regions=("us-east-1",), endpoint_url=sim.url)
    sim.fault("GetProducts", "error", code="AccessDeniedException", times=None)
    with pytest.raises(CredentialsRejected, match=r"docs/providers/aws\.md"):
        AwsProvider(account, SETTINGS).prices("us-east-1")


def test_a_part_with_two_prices_leaves_the_type_without_one(tmp_path: Path) -> None:
    with gcp_answering() as answer:
        parts = [("A2 Instance Core", 30), ("A2 Instance Ram", 4), ("Nvidia Tesla A100 GPU", 2000)]
        answer.json({"skus": [sku(f"{name} running in Iowa", millis) for name, millis in parts]})
        told = gcp_accounts.provider(answer.url, tmp_path).prices(gcp_accounts.REGION)
        assert told["a2-highgpu-1g", Market.ON_DEMAND].per_hour == Decimal("2.700")
        answer.json(
            {"skus": [*(sku(f"{n} running in Iowa", m) for n, m in parts), sku(f"{parts[2][0]} running in X", 9)]}
        )
        assert gcp_accounts.provider(answer.url, tmp_path).prices(gcp_accounts.REGION) == {}


def test_a_spot_price_of_zero_is_unknown(cloud: str, provider: Provider, sim: Control) -> None:
    region, name, *_ = KNOWN[cloud][0]
    sim.spot_prices(0, provider=cloud)
    told = provider.prices(region)
    assert (name, Market.ON_DEMAND) in told
    assert not {key for key in told if key[1] is Market.SPOT}
    spot = [one for one in provider.offered(region) if one.market is Market.SPOT]
    assert spot
    assert all(one.price_per_hour is None or one.price_per_hour > 0 for one in spot)
    assert not any(one.price_live for one in spot)


def test_one_download_serves_all_regions(sim: Control, tmp_path: Path) -> None:
    sim.reset()
    gcp = gcp_accounts.provider(sim.url, tmp_path)
    megas = {region: gcp.prices(region)["a3-megagpu-8g", Market.ON_DEMAND] for region in ("us-east4", "europe-west4")}
    assert len({price.per_hour.quantize(Decimal("0.01")) for price in megas.values()}) == 1, "under both of its names"
    assert sim.calls("gcp")[OPERATIONS["gcp"]] == 1


@pytest.mark.parametrize("body", ["<html>a proxy</html>", "{}", "[]"])
def test_an_answer_of_something_else_is_no_price_list(body: str, tmp_path: Path) -> None:
    with gcp_answering() as answer:
        answer.say(200, body)
        with pytest.raises(OutcomeUnknown):
            gcp_accounts.provider(answer.url, tmp_path).prices(gcp_accounts.REGION)
        with pytest.raises(OutcomeUnknown):
            AzureProvider(azure_accounts.account(answer.url), SETTINGS).prices("eastus")


def test_the_newest_meter_of_a_size_counts_over_all_pages() -> None:
    with azure_answering() as answer:
        old, new = meter("9.5", "2024-01-01T00:00:00Z"), meter("27.197", "2026-01-01T00:00:00Z")
        first = {"Items": [new], "NextPageLink": "https://elsewhere.example/api/retail/prices?$skip=100"}
        answer.first = [(200, json.dumps(first).encode())]
        answer.json({"Items": [old], "NextPageLink": None})
        account, now = azure_accounts.account(answer.url), datetime(2026, 11, 20, tzinfo=UTC)
        told = by_size(AzureClients(account, SETTINGS), answer.url, ["Standard_ND96asr_v4"], "eastus", now)
    assert told["Standard_ND96asr_v4", Market.ON_DEMAND].per_hour == Decimal("27.197")
    assert answer.asked[1][1] == "/api/retail/prices?$skip=100"
    assert {token for _, _, token, _ in answer.asked} == {None}


def sku(description: str, millis: int) -> dict[str, Any]:
    """One thousandth of a dollar is a million nanos."""
    rate = {"startUsageAmount": 0, "unitPrice": {"currencyCode": "USD", "units": "0", "nanos": millis * 1_000_000}}
    return {
        "description": description,
        "category": {"usageType": "OnDemand"},
        "serviceRegions": [gcp_accounts.REGION],
        "pricingInfo": [{"pricingExpression": {"tieredRates": [rate]}}],
    }


def meter(price: str, since: str) -> dict[str, Any]:
    return {
        "armSkuName": "Standard_ND96asr_v4",
        "armRegionName": "eastus",
        "type": "Consumption",
        "currencyCode": "USD",
        "unitOfMeasure": "1 Hour",
        "skuName": "ND96asr v4",
        "productName": "Virtual Machines NDasrv4 Series",
        "retailPrice": float(price),
        "effectiveStartDate": since,
    }
