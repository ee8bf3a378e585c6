"""The types and listed prices that come with an adapter."""

from collections.abc import Mapping
from typing import Protocol

from app.domain.offerings import InstanceType
from workers.providers.types import PriceList


class PriceCatalogue(Protocol):
    """Types by name, and their listed prices."""

    @property
    def types(self) -> Mapping[str, InstanceType]: ...

    @property
    def prices(self) -> PriceList: ...
