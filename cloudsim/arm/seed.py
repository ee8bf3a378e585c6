"""VMs at Azure that no API call made: somebody else's, or orphans of ours."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

from cloudsim.arm.attach import attach
from cloudsim.arm.call import TYPES
from cloudsim.arm.catalog import GROUP, PROVIDER, SUBSCRIPTION
from cloudsim.arm.create_requests import DEALLOCATE
from cloudsim.control.models import PlantBody
from cloudsim.world import DiskOrder, Market, NicOrder, Order, PlantOrder, Resource, ResourceKind, Vm, World, WorldError

IMAGE = "microsoft-dsvm:ubuntu-hpc:2204:22.04.2026060801"


def plant(world: World, body: PlantBody) -> Iterator[str]:
    """Make `body.count` running VMs, one with each id taken. Raises WorldError for places that do not exist."""
    zones = world.catalogs[PROVIDER].regions.get(body.region)
    if zones is None:
        raise WorldError(f"no region {body.region}")
    if body.zone is not None and body.zone not in zones:
        raise WorldError(f"no zone {body.zone} in {body.region}")
    world.machine(PROVIDER, body.instance_type)
    if body.token is not None and body.count > 1:
        raise WorldError("a token belongs to one VM")
    launched_at = world.now - body.age_seconds
    for _ in range(body.count):
        order = _order(world, body, body.zone or zones[-1])
        vm = world.plant(PlantOrder(order=order, launched_at=launched_at))
        attach(world.resources, vm, _address(world, vm))
        yield vm.id


def _order(world: World, body: PlantBody, zone: str) -> Order:
    account = body.account or SUBSCRIPTION
    name = body.token or f"planted-{world.hex(12)}"
    group = f"/subscriptions/{account}/resourceGroups/{GROUP}/providers"
    nic, disk = (
        f"{group}/{TYPES[ResourceKind.NETWORK_INTERFACE]}/{name}-nic",
        f"{group}/{TYPES[ResourceKind.VOLUME]}/{name}-os",
    )
    subnet = f"{group}/Microsoft.Network/virtualNetworks/planted/subnets/planted"
    spot = {"priority": "Spot", "evictionPolicy": DEALLOCATE, "billingProfile": {"maxPrice": -1}}
    return Order(
        provider=PROVIDER,
        account=account,
        region=body.region,
        zones=(zone,),
        id=str(uuid.UUID(int=world.rng.getrandbits(128), version=4)),
        name=name,
        instance_type=body.instance_type,
        market=body.market,
        image=IMAGE,
        tags=body.tags,
        token=name,
        token_scope=GROUP,
        params_hash="planted",
        public_ip=True,
        disks=(DiskOrder(id=disk, tags=body.tags, delete_with_vm=True, spec={"size": 128, "sku": "Premium_LRS"}),),
        nics=(NicOrder(id=nic, tags=body.tags, delete_with_vm=True, spec={"subnet": subnet, "security_group": None}),),
        spec={"group": GROUP, "properties": spot if body.market is Market.SPOT else {}, "nic": nic, "disk": disk},
        failure_stays=True,
        reclaim_stays=body.market is Market.SPOT,
    )


def _address(world: World, vm: Vm) -> str:
    address = Resource(
        kind=ResourceKind.ADDRESS,
        provider=PROVIDER,
        account=vm.account,
        region=vm.region,
        zone=vm.zone,
        id=f"{vm.spec['nic'].removesuffix('-nic')}-ip".replace("networkInterfaces", "publicIPAddresses"),
        tags=dict(vm.tags),
        created_at=vm.launched_at,
        vm_id=vm.id,
        delete_with_vm=True,
        spec={"ip": vm.public_ip, "nic": vm.spec["nic"]},
    )
    vm.resources.append(address.id)
    world.add_resource(address)
    return address.id
