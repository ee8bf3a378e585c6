"""The GPU instance types that are leased at AWS: facts and on-demand prices, read once from `catalogue.toml`."""

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
class AwsCatalogue:
    """`types` by name; `on_demand` in USD per hour by (region, type name), only where the price is certain."""

    types: Mapping[str, InstanceType]
    on_demand: Mapping[tuple[str, str], Decimal]
    price_source: str
    price_as_of: datetime

    @property
    def listed(self) -> Mapping[ListedKey, Decimal]:
        """All prices, by (region, type name, market)."""
        return {(region, name, Market.ON_DEMAND): price for (region, name), price in self.on_demand.items()}


@cache
def load() -> AwsCatalogue:
    """Reads the file that is part of this package."""
    text = files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return AwsCatalogue(
        types={entry["name"]: _type(entry) for entry in document["types"]},
        on_demand={
            (region, entry["name"]): Decimal(price)
            for entry in document["types"]
            for region, price in entry.get("on_demand", {}).items()
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
