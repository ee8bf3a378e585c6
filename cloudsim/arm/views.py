"""VMs and what belongs to them as Resource Manager shows them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from cloudsim.arm.call import TYPES, VMS, Document
from cloudsim.arm.disks import attached, state_of_part
from cloudsim.arm.networks import default_rules
from cloudsim.arm.subscriptions import READ_ONLY, STOPPED_BY_STATE
from cloudsim.world import Market, Resource, ResourceKind, Vm, VmState, World

FAILURES = {
    "AllocationFailed": "Allocation failed. We do not have sufficient capacity for the requested VM size in this region.",
    "ZonalAllocationFailed": "Allocation failed. We do not have sufficient capacity for the requested VM size in this zone.",
}
_POWER = {
    VmState.PENDING: "starting",
    VmState.RUNNING: "running",
    VmState.SHUTTING_DOWN: "stopping",
    VmState.DEALLOCATED: "deallocated",
}


def time(moment: float) -> str:
    """As Azure writes it."""
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="microseconds")


def vm_id(vm: Vm) -> str:
    """The id of the VM's resource."""
    return f"/subscriptions/{vm.account}/resourceGroups/{vm.spec['group']}/providers/{VMS}/{vm.name}"


def provisioning_state(world: World, vm: Vm) -> str:
    """A VM counts as being created until its agent has reported. A failed update does not stop it."""
    if _is_stopped_with_its_subscription(world, vm):
        return "Failed"
    match vm.state:
        case VmState.FAILED:
            return "Failed"
        case VmState.SHUTTING_DOWN:
            return "Updating" if vm.is_deallocating else "Deleting"
        case VmState.DEALLOCATED:
            return "Succeeded"
        case _:
            return _after_update(world, vm) if vm.is_ready(world.now) else "Creating"


def _after_update(world: World, vm: Vm) -> str:
    if world.now < vm.spec.get("updated_until", 0.0):
        return "Updating"
    return "Failed" if vm.spec.get("update_failure") else "Succeeded"


def _is_stopped_with_its_subscription(world: World, vm: Vm) -> bool:
    return vm.state is VmState.RUNNING and world.restrictions.subscription_state(vm.account) in READ_ONLY


def virtual_machine(world: World, vm: Vm, *, view: bool = False) -> Document:
    """As get, list and create return it, with the instance view if `view` is true."""
    stored = vm.spec["properties"]
    profile = {"networkInterfaces": [_reference(world, vm)]}
    properties = {
        "vmId": vm.id,
        "provisioningState": provisioning_state(world, vm),
        "timeCreated": time(vm.launched_at),
        **stored,
        "hardwareProfile": {"vmSize": vm.instance_type},
        "storageProfile": storage(world, vm),
        "networkProfile": profile,
        **({"instanceView": instance_view(world, vm)} if view else {}),
    }
    number = vm.zone.removeprefix(f"{vm.region}-")
    document = {**_head(vm), "tags": vm.tags, "properties": properties}
    zones = {"zones": [number]} if vm.zone != vm.region else {}
    identity = {"identity": vm.spec["identity"]} if vm.spec.get("identity") else {}
    return document | zones | identity


def status_only(world: World, vm: Vm, *, lacks_power: bool) -> Document:
    """As the listing with `statusOnly` answers it: no tags, and in rare situations no power state."""
    statuses = instance_view(world, vm)["statuses"]
    view = {
        "statuses": [status for status in statuses if not (lacks_power and status["code"].startswith("PowerState/"))]
    }
    return {**_head(vm), "properties": {"vmId": vm.id, "instanceView": view}}


def _head(vm: Vm) -> Document:
    return {"name": vm.name, "id": vm_id(vm), "type": VMS, "location": vm.region}


def _reference(world: World, vm: Vm) -> Document:
    nic = world.resources.get(vm.spec["nic"])
    option = "Delete" if nic is None or nic.delete_with_vm else "Detach"
    return {"id": vm.spec["nic"], "properties": {"primary": True, "deleteOption": option}}


def storage(world: World, vm: Vm) -> Document:
    """The disks of a VM: those made with it, and those attached to it."""
    storage = vm.spec["properties"].get("storageProfile", {})
    disk = storage.get("osDisk", {})
    managed = {**disk.get("managedDisk", {}), "id": vm.spec["disk"]}
    return {
        **storage,
        "osDisk": {"createOption": "FromImage", "osType": "Linux", **disk, "managedDisk": managed},
        "dataDisks": [
            {**data, "managedDisk": {**data.get("managedDisk", {}), "id": disk_id}}
            for data, disk_id in zip(storage.get("dataDisks") or (), vm.spec.get("data_disks", ()), strict=True)
        ]
        + attached(world, vm),
    }


def instance_view(world: World, vm: Vm) -> Document:
    """The agent's report once the VM runs, and the statuses of provisioning and power."""
    agent = {"vmAgent": _agent(vm, world.now)} if vm.state is VmState.RUNNING else {}
    return {**agent, "hyperVGeneration": "V2", "statuses": list(_statuses(world, vm))}


def _agent(vm: Vm, now: float) -> Document:
    if vm.is_ready(now):
        status = {"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Ready"}
        return {"vmAgentVersion": "2.11.1.4", "statuses": [status | {"message": "Guest Agent is running"}]}
    status = {"code": "ProvisioningState/Unavailable", "level": "Warning", "displayStatus": "Not Ready"}
    return {
        "vmAgentVersion": "Unknown",
        "statuses": [status | {"message": "VM status blob is found but not yet populated."}],
    }


def _statuses(world: World, vm: Vm) -> list[Document]:
    if _is_stopped_with_its_subscription(world, vm):
        return [_failed(STOPPED_BY_STATE, world.now), _power("stopped")]
    if vm.state is VmState.FAILED:
        return [_failed(vm.boot_failure or "", vm.running_at)]
    state = provisioning_state(world, vm)
    since = time(vm.ending_at or vm.launched_at)
    provisioning = {
        "code": f"ProvisioningState/{state.lower()}",
        "level": "Info",
        "displayStatus": state,
        "time": since,
    }
    if vm.boot_failure is not None:
        return [provisioning]
    if state == "Failed":
        provisioning = _failed(vm.spec["update_failure"], vm.spec["updated_until"])
    return [provisioning, _power(_power_state(world, vm))]


def _power_state(world: World, vm: Vm) -> str:
    """A VM that is being created shows for a moment that it does not run (Azure docs, "States and billing")."""
    if vm.state is VmState.PENDING and world.now < (vm.launched_at + vm.running_at) / 2:
        return "deallocated" if vm.market is Market.SPOT else "stopped"
    return "deallocating" if vm.is_deallocating else _POWER[vm.state]


def _failed(code: str, at: float) -> Document:
    failed = {"code": f"ProvisioningState/failed/{code}", "level": "Error", "displayStatus": "Provisioning failed"}
    return failed | {"message": FAILURES.get(code, "The VM could not be provisioned."), "time": time(at)}


def _power(power: str) -> Document:
    return {"code": f"PowerState/{power}", "level": "Info", "displayStatus": f"VM {power}"}


def resource(world: World, thing: Resource) -> Document:
    """A disk, interface, address or security group."""
    head = {
        "name": thing.id.rpartition("/")[2],
        "id": thing.id,
        "type": TYPES[thing.kind],
        "location": thing.region,
        "tags": thing.tags,
    }
    state = {} if thing.kind in _STATELESS else {"provisioningState": state_of_part(world, thing)}
    return head | {"properties": {**state, **_PROPERTIES[thing.kind](world, thing)}} | _sku(thing) | _zones(thing)


def _zones(thing: Resource) -> Document:
    number = thing.zone.removeprefix(f"{thing.region}-")
    return {"zones": [number]} if thing.kind is ResourceKind.VOLUME and thing.zone not in ("", thing.region) else {}


def _sku(thing: Resource) -> Document:
    if thing.kind is ResourceKind.AVAILABILITY_SET:
        return {"sku": {"name": thing.spec["sku"]}}
    if thing.kind is ResourceKind.VOLUME:
        return {"sku": {"name": thing.spec["sku"]}} | ({"managedBy": thing.spec["vm"]} if thing.vm_id else {})
    return {"sku": {"name": "Standard", "tier": "Regional"}} if thing.kind is ResourceKind.ADDRESS else {}


def _disk(_world: World, disk: Resource) -> Document:
    state = "Attached" if disk.vm_id else "Unattached"
    data = disk.spec.get("lun") is not None or disk.spec.get("empty")
    encryption_set = disk.spec.get("encryption_set")
    customer = {"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": encryption_set}
    return {
        "creationData": {"createOption": "Empty" if data else "FromImage"},
        "diskSizeGB": disk.spec["size"],
        "diskState": state,
        "uniqueId": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{disk.id}/{disk.created_at}")),
        "timeCreated": time(disk.created_at),
        **({} if data else {"osType": "Linux"}),
        **({"encryption": customer} if encryption_set else {}),
    }


def _nic(world: World, card: Resource) -> Document:
    return {
        "primary": True,
        "resourceGuid": str(uuid.uuid5(uuid.NAMESPACE_URL, card.id)),
        "ipConfigurations": [ip_configuration(world, card)],
        **({"networkSecurityGroup": {"id": card.spec["security_group"]}} if card.spec["security_group"] else {}),
        **({"virtualMachine": {"id": card.spec["vm"]}} if card.vm_id else {}),
    }


def ip_configuration(world: World, nic: Resource, *, whole: bool = False) -> Document:
    """The interface's one configuration; `whole` writes its public address out."""
    address = world.resources.get(nic.spec.get("address") or "")
    properties = {
        "primary": True,
        "privateIPAddress": nic.spec["ip"],
        "privateIPAddressVersion": "IPv4",
        "privateIPAllocationMethod": "Dynamic",
        "provisioningState": "Succeeded",
        "subnet": {"id": nic.spec["subnet"]},
        **_named(nic),
    }
    if address is not None:
        properties["publicIPAddress"] = resource(world, address) if whole else {"id": address.id}
    return {"name": "primary", "id": f"{nic.id}/ipConfigurations/primary", "properties": properties}


def _named(nic: Resource) -> Document:
    members = nic.spec.get("members")
    return {"applicationSecurityGroups": [{"id": member_id} for member_id in members]} if members else {}


def _address(_world: World, address: Resource) -> Document:
    held = {"ipConfiguration": {"id": f"{address.spec['nic']}/ipConfigurations/primary"}} if address.vm_id else {}
    return {
        "ipAddress": address.spec["ip"],
        "publicIPAddressVersion": "IPv4",
        "publicIPAllocationMethod": "Static",
        **held,
    }


def _security_group(world: World, security_group: Resource) -> Document:
    users = [{"id": nic.id} for nic in world.resources.values() if nic.spec.get("security_group") == security_group.id]
    own = {"securityRules": security_group.spec["rules"], "defaultSecurityRules": [*default_rules(security_group.id)]}
    return {**own, **({"networkInterfaces": users} if users else {})}


def _members(_world: World, _thing: Resource) -> Document:
    return {}


def _near(world: World, group: Resource) -> Document:
    sets = [{"id": other.id} for other in world.resources.values() if other.spec.get("near") == group.id]
    lists = {"virtualMachines": _placed(world, group), "availabilitySets": sets}
    return {"proximityPlacementGroupType": "Standard", **{key: held for key, held in lists.items() if held}}


def _set(world: World, availability_set: Resource) -> Document:
    vms, near = _placed(world, availability_set), availability_set.spec["near"]
    return {**({"proximityPlacementGroup": {"id": near}} if near else {}), **({"virtualMachines": vms} if vms else {})}


def _placed(world: World, group: Resource) -> list[Document]:
    return [{"id": vm_id(vm)} for vm in world.vms.values() if vm.alive and group.id in vm.spec.get("placed", ())]


_STATELESS = frozenset({ResourceKind.PLACEMENT_GROUP, ResourceKind.AVAILABILITY_SET})
_PROPERTIES = {
    ResourceKind.APPLICATION_SECURITY_GROUP: _members,
    ResourceKind.PLACEMENT_GROUP: _near,
    ResourceKind.AVAILABILITY_SET: _set,
    ResourceKind.VOLUME: _disk,
    ResourceKind.NETWORK_INTERFACE: _nic,
    ResourceKind.ADDRESS: _address,
    ResourceKind.SECURITY_GROUP: _security_group,
}


def operation(world: World, vm: Vm) -> Document:
    """The status of a VM's creation, as the URL in `Azure-AsyncOperation` returns it."""
    head = {"name": f"{vm.id}.create", "startTime": time(vm.launched_at)}
    if vm.state is VmState.FAILED:
        code = vm.boot_failure or ""
        error = {"code": code, "message": FAILURES.get(code, "The VM could not be provisioned.")}
        return head | {"status": "Failed", "endTime": time(vm.running_at), "error": error}
    return head | {"status": "InProgress" if provisioning_state(world, vm) == "Creating" else "Succeeded"}
