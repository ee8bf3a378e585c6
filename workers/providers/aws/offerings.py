"""Offerings of a region: the catalogue, restricted to what EC2 offers in each zone, with prices.

Spot prices are EC2's newest per zone and type. On-demand prices are the catalogue's, until `prices` returns today's.
"""

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from app.domain.offerings import InstanceType, Market
from workers.providers.aws.calls import pages, part
from workers.providers.aws.catalogue import AwsCatalogue
from workers.providers.common.instance_types import offered_markets
from workers.providers.types import Price, ProviderOffering

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

SPOT_SOURCE = "EC2 DescribeSpotPriceHistory"


def by_zone(
    ec2: "EC2Client", catalogue: AwsCatalogue, region: str, now: datetime, drivers: Container[str]
) -> Iterator[ProviderOffering]:
    """The markets of each catalogue type in each zone where EC2 offers it. `drivers`: those that have an image."""
    spot = spot_prices(ec2, list(catalogue.types), now)
    for zone, name in _places(ec2, list(catalogue.types)):
        kind = catalogue.types[name]
        has_image = kind.gpu.driver in drivers
        for market, obstacle in offered_markets(catalogue.markets[name], has_image=has_image):
            if market is Market.SPOT:
                sold = _spot(spot.get((zone, name)), kind, region, zone, now)
            else:
                sold = _on_demand(catalogue, kind, region, zone)
            yield replace(sold, obstacle=obstacle)


def _places(ec2: "EC2Client", names: list[str]) -> list[tuple[str, str]]:
    filters = [{"Name": "instance-type", "Values": names}]
    answers = pages(ec2, "describe_instance_type_offerings", LocationType="availability-zone", Filters=filters)
    return sorted(
        (offering["Location"], offering["InstanceType"])
        for page in answers
        for offering in part(page, "InstanceTypeOfferings")
    )


def spot_prices(ec2: "EC2Client", names: list[str], now: datetime) -> Mapping[tuple[str, str], Price]:
    """Spot prices by (zone, type). `as_of` is the time at which a price came into force, UTC.

    With `now` as the start time EC2 returns the prices in force. The newest price of each (zone, type) counts. A price of
    zero is unknown.
    """
    newest: dict[tuple[str, str], Price] = {}
    arguments: dict[str, Any] = {"InstanceTypes": names, "ProductDescriptions": ["Linux/UNIX"], "StartTime": now}
    for page in pages(ec2, "describe_spot_price_history", **arguments):
        for entry in part(page, "SpotPriceHistory"):
            where = (entry["AvailabilityZone"], entry["InstanceType"])
            began = entry["Timestamp"].astimezone(UTC)
            price = Price(per_hour=Decimal(entry["SpotPrice"]), as_of=began, source=SPOT_SOURCE)
            if where not in newest or newest[where].as_of < price.as_of:
                newest[where] = price
    return {where: price for where, price in newest.items() if price.per_hour > 0}


def _on_demand(catalogue: AwsCatalogue, kind: InstanceType, region: str, zone: str) -> ProviderOffering:
    price = catalogue.prices.get((region, kind.name, Market.ON_DEMAND))
    return ProviderOffering(
        type=kind,
        region=region,
        zone=zone,
        market=Market.ON_DEMAND,
        price_per_hour=price.per_hour if price is not None else None,
        price_as_of=price.as_of if price is not None else None,
        price_source=price.source if price is not None else None,
    )


def _spot(price: Price | None, kind: InstanceType, region: str, zone: str, now: datetime) -> ProviderOffering:
    """A spot price that came into force long ago is still current, so its `price_as_of` is `now`."""
    return ProviderOffering(
        type=kind,
        region=region,
        zone=zone,
        market=Market.SPOT,
        price_per_hour=price.per_hour if price is not None else None,
        price_as_of=now if price is not None else None,
        price_source=price.source if price is not None else None,
        price_live=price is not None,
    )


def is_regular(offer: ProviderOffering) -> bool:
    """Whether the zone is a regular availability zone (`us-east-1a`, not `us-east-1-atl-2a`).

    Local Zones and Wavelength Zones have no default subnet.
    """
    letter = offer.zone.removeprefix(offer.region)
    return len(letter) == 1 and letter.isalpha()
