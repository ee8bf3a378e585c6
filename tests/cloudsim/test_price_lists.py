"""The simulated price lists: in pages, for anybody or for the right token, and refusing what they do not simulate."""

from collections.abc import Iterator
from typing import Any

import boto3
import httpx
import pytest
from botocore.exceptions import ClientError

from cloudsim.gce.credentials import issue
from cloudsim.testing import NO_TLS, Control, running

SKUS = "/v1/services/6F81-5844-456A/skus"
BEARER = {"Authorization": f"Bearer {issue('somebody@example')}"}


@pytest.fixture(scope="module")
def sim() -> Iterator[Control]:
    with running() as sim:
        yield sim


def get(sim: Control, path: str, **arguments: Any) -> httpx.Response:
    return httpx.get(sim.url + path, trust_env=False, verify=NO_TLS, **arguments)


def test_skus_come_in_pages_that_leave_none_out(sim: Control) -> None:
    every = get(sim, SKUS, headers=BEARER).json()
    assert every["nextPageToken"] == ""
    seen, token = [], ""
    while True:
        page = get(sim, SKUS, headers=BEARER, params={"pageSize": "40", "pageToken": token}).json()
        seen += page["skus"]
        token = page["nextPageToken"]
        if not token:
            break
    assert seen == every["skus"]
    assert len({one["skuId"] for one in seen}) == len(seen)


def test_skus_need_a_token_and_a_service_that_exists(sim: Control) -> None:
    assert get(sim, SKUS).status_code == 401
    assert get(sim, SKUS.replace("6F81", "0000"), headers=BEARER).status_code == 404


def test_retail_prices_are_linked_page_to_page_for_anybody(sim: Control) -> None:
    url, seen = f"{sim.url}/api/retail/prices?$filter=armRegionName eq 'eastus2'", []
    while url:
        page = httpx.get(url, trust_env=False, verify=NO_TLS).json()
        seen += page["Items"]
        url = page["NextPageLink"]
    assert len(seen) > 60
    assert {one["armRegionName"] for one in seen} == {"eastus2"}


def spot_prices(sim: Control) -> list[dict[str, float]]:
    """By provider: what its list says of each region for one size, its on-demand price beside."""
    ec2 = {
        region: boto3.client(
            "ec2",
            region_name=region,
            endpoint_url=sim.url,
            aws_access_key_id="AKIASIMULATED0000001",
            aws_secret_access_key="simulated",
        ).describe_spot_price_history(InstanceTypes=["g5.xlarge"], AvailabilityZone=f"{region}a")
        for region in ("us-east-1", "eu-west-1")
    }
    retail = httpx.get(
        f"{sim.url}/api/retail/prices?$filter=armSkuName eq 'Standard_NC4as_T4_v3'", trust_env=False, verify=NO_TLS
    )
    skus = get(sim, SKUS, headers=BEARER).json()["skus"]
    return [
        {region: float(found["SpotPriceHistory"][0]["SpotPrice"]) for region, found in ec2.items()},
        {f"{one['armRegionName']} {one['meterName']}": one["retailPrice"] for one in retail.json()["Items"]},
        {one["skuId"]: _rate(one) for one in skus if one["category"]["resourceGroup"] == "GPU"},
    ]


def _rate(sku: dict[str, Any]) -> float:
    price = sku["pricingInfo"][0]["pricingExpression"]["tieredRates"][0]["unitPrice"]
    return float(price["units"]) + float(price["nanos"]) / 1e9


def test_spot_prices_move_by_region_and_on_demand_prices_do_not(sim: Control) -> None:
    before = spot_prices(sim)
    moved = {"aws": "us-east-1", "azure": "eastus", "gcp": "us-central1"}
    for provider, region in moved.items():
        sim.spot_prices(1.5, provider=provider, region=region)
    after = spot_prices(sim)
    sim.reset()
    assert spot_prices(sim) == before
    aws, azure, gcp = (
        {what: round(after[n][what] / price, 3) for what, price in prices.items() if after[n][what] != price}
        for n, prices in enumerate(before)
    )
    assert aws == {"us-east-1": 1.5}
    assert azure == {"eastus NC4as T4 v3 Spot": 1.5}
    assert set(gcp.values()) == {1.5}
    assert all("SPOT" in sku and "US-CENTRAL1" in sku for sku in gcp)


def test_spot_prices_of_an_unknown_region_are_refused(sim: Control) -> None:
    with pytest.raises(httpx.HTTPStatusError, match="no region nowhere"):
        sim.spot_prices(2, region="nowhere")


@pytest.mark.parametrize(
    "asked", [{"ServiceCode": "AmazonS3"}, {"Filters": [{"Type": "CONTAINS", "Field": "instanceType", "Value": "p4"}]}]
)
def test_products_that_are_not_simulated_are_refused(sim: Control, asked: dict[str, Any]) -> None:
    pricing = boto3.client(
        "pricing",
        region_name="us-east-1",
        endpoint_url=sim.url,
        aws_access_key_id="AKIASIMULATED0000001",
        aws_secret_access_key="simulated",
    )
    with pytest.raises(ClientError, match="simulated"):
        pricing.get_products(**{"ServiceCode": "AmazonEC2", **asked})
