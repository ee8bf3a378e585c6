"""What a VM may leave behind: disks, found by their labels, and firewall rules and placement policies, which are free.

External addresses go with their VM: none is reserved.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from app.domain import tags
from workers.providers.common.batch import chunks
from workers.providers.errors import NotFound
from workers.providers.gcp import firewall, groups, resource_tags
from workers.providers.gcp.calls import either, scoped
from workers.providers.gcp.clients import GcpClients
from workers.providers.gcp.ids import Id
from workers.providers.gcp.sdk import Disk, DisksClient, InstancesClient
from workers.providers.types import Leftover, Leftovers

VOLUME = "volume"
RULE = "firewall_rule"
POLICY = "placement_policy"

_GOING = "DELETING"
_LEASES_PER_CALL = 50


def of_leases(clients: GcpClients, region: str, installation: str, lease_ids: Sequence[str] | None) -> Leftovers:
    """Those of these leases, or of the whole installation when None; `in_use` while a VM has them."""
    filters = list(_filters(installation, lease_ids))
    leftovers: list[Leftover] = []
    lost: frozenset[str] = frozenset()
    for label_filter in filters:
        for page in clients.pages(clients.of(DisksClient).aggregated_list, filter=label_filter):
            scopes, unreachable = scoped(page, region)
            leftovers += [disk for zone, scope in scopes for disk in _disks(scope, zone, region, installation)]
            lost |= unreachable
    leftovers += _free(clients, region, installation, lease_ids, filters)
    return Leftovers(resources=leftovers, unreachable=lost)


def _filters(installation: str, lease_ids: Sequence[str] | None) -> Iterator[str]:
    """Google takes no AND around several ORs; lease ids alone are unique enough to ask for."""
    if lease_ids is None:
        yield resource_tags.having(tags.INSTALLATION, installation)
        return
    for chunk in chunks([resource_tags.exact(lease_id) for lease_id in lease_ids], _LEASES_PER_CALL):
        yield either(f"labels.{tags.LEASE}", chunk)


def _disks(scope: Any, zone: str, region: str, installation: str) -> Iterator[Leftover]:
    for disk in scope.disks:
        ours = disk.labels.get(tags.INSTALLATION) == resource_tags.exact(installation)
        if ours and disk.status != _GOING and tags.VOLUME not in disk.labels:
            yield _disk(disk, zone, region)


def _disk(disk: Disk, zone: str, region: str) -> Leftover:
    disk_id = str(Id(zone, disk.name, str(disk.id)))
    return Leftover(kind=VOLUME, id=disk_id, region=region, tags=dict(disk.labels), in_use=bool(disk.users))


def _free(
    clients: GcpClients, region: str, installation: str, lease_ids: Sequence[str] | None, filters: Sequence[str]
) -> Iterator[Leftover]:
    """Neither rules nor policies say whether they apply to anything; the network tags of the VMs that show do.

    Rules belong to no region. A group's policy has the name of the tag that its members have.
    """
    rules = [(RULE, rule_id, rule.target_tags, owner) for rule_id, rule, owner in firewall.of_account(clients)]
    policies = [(POLICY, name, [name], owner) for name, owner in groups.placement_policies(clients, region)]
    ours = [
        (kind, resource_id, vm_tags, owner)
        for kind, resource_id, vm_tags, owner in (*rules, *policies)
        if owner.get(tags.INSTALLATION) == installation and (lease_ids is None or owner.get(tags.LEASE) in lease_ids)
    ]
    if not ours:
        return
    further = [
        either(f"labels.{key}", chunk)
        for key in (tags.BATCH, tags.GROUP)
        for chunk in chunks(sorted({owner[key] for *_, owner in ours if key in owner}), _LEASES_PER_CALL)
    ]
    used = {tag for label_filter in (*filters, *further) for tag in _tags_in_use(clients, label_filter)}
    for kind, resource_id, vm_tags, owner in ours:
        in_use = not used.isdisjoint(vm_tags)
        yield Leftover(kind=kind, id=resource_id, region=region, tags=owner, in_use=in_use, free=True)


def _tags_in_use(clients: GcpClients, label_filter: str) -> Iterator[str]:
    """Network tags of the VMs of all regions."""
    for page in clients.pages(clients.of(InstancesClient).aggregated_list, filter=label_filter):
        for scope in page.items.values():
            for instance in scope.instances:
                yield from instance.tags.items


def remove(clients: GcpClients, leftover: Leftover) -> None:
    """Removes one; one that is gone is success. Google has a code of its own for each reason to keep a disk."""
    if leftover.kind == RULE:
        firewall.remove(clients, leftover.id)
        return
    if leftover.kind == POLICY:
        groups.remove_policy(clients, leftover.region, leftover.id)
        return
    disk = Id.parse(leftover.id)
    if disk is None:
        raise NotFound(f"{leftover.id} names no disk", code="notFound")
    client = clients.of(DisksClient)
    try:
        existing = clients.ask(client.get, zone=disk.zone, disk=disk.name)
        if str(existing.id) == disk.number:
            clients.ask(client.delete_unary, zone=disk.zone, disk=disk.name)
    except NotFound:
        return
