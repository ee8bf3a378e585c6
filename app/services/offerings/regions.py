"""The regions in which leases can run."""

from collections import defaultdict
from dataclasses import dataclass

from app.domain.lease_offerings import is_visible
from app.services.offering_cache import OfferingCache


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRegion:
    """A region of a provider, the accounts that use it, and the GPU models that they offer there."""

    provider: str
    region: str
    accounts: tuple[str, ...]
    gpu_models: tuple[str, ...]


class RegionService:
    """Reads the regions from the accounts' settings and the catalogue."""

    def __init__(self, catalogue: OfferingCache) -> None:
        self._catalogue = catalogue

    async def list(self, tenant_id: str | None) -> tuple[OfferedRegion, ...]:
        """By provider and name, with the offerings that the tenant may use (None: all)."""
        snapshot = await self._catalogue.snapshot()
        accounts: dict[tuple[str, str], set[str]] = defaultdict(set)
        models: dict[tuple[str, str], set[str]] = defaultdict(set)
        for configured in snapshot.regions:
            accounts[configured.provider, configured.region].add(configured.account)
        for o in snapshot.offerings:
            if is_visible(o, tenant_id):
                accounts[o.provider, o.key.region].add(o.key.account)
                models[o.provider, o.key.region].add(o.type.gpu.model)
        return tuple(
            OfferedRegion(
                provider=provider,
                region=region,
                accounts=tuple(sorted(accounts[provider, region])),
                gpu_models=tuple(sorted(models[provider, region])),
            )
            for provider, region in sorted(accounts)
        )
