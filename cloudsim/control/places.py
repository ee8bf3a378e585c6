"""Where a control call means: named places are checked, so that a typing error never passes in silence."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cloudsim.control.models import CapacityBody, ReservationBody
from cloudsim.world import Catalog, Market, Reservation, Vm, World, WorldError
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


def reservation(world: World, body: ReservationBody, account: str) -> Reservation:
    """What the body buys, by the world's time. Raises WorldError for unknown places."""
    facts = catalog(world, body.provider)
    check("zone", body.zone, facts.zones)
    check("instance type", body.instance_type, facts.machines)
    ends_at = None if body.ends_in is None else world.now + body.ends_in
    early = body.ends_vms_before
    return Reservation(
        provider=body.provider,
        account=account,
        id=body.id,
        kind=body.kind,
        region=str(facts.region_of(body.zone)),
        zone=body.zone,
        instance_type=body.instance_type,
        total=body.total,
        starts_at=None if body.starts_in is None else world.now + body.starts_in,
        ends_at=ends_at,
        vms_end_at=None if ends_at is None or early is None else ends_at - early,
        cancelled=body.cancelled,
    )


def protectable(world: World, provider: str, thing_id: str) -> None:
    """Raises WorldError for an id that is neither a VM nor a resource of this provider."""
    thing = world.vms.get(thing_id) or world.resources.get(thing_id)
    if thing is None or thing.provider != provider:
        raise WorldError(f"{provider} has no VM or resource {thing_id}")


def vm(world: World, provider: str, vm_id: str) -> Vm:
    """Any account's VM. Raises WorldError."""
    named = world.vms.get(vm_id)
    if named is None or named.provider != provider:
        raise WorldError(f"{provider} has no VM {vm_id}")
    return named
