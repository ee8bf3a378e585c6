"""The list of types and prices that comes with an adapter, whatever form each keeps it in."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from app.domain.offerings import InstanceType, Market

ListedKey = tuple[str, str, Market]
"""(region, type name, market)."""


class PriceCatalogue(Protocol):
    """Prices in USD per hour, of `price_source` as of `price_as_of` (UTC)."""

    @property
    def types(self) -> Mapping[str, InstanceType]: ...

    @property
    def listed(self) -> Mapping[ListedKey, Decimal]: ...

    @property
    def price_source(self) -> str: ...

    @property
    def price_as_of(self) -> datetime: ...
