"""Sizes, zones, prices, images and limits, as Azure answers about them."""

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from app.domain.offerings import LISTED_MARKETS, Market
from tests.harness.cached_settings import read_settings
from tests.workers.providers.azure.accounts import account
from tests.workers.providers.azure.answering import Answer, answering
from tests.workers.providers.azure.specs import REGION, spec
from workers.providers.azure import catalogue, images, launch
from workers.providers.azure.adapter import AzureProvider
from workers.providers.errors import ImageMissing, NotOffered

T4 = "Standard_NC4as_T4_v3"


@pytest.fixture(scope="module")
def answer() -> Iterator[Answer]:
    with answering() as answer:
        yield answer


def provider(answer: Answer, **changes: Any) -> AzureProvider:
    return AzureProvider(account(answer.url, **changes), read_settings())


def sku(name: str = T4, zones: tuple[str, ...] = ("2", "1"), **changes: Any) -> dict[str, Any]:
    return {
        "resourceType": "virtualMachines",
        "name": name,
        "locations": ["EastUS"],
        "locationInfo": [{"location": "EastUS", "zones": list(zones)}],
        "capabilities": [{"name": "LowPriorityCapable", "value": "True"}],
        "restrictions": [],
        **changes,
    }


def closed(kind: str, *zones: str) -> dict[str, Any]:
    places = {"locations": [REGION], "zones": list(zones)}
    return {"type": kind, "values": [], "restrictionInfo": places, "reasonCode": "NotAvailableForSubscription"}


def offered(answer: Answer, *skus: dict[str, Any]) -> set[tuple[str, str, Market]]:
    answer.json({"value": list(skus)})
    return {(one.type.name, one.zone, one.market) for one in provider(answer).offered(REGION)}


def test_a_size_is_offered_in_each_of_its_zones_and_in_the_region_in_both_markets(answer: Answer) -> None:
    expected = {(T4, zone, market) for zone in ("eastus-1", "eastus-2", "eastus") for market in LISTED_MARKETS}
    assert offered(answer, sku()) == expected


def test_a_size_without_zones_is_offered_in_the_region_as_a_whole(answer: Answer) -> None:
    assert {zone for _, zone, _ in offered(answer, sku(zones=()))} == {REGION}


def test_what_is_closed_to_the_subscription_is_not_offered(answer: Answer) -> None:
    assert offered(answer, sku(restrictions=[closed("Location")])) == set()
    some = offered(answer, sku(restrictions=[closed("Zone", "1")]))
    assert {zone for _, zone, _ in some} == {"eastus-2", "eastus"}


def test_a_size_whose_zones_are_all_closed_is_offered_in_the_region_as_a_whole(answer: Answer) -> None:
    every = sku(restrictions=[closed("Zone", "1", "2")])
    assert {zone for _, zone, _ in offered(answer, every)} == {REGION}
    assert offered(answer, every | {"restrictions": [*every["restrictions"], closed("Location")]}) == set()


def test_a_size_that_is_not_sold_as_spot_is_offered_on_demand_alone(answer: Answer) -> None:
    for capabilities in ([], [{"name": "LowPriorityCapable", "value": "False"}]):
        markets = {market for _, _, market in offered(answer, sku(capabilities=capabilities))}
        assert markets == {Market.ON_DEMAND}


def test_other_things_and_sizes_without_gpu_are_left_out(answer: Answer) -> None:
    assert offered(answer, sku("Standard_D4s_v5"), sku(resourceType="hostGroups/hosts")) == set()


def test_a_region_without_a_subnet_is_not_asked_about_and_not_launched_in(answer: Answer) -> None:
    azure = provider(answer)
    answer.asked.clear()
    assert azure.offered("uksouth") == []
    assert not answer.asked
    with pytest.raises(NotOffered, match="no subnet in uksouth"):
        azure.plan(spec(region="uksouth"))


def test_a_size_without_a_known_price_is_offered_without_one(answer: Answer) -> None:
    answer.json({"value": [sku("Standard_ND96isr_H200_v5", zones=())]})
    prices = {(one.price_per_hour, one.price_source, one.price_as_of) for one in provider(answer).offered(REGION)}
    assert prices == {(None, None, None)}


def test_the_newest_version_is_the_highest_number_not_the_longest_text(answer: Answer) -> None:
    names = ("22.04.900", "22.04.2026060801", "9.10.3")
    answer.first = [listed(*names), described()]
    image = provider(answer).image(REGION)
    assert image.id == "microsoft-dsvm:ubuntu-hpc:2204:22.04.2026060801"
    assert (image.disk_gib, image.purchase_plan) == (images.DISK_GIB, None)


def test_an_image_can_be_pinned_by_version_or_by_id(answer: Answer) -> None:
    answer.first = [listed("1.0.0", "2.0.0"), described(), listed("1.0.0", "2.0.0"), described()]
    assert provider(answer, image="me:mine:gpu:1.0.0").image(REGION).id == "me:mine:gpu:1.0.0"
    assert provider(answer, image="me:mine:gpu:latest").image(REGION).id == "me:mine:gpu:2.0.0"


def test_an_image_of_the_marketplace_has_its_terms(answer: Answer) -> None:
    terms = {"publisher": "me", "product": "mine", "name": "gpu"}
    answer.first = [listed("1.0.0"), described(plan=terms)]
    image = provider(answer, image="me:mine:gpu:latest").image(REGION)
    assert image.purchase_plan == terms
    assert (
        launch.plan(spec(image=image), account("https://127.0.0.1:1"), group="/g", subnet="/s")["vm"]["plan"] == terms
    )


def test_an_image_of_a_gallery_is_its_newest_version_and_has_its_size(answer: Answer) -> None:
    definition = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/g/images/mine"
    versions = [
        {"name": "1.0.0", "properties": {"publishingProfile": {"excludeFromLatest": False}}},
        {"name": "1.10.0", "properties": {}},
        {"name": "2.0.0", "properties": {"publishingProfile": {"excludeFromLatest": True}}},
    ]
    profile = {"properties": {"storageProfile": {"osDiskImage": {"sizeInGB": 256}}}}
    answer.first = [body({"properties": {}}), body({"value": versions}), body(profile)]
    image = provider(answer, image=definition).image(REGION)
    assert (image.id, image.disk_gib) == (f"{definition}/versions/1.10.0", 256)
    answer.first = [body({"properties": {}}), body(profile)]
    assert provider(answer, image=f"{definition}/versions/1.0.0").image(REGION).id == f"{definition}/versions/1.0.0"


def test_an_image_of_a_community_gallery_has_a_field_of_its_own(answer: Answer) -> None:
    own = "/CommunityGalleries/theirs-1234/Images/gpu/Versions/1.0.0"
    image = provider(answer, image=own).image(REGION)
    made = launch.plan(spec(image=image), account("https://127.0.0.1:1"), group="/g", subnet="/s")["vm"]["properties"][
        "storageProfile"
    ]
    assert made["imageReference"] == {"communityGalleryImageId": own}


def body(document: Any) -> tuple[int, bytes]:
    return 200, json.dumps(document).encode()


def listed(*names: str) -> tuple[int, bytes]:
    return body([{"name": name, "location": REGION} for name in names])


def described(**properties: Any) -> tuple[int, bytes]:
    return body({"name": "x", "properties": {"osDiskImage": {"operatingSystem": "Linux"}, **properties}})


@pytest.mark.parametrize("pin", ["me:mine:gpu:3.0.0", "me:mine", "ami-0123", "me:mine:gpu:newest"])
def test_an_image_that_is_not_there_is_missing(answer: Answer, pin: str) -> None:
    answer.json([{"name": "1.0.0", "location": REGION}])
    with pytest.raises(ImageMissing):
        provider(answer, image=pin).image(REGION)


def test_limits_are_those_of_gpu_families_and_of_all_vcpus(answer: Answer) -> None:
    usages = (
        "cores",
        "lowPriorityCores",
        "standardNDASv4_A100Family",
        "Standard NCASv3_T4 Family",
        "standardDSv5Family",
    )
    answer.json(
        {"value": [{"unit": "Count", "currentValue": 0, "limit": 96, "name": {"value": one}} for one in usages]}
    )
    found = provider(answer).service_quotas(REGION)
    assert [one.code for one in found] == list(usages[:4])
    assert {(one.limit, one.unit) for one in found} == {(Decimal(96), "vCPU")}


def test_every_size_has_its_facts_and_plausible_prices() -> None:
    found = catalogue.load()
    assert len(found.types) == 30
    prices = {key: price.per_hour for key, price in found.prices.items()}
    for (region, name, market), price in prices.items():
        kind = found.types[name]
        assert Decimal("0.05") < price / kind.gpu.count < Decimal(20), (region, name, market)
        if market is Market.SPOT:
            assert price < prices[region, name, Market.ON_DEMAND]
    assert prices["eastus", "Standard_ND96asr_v4", Market.ON_DEMAND] == Decimal("27.197")
