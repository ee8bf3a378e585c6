"""What can be launched in a region: the catalogue, narrowed to what EC2 offers in each zone, with prices.

Spot prices are EC2's newest per zone and type; on-demand prices are the catalogue's, until `prices` tells today's.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from app.domain.offerings import InstanceType, Market
from workers.providers.aws.calls import pages, part
from workers.providers.aws.catalogue import AwsCatalogue
from workers.providers.types import Offered, Price

if TYPE_CHECKING:
    from mypy_boto3_ec2 import EC2Client

SPOT_SOURCE = "EC2 DescribeSpotPriceHistory"


def by_zone(ec2: "EC2Client", catalogue: AwsCatalogue, region: str, now: datetime) -> Iterator[Offered]:
    """Both markets of each catalogue type in each zone where EC2 offers it."""
    spot = spot_prices(ec2, list(catalogue.types), now)
    for zone, name in _places(ec2, list(catalogue.types)):
        kind = catalogue.types[name]
        yield _on_demand(catalogue, kind, region, zone)
        yield _spot(spot.get((zone, name)), kind, region, zone, now)


def _places(ec2: "EC2Client", names: list[str]) -> list[tuple[str, str]]:
    wanted = [{"Name": "instance-type", "Values": names}]
    answers = pages(ec2, "describe_instance_type_offerings", LocationType="availability-zone", Filters=wanted)
    return sorted(
        (one["Location"], one["InstanceType"]) for page in answers for one in part(page, "InstanceTypeOfferings")
    )


def spot_prices(ec2: "EC2Client", names: list[str], now: datetime) -> Mapping[tuple[str, str], Price]:
    """By (zone, type), `as_of` when it came into force. A start of `now` gives the prices in force, the newest of each."""
    newest: dict[tuple[str, str], Price] = {}
    arguments: dict[str, Any] = {"InstanceTypes": names, "ProductDescriptions": ["Linux/UNIX"], "StartTime": now}
    for page in pages(ec2, "describe_spot_price_history", **arguments):
        for entry in part(page, "SpotPriceHistory"):
            where = (entry["AvailabilityZone"], entry["InstanceType"])
            began = entry["Timestamp"].astimezone(UTC)
            price = Price(per_hour=Decimal(entry["SpotPrice"]), as_of=began, source=SPOT_SOURCE)
            if where not in newest or newest[where].as_of < price.as_of:
                newest[where] = price
    return newest


def _on_demand(catalogue: AwsCatalogue, kind: InstanceType, region: str, zone: str) -> Offered:
    price = catalogue.on_demand.get((region, kind.name))
    return Offered(
        type=kind,
        region=region,
        zone=zone,
        market=Market.ON_DEMAND,
        price_per_hour=price,
        price_as_of=catalogue.price_as_of if price is not None else None,
        price_source=catalogue.price_source if price is not None else None,
    )


def _spot(price: Price | None, kind: InstanceType, region: str, zone: str, now: datetime) -> Offered:
    """A price that came into force long ago is today's all the same: it is as of `now`."""
    return Offered(
        type=kind,
        region=region,
        zone=zone,
        market=Market.SPOT,
        price_per_hour=price.per_hour if price is not None else None,
        price_as_of=now if price is not None else None,
        price_source=price.source if price is not None else None,
        price_live=price is not None,
    )
