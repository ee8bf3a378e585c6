"""Offerings of a region: the catalogue, restricted to the sizes that Azure offers this subscription there.

Resource SKUs contain the zones of a size, its restrictions for the subscription, and whether Azure sells it as spot.
Prices are the catalogue's, until `prices` returns today's.
"""

from collections.abc import Container, Iterator

from app.domain.offerings import InstanceType, Market
from workers.providers.azure import listings, places
from workers.providers.azure.calls import Document, part
from workers.providers.azure.catalogue import AzureCatalogue
from workers.providers.azure.clients import Group
from workers.providers.common.instance_types import OfferedMarket, offered_markets
from workers.providers.types import ProviderOffering

_VMS = "virtualMachines"
_SPOT = "LowPriorityCapable"


def by_zone(
    group: Group, catalogue: AzureCatalogue, region: str, drivers: Container[str]
) -> Iterator[ProviderOffering]:
    """Each market of each catalogue size in each open zone. `drivers`: those for which the account has an image.

    The region as a whole is the last place: its capacity contains that of the zones.
    """
    for sku in listings.items(group, listings.SKUS, query={"$filter": f"location eq '{region}'"}):
        kind = catalogue.types.get(part(sku, "name"))
        if kind is not None and sku.get("resourceType") == _VMS and not _is_closed(sku):
            sold = catalogue.markets[kind.name] - (frozenset() if _has_spot(sku) else {Market.SPOT})
            for zone in _zones(sku, region):
                for offered in offered_markets(sold, has_image=kind.gpu.driver in drivers):
                    yield _offered(catalogue, kind, region, zone, offered)


def _is_closed(sku: Document) -> bool:
    return any(restriction.get("type") == "Location" for restriction in sku.get("restrictions") or ())


def _zones(sku: Document, region: str) -> list[str]:
    """Open zones, then the region itself: Azure may place a VM without a zone where none of the zones has room."""
    locations = [info for info in sku.get("locationInfo") or () if info.get("location", "").lower() == region]
    zones = sorted({zone for info in locations for zone in info.get("zones") or ()})
    closed = {
        zone
        for restriction in sku.get("restrictions") or ()
        for zone in (restriction.get("restrictionInfo") or {}).get("zones") or ()
    }
    return [places.zone(region, [zone]) for zone in zones if zone not in closed] + [region]


def _has_spot(sku: Document) -> bool:
    return any(
        capability.get("name") == _SPOT and capability.get("value", "").lower() == "true"
        for capability in sku.get("capabilities") or ()
    )


def _offered(
    catalogue: AzureCatalogue, kind: InstanceType, region: str, zone: str, sold: OfferedMarket
) -> ProviderOffering:
    price = catalogue.prices.get((region, kind.name, sold.market))
    return ProviderOffering(
        type=kind,
        region=region,
        zone=zone,
        market=sold.market,
        obstacle=sold.obstacle,
        price_per_hour=price.per_hour if price is not None else None,
        price_as_of=price.as_of if price is not None else None,
        price_source=price.source if price is not None else None,
    )
