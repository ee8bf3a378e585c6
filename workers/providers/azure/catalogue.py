"""The GPU sizes that are leased at Azure: facts and prices, read once from `catalogue.toml`."""

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
class AzureCatalogue:
    """`types` by name; `prices` in USD per hour by (region, type name, market), only where the price is known."""

    types: Mapping[str, InstanceType]
    prices: Mapping[tuple[str, str, Market], Decimal]
    price_source: str
    price_as_of: datetime

    @property
    def listed(self) -> Mapping[ListedKey, Decimal]:
        """All prices, by (region, type name, market)."""
        return self.prices


@cache
def load() -> AzureCatalogue:
    """Reads the file that is part of this package."""
    text = files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return AzureCatalogue(
        types={entry["name"]: _type(entry) for entry in document["types"]},
        prices={
            (region, entry["name"], market): Decimal(price)
            for entry in document["types"]
            for market in Market
            for region, price in entry.get(market.value, {}).items()
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
