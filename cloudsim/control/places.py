"""Where a control call means: named places are checked, so that a typing error never passes in silence."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cloudsim.control.models import CapacityBody
from cloudsim.world import Catalog, Market, Vm, World, WorldError
from cloudsim.world.capacity import Cell


def catalog(world: World, provider: str) -> Catalog:
    """The provider's catalogue. Raises WorldError."""
    if provider not in world.catalogs:
        raise WorldError(f"no provider {provider}; there are {', '.join(world.catalogs)}")
    return world.catalogs[provider]


def check(what: str, name: str | None, known: Collection[str]) -> None:
    """Raises WorldError for a name that is not among the known."""
    if name is not None and name not in known:
        raise WorldError(f"no {what} {name}; there are {', '.join(sorted(known))}")


def cells(world: World, body: CapacityBody) -> Iterator[Cell]:
    """All cells that a capacity setting covers. Raises WorldError for unknown places."""
    facts = catalog(world, body.provider)
    check("region", body.region, facts.regions)
    check("zone", body.zone, facts.zones)
    check("instance type", body.instance_type, facts.machines)
    for zone in [body.zone] if body.zone else facts.zones:
        if body.region in (None, facts.region_of(zone)):
            for machine in [body.instance_type] if body.instance_type else facts.machines:
                for market in [body.market] if body.market else Market:
                    yield Cell(body.provider, zone, machine, market)


def protectable(world: World, provider: str, thing_id: str) -> None:
    """Raises WorldError for an id that is neither a VM nor a resource of this provider."""
    found = world.vms.get(thing_id) or world.resources.get(thing_id)
    if found is None or found.provider != provider:
        raise WorldError(f"{provider} has no VM or resource {thing_id}")


def vm(world: World, provider: str, vm_id: str) -> Vm:
    """Any account's VM. Raises WorldError."""
    found = world.vms.get(vm_id)
    if found is None or found.provider != provider:
        raise WorldError(f"{provider} has no VM {vm_id}")
    return found
