"""What a VM may leave behind, found by our tags: what Azure bills, and security groups, which are free."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.domain.tags import INSTALLATION, LEASE
from workers.providers.azure import firewall, names, resource_tags
from workers.providers.azure.calls import Document, items, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.base import InvalidSpec, Leftover, NotFound, OutcomeUnknown

VOLUME = "volume"
INTERFACE = "network_interface"
ADDRESS = "address"
GROUP = "security_group"


def of_leases(group: Group, region: str, installation: str, lease_ids: Sequence[str] | None) -> Iterator[Leftover]:
    """Those of these leases, or of the whole installation when None; `in_use` while something holds them."""
    wanted = None if lease_ids is None else frozenset(lease_ids)
    for kind, listing, in_use in _listings(group):
        for one in items(listing, group.name):
            found = resource_tags.read(one.get("tags"))
            here = part(one, "location").lower() == region and found.get(INSTALLATION) == installation
            if here and (wanted is None or found.get(LEASE) in wanted):
                yield Leftover(
                    kind=kind, id=part(one, "id"), region=region, tags=found, in_use=in_use(one), free=kind == GROUP
                )


def remove(group: Group, leftover: Leftover) -> None:
    """Asks for the end of one; one that is gone already is success. OutcomeUnknown while something holds it.

    Azure keeps an interface for its VM for three minutes after a launch that failed. Raises KeyError for a kind that is
    not Azure's.
    """
    call = _REMOVALS[leftover.kind]
    try:
        with translated():
            call(group, names.last(leftover.id))
    except NotFound:
        return
    except InvalidSpec as error:
        raise OutcomeUnknown(error.message, code=error.code) from None


_REMOVALS: Mapping[str, Callable[[Group, str], object]] = {
    VOLUME: lambda group, one: group.compute.disks.begin_delete(group.name, one, polling=False),
    INTERFACE: lambda group, one: group.network.network_interfaces.begin_delete(group.name, one, polling=False),
    ADDRESS: lambda group, one: group.network.public_ip_addresses.begin_delete(group.name, one, polling=False),
    GROUP: lambda group, one: firewall.remove(group.network, group.name, one),
}


def _listings(group: Group) -> Iterator[tuple[str, Any, Callable[[Document], bool]]]:
    yield VOLUME, group.compute.disks.list_by_resource_group, lambda disk: bool(disk.get("managedBy"))
    yield INTERFACE, group.network.network_interfaces.list, _holds("virtualMachine")
    yield ADDRESS, group.network.public_ip_addresses.list, _holds("ipConfiguration")
    yield GROUP, group.network.network_security_groups.list, _holds("networkInterfaces")


def _holds(member: str) -> Callable[[Document], bool]:
    return lambda one: bool(part(one, "properties").get(member))
