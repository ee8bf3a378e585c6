"""The GPU models of this installation: how a request may spell them, what VMs have them, and the lowest prices."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from app.domain.gpus.models import ALIASES
from app.domain.lease_offerings import is_visible
from app.domain.offerings import GpuVendor, Market, Offering
from app.services.offering_cache import OfferingCache
from app.services.offerings.offerings import price_per_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedGpuModel:
    """A model of the catalogue. `counts` and `memory_gib`: of VMs with whole GPUs. `prices`: USD per GPU and hour.

    `prices` contains the markets in which the model is sold.
    """

    model: str
    aliases: tuple[str, ...]
    vendor: GpuVendor
    memory_gib: tuple[int, ...]
    counts: tuple[int, ...]
    prices: Mapping[Market, Decimal]


class GpuModelService:
    """Reads the models from the catalogue."""

    def __init__(self, catalogue: OfferingCache) -> None:
        self._catalogue = catalogue

    async def list(self, tenant_id: str | None) -> tuple[OfferedGpuModel, ...]:
        """The models of the offerings that the tenant may use (None: all), by name."""
        by_model: dict[str, list[Offering]] = defaultdict(list)
        for offering in (await self._catalogue.snapshot()).offerings:
            if is_visible(offering, tenant_id):
                by_model[offering.type.gpu.model].append(offering)
        return tuple(_model(name, by_model[name]) for name in sorted(by_model))


def _model(name: str, offerings: Iterable[Offering]) -> OfferedGpuModel:
    every = tuple(offerings)
    whole = [o for o in every if o.type.gpu.parts == 1]
    prices: dict[Market, Decimal] = {}
    for o in whole:
        if o.price_per_hour is not None and o.obstacle is None:
            price = price_per_gpu(o.price_per_hour, o.type)
            prices[o.key.market] = min(price, prices.get(o.key.market, price))
    return OfferedGpuModel(
        model=name,
        aliases=tuple(alias.text for alias in ALIASES.get(name, ())),
        vendor=every[0].type.gpu.vendor,
        memory_gib=tuple(sorted({o.type.gpu.memory_gib for o in whole})),
        counts=tuple(sorted({o.type.gpu.count for o in whole})),
        prices=prices,
    )
