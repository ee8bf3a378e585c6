"""Entries of a provider's `catalogue.toml` as instance types, and the markets in which each is offered.

An entry has `name`, `vcpus`, `memory_gib`, `gpu` (the fields of `Gpu`), and where they are known `local_disk_gib`,
`network_gbps` and `network_fabric`. `markets` lists the markets in which the provider sells the type; without the field
it sells it on demand and as spot. The market `reserved` is capacity that the account reserves beforehand.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from app.domain.offerings import (
    LISTED_MARKETS,
    Driver,
    Gpu,
    InstanceType,
    Interconnect,
    Market,
    NetworkFabric,
    Obstacle,
)

Markets = frozenset[Market]


def instance_type(entry: Mapping[str, Any]) -> InstanceType:
    """Raises ValueError for an interconnect, driver or fabric that does not exist, and TypeError for an unknown field."""
    gpu = dict(entry["gpu"])
    fabric = entry.get("network_fabric")
    gbps = entry.get("network_gbps")
    return InstanceType(
        name=entry["name"],
        gpu=Gpu(
            interconnect=Interconnect(gpu.pop("interconnect")),
            driver=Driver(gpu.pop("driver", Driver.NVIDIA)),
            **gpu,
        ),
        vcpus=entry["vcpus"],
        memory_gib=Decimal(entry["memory_gib"]),
        local_disk_gib=entry.get("local_disk_gib", 0),
        network_gbps=None if gbps is None else Decimal(gbps),
        network_fabric=None if fabric is None else NetworkFabric(fabric),
    )


def markets(entry: Mapping[str, Any]) -> Markets:
    """The markets of an entry. Raises ValueError for a market that does not exist."""
    sold = entry.get("markets", LISTED_MARKETS)
    unknown = set(sold).difference(Market)
    if unknown:
        msg = f"{entry['name']} has an unknown market: {', '.join(sorted(unknown))}"
        raise ValueError(msg)
    return frozenset(map(Market, sold))


class OfferedMarket(NamedTuple):
    """A market of a type in one account, and why the account cannot buy the type there."""

    market: Market
    obstacle: Obstacle | None


def offered_markets(sold: Markets, *, has_image: bool) -> Iterator[OfferedMarket]:
    """The markets in which an account is offered a type.

    `has_image`: the account can resolve an image with the type's driver. A type that is sold as reserved capacity but
    not on demand is also returned on demand, with its obstacle: placement can then give the reason.
    """
    for market in LISTED_MARKETS:
        if market in sold:
            yield OfferedMarket(market, None if has_image else Obstacle.NO_DRIVER_IMAGE)
        elif market is Market.ON_DEMAND and Market.RESERVED in sold:
            yield OfferedMarket(market, Obstacle.RESERVED_ONLY)
