"""The GPU instance types that are leased at AWS: facts from `catalogue.toml` and on-demand prices from `prices.csv`."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from app.domain.offerings import InstanceType, NetworkFabric
from workers.providers.common.instance_types import Markets, instance_type, markets
from workers.providers.price_list import load_price_list
from workers.providers.types import PriceList


@dataclass(frozen=True, slots=True, kw_only=True)
class AwsCatalogue:
    """`types` and the `markets` that they are sold in, by name; listed `prices`. `ena_express`: types that have it.

    `efa`: the network cards that take an EFA interface, by type, in their order.
    """

    types: Mapping[str, InstanceType]
    markets: Mapping[str, Markets]
    ena_express: frozenset[str]
    efa: Mapping[str, Sequence[int]]
    prices: PriceList


@cache
def load() -> AwsCatalogue:
    """Reads the files that are part of this package."""
    text = files("workers.providers.aws").joinpath("catalogue.toml").read_text(encoding="utf-8")
    entries = tomllib.loads(text)["types"]
    return AwsCatalogue(
        types={entry["name"]: instance_type(entry) for entry in entries},
        markets={entry["name"]: markets(entry) for entry in entries},
        ena_express=frozenset(entry["name"] for entry in entries if entry.get("ena_express", False)),
        efa={entry["name"]: _efa_cards(entry) for entry in entries if entry.get("network_fabric") == NetworkFabric.EFA},
        prices=load_price_list("workers.providers.aws"),
    )


def _efa_cards(entry: Mapping[str, Any]) -> Sequence[int]:
    """All network cards, but for the first one of p6-b300, which has Ethernet alone (EC2 user guide, "Network cards")."""
    return range(entry["name"].startswith("p6-b300"), entry.get("network_cards", 1))
