"""Offerings of a region: the catalogue, restricted to what each zone has.

Prices are the catalogue's, until `prices` returns today's.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

import structlog

from app.domain.offerings import Driver, InstanceType
from workers.providers.common.instance_types import OfferedMarket, offered_markets
from workers.providers.gcp.calls import scoped
from workers.providers.gcp.catalogue import GcpCatalogue, Machine
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.nics import has_gpu_networks
from workers.providers.gcp.sdk import AcceleratorTypesClient, MachineTypesClient
from workers.providers.gcp.settings import GcpAccount
from workers.providers.types import ProviderOffering

log = structlog.get_logger(__name__)


def by_zone(
    clients: GcpClients, catalogue: GcpCatalogue, account: GcpAccount, region: str
) -> Iterator[ProviderOffering]:
    """The markets of each catalogue type in each zone that has its machine type and accelerator.

    A type has its network fabric where the account names the networks for it. Omits an unreachable zone.
    """
    machine_types = _names_by_zone(
        clients,
        MachineTypesClient,
        "machine_types",
        {machine.machine_type for machine in catalogue.machines.values()},
        region,
    )
    accelerators = _names_by_zone(
        clients,
        AcceleratorTypesClient,
        "accelerator_types",
        {machine.accelerator for machine in catalogue.machines.values() if machine.accelerator is not None},
        region,
    )
    for zone, names in machine_types.items():
        for kind in catalogue.types.values():
            machine = catalogue.machines[kind.name]
            if machine.machine_type in names and machine.accelerator in {None, *accelerators.get(zone, ())}:
                here = in_zone(kind, machine, account, region, zone)
                has_image = kind.gpu.driver is Driver.NVIDIA
                for sold in offered_markets(catalogue.markets[kind.name], has_image=has_image):
                    yield _offered(catalogue, here, region, zone, sold)


def in_zone(kind: InstanceType, machine: Machine, account: GcpAccount, region: str, zone: str) -> InstanceType:
    """The type as the account has it there: with its network fabric only where the account names the networks for it."""
    return kind if has_gpu_networks(account, machine, region, zone) else replace(kind, network_fabric=None)


def _names_by_zone(
    clients: GcpClients, client: type, member: str, names: set[str], region: str
) -> Mapping[str, set[str]]:
    """Which of these machine types or accelerator types each zone of the region has."""
    names_by_zone: dict[str, set[str]] = defaultdict(set)
    alternatives = "|".join(sorted(names))
    for page in clients.pages(clients.of(client).aggregated_list, filter=f'name eq "{alternatives}"'):
        contents, unreachable = scoped(page, region)
        if unreachable:
            log.warning("zones left out", region=region, zones=sorted(unreachable))
        for zone, scope in contents:
            names_by_zone[zone].update(resource.name for resource in getattr(scope, member))
    return names_by_zone


def _offered(
    catalogue: GcpCatalogue, kind: InstanceType, region: str, zone: str, sold: OfferedMarket
) -> ProviderOffering:
    price = catalogue.prices.get((region, kind.name, sold.market))
    return ProviderOffering(
        type=kind,
        region=region,
        zone=zone,
        market=sold.market,
        price_per_hour=price.per_hour if price is not None else None,
        price_as_of=price.as_of if price is not None else None,
        price_source=price.source if price is not None else None,
        obstacle=sold.obstacle,
    )
