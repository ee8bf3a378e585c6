"""The GPU models of this installation: how a request may spell them, what VMs have them, and the lowest prices."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from app.domain.gpus.models import ALIASES
from app.domain.lease_offerings import is_visible
from app.domain.offerings import GpuVendor, Market, Offering
from app.domain.rates import price_at
from app.domain.vm_parts import DEFAULT_PARTS
from app.services.offering_cache import OfferingCache
from app.services.offerings.offerings import price_per_gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedGpuModel:
    """A model that a lease can get. `memory_gib`: of VMs with whole GPUs. `prices`: USD per GPU and hour.

    `counts_by_market` and `prices` contain the markets in which the model is sold, and prices that are known.
    """

    model: str
    aliases: tuple[str, ...]
    vendor: GpuVendor
    memory_gib: tuple[int, ...]
    counts_by_market: Mapping[Market, tuple[int, ...]]
    prices: Mapping[Market, Decimal]


class GpuModelService:
    """Reads the models from the catalogue."""

    def __init__(self, catalogue: OfferingCache) -> None:
        self._catalogue = catalogue

    async def list(self, tenant_id: str | None) -> tuple[OfferedGpuModel, ...]:
        """The models of VMs with whole GPUs that the tenant can get (None: any tenant), by name."""
        by_model: dict[str, list[Offering]] = defaultdict(list)
        for offering in (await self._catalogue.snapshot()).offerings:
            if is_visible(offering, tenant_id) and offering.obstacle is None and offering.type.gpu.parts == 1:
                by_model[offering.type.gpu.model].append(offering)
        return tuple(_model(name, by_model[name]) for name in sorted(by_model))


def _model(name: str, offerings: Sequence[Offering]) -> OfferedGpuModel:
    prices: dict[Market, Decimal] = {}
    counts: dict[Market, set[int]] = defaultdict(set)
    for o in offerings:
        counts[o.key.market].add(o.type.gpu.count)
        of_vm = price_at(o, DEFAULT_PARTS)
        if of_vm is not None:
            price = price_per_gpu(of_vm, o.type)
            prices[o.key.market] = min(price, prices.get(o.key.market, price))
    return OfferedGpuModel(
        model=name,
        aliases=tuple(alias.text for alias in ALIASES.get(name, ())),
        vendor=offerings[0].type.gpu.vendor,
        memory_gib=tuple(sorted({o.type.gpu.memory_gib for o in offerings})),
        counts_by_market={market: tuple(sorted(numbers)) for market, numbers in counts.items()},
        prices=prices,
    )
