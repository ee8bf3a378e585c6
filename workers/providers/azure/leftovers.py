"""Resources that a VM may leave behind, found by gpulease's tags: those that Azure bills, and free ones."""

from collections.abc import Callable, Container, Iterator, Mapping, Sequence

import structlog

from app.domain.tags import INSTALLATION, LEASE
from app.domain.tags import VOLUME as TENANT_VOLUME
from workers.providers.azure import firewall, groups, listings, names, resource_tags
from workers.providers.azure.calls import Document, part
from workers.providers.azure.clients import Group
from workers.providers.azure.errors import translated
from workers.providers.errors import CredentialsRejected, NotFound
from workers.providers.types import Leftover

log = structlog.get_logger(__name__)

VOLUME = "volume"
INTERFACE = "network_interface"
ADDRESS = "address"
GROUP = "security_group"
MEMBERS, NEAR, SET = "application_security_group", "proximity_placement_group", "availability_set"


def _holds(member: str) -> Callable[[Document], bool]:
    return lambda document: bool(part(document, "properties").get(member))


_KINDS: Mapping[str, tuple[listings.Listing, Callable[[Document], bool]]] = {
    VOLUME: (listings.DISKS, lambda disk: bool(disk.get("managedBy"))),
    INTERFACE: (listings.INTERFACES, _holds("virtualMachine")),
    ADDRESS: (listings.ADDRESSES, _holds("ipConfiguration")),
    GROUP: (listings.SECURITY_GROUPS, _holds("networkInterfaces")),
}
"""The listing of each kind, and the check whether a resource of that kind is in use."""
_NAMING = frozenset({INTERFACE, GROUP})
_SHARED: Mapping[str, listings.Listing] = {
    MEMBERS: listings.APPLICATION_GROUPS,
    NEAR: listings.PROXIMITY_GROUPS,
    SET: listings.AVAILABILITY_SETS,
}
_NOT_ALLOWED = "AuthorizationFailed"


def of_leases(group: Group, region: str, installation: str, lease_ids: Sequence[str] | None) -> Iterator[Leftover]:
    """Leftover resources of these leases, or of the whole installation when None.

    A resource is `in_use` while another resource uses it. The network security group that all VMs of the installation
    share names no lease. It stays, and so does a volume of a tenant.
    """
    leases = None if lease_ids is None else frozenset(lease_ids)
    named: set[str] = set()
    for kind, document in _documents(group):
        if kind in _NAMING:
            named.update(groups.references(document))
        tags = resource_tags.read(document.get("tags"))
        here = part(document, "location").lower() == region and tags.get(INSTALLATION) == installation
        stays = (kind == GROUP and LEASE not in tags) or TENANT_VOLUME in tags
        if here and not stays and (leases is None or tags.get(LEASE) in leases):
            in_use = _KINDS[kind][1](document) if kind in _KINDS else _is_shared_in_use(document, named)
            free = kind == GROUP or kind in _SHARED
            resource_id = part(document, "id")
            yield Leftover(kind=kind, id=resource_id, region=region, tags=tags, in_use=in_use, free=free)


def _documents(group: Group) -> Iterator[tuple[str, Document]]:
    """Kind and document of everything. Without the rights to read what groups share, which only groups need, there is none."""
    for kind, (listing, _) in _KINDS.items():
        yield from ((kind, document) for document in listings.items(group, listing))
    for kind, listing in _SHARED.items():
        try:
            yield from ((kind, document) for document in listings.items(group, listing))
        except CredentialsRejected as error:
            if error.code != _NOT_ALLOWED:
                raise
            log.info("shared resources of groups not read", kind=kind, error=error.message)


def _is_shared_in_use(document: Document, named: Container[str]) -> bool:
    return groups.holds_vms(document) or str(part(document, "id")).lower() in named


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
    VOLUME: lambda group, name: group.compute.disks.begin_delete(group.name, name, polling=False),
    INTERFACE: lambda group, name: group.network.network_interfaces.begin_delete(group.name, name, polling=False),
    ADDRESS: lambda group, name: group.network.public_ip_addresses.begin_delete(group.name, name, polling=False),
    GROUP: lambda group, name: firewall.remove(group.network, group.name, name),
    MEMBERS: lambda group, name: groups.remove(group, groups.MEMBERS, name),
    NEAR: lambda group, name: groups.remove(group, groups.NEAR, name),
    SET: lambda group, name: groups.remove(group, groups.SET, name),
}
