"""VMs at AWS that no API call made: somebody else's, or orphans of ours."""

from __future__ import annotations

from collections.abc import Iterator

from cloudsim.control.models import PlantBody
from cloudsim.credentials import DEFAULT_ACCOUNT
from cloudsim.ec2 import default_vpc
from cloudsim.ec2.catalog import PROVIDER
from cloudsim.ec2.create_requests import METADATA_DEFAULTS
from cloudsim.ec2.images import ROOT_DEVICE, ROOT_GIB, images, newest
from cloudsim.world import DiskOrder, NicOrder, Order, PlantOrder, World, WorldError


def plant(world: World, body: PlantBody) -> Iterator[str]:
    """Make `body.count` running VMs, one with each id taken. Raises WorldError for places that do not exist."""
    zone = _zone(world, body)
    world.machine(PROVIDER, body.instance_type)
    if body.token is not None and body.count > 1:
        raise WorldError("a token belongs to one VM")
    launched_at = world.now - body.age_seconds
    for _ in range(body.count):
        yield world.plant(PlantOrder(order=_order(world, body, zone), launched_at=launched_at)).id


def _zone(world: World, body: PlantBody) -> str:
    zones = world.catalogs[PROVIDER].regions.get(body.region)
    if zones is None:
        raise WorldError(f"no region {body.region}")
    if body.zone is not None and body.zone not in zones:
        raise WorldError(f"no zone {body.zone} in {body.region}")
    return body.zone or zones[0]


def _order(world: World, body: PlantBody, zone: str) -> Order:
    image = newest(body.region)
    return Order(
        provider=PROVIDER,
        account=body.account or DEFAULT_ACCOUNT,
        region=body.region,
        zones=(zone,),
        id=f"i-{world.hex(17)}",
        name=body.tags.get("Name", ""),
        instance_type=body.instance_type,
        market=body.market,
        image=image,
        tags=body.tags,
        token=body.token,
        token_scope=zone,
        params_hash="planted",
        public_ip=True,
        disks=(_disk(world, images(body.region)[image].snapshot_id),),
        nics=(_nic(world, _groups(body)),),
        spec={
            "reservation": f"r-{world.hex(17)}",
            "groups": _groups(body),
            "metadata": METADATA_DEFAULTS,
            "ebs_optimized": False,
            "protected": False,
            "shutdown": "stop",
            "user_data": "",
            "spot": {"id": f"sir-{world.hex(8)}", "tags": body.tags},
            "subnet": default_vpc.subnet_id(body.account or DEFAULT_ACCOUNT, zone),
        },
    )


def _disk(world: World, snapshot: str) -> DiskOrder:
    spec = {"device": ROOT_DEVICE, "size": ROOT_GIB, "type": "gp3", "iops": 3_000, "encrypted": False}
    return DiskOrder(id=f"vol-{world.hex(17)}", tags={}, delete_with_vm=True, spec={**spec, "snapshot": snapshot})


def _groups(body: PlantBody) -> list[dict[str, str]]:
    return [
        {"GroupId": default_vpc.default_group_id(body.account or DEFAULT_ACCOUNT, body.region), "GroupName": "default"}
    ]


def _nic(world: World, groups: list[dict[str, str]]) -> NicOrder:
    spec = {"attachment": f"eni-attach-{world.hex(17)}", "device_index": 0, "groups": groups}
    return NicOrder(id=f"eni-{world.hex(17)}", tags={}, delete_with_vm=True, spec=spec)
