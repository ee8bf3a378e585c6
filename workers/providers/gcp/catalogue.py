"""The GPU machine types that are leased at Google: facts and prices, read once from `catalogue.toml`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from app.domain.offerings import Gpu, InstanceType, Market
from workers.providers.price_catalogue import ListedKey


@dataclass(frozen=True, slots=True, kw_only=True)
class GcpCatalogue:
    """`types`, the types of their `boot_disks` and the `markets` that they are sold in, by name.

    `prices`: USD per hour by (market, region, type name), only where one is known.
    """

    types: Mapping[str, InstanceType]
    boot_disks: Mapping[str, str]
    markets: Mapping[str, tuple[Market, ...]]
    prices: Mapping[tuple[Market, str, str], Decimal]
    price_source: str
    price_as_of: datetime

    @property
    def listed(self) -> Mapping[ListedKey, Decimal]:
        """All prices, by (region, type name, market)."""
        return {(region, name, market): price for (market, region, name), price in self.prices.items()}


@cache
def load() -> GcpCatalogue:
    """Reads the file that is part of this package."""
    text = files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    entries = document["types"]
    return GcpCatalogue(
        types={entry["name"]: _type(entry) for entry in entries},
        boot_disks={entry["name"]: entry.get("boot_disk", document["boot_disk"]) for entry in entries},
        markets={entry["name"]: tuple(map(Market, entry.get("markets", Market))) for entry in entries},
        prices={
            (market, region, entry["name"]): Decimal(price)
            for entry in entries
            for market in Market
            for region, price in entry.get(str(market), {}).items()
        },
        price_source=document["price_source"],
        price_as_of=document["price_as_of"],
    )


def _type(entry: Mapping[str, Any]) -> InstanceType:
    return InstanceType(
        name=entry["name"],
        gpu=Gpu(**entry["gpu"]),
        vcpus=entry["vcpus"],
        memory_gib=Decimal(entry["memory_gib"]),
    )
