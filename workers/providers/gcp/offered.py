"""What can be launched in a region: the catalogue, narrowed to what each zone has. Prices are the catalogue's, until `prices` tells today's."""

from collections.abc import Iterator

import structlog

from app.domain.offerings import InstanceType, Market
from workers.providers.gcp.calls import scoped
from workers.providers.gcp.catalogue import GcpCatalogue
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.sdk import MachineTypesClient
from workers.providers.types import Offered

log = structlog.get_logger(__name__)


def by_zone(clients: GcpClients, catalogue: GcpCatalogue, region: str) -> Iterator[Offered]:
    """The markets of each catalogue type in each zone that has it. A zone out of reach is left out."""
    names = "|".join(sorted(catalogue.types))
    for page in clients.pages(clients.of(MachineTypesClient).aggregated_list, filter=f'name eq "{names}"'):
        found, unreachable = scoped(page, region)
        if unreachable:
            log.warning("zones left out", region=region, zones=sorted(unreachable))
        for zone, scope in found:
            for machine in scope.machine_types:
                kind = catalogue.types.get(machine.name)
                if kind is not None:
                    for market in catalogue.markets[kind.name]:
                        yield _offered(catalogue, kind, region, zone, market)


def _offered(catalogue: GcpCatalogue, kind: InstanceType, region: str, zone: str, market: Market) -> Offered:
    price = catalogue.prices.get((market, region, kind.name))
    return Offered(
        type=kind,
        region=region,
        zone=zone,
        market=market,
        price_per_hour=price,
        price_as_of=catalogue.price_as_of if price is not None else None,
        price_source=catalogue.price_source if price is not None else None,
    )
