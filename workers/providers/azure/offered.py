"""What can be launched in a region: the catalogue, narrowed to the sizes that Azure offers this subscription there.

Resource SKUs tell the zones of a size, what is closed to the subscription, and whether it is sold as spot. Prices are the
catalogue's, until `prices` tells today's.
"""

from collections.abc import Iterator

from app.domain.offerings import InstanceType, Market
from workers.providers.azure import listings, places
from workers.providers.azure.calls import Document, part
from workers.providers.azure.catalogue import AzureCatalogue
from workers.providers.azure.clients import Group
from workers.providers.types import Offered

_VMS = "virtualMachines"
_SPOT = "LowPriorityCapable"


def by_zone(group: Group, catalogue: AzureCatalogue, region: str) -> Iterator[Offered]:
    """Each market of each size of the catalogue in each open zone; a size without zones in the region as a whole."""
    for sku in listings.items(group, listings.SKUS, query={"$filter": f"location eq '{region}'"}):
        kind = catalogue.types.get(part(sku, "name"))
        if kind is not None and sku.get("resourceType") == _VMS and not _is_closed(sku):
            for zone in _zones(sku, region):
                for market in _markets(sku):
                    yield _offered(catalogue, kind, region, zone, market)


def _is_closed(sku: Document) -> bool:
    return any(one.get("type") == "Location" for one in sku.get("restrictions") or ())


def _zones(sku: Document, region: str) -> list[str]:
    """Open zones; the region itself for a size without any."""
    here = [one for one in sku.get("locationInfo") or () if one.get("location", "").lower() == region]
    every = sorted({zone for one in here for zone in one.get("zones") or ()})
    closed = {
        zone for one in sku.get("restrictions") or () for zone in (one.get("restrictionInfo") or {}).get("zones") or ()
    }
    return [places.zone(region, [zone]) for zone in every if zone not in closed] if every else [region]


def _markets(sku: Document) -> list[Market]:
    capable = any(
        one.get("name") == _SPOT and one.get("value", "").lower() == "true" for one in sku.get("capabilities") or ()
    )
    return [Market.ON_DEMAND, Market.SPOT] if capable else [Market.ON_DEMAND]


def _offered(catalogue: AzureCatalogue, kind: InstanceType, region: str, zone: str, market: Market) -> Offered:
    price = catalogue.prices.get((region, kind.name, market))
    return Offered(
        type=kind,
        region=region,
        zone=zone,
        market=market,
        price_per_hour=price,
        price_as_of=catalogue.price_as_of if price is not None else None,
        price_source=catalogue.price_source if price is not None else None,
    )
