"""The GPU sizes that are leased at Azure: facts from `catalogue.toml` and prices from `prices.csv`."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from app.domain.offerings import InstanceType
from workers.providers.common.instance_types import Markets, instance_type, markets
from workers.providers.price_list import load_price_list
from workers.providers.types import PriceList


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureCatalogue:
    """`types` and the `markets` that they are sold in, by name; listed `prices`."""

    types: Mapping[str, InstanceType]
    markets: Mapping[str, Markets]
    prices: PriceList


@cache
def load() -> AzureCatalogue:
    """Reads the files that are part of this package."""
    text = files("workers.providers.azure").joinpath("catalogue.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["types"]
    return AzureCatalogue(
        types={entry["name"]: instance_type(entry) for entry in entries},
        markets={entry["name"]: markets(entry) for entry in entries},
        prices=load_price_list("workers.providers.azure"),
    )
