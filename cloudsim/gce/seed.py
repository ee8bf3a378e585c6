"""VMs at Google that no API call made: somebody else's, or orphans of ours."""

from __future__ import annotations

from collections.abc import Iterator

from cloudsim.control.models import PlantBody
from cloudsim.gce import links
from cloudsim.gce.catalog import DEFAULT_PROJECT, PROVIDER
from cloudsim.gce.images import IMAGES
from cloudsim.world import DiskOrder, Market, Order, PlantOrder, World, WorldError


def plant(world: World, body: PlantBody) -> Iterator[str]:
    """Make `body.count` running VMs, one with each number taken. Raises WorldError for places that do not exist."""
    zones = world.catalogs[PROVIDER].regions.get(body.region)
    if zones is None:
        raise WorldError(f"no region {body.region}")
    if body.zone is not None and body.zone not in zones:
        raise WorldError(f"no zone {body.zone} in {body.region}")
    world.machine(PROVIDER, body.instance_type)
    launched_at = world.now - body.age_seconds
    for _ in range(body.count):
        yield world.plant(PlantOrder(order=_order(world, body, body.zone or zones[0]), launched_at=launched_at)).id


def _order(world: World, body: PlantBody, zone: str) -> Order:
    project = body.account or DEFAULT_PROJECT
    number = str((1 << 60) | world.rng.getrandbits(60))
    name = f"planted-{number}"
    disk = {"name": name, "size": 50, "type": "pd-balanced", "image": IMAGES[-1].link}
    return Order(
        provider=PROVIDER,
        account=project,
        region=body.region,
        zones=(zone,),
        id=number,
        name=name,
        instance_type=body.instance_type,
        market=body.market,
        image=IMAGES[-1].link,
        tags=body.tags,
        token=None,
        token_scope=zone,
        params_hash="",
        public_ip=True,
        disks=(DiskOrder(id=str(int(number) + 1), tags={}, delete_with_vm=True, spec=disk),),
        nics=(),
        spec={
            "description": "",
            "tags": [],
            "metadata": {},
            "scheduling": {
                "onHostMaintenance": "TERMINATE",
                "provisioningModel": "SPOT" if body.market is Market.SPOT else "STANDARD",
            },
            "network": links.everywhere(project, "networks", "default"),
        },
    )
