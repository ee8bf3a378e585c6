"""The GPU instance types that are leased at AWS: facts from `catalogue.toml` and on-demand prices from `prices.csv`."""

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
class AwsCatalogue:
    """`types` and the `markets` that they are sold in, by name; listed `prices`. `ena_express`: types that have it."""

    types: Mapping[str, InstanceType]
    markets: Mapping[str, Markets]
    ena_express: frozenset[str]
    prices: PriceList


@cache
def load() -> AwsCatalogue:
    """Reads the files that are part of this package."""
    text = files(__package__).joinpath("catalogue.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["types"]
    return AwsCatalogue(
        types={entry["name"]: instance_type(entry) for entry in entries},
        markets={entry["name"]: markets(entry) for entry in entries},
        ena_express=frozenset(entry["name"] for entry in entries if entry.get("ena_express", False)),
        prices=load_price_list(__package__),
    )
