"""A new VM and what is made with it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from cloudsim.settings import Settings
from cloudsim.world.create_requests import DiskOrder, NicOrder, Order
from cloudsim.world.entities import Resource, ResourceKind, Vm, VmState
from cloudsim.world.lifecycle import RUNNING_SHARE

PRIVATE_NET = "172.31"


def _address(net: str, seq: int) -> str:
    return f"{net}.{seq // 250 % 250}.{seq % 250 + 4}"


def vm(order: Order, zone: str, *, seq: int, launched_at: float, settings: Settings) -> Vm:
    """The VM as it is in its first moment."""
    return Vm(
        seq=seq,
        provider=order.provider,
        account=order.account,
        region=order.region,
        zone=zone,
        id=order.id,
        name=order.name,
        instance_type=order.instance_type,
        market=order.market,
        image=order.image,
        state=VmState.PENDING,
        tags=dict(order.tags),
        token=order.token,
        token_key=order.token_key,
        params_hash=order.params_hash,
        launched_at=launched_at,
        visible_at=launched_at + settings.list_lag_seconds,
        running_at=launched_at + settings.boot_seconds * RUNNING_SHARE,
        ready_at=launched_at + settings.boot_seconds,
        private_ip=_address(PRIVATE_NET, seq),
        public_ip=(settings.vm_address or _address(settings.vm_network, seq)) if order.public_ip else None,
        spec={**order.spec, **order.spec_by_zone.get(zone, {})},
        failure_stays=order.failure_stays,
        reservation=order.reservation,
        placement_group=order.placement_group,
        reclaim_stays=order.reclaim_stays,
    )


def resources(order: Order, of: Vm) -> Iterator[Resource]:
    """Disks and network interfaces of the VM."""
    for disk in order.disks:
        yield _resource(ResourceKind.VOLUME, disk, of)
    for nic in order.nics:
        yield _resource(ResourceKind.NETWORK_INTERFACE, nic, of)


def _resource(kind: ResourceKind, part: DiskOrder | NicOrder, of: Vm) -> Resource:
    return Resource(
        kind=kind,
        provider=of.provider,
        account=of.account,
        region=of.region,
        zone=of.zone,
        id=part.id,
        tags=dict(part.tags),
        created_at=of.launched_at,
        vm_id=of.id,
        delete_with_vm=part.delete_with_vm,
        spec=dict(part.spec),
    )
