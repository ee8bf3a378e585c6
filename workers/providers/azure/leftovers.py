"""What a VM may leave behind, found by our tags: what Azure bills, and security groups, which are free."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from app.domain.tags import INSTALLATION, LEASE
from workers.providers.azure import firewall, listings, names, resource_tags
from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.errors import NotFound
from workers.providers.types import Leftover

VOLUME = "volume"
INTERFACE = "network_interface"
ADDRESS = "address"
GROUP = "security_group"


def _holds(member: str) -> Callable[[Document], bool]:
    return lambda one: bool(part(one, "properties").get(member))


_KINDS: Mapping[str, tuple[listings.Listing, Callable[[Document], bool]]] = {
    VOLUME: (listings.DISKS, lambda disk: bool(disk.get("managedBy"))),
    INTERFACE: (listings.INTERFACES, _holds("virtualMachine")),
    ADDRESS: (listings.ADDRESSES, _holds("ipConfiguration")),
    GROUP: (listings.SECURITY_GROUPS, _holds("networkInterfaces")),
}
"""What is listed of each kind, and what shows that something holds it."""


def of_leases(group: Group, region: str, installation: str, lease_ids: Sequence[str] | None) -> Iterator[Leftover]:
    """Those of these leases, or of the whole installation when None; `in_use` while something holds them."""
    wanted = None if lease_ids is None else frozenset(lease_ids)
    for kind, (listing, in_use) in _KINDS.items():
        for one in listings.items(group, listing):
            found = resource_tags.read(one.get("tags"))
            here = part(one, "location").lower() == region and found.get(INSTALLATION) == installation
            if here and (wanted is None or found.get(LEASE) in wanted):
                yield Leftover(
                    kind=kind, id=part(one, "id"), region=region, tags=found, in_use=in_use(one), free=kind == GROUP
                )


def remove(group: Group, leftover: Leftover) -> None:
    """Asks for the end of one; one that is gone already is success.

    Azure keeps an interface for its VM for three minutes after a launch that failed. Raises KeyError for a kind that is
    not Azure's.
    """
    call = _REMOVALS[leftover.kind]
    try:
        with translated():
            call(group, names.last(leftover.id))
    except NotFound:
        return


_REMOVALS: Mapping[str, Callable[[Group, str], object]] = {
    VOLUME: lambda group, one: group.compute.disks.begin_delete(group.name, one, polling=False),
    INTERFACE: lambda group, one: group.network.network_interfaces.begin_delete(group.name, one, polling=False),
    ADDRESS: lambda group, one: group.network.public_ip_addresses.begin_delete(group.name, one, polling=False),
    GROUP: lambda group, one: firewall.remove(group.network, group.name, one),
}
