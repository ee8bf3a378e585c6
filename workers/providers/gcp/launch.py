"""A launch specification as the parameters of instances.insert, and of the firewall rules before it."""

import json
import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from app.domain.leases import VmState
from app.domain.offerings import Market
from app.domain.tokens import launch_name
from workers.providers.errors import OutcomeUnknown
from workers.providers.gcp import firewall, resource_tags, userdata
from workers.providers.gcp.errors import fitting
from workers.providers.gcp.ids import Id, last
from workers.providers.gcp.sdk import Instance, Operation
from workers.providers.gcp.settings import GcpAccount
from workers.providers.gcp.vms import described, time_of
from workers.providers.types import LaunchSpec, Params, Vm

INSTANCE, RULES, ZONE = "instance", "firewalls", "zone"
"""Parts of the stored parameters."""

SHORTEST_RUN, LONGEST_RUN = 30, int(timedelta(days=120).total_seconds())
"""What maxRunDuration takes (Compute Engine guide, "Limit the run time of a VM")."""

_REQUESTS = uuid.UUID("8f1d6e0c-4b7a-5c53-9a0e-2f64d1b3c7aa")


def plan(spec: LaunchSpec, account: GcpAccount, boot_disk: str) -> Params:
    """Exactly one VM, JSON-able, the same for the same arguments. The VM holds no rights in the project."""
    name = launch_name(spec.token)
    network = f"projects/{account.project}/global/networks/{account.network}"
    instance = {
        "name": name,
        "description": described(spec.token),
        "machineType": f"zones/{spec.zone}/machineTypes/{spec.instance_type}",
        "labels": resource_tags.of(spec),
        "tags": {"items": [name]},
        "disks": [_disk(spec, f"zones/{spec.zone}/diskTypes/{boot_disk}")],
        "networkInterfaces": [_interface(spec, account, network)],
        "metadata": {"items": userdata.items(spec)},
        "scheduling": _scheduling(spec),
        "serviceAccounts": [],
    }
    return {ZONE: spec.zone, INSTANCE: instance, RULES: firewall.plan(spec, name, network)}


def _disk(spec: LaunchSpec, disk_type: str) -> dict[str, Any]:
    return {
        "boot": True,
        "autoDelete": True,
        "initializeParams": {
            "sourceImage": spec.image.id,
            "diskSizeGb": str(max(spec.disk_gib, spec.image.disk_gib)),
            "diskType": disk_type,
            "labels": resource_tags.of(spec),
        },
    }


def _interface(spec: LaunchSpec, account: GcpAccount, network: str) -> dict[str, Any]:
    interface: dict[str, Any] = {"network": network}
    subnetwork = account.subnetworks.get(spec.region)
    if subnetwork is not None:
        own = f"projects/{account.project}/regions/{spec.region}/subnetworks/{subnetwork}"
        interface = {"subnetwork": subnetwork if "/" in subnetwork else own}
    if spec.public_ip:
        interface["accessConfigs"] = [{"type": "ONE_TO_ONE_NAT", "name": "External NAT"}]
    return interface


def _scheduling(spec: LaunchSpec) -> dict[str, Any]:
    """A VM with GPUs cannot be moved to another host. maxRunDuration is Google's own dead-man switch.

    It cannot be renewed: Google takes instances.setScheduling for a stopped VM alone.
    """
    spot = spec.market is Market.SPOT
    scheduling: dict[str, Any] = {"onHostMaintenance": "TERMINATE", "automaticRestart": False}
    if spot:
        scheduling["provisioningModel"] = "SPOT"
    if spec.max_seconds is not None:
        scheduling["maxRunDuration"] = {"seconds": str(min(max(spec.max_seconds, SHORTEST_RUN), LONGEST_RUN))}
    if spot or spec.max_seconds is not None:
        scheduling["instanceTerminationAction"] = "DELETE"
    return scheduling


def request_id(part: Mapping[str, Any]) -> str:
    """The same for the same parameters: a repeat is known to Google, another VM under the same name is a conflict."""
    return str(uuid.uuid5(_REQUESTS, json.dumps(part, sort_keys=True)))


def body(params: Params) -> Instance:
    """The instance of stored parameters. Raises InvalidSpec for what Google's API does not know."""
    with fitting():
        parsed: Instance = Instance.from_json(json.dumps(params[INSTANCE]))
        return parsed


def begun(operation: Operation, params: Params, region: str) -> Vm:
    """The VM that an insert has begun to make, with the number that it will have."""
    if not operation.target_id:
        raise OutcomeUnknown("the operation names no VM", code="MalformedAnswer")
    instance = params[INSTANCE]
    spot = instance["scheduling"].get("provisioningModel") == "SPOT"
    return Vm(
        id=str(Id(params[ZONE], instance["name"], str(operation.target_id))),
        region=region,
        zone=params[ZONE],
        instance_type=last(instance["machineType"]),
        market=Market.SPOT if spot else Market.ON_DEMAND,
        state=VmState.PENDING,
        tags=instance["labels"],
        launch_identity=instance["name"],
        launched_at=time_of(operation.insert_time),
    )
