"""VMs and what belongs to them as Resource Manager shows them."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from cloudsim.arm.call import TYPES, VMS, Document
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
    """As get, list and create answer it; the instance view when it is asked for."""
    kept = vm.spec["properties"]
    profile = {"networkInterfaces": [_reference(world, vm)]}
    properties = {
        "vmId": vm.id,
        "provisioningState": provisioning_state(world, vm),
        "timeCreated": time(vm.launched_at),
        **kept,
        "hardwareProfile": {"vmSize": vm.instance_type},
        "storageProfile": _storage(vm),
        "networkProfile": profile,
        **({"instanceView": instance_view(world, vm)} if view else {}),
    }
    number = vm.zone.removeprefix(f"{vm.region}-")
    shown = {**_head(vm), "tags": vm.tags, "properties": properties}
    zones = {"zones": [number]} if vm.zone != vm.region else {}
    identity = {"identity": vm.spec["identity"]} if vm.spec.get("identity") else {}
    return shown | zones | identity


def status_only(world: World, vm: Vm, *, lacks_power: bool) -> Document:
    """As the listing with `statusOnly` answers it: no tags, and in rare situations no power state."""
    statuses = instance_view(world, vm)["statuses"]
    view = {"statuses": [one for one in statuses if not (lacks_power and one["code"].startswith("PowerState/"))]}
    return {**_head(vm), "properties": {"vmId": vm.id, "instanceView": view}}


def _head(vm: Vm) -> Document:
    return {"name": vm.name, "id": vm_id(vm), "type": VMS, "location": vm.region}


def _reference(world: World, vm: Vm) -> Document:
    nic = world.resources.get(vm.spec["nic"])
    option = "Delete" if nic is None or nic.delete_with_vm else "Detach"
    return {"id": vm.spec["nic"], "properties": {"primary": True, "deleteOption": option}}


def _storage(vm: Vm) -> Document:
    storage = vm.spec["properties"].get("storageProfile", {})
    disk = storage.get("osDisk", {})
    managed = {**disk.get("managedDisk", {}), "id": vm.spec["disk"]}
    return {
        **storage,
        "osDisk": {"createOption": "FromImage", "osType": "Linux", **disk, "managedDisk": managed},
        "dataDisks": [
            {**data, "managedDisk": {**data.get("managedDisk", {}), "id": disk_id}}
            for data, disk_id in zip(storage.get("dataDisks") or (), vm.spec.get("data_disks", ()), strict=True)
        ],
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


def resource(world: World, one: Resource) -> Document:
    """A disk, interface, address or security group."""
    head = {
        "name": one.id.rpartition("/")[2],
        "id": one.id,
        "type": TYPES[one.kind],
        "location": one.region,
        "tags": one.tags,
    }
    state = {} if one.kind in _STATELESS else {"provisioningState": "Succeeded"}
    return head | {"properties": {**state, **_PROPERTIES[one.kind](world, one)}} | _sku(one)


def _sku(one: Resource) -> Document:
    if one.kind is ResourceKind.AVAILABILITY_SET:
        return {"sku": {"name": one.spec["sku"]}}
    if one.kind is ResourceKind.VOLUME:
        return {"sku": {"name": one.spec["sku"]}} | ({"managedBy": one.spec["vm"]} if one.vm_id else {})
    return {"sku": {"name": "Standard", "tier": "Regional"}} if one.kind is ResourceKind.ADDRESS else {}


def _disk(_world: World, one: Resource) -> Document:
    state = "Attached" if one.vm_id else "Unattached"
    data = one.spec.get("lun") is not None
    encryption_set = one.spec.get("encryption_set")
    customer = {"type": "EncryptionAtRestWithCustomerKey", "diskEncryptionSetId": encryption_set}
    return {
        "creationData": {"createOption": "Empty" if data else "FromImage"},
        "diskSizeGB": one.spec["size"],
        "diskState": state,
        "timeCreated": time(one.created_at),
        **({} if data else {"osType": "Linux"}),
        **({"encryption": customer} if encryption_set else {}),
    }


def _nic(world: World, one: Resource) -> Document:
    return {
        "primary": True,
        "resourceGuid": str(uuid.uuid5(uuid.NAMESPACE_URL, one.id)),
        "ipConfigurations": [ip_configuration(world, one)],
        **({"networkSecurityGroup": {"id": one.spec["security_group"]}} if one.spec["security_group"] else {}),
        **({"virtualMachine": {"id": one.spec["vm"]}} if one.vm_id else {}),
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
    return {"applicationSecurityGroups": [{"id": one} for one in members]} if members else {}


def _address(_world: World, one: Resource) -> Document:
    held = {"ipConfiguration": {"id": f"{one.spec['nic']}/ipConfigurations/primary"}} if one.vm_id else {}
    return {
        "ipAddress": one.spec["ip"],
        "publicIPAddressVersion": "IPv4",
        "publicIPAllocationMethod": "Static",
        **held,
    }


def _security_group(world: World, one: Resource) -> Document:
    users = [{"id": nic.id} for nic in world.resources.values() if nic.spec.get("security_group") == one.id]
    own = {"securityRules": one.spec["rules"], "defaultSecurityRules": [*default_rules(one.id)]}
    return {**own, **({"networkInterfaces": users} if users else {})}


def _members(_world: World, _one: Resource) -> Document:
    return {}


def _near(world: World, one: Resource) -> Document:
    sets = [{"id": other.id} for other in world.resources.values() if other.spec.get("near") == one.id]
    shown = {"virtualMachines": _placed(world, one), "availabilitySets": sets}
    return {"proximityPlacementGroupType": "Standard", **{key: held for key, held in shown.items() if held}}


def _set(world: World, one: Resource) -> Document:
    vms, near = _placed(world, one), one.spec["near"]
    return {**({"proximityPlacementGroup": {"id": near}} if near else {}), **({"virtualMachines": vms} if vms else {})}


def _placed(world: World, one: Resource) -> list[Document]:
    return [{"id": vm_id(vm)} for vm in world.vms.values() if vm.alive and one.id in vm.spec.get("placed", ())]


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
    """How the creation of a VM goes on, as `Azure-AsyncOperation` tells it."""
    shown = {"name": f"{vm.id}.create", "startTime": time(vm.launched_at)}
    if vm.state is VmState.FAILED:
        code = vm.boot_failure or ""
        error = {"code": code, "message": FAILURES.get(code, "The VM could not be provisioned.")}
        return shown | {"status": "Failed", "endTime": time(vm.running_at), "error": error}
    return shown | {"status": "InProgress" if provisioning_state(world, vm) == "Creating" else "Succeeded"}
