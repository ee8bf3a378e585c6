"""From the body of instances.insert to an order for the world, checked the way Compute Engine checks it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from typing import Any

from cloudsim.gce import links
from cloudsim.gce.call import Call
from cloudsim.gce.errors import invalid, not_found
from cloudsim.gce.facts import PROVIDER
from cloudsim.gce.images import Image, named
from cloudsim.gce.labels import check as check_labels
from cloudsim.world import DiskOrder, Market, Order

_NAME = re.compile(r"[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?")
_METADATA_BYTES = 256 * 1024
_LONGEST_RUN_SECONDS = 120 * 86_400
Body = Mapping[str, Any]


def read_order(call: Call) -> Order:
    """The order that a call places. Raises GceError as Google would refuse it."""
    body = call.body
    name = body.get("name", "")
    if not _NAME.fullmatch(name):
        raise invalid("resource.name", f"'{name}'. Must be a match of regex '{_NAME.pattern}'")
    machine = _machine(call, body.get("machineType", ""))
    scheduling, market = _scheduling(body.get("scheduling", {}))
    metadata = _metadata(body.get("metadata", {}))
    interface = _interface(body)
    labels = check_labels(body.get("labels", {}))
    return Order(
        provider=PROVIDER,
        account=call.project,
        region=call.region,
        zones=(call.zone,),
        id=str((1 << 60) | call.world.rng.getrandbits(60)),
        name=name,
        instance_type=machine,
        market=market,
        image=_boot(body)["initializeParams"].get("sourceImage", ""),
        tags=labels,
        token=_request_id(call),
        token_scope=f"{call.project}/{call.zone}",
        params_hash="",  # a repeat with the same request id is not compared: the first one counts
        public_ip=bool(interface.get("accessConfigs")),
        disks=(_disk(call, _boot(body), name),),
        nics=(),
        spec={
            "description": body.get("description", ""),
            "tags": list(body.get("tags", {}).get("items", [])),
            "metadata": metadata,
            "scheduling": scheduling,
            "network": interface.get("network") or links.everywhere(call.project, "networks", "default"),
            "caller": call.caller,
        },
    )


def _request_id(call: Call) -> str | None:
    given = call.query.get("requestId")
    if given is None:
        return None
    try:
        return str(uuid.UUID(given))
    except ValueError:
        raise invalid("requestId", f"'{given}' is not a UUID.") from None


def _machine(call: Call, link: str) -> str:
    """The type's name; one that is not sold in the zone does not exist there."""
    name = links.last(link)
    if (call.zone, name) not in call.world.offered[PROVIDER]:
        raise invalid(
            "resource.machineType",
            f"'{link}'. Machine type with name '{name}' does not exist in zone '{call.zone}'.",
        )
    return name


def _scheduling(body: Body) -> tuple[dict[str, Any], Market]:
    """As it is kept, and the market that it means."""
    if body.get("onHostMaintenance") != "TERMINATE":
        raise invalid(
            "scheduling.onHostMaintenance", "Instances with guest accelerators do not support live migration."
        )
    model = body.get("provisioningModel", "STANDARD")
    spot = model == "SPOT"
    if spot and body.get("automaticRestart", True):
        raise invalid("scheduling.automaticRestart", "Scheduling must have automatic restart be false for spot.")
    limit = int(body.get("maxRunDuration", {}).get("seconds", _LONGEST_RUN_SECONDS))
    if not 30 <= limit <= _LONGEST_RUN_SECONDS:
        raise invalid("scheduling.maxRunDuration", "It must be between 30 seconds and 120 days.")
    if "maxRunDuration" in body and "instanceTerminationAction" not in body:
        raise invalid("scheduling.instanceTerminationAction", "It must be given together with maxRunDuration.")
    return {**body, "provisioningModel": model, "preemptible": spot}, Market.SPOT if spot else Market.ON_DEMAND


def _metadata(body: Body) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in body.get("items", []):
        if len(item.get("value", "").encode()) > _METADATA_BYTES:
            raise invalid("resource.metadata", f"The value of '{item['key']}' is too long: at most 262144 bytes.")
        found[item["key"]] = item.get("value", "")
    return found


def _interface(body: Body) -> Body:
    interfaces = body.get("networkInterfaces", [])
    if len(interfaces) != 1:
        raise invalid("resource.networkInterfaces", "One network interface is simulated.")
    chosen: Body = interfaces[0]
    return chosen


def _boot(body: Body) -> Body:
    disks = body.get("disks", [])
    if len(disks) != 1 or not disks[0].get("boot") or "initializeParams" not in disks[0]:
        raise invalid("resource.disks", "One boot disk made from an image is simulated.")
    boot: Body = disks[0]
    return boot


def _disk(call: Call, boot: Body, vm_name: str) -> DiskOrder:
    wanted: Body = boot["initializeParams"]
    image = _image(wanted.get("sourceImage", ""))
    size = int(wanted.get("diskSizeGb", image.disk_gib))
    if size < image.disk_gib:
        raise invalid("resource.disks[0].initializeParams.diskSizeGb", f"must be at least {image.disk_gib} GB.")
    return DiskOrder(
        id=str((1 << 60) | call.world.rng.getrandbits(60)),
        tags=check_labels(wanted.get("labels", {})),
        delete_with_vm=bool(boot.get("autoDelete")),
        spec={
            "name": wanted.get("diskName", vm_name),
            "size": size,
            "type": links.last(wanted.get("diskType", "pd-standard")),
            "image": image.link,
        },
    )


def _image(link: str) -> Image:
    path = link.partition("projects/")[2]
    if not path:
        raise invalid("resource.disks[0].initializeParams.sourceImage", f"'{link}'. The URL is malformed.")
    image = named(path)
    if image is None:
        raise not_found(f"projects/{path}")
    return image
