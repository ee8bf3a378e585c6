"""Resources that a VM may leave behind, found by gpulease's tags: those that Azure bills, and free security groups."""

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
    return lambda document: bool(part(document, "properties").get(member))


_KINDS: Mapping[str, tuple[listings.Listing, Callable[[Document], bool]]] = {
    VOLUME: (listings.DISKS, lambda disk: bool(disk.get("managedBy"))),
    INTERFACE: (listings.INTERFACES, _holds("virtualMachine")),
    ADDRESS: (listings.ADDRESSES, _holds("ipConfiguration")),
    GROUP: (listings.SECURITY_GROUPS, _holds("networkInterfaces")),
}
"""The listing of each kind, and the check whether a resource of that kind is in use."""


def of_leases(group: Group, region: str, installation: str, lease_ids: Sequence[str] | None) -> Iterator[Leftover]:
    """Leftover resources of these leases, or of the whole installation when None.

    A resource is `in_use` while another resource uses it.
    """
    leases = None if lease_ids is None else frozenset(lease_ids)
    for kind, (listing, in_use) in _KINDS.items():
        for document in listings.items(group, listing):
            tags = resource_tags.read(document.get("tags"))
            here = part(document, "location").lower() == region and tags.get(INSTALLATION) == installation
            if here and (leases is None or tags.get(LEASE) in leases):
                yield Leftover(
                    kind=kind,
                    id=part(document, "id"),
                    region=region,
                    tags=tags,
                    in_use=in_use(document),
                    free=kind == GROUP,
                )


def remove(group: Group, leftover: Leftover) -> None:
    """Requests deletion of a resource; a missing resource is success.

    Azure reserves an interface for its VM for three minutes after a failed launch. Raises KeyError for a kind that is
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
