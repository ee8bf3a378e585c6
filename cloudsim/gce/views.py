"""Things of the world as Compute Engine's JSON. Output only: nothing here changes anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cloudsim.gce import links
from cloudsim.gce.catalog import PROVIDER, accelerator
from cloudsim.gce.catalog import machine_type as machine_type_of
from cloudsim.gce.interfaces import network_of
from cloudsim.world import Resource, ResourceKind, Vm, VmState, World

_STATUS = {
    VmState.PENDING: "PROVISIONING",
    VmState.RUNNING: "RUNNING",
    VmState.SHUTTING_DOWN: "STOPPING",
    VmState.TERMINATED: "TERMINATED",
}
_EPOCH = "1969-12-31T16:00:00.000-08:00"
Json = dict[str, Any]


def instance(world: World, vm: Vm) -> Json:
    """`compute#instance`."""
    place = (vm.account, vm.zone)
    started = {"lastStartTimestamp": links.rfc3339(vm.running_at)} if vm.state is not VmState.PENDING else {}
    return {
        "kind": "compute#instance",
        "id": vm.id,
        "creationTimestamp": links.rfc3339(vm.launched_at),
        "name": vm.name,
        "description": vm.spec["description"],
        "tags": {"items": vm.spec["tags"], "fingerprint": links.fingerprint(vm.spec["tags"])},
        "machineType": links.zonal(*place, "machineTypes", machine_type_of(vm.instance_type)),
        "guestAccelerators": _accelerators(vm),
        "status": "PENDING" if vm.queued_until is not None else _STATUS[vm.state],
        "zone": links.zonal(*place),
        "canIpForward": False,
        "networkInterfaces": [_interface(vm), *_further_interfaces(vm)],
        "disks": [
            _attached(world.resources[resource_id], index)
            for index, resource_id in enumerate(vm.resources)
            if resource_id in world.resources
        ],
        "metadata": {
            "kind": "compute#metadata",
            "fingerprint": links.fingerprint(vm.spec["metadata"]),
            "items": [{"key": key, "value": value} for key, value in vm.spec["metadata"].items()],
        },
        "selfLink": links.zonal(*place, "instances", vm.name),
        "scheduling": vm.spec["scheduling"],
        **({"reservationAffinity": vm.spec["affinity"]} if vm.spec.get("affinity") else {}),
        **_policies(vm),
        "labels": vm.tags,
        "labelFingerprint": links.fingerprint(sorted(vm.tags.items())),
        "startRestricted": False,
        "deletionProtection": False,
        "fingerprint": links.fingerprint(vm.id),
        "serviceAccounts": vm.spec.get("service_accounts", []),
        **({"shieldedInstanceConfig": vm.spec["shielded"]} if vm.spec.get("shielded") else {}),
        **started,
    }


def _policies(vm: Vm) -> Json:
    if vm.placement_group is None:
        return {}
    return {
        "resourcePolicies": [links.regional(vm.account, vm.region, "resourcePolicies", links.last(vm.placement_group))]
    }


def _accelerators(vm: Vm) -> list[Json]:
    """Built-in accelerators show too."""
    kind, count = accelerator(vm.instance_type)
    link = links.zonal(vm.account, vm.zone, "acceleratorTypes", kind)
    return [{"acceleratorType": link, "acceleratorCount": count}]


def _interface(vm: Vm) -> Json:
    document: Json = {
        "kind": "compute#networkInterface",
        "name": "nic0",
        "network": vm.spec["network"],
        **({"subnetwork": vm.spec["subnetwork"]} if vm.spec.get("subnetwork") else {}),
        "networkIP": vm.private_ip,
        "stackType": "IPV4_ONLY",
    }
    if vm.spec.get("nic_type") is not None:
        document["nicType"] = vm.spec["nic_type"]
    if vm.public_ip is not None:
        access: Json = {"kind": "compute#accessConfig", "type": "ONE_TO_ONE_NAT", "name": "External NAT"}
        address = {"natIP": vm.public_ip} if vm.state is not VmState.PENDING else {}
        document["accessConfigs"] = [{**access, "networkTier": "PREMIUM", **address}]
    return document


def _further_interfaces(vm: Vm) -> Iterator[Json]:
    """Interfaces of GPUs. Their addresses are not those that users or members reach the VM at."""
    for number, interface in enumerate(vm.spec.get("further_interfaces", ()), start=1):
        yield {
            "kind": "compute#networkInterface",
            "name": f"nic{number}",
            "network": links.everywhere(vm.account, "networks", network_of(interface)),
            "networkIP": f"172.16.{number}.{2 + int(vm.id) % 250}",
            "stackType": "IPV4_ONLY",
            **{key: value for key, value in interface.items() if key in {"subnetwork", "nicType"}},
        }


def _attached(of: Resource, index: int) -> Json:
    return {
        "kind": "compute#attachedDisk",
        "type": "PERSISTENT",
        "mode": "READ_WRITE",
        "source": links.zonal(of.account, of.zone, "disks", of.spec["name"]),
        "deviceName": of.spec.get("device", "persistent-disk-0"),
        "index": index,
        "boot": of.spec.get("boot", True),
        "autoDelete": of.delete_with_vm,
        "diskSizeGb": str(of.spec["size"]),
        **_key(of),
    }


def _key(of: Resource) -> Json:
    """Google shows the version of the key that it has used."""
    key = of.spec.get("key")
    return {"diskEncryptionKey": {"kmsKeyName": f"{key}/cryptoKeyVersions/1"}} if key else {}


def disk(world: World, of: Resource) -> Json:
    """`compute#disk`."""
    place = (of.account, of.zone)
    holder = world.vms.get(of.vm_id or "")
    users = {"users": [links.zonal(*place, "instances", holder.name)]} if holder is not None else {}
    return {
        "kind": "compute#disk",
        "id": of.id,
        "creationTimestamp": links.rfc3339(of.created_at),
        "name": of.spec["name"],
        "sizeGb": str(of.spec["size"]),
        "zone": links.zonal(*place),
        "status": "READY" if world.is_made(of) else "DELETING" if "gone_from" in of.spec else "CREATING",
        **({"sourceImage": of.spec["image"]} if of.spec["image"] else {}),
        **_key(of),
        "selfLink": links.zonal(*place, "disks", of.spec["name"]),
        "type": links.zonal(*place, "diskTypes", of.spec["type"]),
        "labels": of.tags,
        "labelFingerprint": links.fingerprint(sorted(of.tags.items())),
        **users,
    }


def firewall(of: Resource) -> Json:
    """`compute#firewall`: the request, and what the cloud adds."""
    return {
        "kind": "compute#firewall",
        "id": of.id,
        "creationTimestamp": links.rfc3339(of.created_at),
        "selfLink": links.everywhere(of.account, "firewalls", of.spec["name"]),
        **of.spec,
    }


def machine_type(world: World, project: str, zone: str, name: str) -> Json:
    """`compute#machineType` of a world's machine."""
    facts = world.machine(PROVIDER, name)
    machine = machine_type_of(name)
    built_in = [{"guestAcceleratorType": facts.gpu.name, "guestAcceleratorCount": facts.gpu.count}]
    return {
        "kind": "compute#machineType",
        "id": links.number("machineType", machine),
        "creationTimestamp": _EPOCH,
        "name": machine,
        "description": f"{facts.vcpus} vCPUs, {facts.memory_mib // 1024} GB RAM",
        "guestCpus": facts.vcpus,
        "memoryMb": facts.memory_mib,
        "zone": zone,
        "selfLink": links.zonal(project, zone, "machineTypes", machine),
        "isSharedCpu": False,
        **({"accelerators": built_in} if machine == name else {}),
    }


def accelerator_type(project: str, zone: str, name: str) -> Json:
    """`compute#acceleratorType`."""
    return {
        "kind": "compute#acceleratorType",
        "id": links.number("acceleratorType", name),
        "creationTimestamp": _EPOCH,
        "name": name,
        "description": name,
        "zone": links.zonal(project, zone),
        "selfLink": links.zonal(project, zone, "acceleratorTypes", name),
        "maximumCardsPerInstance": 8,
    }


def disks_of(world: World, project: str) -> list[Resource]:
    """The project's disks, oldest first."""
    where = (PROVIDER, project, ResourceKind.VOLUME)
    return [
        resource
        for resource in world.resources.values()
        if (resource.provider, resource.account, resource.kind) == where
    ]
